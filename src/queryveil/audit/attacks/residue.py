"""What should not be in a release at all: rare texts and clicks, identifiers, logs that nobody shares.

These are counts over the whole release, not samples, so they have no interval. *Rare* texts occur in the raw log, but
were asked by fewer than k different users there; a text that the release made up (a label, a concept) is not rare.
*Identifiers* are e-mail addresses, long numbers (telephone, account), credentials and addresses of devices, in texts
and in clicked URLs. What mechanisms withhold counts (`log/identifying.py`), and more, so that the audit can see what
their filter missed: seven digits with any marks between or in words, `@` between any two characters, addresses and
passwords in words, and long keys. *Rewritten* texts are rare ones written otherwise (`normal_form`).

Cost: a few groupings.

>>> raw = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "my secret"), ("bob", "a@b.example")])
>>> rare_texts(raw, raw, k=2)
Residue(records=2, of=4, distinct=2)
>>> identifiers(raw).records, smallest_shared_log(raw)
(1, 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from queryveil.audit.attacks.groups import logs_of
from queryveil.audit.attacks.normal_form import normal_form
from queryveil.audit.context import USUAL_K_TEXT, AuditContext
from queryveil.audit.finding import (
    Finding,
    Found,
    LeftOut,
    Question,
)
from queryveil.log import QueryLog
from queryveil.log.identifying import is_identifying, plain

SCANNED = ("query", "url")

_DIGIT_IN_WORDS = r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine)"
SUSPECT = (
    r"\d(?:[^\pL\d]*\d){6}",
    r"\S@\S",
    r"(?i)\S\s+at\s+\S+\s+dot\s+[a-z]{2,}",
    rf"(?i)\b{_DIGIT_IN_WORDS}(?:\W+{_DIGIT_IN_WORDS}){{6}}\b",
    r"(?i)\b(?:password|passwd|passcode|pwd|pass|pin|token|secret|api.?key)\s*[:=]\s*\S",
    r"(?i)\b[0-9a-f]{16,}\b|\beyJ[\w-]{8,}",
)
"""Wider than the filter of the mechanisms; matched on the plain copy of a text."""


@dataclass(frozen=True)
class Residue:
    """How many released records hold something, of how many, and how many distinct things that is."""

    records: int
    of: int
    distinct: int

    @property
    def share(self) -> float:
        """Of all released records; 0 where there are none."""
        return self.records / self.of if self.of else 0.0


def rare_texts(original: QueryLog, released: QueryLog, *, k: int) -> Residue:
    """Released records whose text fewer than `k` users of the raw log asked."""
    return _rare(original.frame, released.frame, ["query"], k)


def rewritten_rare_texts(original: QueryLog, released: QueryLog, *, k: int, labels: pl.Series | None = None) -> Residue:
    """Released records whose text is in the raw log in other letters, marks or order of words only, asked by few.

    Texts that the raw log holds as they are belong to `rare_texts`; `labels` are texts that a mechanism made up.
    """
    given, shown = (
        log.frame.select("user", "query").join(
            log.frame.select(pl.col("query").unique()).with_columns(normal_form("query").alias("normal")), on="query"
        )
        for log in (original, released)
    )
    rewritten = shown.join(given.select(pl.col("query").unique()), on="query", how="anti")
    if labels is not None:
        rewritten = rewritten.filter(~pl.col("query").is_in(labels.implode()))
    found = _rare(given, rewritten, ["normal"], k)
    return Residue(found.records, len(released), found.distinct)


def rare_clicks(original: QueryLog, released: QueryLog, *, k: int) -> Residue:
    """Released clicks whose pair (query, url) fewer than `k` users of the raw log have."""
    given, shown = (log.frame.filter(pl.col("url").is_not_null()) for log in (original, released))
    return _rare(given, shown, ["query", "url"], k)


def rare_ranks(original: QueryLog, released: QueryLog, *, k: int) -> Residue:
    """Released ranks that fewer than `k` users of the raw log have for that query and result, or nobody has."""
    columns = ["query", "url", "rank"]
    given, shown = (log.frame.filter(pl.col("rank").is_not_null()) for log in (original, released))
    shared = given.group_by(columns).agg(pl.col("user").n_unique().alias("askers")).filter(pl.col("askers") >= k)
    rare = shown.group_by(columns).len("copies").join(shared, on=columns, how="anti", nulls_equal=True)
    return Residue(int(rare["copies"].sum()), len(shown), rare.height)


def _rare(original: pl.DataFrame, released: pl.DataFrame, columns: list[str], k: int) -> Residue:
    askers = original.group_by(columns).agg(pl.col("user").n_unique().alias("askers"))
    rare = released.group_by(columns).len("copies").join(askers.filter(pl.col("askers") < k), on=columns, how="semi")
    return Residue(int(rare["copies"].sum()), released.height, rare.height)


def identifiers(log: QueryLog) -> Residue:
    """Records whose text or clicked URL names a person or opens a door by itself."""
    found = [_suspects(log.frame.select(pl.col(name).drop_nulls().unique())) for name in SCANNED]
    named = [pl.col(name).is_in(texts[name].implode()) for name, texts in zip(SCANNED, found, strict=True)]
    records = log.frame.select(pl.any_horizontal(naming.fill_null(False) for naming in named).sum()).item()
    return Residue(int(records), len(log), sum(texts.height for texts in found))


def _suspects(texts: pl.DataFrame) -> pl.DataFrame:
    """Of a table with one column of texts those that the filter or a wider pattern finds."""
    (name,) = texts.columns
    shown = pl.Series("shown", plain(texts[name]))
    wider = pl.any_horizontal(pl.col("shown").str.contains(pattern) for pattern in SUSPECT)
    return texts.with_columns(shown).filter(wider | is_identifying(name)).select(name)


def smallest_shared_log(log: QueryLog) -> int:
    """The fewest users who hold the very same multiset of records, every column counted; 0 for an empty log."""
    sizes = logs_of(log.frame).group_by("log").len("sharers")["sharers"]
    return int(sizes.min()) if len(sizes) else 0  # type: ignore[arg-type]


class Residues:
    """Rare texts, rare clicks, identifiers, logs that too few share."""

    key: ClassVar[str] = "residues"
    title: ClassVar[str] = "Rare texts and identifiers left"
    question: ClassVar[Question] = "singling out"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        promised = context.promised_k_text
        k = promised or USUAL_K_TEXT
        if context.declares("publishes_labels"):
            reason = "every released text is a label of the public taxonomy, whoever asked it"
            yield LeftOut(title=self.title, reason=reason, by_settings=True)
            return
        left = rare_texts(context.original, context.released, k=k)
        raw = context.once(("rare texts", k), lambda: rare_texts(context.original, context.original, k=k))
        yield _residue(
            "rare-texts", "Rare texts left", "rare texts", "singling out", left.share, raw.share,
            f"Share of released records whose text fewer than {k} users of the raw log asked.",
            0.0 if promised else None, left.of, f"{left.distinct:,} texts.",
        )  # fmt: skip
        if not context.declares("replaces_texts"):
            labels = context.labels
            rewritten = rewritten_rare_texts(context.original, context.released, k=k, labels=labels)
            yield _residue(
                "rare-texts-rewritten", "Rare texts left, written otherwise", "rare texts", "singling out",
                rewritten.share, raw.share,
                f"Share of released records whose text differs from one that fewer than {k} users of the raw log asked "
                "only in capitals, marks, spaces and the order of words; labels of public knowledge do not count.",
                0.0 if promised and labels is not None else None, rewritten.of, f"{rewritten.distinct:,} texts.",
            )  # fmt: skip
        if context.released.frame["url"].null_count() < len(context.released):
            clicks = rare_clicks(context.original, context.released, k=k)
            raw_clicks = context.once(("rare clicks", k), lambda: rare_clicks(context.original, context.original, k=k))
            yield _residue(
                "rare-clicks", "Rare clicks left", "rare texts", "singling out", clicks.share, raw_clicks.share,
                f"Share of released clicks whose query and result together fewer than {k} users of the raw log have.",
                0.0 if promised and context.safe else None, clicks.of, f"{clicks.distinct:,} pairs.",
            )  # fmt: skip
        if promised and context.safe:
            ranks, raw_ranks = (rare_ranks(context.original, log, k=k) for log in (context.released, context.original))
            yield _residue(
                "rare-ranks", "Rare ranks left", "rare texts", "singling out", ranks.share, raw_ranks.share,
                f"Share of released ranks that fewer than {k} users of the raw log have for that query and result.",
                0.0, ranks.of, f"{ranks.distinct:,} ranks.",
            )  # fmt: skip
        named = identifiers(context.released)
        raw_named = context.once("identifiers", lambda: identifiers(context.original))
        yield _residue(
            "identifiers", "Identifiers left", "identifiers", "inference", named.share, raw_named.share,
            "Share of released records whose text or clicked URL holds an e-mail address, a long number or "
            "credentials.",
            0.0 if context.safe and promised else None, named.of, f"{named.distinct:,} texts and URLs.",
        )  # fmt: skip
        k_logs = context.promised_k("k-anonymity")
        if k_logs is not None and len(context.released):
            yield Finding(
                key="shared-logs", title="Smallest crowd behind one log", kind="risk", topic="shared logs",
                question="singling out", value=smallest_shared_log(context.released),
                raw=smallest_shared_log(context.original), chance=None, bound=k_logs,
                trials=context.released.user_count(), better="higher", unit="count",
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
