"""What should not be in a release at all: rare texts and clicks, identifiers, logs that nobody shares.

These are counts over the whole release, not samples, so they have no interval. *Rare* texts occur in the raw log, but
were asked by fewer than k different users there; a text that the release made up (a label, a concept) is not rare.
*Identifiers* are e-mail addresses, long numbers (telephone, account), credentials and addresses of devices, in texts
and in clicked URLs. What mechanisms withhold counts (`log/identifying.py`), and more, so that the audit can see what
their filter missed: seven digits with any marks between or in words, `@` between any two characters, addresses and
passwords in words, and long keys. *Rewritten* texts are rare ones written otherwise (`normal_form`).

Cost: a few groupings.

>>> raw = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "my secret"), ("bob", "a@b.example")])
>>> both = both_logs(raw, raw)
>>> rare_texts(both, k=2)[0]
Residue(records=2, of=4, distinct=2)
>>> identifiers(both, released=True).records, smallest_shared_log(raw)
(1, 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import polars as pl

from queryveil.audit.attacks.groups import hashed_logs
from queryveil.audit.attacks.normal_form import normal_form
from queryveil.audit.both_logs import RELEASED, both_logs, by_user, sides, summed  # noqa: F401  # for the example
from queryveil.audit.context import USUAL_K_TEXT, AuditContext
from queryveil.audit.finding import (
    Finding,
    Found,
    LeftOut,
    Question,
)
from queryveil.log import QueryLog
from queryveil.log.identifying import is_identifying, plain
from queryveil.log.query_log import Schema, Table

SCANNED = ("query", "url")
FORMS: Schema = {"user": pl.String(), "normal": pl.String(), RELEASED: pl.Boolean()}
SCAN: Schema = {"records": pl.Int64(), "of": pl.Int64(), "distinct": pl.Int64(), "url": pl.String()}

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


def rare_texts(both: Table, *, k: int) -> tuple[Residue, Residue]:
    """Released records whose text fewer than `k` users of the raw log asked; and the same of the raw log's own."""
    return _rare(both, ["query"], k)


def rare_clicks(both: Table, *, k: int) -> tuple[Residue, Residue]:
    """Clicks whose pair (query, url) fewer than `k` users of the raw log have: of the release, and of the raw log."""
    return _rare(both, ["query", "url"], k, pl.col("url").is_not_null())


def rare_ranks(both: Table, *, k: int) -> tuple[Residue, Residue]:
    """Ranks that fewer than `k` users of the raw log have for that query and result, or nobody has."""
    return _rare(both, ["query", "url", "rank"], k, pl.col("rank").is_not_null(), unheard_of=True)


def _rare(
    both: Table, columns: list[str], k: int, of: pl.Expr | None = None, *, unheard_of: bool = False
) -> tuple[Residue, Residue]:
    """Of the release and of the raw log: records whose values fewer than `k` of its users have, `unheard_of` or not."""

    def counted(rows: pl.DataFrame) -> dict[str, int]:
        given, shown = sides(rows if of is None else rows.filter(of))
        asked = given.group_by(columns).agg(pl.col("user").n_unique().alias("askers"), pl.len().alias("copies"))
        few = asked.filter(pl.col("askers") < k)
        there = shown.group_by(columns).len("copies")
        rare = there.join(few, on=columns, how="semi", nulls_equal=True)
        if unheard_of:
            rare = there.join(asked.filter(pl.col("askers") >= k), on=columns, how="anti", nulls_equal=True)
        return {
            "records": int(rare["copies"].sum()), "of": shown.height, "distinct": rare.height,
            "raw_records": int(few["copies"].sum()), "raw_of": given.height, "raw_distinct": few.height,
        }  # fmt: skip

    found = summed(both, "query", counted)
    return tuple(Residue(*(found[f"{side}{name}"] for name in ("records", "of", "distinct"))) for side in ("", "raw_"))  # type: ignore[return-value]


def rewritten_rare_texts(both: Table, *, k: int, labels: pl.Series | None = None) -> Residue:
    """Released records whose text is in the raw log in other letters, marks or order of words only, asked by few.

    Texts that the raw log holds as they are belong to `rare_texts`; `labels` are texts that a mechanism made up.
    """

    def rewritten(rows: pl.DataFrame) -> pl.DataFrame:
        given, shown = sides(rows)
        found = shown.join(given.select("query"), on="query", how="anti")
        return found if labels is None else found.filter(~pl.col("query").is_in(labels.implode()))

    def formed(_: int, rows: pl.DataFrame) -> pl.DataFrame:
        some = [rows.filter(~pl.col(RELEASED)).unique(["user", "query"]), rewritten(rows)]
        texts = pl.concat(some).select("user", "query", RELEASED)
        forms = texts.select(pl.col("query").unique()).with_columns(normal_form("query").alias("normal"))
        return texts.join(forms, on="query").select(list(FORMS))

    def counted(rows: pl.DataFrame) -> dict[str, int]:
        given, shown = sides(rows)
        askers = given.group_by("normal").agg(pl.col("user").n_unique().alias("askers")).filter(pl.col("askers") < k)
        rare = shown.group_by("normal").len("copies").join(askers, on="normal", how="semi")
        return {"records": int(rare["copies"].sum()), "distinct": rare.height}

    found = summed(both, "query", lambda rows: {"of": sides(rows)[1].height, "rewritten": rewritten(rows).height})
    if not found["rewritten"]:  # where texts stay as typed: their forms need not be made
        return Residue(0, found["of"], 0)
    rare = summed(both.map_blocks("query", formed, FORMS), "normal", counted)
    return Residue(rare["records"], found["of"], rare["distinct"])


