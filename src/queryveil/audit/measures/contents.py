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
>>> contents(log, shown, owners=pl.Series(["ann", "bob"]), labels=pl.Series(["[illness]"]))
Contents(typed=0.5, label=0.5, replaced=0.0, synthetic=0.0)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, Final

import polars as pl

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, kept
from queryveil.audit.survival import survival
from queryveil.log import QueryLog

IN_WORDS: Final = {
    "typed": ("Records with a text as typed", "whose text is the one that was asked"),
    "label": ("Records with a label", "that hold a label of public knowledge in place of the text"),
    "replaced": ("Records with another text", "that hold another text in place of the one that was asked"),
    "synthetic": ("Records made up", "that nobody is behind"),
}


@dataclass(frozen=True)
class Contents:
    """Shares of the released records; together 1, or all 0 where there are none."""

    typed: float
    label: float
    replaced: float
    synthetic: float


def contents(
    original: QueryLog,
    released: QueryLog,
    *,
    owners: pl.Series | None = None,
    labels: pl.Series | None = None,
    all_labels: bool = False,
    replaced: bool = False,
    synthetic: bool = False,
) -> Contents:
    """What the released records hold; `all_labels`, `replaced` and `synthetic` are what the mechanism declares."""
    nobody = pl.repeat(None, len(released), dtype=pl.String, eager=True)
    frame = released.frame.select("query", (nobody if owners is None else owners).cast(pl.String).alias("owner"))
    by_anybody = pl.col("query").is_in(original.frame["query"].unique().implode())
    asked = original.frame.select(pl.col("user").alias("owner"), "query").unique().with_columns(theirs=True)
    frame = frame.join(asked, on=["owner", "query"], how="left", maintain_order="left")
    unknown = pl.col("owner").is_null()
    typed = pl.col("theirs").fill_null(False) | (unknown & by_anybody & ~pl.lit(replaced))
    made_up = pl.lit(all_labels) if labels is None else pl.col("query").is_in(labels.implode()) | pl.lit(all_labels)
    is_synthetic = pl.lit(synthetic) & unknown
    kind = (
        pl.when(is_synthetic).then(pl.lit("synthetic")).when(made_up).then(pl.lit("label"))
        .when(typed).then(pl.lit("typed")).otherwise(pl.lit("replaced"))
    )  # fmt: skip
    counts = dict(frame.select(kind.alias("kind")).group_by("kind").len().iter_rows())
    return Contents(**{name: counts.get(name, 0) / max(len(released), 1) for name in IN_WORDS})


class WhatIsReceived:
    """Shares of released records with a text as typed, a label, another text, or made up."""

    key: ClassVar[str] = "contents"
    title: ClassVar[str] = "What a recipient receives"
    task: ClassVar[str] = "contents"

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not len(context.released):
            yield LeftOut(title=self.title, reason="the release is empty")
            return
        found = contents(
            context.original, context.released, owners=context.owners, labels=context.labels,
            all_labels=context.declares("publishes_labels"), replaced=context.declares("replaces_texts"),
            synthetic=context.declares("synthetic_users"),
        )  # fmt: skip
        yield kept(
            "contents-kept", "Records whose very text is published", self.task,
            survival(context.original, context.released).volume,
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
