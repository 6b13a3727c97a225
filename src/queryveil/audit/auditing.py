"""Attack a release and measure what it is good for: everything that fits it, beside the raw log and beside chance.

`audit` needs the original and the release. The manifest tells what was promised, so that each figure can stand
beside its bound; without one (a log made by another tool) nothing is held against a promise. The secrets file tells the
true owners; measures that need them are listed as left out where there is none. Nothing here shows a record, a text or
a user; but the figures are exact functions of the private log, so they are for its holder: see docs/audit.md for what
may be published.

The draws of the attacks follow from the release's digest and the attack's key alone: the same release gives the same
figures and the same verdict, on whatever machine and in whatever company of other attacks.

>>> from queryveil.log.synthetic import synth
>>> from queryveil.mechanisms import make
>>> from queryveil.privacy import Noise
>>> log = synth(users=60, records=1500, seed=1)
>>> found = audit(log, make("suppress", k_text=3).protect(log, Noise.seeded(1)))
>>> len(found.risks()) > 10, len(found.utilities()) > 2, found.broken()
(True, True, ())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from queryveil.audit.attack import Attack, attacks
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Audit, Finding, LeftOut
from queryveil.audit.held_out.splitting import check_apart
from queryveil.audit.measure import Measure, measures
from queryveil.audit.out_of_core import NEEDS_WHOLE_LOG, Fingerprint, ReleaseOnDisk
from queryveil.audit.past import Past
from queryveil.audit.raw_side import RawSide
from queryveil.errors import Remedy, UsageError
from queryveil.knowledge.collections import Collection
from queryveil.knowledge.sentences import Encoder
from queryveil.log import QueryLog
from queryveil.log.identifying import merged
from queryveil.log.query_log import SimilarIds
from queryveil.release.copies import read_release as read_release
from queryveil.release.manifest import TABLES
from queryveil.release.mechanism import Mechanism
from queryveil.release.release import Release
from queryveil.release.secrets import Secrets


def no_step(step: str) -> None:
    """For callers that do not follow along."""


def audit(
    original: QueryLog,
    released: QueryLog | Release | str | Path,
    *,
    manifest: dict[str, Any] | None = None,
    secrets: Secrets | None = None,
    other: QueryLog | None = None,
    other_secrets: Secrets | None = None,
    known: QueryLog | None = None,
    known_before: datetime | None = None,
    held_out: QueryLog | None = None,
    tables: Mapping[str, pl.DataFrame] | None = None,
    mechanism: Mechanism | None = None,
    collection: Collection | None = None,
    encoder: Encoder | None = None,
    scenarios: bool = True,
    only: Sequence[str] | None = None,
    raw: RawSide | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Audit:
    """All findings about a release: a folder, one that was not written yet, or any log that was made of the original.

    A folder brings its manifest, a `Release` also its true owners; for a log they are given, where they are known.
    `other` is a second release of the same people, with secrets of its own. What the attacker knows of people's past is
    a log (`known`), or what the original holds before a time (`known_before`), else the first half of the log's time
    (`Past`). `held_out` is a log of people whom the mechanism never saw: they judge what the release teaches about
    others (`queryveil.audit.held_out`). `tables` are what is published beside a released log; a folder and a `Release`
    bring them. `mechanism` is the one that made the release, where it is at hand; else it is made again from the
    manifest. `encoder` (`SentenceEncoder.load()`) adds an attack by sentence vectors, and minutes. `scenarios=False`
    leaves out what needs more than a recipient has, and counts toward no risk anyway. `only` names the attacks and
    measures to run, by their keys; who leaves some out knows less, and no report should be made of it. `raw` keeps
    what is made of the original alone, for who audits several releases of it.

    Logs that outgrow the memory come from `LogsToAudit`: of them only the parts run that count in blocks, all others
    are left out and say so (`queryveil.audit.out_of_core`).
    """
    if isinstance(released, Release):
        tables = released.tables
        manifest, secrets, released = described(released), secrets_of(released), released.log
    elif not isinstance(released, QueryLog):
        folder = released
        released, manifest = read_release(folder)
        tables = read_tables(folder, manifest)
    tell = on_step or no_step
    on_disk = released if isinstance(released, ReleaseOnDisk) else None
    similar_ids = ids_declared(manifest, secrets, other_secrets, on_disk)
    in_blocks = original.outgrows_memory or released.outgrows_memory
    if in_blocks:
        refuse_what_needs_memory(original, similar_ids, other, known, known_before, held_out, collection, encoder)
    original = merged(original) if similar_ids == "same" and original.similar_ids != "same" else original
    if held_out is not None:
        held_out = merged(held_out) if similar_ids == "same" and held_out.similar_ids != "same" else held_out
        check_apart(original, held_out)
    if raw is not None and (raw.log is not original or raw.held_out is not held_out):
        raw = None  # made of the log before its ids were merged, or for other judges
    digest = fingerprint(released)
    past = None if in_blocks else Past.of(original, known=known, known_before=known_before)
    context = AuditContext(
        original=original,
        released=released,
        manifest=manifest or {},
        secrets=secrets,
        other=other,
        other_secrets=other_secrets,
        made_by=mechanism,
        collection=collection,
        encoder=encoder,
        past=past,
        held_out=held_out,
        tables=tables or {},
        digest=digest,
        raw=raw,
    )
    findings: list[Finding] = []
    chosen = [part for part in _chosen(only) if scenarios or not getattr(part, "is_scenario", False)]
    left_out = _not_counted(chosen) if in_blocks else []
    for part in chosen:
        if in_blocks and not getattr(part, "counts_in_blocks", False):
            continue
        counts = getattr(part, "counts_toward_risk", True)
        context.begin(part.key)
        for found in part.run(context):
            if isinstance(found, LeftOut):
                left_out.append(found)
            else:
                findings.append(replace(found, counts_toward_risk=counts and found.counts_toward_risk))
        tell(part.title)
    return Audit(
        released=manifest or {"mechanism": None, "output": {"records": len(released), "users": released.user_count()}},
        findings=tuple(findings),
        left_out=tuple(left_out),
        context={
            "original": {"records": len(original), "users": len(context.users)},
            "released": {"records": len(released), "users": released.user_count()},
            "secrets": secrets is not None or (on_disk is not None and on_disk.original is not None),
            "other": other is not None,
            "similar_ids": similar_ids,
            "known": "nothing of the past" if past is None else past.told,
            **({"in_blocks": True} if in_blocks else {}),
            **({} if held_out is None else {"held_out": {"records": len(held_out), "users": held_out.user_count()}}),
        },
        fingerprint=digest,
    )


def _not_counted(chosen: Sequence[Attack | Measure]) -> list[LeftOut]:
    """What is left out of an audit in blocks: whatever was chosen, its answer waits for every attack."""
    asked = {part.key for part in chosen}
    return [
        LeftOut(title=part.title, reason=NEEDS_WHOLE_LOG, required=hasattr(part, "question"))
        for part in parts()
        if not getattr(part, "counts_in_blocks", False)
        and (part.key in asked or (hasattr(part, "question") and not getattr(part, "is_scenario", False)))
    ]


def refuse_what_needs_memory(original: QueryLog, similar_ids: SimilarIds, *given: object) -> None:
    """What only parts look at that do not count in blocks is refused, before anybody waits for an audit without it."""
    if any(value is not None for value in given):
        raise UsageError(
            "another release, what attackers know, held-out people, documents and sentence vectors are for attacks and "
            "measures that need the whole log in memory, and the memory that was allowed is too small for it.",
            remedy=Remedy("memory", "a larger size"),
        )
    if similar_ids == "same" and original.similar_ids != "same":
        raise UsageError(
            "the release takes similar ids for one person's: read the log so.", remedy=Remedy("similar_ids", "same")
        )


def ids_declared(manifest: dict[str, Any] | None, *of_releases: Secrets | ReleaseOnDisk | None) -> SimilarIds:
    """Whether similar ids of the original are one person's: where any of the releases was made so."""
    known = [found.original for found in of_releases if found is not None and found.original is not None]
    told = [(manifest or {}).get("similar_ids"), *(original.get("similar_ids") for original in known)]
    return "same" if "same" in told else "different"


