"""What an attacker gets: every attack that fits a release, as findings.

Each function takes the material and yields findings, or says what was left out and what it would need.
"""

from __future__ import annotations

from typing import Final

from queryveil.audit import claims, owner_risks, replaced_texts
from queryveil.audit.attacks import residue
from queryveil.audit.attacks.uniqueness import Acquaintances
from queryveil.audit.context import USUAL_K_TEXT, Material
from queryveil.audit.finding import Finding, LeftOut, Question
from queryveil.audit.shaping import REPLACES_TEXTS, Found, Step, not_attacked, risk

KNOWN: Final = (1, 2, 3, 4, 5)


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
            "release that holds them all; queries that the release does not hold, in whatever guise, are passed over.",
            raw=found.raw.share, bound=None if k is None else 1 / k,
        )  # fmt: skip
        if found.found is not None:
            yield risk(
                f"found-{m}", f"Found by {told}", "uniqueness", "singling out", found.found,
                f"Share of people of whom {told} leave exactly one pseudonym, and it is really theirs.",
                raw=found.raw.share, chance=chance, bound=None if k is None else 1 / k,
            )  # fmt: skip
    if material.receivers is None:
        yield not_attacked(material, "Found by known queries")


def residues(material: Material) -> Found:
    """Rare texts, rare clicks, identifiers, logs that too few share."""
    promised = material.promised_k_text
    k = promised or USUAL_K_TEXT
    if material.mechanism == "semantic" and material.safe:
        reason = "every released text is a label of the public taxonomy, whoever asked it"
        yield LeftOut(title="Rare texts and identifiers left", reason=reason, by_settings=True)
        return
    left = residue.rare_texts(material.original, material.released, k=k)
    raw = residue.rare_texts(material.original, material.original, k=k)
    yield _residue(
        "rare-texts", "Rare texts left", "rare texts", "singling out", left.share, raw.share,
        f"Share of released records whose text fewer than {k} users of the raw log asked.",
        0.0 if promised else None, left.of, f"{left.distinct:,} texts.",
    )  # fmt: skip
    if material.mechanism not in REPLACES_TEXTS:
        guised = residue.rewritten_rare_texts(material.original, material.released, k=k)
        yield _residue(
            "rare-texts-rewritten", "Rare texts left in another guise", "rare texts", "singling out", guised.share,
            raw.share,
            f"Share of released records whose text differs from one that fewer than {k} users of the raw log asked "
            "only in capitals, marks, spaces and the order of words.",
            None, guised.of, f"{guised.distinct:,} texts.",
        )  # fmt: skip
    if material.released.frame["url"].null_count() < len(material.released):
        clicks = residue.rare_clicks(material.original, material.released, k=k)
        raw_clicks = residue.rare_clicks(material.original, material.original, k=k)
        yield _residue(
            "rare-clicks", "Rare clicks left", "rare texts", "singling out", clicks.share, raw_clicks.share,
            f"Share of released clicks whose query and result together fewer than {k} users of the raw log have.",
            0.0 if promised and material.safe else None, clicks.of, f"{clicks.distinct:,} pairs.",
        )  # fmt: skip
    named, raw_named = residue.identifiers(material.released), residue.identifiers(material.original)
    yield _residue(
        "identifiers", "Identifiers left", "identifiers", "inference", named.share, raw_named.share,
        "Share of released records whose text or clicked URL holds an e-mail address, a long number or credentials.",
        0.0 if material.safe and promised else None, named.of, f"{named.distinct:,} texts and URLs.",
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
    detail: str,
) -> Finding:
    return Finding(
        key=key, title=title, kind="risk", topic=topic, question=question, value=value, raw=raw, bound=bound,
        trials=trials, better="lower", unit="share", explanation=f"{explanation} Counted, not sampled.",
        detail=detail,
    )  # fmt: skip


STEPS: Final[tuple[tuple[str, Step], ...]] = (
    ("uniqueness", uniqueness),
    ("residues", residues),
    ("record linkage", owner_risks.record_links),
    ("attacks on streams", owner_risks.stream_attacks),
    ("profile linkage", owner_risks.profile_links),
    ("frequency", owner_risks.frequencies),
    ("two releases", owner_risks.two_releases),
    ("one-run audit", claims.one_run),
    ("likelihood", replaced_texts.likelihood),
)
"""Every attack by name, in the order of the report."""
