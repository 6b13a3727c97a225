"""What an attacker gets: every attack that fits a release, as findings.

Each function takes the material and yields findings, or says what was left out and what it would need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from queryveil.attacks import record_linkage, residue
from queryveil.attacks.released_stream import Success
from queryveil.attacks.uniqueness import Acquaintances
from queryveil.report.findings import Finding, LeftOut, Question
from queryveil.report.material import USUAL_K_TEXT, Material

Found = Iterator[Finding | LeftOut]

KNOWN: Final = (1, 2, 3, 4, 5)
NEEDS_OWNERS: Final = "needs the true owners: give the secrets file of the release (--secrets)"
NOBODY_BEHIND: Final = "the released users are made up, so nobody is behind a pseudonym"


def risk(
    key: str,
    title: str,
    topic: str,
    question: Question,
    success: Success,
    explanation: str,
    *,
    raw: float | None = None,
    chance: float | None = None,
    bound: float | None = None,
    confidence: float = 0.95,
) -> Finding:
    """An attack's success as a finding, with its exact interval."""
    low, high = success.interval(confidence)
    return Finding(
        key=key, title=title, kind="risk", topic=topic, question=question, value=success.share, low=low, high=high,
        raw=raw, chance=chance, bound=bound, trials=success.tried, better="lower", unit="share",
        explanation=explanation,
    )  # fmt: skip


def uniqueness(material: Material) -> Found:
    """Singled out by one to five known queries."""
    if not len(material.original) or not len(material.released):
        yield LeftOut(title="Singled out by known queries", reason="a log is empty")
        return
    attack = Acquaintances(material.original, material.released, material.receivers)
    chance = 1 / len(attack.shown.users)
    k = material.promised_k("k-anonymity")
    for m in KNOWN:
        told = f"{m} known {'query' if m == 1 else 'queries'}"
        found = attack.attack(m, material.noise)
        yield risk(
            f"uniqueness-{m}", f"Singled out by {told}", "uniqueness", "singling out", found.singled_out,
            f"Share of people of the raw log of whom {told}, drawn at random, leave exactly one pseudonym of the "
            "release that holds them all; queries that the release does not hold are passed over.",
            raw=found.raw.share, bound=None if k is None else 1 / k,
        )  # fmt: skip
        if found.found is not None:
            yield risk(
                f"found-{m}", f"Found by {told}", "uniqueness", "singling out", found.found,
                f"Share of people of whom {told} leave exactly one pseudonym, and it is really theirs.",
                raw=found.raw.share, chance=chance, bound=None if k is None else 1 / k,
            )  # fmt: skip
    if material.receivers is None:
        yield LeftOut(title="Found by known queries", reason=_why_no_owners(material))


def residues(material: Material) -> Found:
    """Rare texts, rare clicks, identifiers, logs that too few share."""
    promised = material.promised_k_text
    k = promised or USUAL_K_TEXT
    left = residue.rare_texts(material.original, material.released, k=k)
    raw = residue.rare_texts(material.original, material.original, k=k)
    yield _residue(
        "rare-texts", "Rare texts left", "rare texts", "singling out", left.share, raw.share,
        f"Share of released records whose text fewer than {k} users of the raw log asked ({left.distinct:,} texts).",
        0.0 if promised else None, left.of,
    )  # fmt: skip
    if material.released.frame["url"].null_count() < len(material.released):
        clicks = residue.rare_clicks(material.original, material.released, k=k)
        raw_clicks = residue.rare_clicks(material.original, material.original, k=k)
        yield _residue(
            "rare-clicks", "Rare clicks left", "rare texts", "singling out", clicks.share, raw_clicks.share,
            f"Share of released clicks whose query and result together fewer than {k} users of the raw log have "
            f"({clicks.distinct:,} pairs).",
            0.0 if promised and material.safe else None, clicks.of,
        )  # fmt: skip
    named, raw_named = residue.identifiers(material.released), residue.identifiers(material.original)
    yield _residue(
        "identifiers", "Identifiers left", "identifiers", "inference", named.share, raw_named.share,
        "Share of released records whose text holds an e-mail address, a long number or credentials "
        f"({named.distinct:,} texts).",
        0.0 if material.safe and promised else None, named.of,
    )  # fmt: skip
    k_logs = material.promised_k("k-anonymity")
    if k_logs is not None and len(material.released):
        yield Finding(
            key="shared-logs", title="Smallest crowd behind one log", kind="risk", topic="shared logs",
            question="singling out", value=residue.smallest_shared_log(material.released),
            raw=residue.smallest_shared_log(material.original), chance=None, bound=k_logs,
            trials=material.released.user_count(), better="higher", unit="count",
            explanation=f"The fewest pseudonyms that hold the very same log; the promise is at least {k_logs}.",
        )  # fmt: skip


def _residue(
    key: str,
    title: str,
    topic: str,
    question: Question,
    value: float,
    raw: float,
    explanation: str,
    bound: float | None,
    trials: int,
) -> Finding:
    return Finding(
        key=key, title=title, kind="risk", topic=topic, question=question, value=value, raw=raw, bound=bound,
        trials=trials, better="lower", unit="share", explanation=f"{explanation} Counted, not sampled.",
    )  # fmt: skip


def record_links(material: Material) -> Found:
    """A0 without a pool: the author is the one behind the pseudonym, or the busiest of those behind the log."""
    if material.owners is None or material.receivers is None:
        yield LeftOut(title="Who wrote a record (A0)", reason=_why_no_owners(material))
        return
    k = material.promised_k("k-anonymity", "probabilistic-k-anonymity")
    chance = 1 / max(len(material.users), 1)
    yield risk(
        "author-by-name", "Author guessed by the name on the record", "record linkage (A0)", "linkability",
        record_linkage.by_name(material.owners, material.receivers),
        "Share of released records that were written by the person whose pseudonym they carry: what somebody is right "
        "about who found out whom a pseudonym stands for and takes its records at their word.",
        raw=1.0, chance=chance, bound=None if k is None else 1 / k,
    )  # fmt: skip
    if material.promised_k("k-anonymity") is not None:
        yield risk(
            "author-by-activity", "Author guessed as the busiest of the group", "record linkage (A0)", "linkability",
            record_linkage.by_activity(material.original, material.released, material.owners, material.receivers),
            "Share of released records written by the most active of the people who share the log.",
            raw=1.0, chance=chance, bound=1 / k if k is not None and material.safe else None,
        )  # fmt: skip


def _why_no_owners(material: Material) -> str:
    return NEEDS_OWNERS if material.secrets is None else NOBODY_BEHIND


STEPS: Final[tuple[tuple[str, Callable[[Material], Iterable[Finding | LeftOut]]], ...]] = (
    ("uniqueness", uniqueness),
    ("residues", residues),
    ("record linkage", record_links),
)
"""Every attack by name, in the order of the report."""