def fingerprint(log: QueryLog) -> str:
    """Tells the users and texts of one log from those of another, whatever file they lie in."""
    if isinstance(log, ReleaseOnDisk):
        return log.fingerprint
    made = Fingerprint()
    made.add(log.frame)
    return made.value()


def parts() -> list[Attack | Measure]:
    """Every attack and every measure, in the order of the report."""
    return [*attacks(), *measures()]


def _chosen(only: Sequence[str] | None) -> list[Attack | Measure]:
    every = parts()
    if only is None:
        return every
    unknown = sorted(set(only) - {part.key for part in every})
    if unknown:
        known = ", ".join(part.key for part in every)
        raise UsageError(f"there is no attack or measure {', '.join(unknown)}. There are: {known}.")
    return [part for part in every if part.key in only]


def described(release: Release) -> dict[str, Any]:
    """What the manifest of a release will say, but for the file."""
    return {
        "mechanism": release.mechanism,
        "mode": release.mode,
        "parameters": dict(release.parameters),
        "parameters_chosen_by": release.chosen_by,
        "guarantee": release.guarantee.as_dict() | {"statement": release.statement()},
        "output": {"records": len(release.log), "users": release.log.user_count()},
        "columns": dict(release.columns),
        "similar_ids": release.similar_ids,
        "noise": {"mode": release.noise_mode, "publishable": release.publishable},
    }


def secrets_of(release: Release) -> Secrets | None:
    """What the secrets file of a release would hold; None where nobody is behind its records."""
    if release.owners is None or release.receivers is None:
        return None
    return Secrets(release.owners, release.log.frame["user"], release.receivers, {})


def read_tables(folder: str | Path, manifest: Mapping[str, Any]) -> dict[str, pl.DataFrame]:
    """What a verified release folder holds beside its log, by name."""
    return {Path(name).stem: pl.read_parquet(Path(folder) / TABLES / name) for name in manifest.get(TABLES, {})}
