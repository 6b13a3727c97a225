"""What a recipient really receives: how many released records hold a text as it was typed, and what the others hold.

A record counts once, as the first of these that it is:

- *synthetic*: nobody is behind it, whatever its text;
- *label*: its text is one that the mechanism makes up from public knowledge (`labels`, `publishes_labels`);
- *as typed*: its owner asked this very text, or somebody did where the owner is not known; where a mechanism replaces
  texts, only the owner's own word counts, since another's is there by chance;
- *replaced*: any other text.

So a release of labels never passes for one that kept its records. The floor of *as typed* is 0: who knows nothing of
what people typed has none of it to give. What the other three are good for depends on the reader, so they are told
beside the raw log, which holds none, and have no floor. *Texts published* is the same from the raw log's side: the
share of its records whose very text is published as often (`survival`).

Cost: one join of released with raw records.

>>> log = QueryLog.of([("ann", "tulips"), ("bob", "my rash")])
>>> shown = QueryLog.of([("u1", "tulips"), ("u2", "[illness]")])
>>> contents(both_logs(log, shown, pl.Series(["ann", "bob"])), labels=pl.Series(["[illness]"]))
Contents(typed=0.5, label=0.5, replaced=0.0, synthetic=0.0)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, Final

import polars as pl

from queryveil.audit.both_logs import OWNER, both_logs, sides, summed  # noqa: F401  # for the example
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, kept
from queryveil.log import QueryLog  # noqa: F401  # for the example
from queryveil.log.query_log import Table

IN_WORDS: Final = {
    "typed": ("Records with a text as typed", "whose text is the one that was asked"),
    "label": ("Records with a label", "that hold a label of public knowledge in place of the text"),
    "replaced": ("Records with another text", "that hold another text in place of the one that was asked"),
    "synthetic": ("Records made up", "that nobody is behind"),
}

LESSER: Final = pl.min_horizontal("given", "released").alias("kept")


@dataclass(frozen=True)
class Contents:
    """Shares of the released records; together 1, or all 0 where there are none."""

    typed: float
    label: float
    replaced: float
    synthetic: float


def contents(
    both: Table,
    *,
    labels: pl.Series | None = None,
    all_labels: bool = False,
    replaced: bool = False,
    synthetic: bool = False,
) -> Contents:
    """What the released records hold; `all_labels`, `replaced` and `synthetic` are what the mechanism declares.

    `both` are the records of both logs, with who asked each released one where that is known.
    """
    unknown = pl.col(OWNER).is_null()
    made_up = pl.lit(all_labels) if labels is None else pl.col("query").is_in(labels.implode()) | pl.lit(all_labels)

    def counted(rows: pl.DataFrame) -> dict[str, int]:
        asked, shown = sides(rows)
        by_anybody = pl.col("query").is_in(asked["query"].unique().implode())
        theirs = asked.select(pl.col("user").alias(OWNER), "query").unique().with_columns(theirs=True)
        shown = shown.join(theirs, on=[OWNER, "query"], how="left", maintain_order="left")
        typed = pl.col("theirs").fill_null(False) | (unknown & by_anybody & ~pl.lit(replaced))
        kind = (
            pl.when(pl.lit(synthetic) & unknown).then(pl.lit("synthetic")).when(made_up).then(pl.lit("label"))
            .when(typed).then(pl.lit("typed")).otherwise(pl.lit("replaced"))
        )  # fmt: skip
        counts = dict(shown.select(kind.alias("kind")).group_by("kind").len().iter_rows())
        return {name: counts.get(name, 0) for name in IN_WORDS}

    found = summed(both, "query", counted)
    return Contents(**{name: number / max(sum(found.values()), 1) for name, number in found.items()})


def _as_often(texts: pl.DataFrame) -> float:
    """The share of the raw log's records whose text is published as often, of counts of texts: `survival`'s volume."""
    given, kept_records = (
        int((texts["number"] * of).sum()) for of in (texts["given"], texts.select(LESSER).to_series())
    )
    return kept_records / given if given else 0.0


class WhatIsReceived:
    """Shares of released records with a text as typed, a label, another text, or made up."""

    key: ClassVar[str] = "contents"
    title: ClassVar[str] = "What a recipient receives"
    task: ClassVar[str] = "contents"
    counts_in_blocks: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not len(context.released):
            yield LeftOut(title=self.title, reason="the release is empty")
            return
        found = contents(
            context.both, labels=context.labels, all_labels=context.declares("publishes_labels"),
            replaced=context.declares("replaces_texts"), synthetic=context.declares("synthetic_users"),
        )  # fmt: skip
        yield kept(
            "contents-kept", "Records whose very text is published", self.task,
            _as_often(context.text_counts),
            "Share of the raw log's records whose text the release holds as often. Counted, not sampled.",
            raw=1.0, chance=0.0, trials=len(context.users), population="records of the raw log",
        )  # fmt: skip
        for name, value in asdict(found).items():
            title, told = IN_WORDS[name]
            typed = name == "typed"
            yield kept(
                f"contents-{name}", title, self.task, value, f"Share of released records {told}. Counted, not sampled.",
                better="higher" if typed else "lower", raw=1.0 if typed else 0.0, chance=0.0 if typed else None,
                trials=len(context.users), population="released records",
            )  # fmt: skip