def identifiers(both: Table, *, released: bool) -> Residue:
    """Records of one of the logs whose text or clicked URL names a person or opens a door by itself."""

    def scanned(_: int, rows: pl.DataFrame) -> pl.DataFrame:
        rows = sides(rows)[released]
        found = [_suspects(rows.select(pl.col(name).drop_nulls().unique())) for name in SCANNED]
        named = [pl.col(name).is_in(texts[name].implode()) for name, texts in zip(SCANNED, found, strict=True)]
        records = rows.select(pl.any_horizontal(naming.fill_null(False) for naming in named).sum()).item()
        counts = {"records": [int(records)], "of": [rows.height], "distinct": [found[0].height], "url": [None]}
        # A URL may be in several blocks: those found are counted by blocks of their own.
        return pl.concat([pl.DataFrame(counts, schema=SCAN), shaped_like(found[1])])

    def shaped_like(urls: pl.DataFrame) -> pl.DataFrame:
        return urls.select(*(pl.lit(0, pl.Int64()).alias(name) for name in list(SCAN)[:3]), "url")

    def counted(rows: pl.DataFrame) -> dict[str, int]:
        urls = rows["url"].drop_nulls().n_unique()
        return {name: int(rows[name].sum()) for name in list(SCAN)[:3]} | {"urls": urls}

    found = summed(both.map_blocks("query", scanned, SCAN), "url", counted)
    return Residue(found["records"], found["of"], found["distinct"] + found["urls"])


def _suspects(texts: pl.DataFrame) -> pl.DataFrame:
    """Of a table with one column of texts those that the filter or a wider pattern finds."""
    (name,) = texts.columns
    shown = pl.Series("shown", plain(texts[name]))
    wider = pl.any_horizontal(pl.col("shown").str.contains(pattern) for pattern in SUSPECT)
    return texts.with_columns(shown).filter(wider | is_identifying(name)).select(name)


def smallest_shared_log(log: QueryLog) -> int:
    """The fewest users who hold the very same multiset of records, every column counted; 0 for an empty log."""
    logs = by_user(log).map_blocks("user", lambda _, rows: hashed_logs(rows), {"log": pl.UInt64()}).collect()
    sharers = logs.group_by("log").len("sharers")["sharers"]
    return int(sharers.min()) if len(sharers) else 0  # type: ignore[arg-type]


class Residues:
    """Rare texts, rare clicks, identifiers, logs that too few share."""

    key: ClassVar[str] = "residues"
    title: ClassVar[str] = "Rare texts and identifiers left"
    question: ClassVar[Question] = "singling out"
    counts_toward_risk: ClassVar[bool] = True
    counts_in_blocks: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        promised = context.promised_k_text
        k = promised or USUAL_K_TEXT
        if context.declares("publishes_labels"):
            reason = "every released text is a label of the public taxonomy, whoever asked it"
            yield LeftOut(title=self.title, reason=reason, by_settings=True)
            return
        left, raw = rare_texts(context.both, k=k)
        yield _residue(
            "rare-texts", "Rare texts left", "rare texts", "singling out", left.share, raw.share,
            f"Share of released records whose text fewer than {k} users of the raw log asked.",
            0.0 if promised else None, left.of, f"{left.distinct:,} texts.",
        )  # fmt: skip
        if not context.declares("replaces_texts"):
            labels = context.labels
            rewritten = rewritten_rare_texts(context.both, k=k, labels=labels)
            yield _residue(
                "rare-texts-rewritten", "Rare texts left, written otherwise", "rare texts", "singling out",
                rewritten.share, raw.share,
                f"Share of released records whose text differs from one that fewer than {k} users of the raw log asked "
                "only in capitals, marks, spaces and the order of words; labels of public knowledge do not count.",
                0.0 if promised and labels is not None else None, rewritten.of, f"{rewritten.distinct:,} texts.",
            )  # fmt: skip
        if "url" in context.released.used_columns:
            clicks, raw_clicks = rare_clicks(context.both, k=k)
            yield _residue(
                "rare-clicks", "Rare clicks left", "rare texts", "singling out", clicks.share, raw_clicks.share,
                f"Share of released clicks whose query and result together fewer than {k} users of the raw log have.",
                0.0 if promised and context.safe else None, clicks.of, f"{clicks.distinct:,} pairs.",
            )  # fmt: skip
        if promised and context.safe:
            ranks, raw_ranks = rare_ranks(context.both, k=k)
            yield _residue(
                "rare-ranks", "Rare ranks left", "rare texts", "singling out", ranks.share, raw_ranks.share,
                f"Share of released ranks that fewer than {k} users of the raw log have for that query and result.",
                0.0, ranks.of, f"{ranks.distinct:,} ranks.",
            )  # fmt: skip
        named = identifiers(context.both, released=True)
        raw_named = context.once("identifiers", lambda: identifiers(context.both, released=False))
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
