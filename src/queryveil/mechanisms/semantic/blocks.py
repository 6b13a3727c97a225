"""Safe mode as pure functions of one block of records, for one machine and for a cluster alike.

A block of users is read as queries (`asked`) and these as concepts, cut to the public maximum, given a random number
for every query and renamed. All records of a user share a block, so that the several records of one query do too.
What a number stands for depends on the concept alone; where finding out means a scan of the domain, that is done in
blocks of like concepts, so that every concept is scanned for once in the whole log and not once in each block.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from queryveil.log.query_log import Schema, Table, in_canonical_order
from queryveil.mechanisms.semantic.histogram import noisy_rows
from queryveil.mechanisms.semantic.parameters import SemanticParameters
from queryveil.mechanisms.semantic.queries import asked, within_maximum
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStreams
from queryveil.release.mechanism import coarsened
from queryveil.release.release import Renaming

CONCEPT, NUMBER = "__concept", "__number"
RELEASED: Schema = {"user": pl.String(), "query": pl.String(), "time": pl.Datetime("us")}
DRAWN: Schema = {"user": pl.String(), "time": pl.Datetime("us"), CONCEPT: pl.Int32(), NUMBER: pl.Int64()}


def replace_queries(mechanism: SemanticParameters, table: Table, noise: Noise) -> Table:
    """Every query of a table replaced, and every user renamed."""
    _ = mechanism.reader  # made before threads ask for it, or each would make its own
    blocks = table.blocks
    maximum = noise.streams("semantic: within maximum", blocks)
    renaming = Renaming.of(noise, blocks)
    if mechanism.criterion == "hbdp":
        histograms = _Histograms(mechanism, maximum, noise.streams("semantic: histogram", blocks), renaming)
        return table.map_blocks("user", histograms, Renaming.schema(RELEASED))
    drawing = _Drawing(mechanism, maximum, noise.streams("semantic: selection", blocks), renaming)
    if not mechanism.certified.law.scans:
        return table.map_blocks("user", drawing.then_texts, Renaming.schema(RELEASED))
    drawn = table.map_blocks("user", drawing, Renaming.schema(DRAWN))
    return drawn.map_blocks(CONCEPT, drawing.texts, Renaming.schema(RELEASED))


def _read(mechanism: SemanticParameters, rows: pl.DataFrame, maximum: NoiseStreams, block: int) -> pl.DataFrame:
    """`user, time, CONCEPT` of at most the public maximum of queries of each user."""
    rows = in_canonical_order(asked(rows).select("user", "query", coarsened(mechanism.time)))
    rows = within_maximum(rows, mechanism.max_queries, maximum[block])
    concepts = pl.Series(CONCEPT, mechanism.reader.concepts_of(rows["query"]))
    return rows.select("user", "time", concepts)


@dataclass(frozen=True)
class _Drawing:
    """A concept in place of each query, by the certified law."""

    mechanism: SemanticParameters
    maximum: NoiseStreams
    selection: NoiseStreams
    renaming: Renaming

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """A block of users: what was drawn, as concept and number."""
        users = rows["user"].unique().sort()
        rows = _read(self.mechanism, rows, self.maximum, block)
        if self.mechanism.counts == "padded":
            rows = self._padded(rows, users)
        numbers = self.mechanism.certified.law.numbers(rows[CONCEPT].to_numpy(), self.selection[block])
        return self.renaming(block, rows.with_columns(pl.Series(NUMBER, numbers)))

    def texts(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The text that each concept and number stands for."""
        law = self.mechanism.certified.law
        drawn = law.outputs(rows[CONCEPT].to_numpy(), rows[NUMBER].to_numpy())
        return rows.with_columns(self.mechanism.public_domain.texts(drawn).alias("query"))

    def then_texts(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Both steps at once."""
        return self.texts(block, self(block, rows))

    def _padded(self, rows: pl.DataFrame, users: pl.Series) -> pl.DataFrame:
        """Every user with exactly `max_queries` records; those made up have *outside* as their input."""
        most = self.mechanism.max_queries
        missing = (
            users.to_frame()
            .join(rows.group_by("user").len(), on="user", how="left", maintain_order="left")
            .select("user", (most - pl.col("len").fill_null(0).cast(pl.Int64)).alias("missing"))
        )
        added = missing.select(pl.col("user").repeat_by("missing").explode(empty_as_null=False))
        outside = pl.lit(self.mechanism.public_domain.outside, pl.Int32).alias(CONCEPT)
        return pl.concat([rows, added.select("user", pl.lit(None, pl.Datetime("us")).alias("time"), outside)])


@dataclass(frozen=True)
class _Histograms:
    """Records out of a noisy histogram of each user."""

    mechanism: SemanticParameters
    maximum: NoiseStreams
    noise: NoiseStreams
    renaming: Renaming

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """A block of users."""
        users = rows["user"].unique().sort()
        rows = _read(self.mechanism, rows, self.maximum, block)
        who = users.search_sorted(rows["user"]).to_numpy() if rows.height else np.empty(0, np.int64)
        domain, rate = self.mechanism.public_domain, self.mechanism.histogram_rate
        made = noisy_rows(users, who, rows[CONCEPT].to_numpy(), domain, rate, self.noise[block])
        return self.renaming(block, made)
