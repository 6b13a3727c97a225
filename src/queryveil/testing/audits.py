"""What every attack and every measure has to pass, for whoever writes one.

`check_attack` and `check_measure` try a part on small synthetic releases: the raw log under other names, noise (every
column shuffled, under names drawn at random), a log made up from public words by somebody who knows nothing, one in
which half of the people are replaced by such, almost nothing, and nothing. A part has to come to the same findings
twice, whatever the mechanism is called, to say what it left out instead of failing, to give figures within their
intervals, and to show nothing of the data.

An attack finds the leak that the raw log under other names is, and stays at chance on noise. A measure is at its
ceiling on the raw log, at its floor on a log of somebody who knows nothing, and in between where half is known. People
who are in no release (`held_out`) are there for measures that they judge.

>>> from queryveil.audit.attacks.uniqueness import Uniqueness
>>> check_attack(Uniqueness())
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import polars as pl

from queryveil.audit.attack import Attack
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Finding, LeftOut
from queryveil.audit.measure import Measure
from queryveil.audit.past import Past
from queryveil.audit.raw_side import RawSide
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.release.secrets import Secrets

USERS, RECORDS = 60, 1500
QUESTIONS = ("singling out", "linkability", "inference")
PUBLIC_WORDS: Final = (
    "abacus", "basalt", "cormorant", "dulcimer", "estuary", "ferret", "gasket", "hemlock", "iguana", "jackal", "kelp",
    "lichen", "marmot", "nettle", "obelisk", "papyrus", "quartz", "rhubarb", "sandal", "thimble", "urchin", "viaduct",
    "walrus", "xylem", "yucca", "zircon",
)  # fmt: skip
"""What somebody who knows nothing of a log fills one with."""
NEAR = 0.15
"""How far above its floor a measure may be on a log of somebody who knows nothing: 60 people are few."""


def check_attack(attack: Attack) -> None:
    """Raise `AssertionError` with what is wrong, if anything is."""
    assert attack.question in QUESTIONS, f"{attack.key}: question must be one of {', '.join(QUESTIONS)}"
    assert isinstance(attack.counts_toward_risk, bool), f"{attack.key}: counts_toward_risk must be True or False"
    found = _check_part(attack, "risk")
    leaks = []
    for key, renamed in found["renamed"].items():
        for name in ("noise", "ignorant"):
            other = found[name].get(key)
            if other is not None and renamed.unit == "share" and renamed.raw is not None:
                gets = renamed.value - other.value if renamed.better == "lower" else other.value - renamed.value
                where = f"{attack.key}: {key} finds less in the raw log under other names than in a release of noise"
                assert gets >= 0, where
                leaks.append(gets)
    assert not leaks or max(leaks) > 0, f"{attack.key}: does not find the leak in the raw log under other names"
    for key, noise in found["noise"].items():
        if noise.chance is not None and noise.low is not None and noise.better == "lower":
            assert noise.low <= noise.chance, f"{attack.key}: {key} claims more than chance on a release of noise"


def check_measure(measure: Measure) -> None:
    """Raise `AssertionError` with what is wrong, if anything is."""
    assert measure.task, f"{measure.key}: task must say what is measured"
    found = _check_part(measure, "utility")
    for key, best in found["renamed"].items():
        where = f"{measure.key}: {key}"
        up = 1 if best.better == "higher" else -1
        for name in ("noise", "ignorant"):
            other = found[name].get(key)
            better = other is None or up * best.value >= up * other.value
            assert better, f"{where} is better on a release of noise than on the raw log"
        kept = best.share_kept()
        assert kept is None or kept > 0.99, f"{where} is not at its ceiling on the raw log under other names"
        ignorant, half = found["ignorant"].get(key), found["half"].get(key)
        if ignorant is None or half is None:
            continue
        kept = ignorant.share_kept()
        if kept is None:  # no floor is meaningful
            continue
        assert kept < NEAR, f"{where} is above its floor on a release that knows nothing"
        ends = sorted([up * ignorant.value, up * best.value])
        between = ends[0] <= up * half.value <= ends[1]
        assert between, f"{where} is not between floor and ceiling where half of the people are replaced"


def _check_part(part: Any, kind: str) -> dict[str, dict[str, Finding]]:
    assert part.key and part.title, "a part needs a key and a title"
    log = synth(users=USERS, records=RECORDS, seed=11)
    everything: dict[str, dict[str, Finding]] = {}
    for (name, context), (_, again) in zip(_contexts(log), _contexts(log), strict=True):
        findings = list(part.run(context)), list(part.run(again))
        assert findings[0] == findings[1], f"{part.key}: two runs over the same release ({name}) differ"
        if name == "renamed":
            other = dataclasses.replace(again, manifest={**again.manifest, "mechanism": "another"}, _seeds=[])
            assert findings[0] == list(part.run(other)), f"{part.key}: the figures depend on the mechanism's name"
        for item in findings[0]:
            assert isinstance(item, (Finding, LeftOut)), f"{part.key}: a {type(item).__name__} is no finding"
            _refuse_data(part, item, log)
        shown = [item for item in findings[0] if isinstance(item, Finding)]
        assert len({found.key for found in shown}) == len(shown), f"{part.key}: two findings have one key ({name})"
        for found in shown:
            _check_finding(part, found, kind)
        everything[name] = {found.key: found for found in shown}
    return everything


def _check_finding(part: Any, found: Finding, kind: str) -> None:
    where = f"{part.key}: {found.key}"
    assert found.kind == kind, f"{where} must be a {kind}"
    assert found.explanation, f"{where} needs an explanation"
    if found.low is not None:
        assert found.low <= found.value, f"{where} lies below its interval"
    if found.high is not None:
        assert found.value <= found.high, f"{where} lies above its interval"
    if found.unit == "share" and kind == "risk":
        assert 0 <= found.value <= 1, f"{where} is a share outside 0 to 1"


def _refuse_data(part: Any, item: Finding | LeftOut, log: QueryLog) -> None:
    texts = [item.title, item.reason] if isinstance(item, LeftOut) else [item.title, item.explanation, item.detail]
    private = {*log.users().to_list(), *(query for query in log.queries() if " " in query)}
    said = "\n".join(texts)
    assert not any(value in said for value in private), f"{part.key}: a finding shows a query or a user"


def _contexts(log: QueryLog) -> Iterator[tuple[str, AuditContext]]:
    """Releases from the raw log under other names to nothing; with and without what the holder knows."""
    users = log.users().to_list()
    mixed = Noise.seeded(4).stream("conformance: who is who").permutation(len(users))  # order must not tell
    names = {user: f"pseudonym {number}" for user, number in zip(users, mixed.tolist(), strict=True)}
    people = {name: user for user, name in names.items()}
    renamed = QueryLog(log.frame.with_columns(pl.col("user").replace_strict(names)))
    releases = {
        "renamed": (renamed, log.frame["user"]),
        "noise": (_noise(renamed), _anybody(log)),
        "ignorant": _ignorant(renamed, people),
        "half": _half(renamed, people),
        "almost nothing": (QueryLog(renamed.frame.head(3)), log.frame["user"].head(3)),
        "nothing": (QueryLog(renamed.frame.clear()), log.frame["user"].clear()),
    }
    raw = RawSide(log, held_out=_others())
    for name, (released, owners) in releases.items():
        receivers = released.frame["user"].replace_strict(people, return_dtype=pl.String)
        secrets = Secrets(owners, released.frame["user"], receivers, {})
        yield name, _context(raw, released, secrets, {"mechanism": "unheard-of", "mode": "safe", "parameters": {}})
    yield "without secrets", _context(raw, renamed, None, {})


def _noise(renamed: QueryLog) -> QueryLog:
    """Every column shuffled by itself, under names drawn at random."""
    noise, names = Noise.seeded(5), renamed.users()
    columns = [name for name in renamed.frame.columns if name != "user"]
    shuffled = [
        renamed.frame[name][noise.stream(f"conformance: {name}").permutation(len(renamed))].alias(name)
        for name in columns
    ]
    drawn = names.gather(noise.stream("conformance: names").below(len(names), len(renamed))).alias("user")
    return QueryLog(pl.DataFrame([drawn, *shuffled]).select(renamed.frame.columns))


def _anybody(log: QueryLog) -> pl.Series:
    """An owner for each record of noise, everybody as likely."""
    users = log.users()
    return users.gather(Noise.seeded(7).stream("conformance: owners").below(len(users), len(log)))


def _ignorant(renamed: QueryLog, people: dict[str, str]) -> tuple[QueryLog, pl.Series]:
    """The same number of made-up records for everybody, of public words, each as likely; and their owners."""
    names = pl.Series("user", list(people), dtype=pl.String)
    users = names.gather([place for place in range(len(names)) for _ in range(RECORDS // USERS)])
    drawn = Noise.seeded(6).stream("conformance: words").below(len(PUBLIC_WORDS), len(users))
    log = QueryLog(pl.DataFrame([users, pl.Series("query", PUBLIC_WORDS).gather(drawn)]))
    return log, log.frame["user"].replace_strict(people, return_dtype=pl.String)


def _half(renamed: QueryLog, people: dict[str, str]) -> tuple[QueryLog, pl.Series]:
    """Every other person's records under another name, and made-up ones for the others."""
    known = list(people)[::2]
    made_up = _ignorant(renamed, people)[0].frame.filter(~pl.col("user").is_in(known))
    log = QueryLog(pl.concat([renamed.frame.filter(pl.col("user").is_in(known)), made_up], how="diagonal_relaxed"))
    return log, log.frame["user"].replace_strict(people, return_dtype=pl.String)


def _context(raw: RawSide, released: QueryLog, secrets: Secrets | None, manifest: dict[str, Any]) -> AuditContext:
    return AuditContext(
        original=raw.log, released=released, manifest=manifest, secrets=secrets, past=Past.of(raw.log),
        held_out=raw.held_out, digest="kit", raw=raw,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _others() -> QueryLog:
    """People who are in no release: they judge what one teaches about others."""
    other = synth(users=USERS, records=RECORDS, seed=12)
    return QueryLog(other.frame.with_columns(user="somebody else " + pl.col("user")))
