"""One stream for each top-level category, as pure functions of blocks of records: how a cluster runs the stream.

Pools never reach across top-level categories, since the root is never a branch. So the streams of two categories only
share what is counted in records (windows, epochs, the mix) and the life of a pseudonym; here each counts its own.

A table has no order. A category's records are taken in by their times, those of one time in random order, and those
without a time in random order behind all others. Every draw of a category comes from noise of its own, so the release
does not depend on how the records are cut into blocks. One worker takes in a category as a whole.

>>> from queryveil.mechanisms.stream import Stream
>>> log = QueryLog.of([(f"user {i % 6}", "weather", None) for i in range(40)])
>>> release = Stream(k=2, k_text=2, depth=1, by_category=True).protect(log, Noise.seeded(1))
>>> 20 < len(release.log) <= 40
True
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from queryveil import progress
from queryveil.errors import KnowledgeError
from queryveil.log import COLUMNS, QueryLog
from queryveil.log.query_log import Schema, Table, in_canonical_order
from queryveil.mechanisms.stream.emissions import Emissions
from queryveil.mechanisms.stream.live import LiveStream
from queryveil.privacy import Noise
from queryveil.privacy.noise import Parts
from queryveil.release.release import HIDDEN, ORDER, OWNER, RECEIVER

if TYPE_CHECKING:
    from queryveil.mechanisms.stream.mixing import Stream

PATH, TOP = "__path", "__top"
TAKEN: Schema = {"user": pl.String(), "query": pl.String(), "time": pl.Datetime("us")}
CATEGORISED: Schema = {**TAKEN, PATH: pl.String(), TOP: pl.String()}
RELEASED: Schema = {**TAKEN, **HIDDEN}


def stream_categories(mechanism: Stream, log: QueryLog, noise: Noise) -> Table:
    """What comes out of the streams of all categories."""
    mechanism.check_column((*COLUMNS, *log.extra_columns))
    table = log.table(*(name for name in log.extra_columns if name == mechanism.category_column))
    categorised = table.map_rows(Categorising.of(mechanism), CATEGORISED)
    return categorised.map_blocks(TOP, Streaming(mechanism, noise.parts("stream: categories")), RELEASED)


def gather(live: LiveStream, parts: list[Emissions], log: QueryLog) -> pl.DataFrame:
    """Emissions as one table: the records under their pseudonyms, with their owners and receivers."""
    parts = [part for part in parts if len(part)]
    if not parts:
        nobody = pl.lit(None, pl.String)
        return log.frame.clear().with_columns(nobody.alias(OWNER), nobody.alias(RECEIVER))
    receivers = live.names_of(np.concatenate([part.receivers for part in parts]), log.users())
    rows = pl.concat([part.rows for part in parts])
    names = pl.concat([part.pseudonyms for part in parts])
    return rows.with_columns(names, rows["user"].alias(OWNER), receivers.alias(RECEIVER))


@dataclass(frozen=True)
class Categorising:
    """Adds the category path of each record and its top level; a record without a category is left out."""

    mechanism: Stream
    knowledge: str | None

    @classmethod
    def of(cls, mechanism: Stream) -> Categorising:
        """The work of one release; an index goes by its whole path, since a worker has a folder of its own."""
        knowledge = mechanism.classifier_digest()
        if mechanism.category_column is None and mechanism.classifier != "wordnet":
            mechanism = replace(mechanism, classifier=str(Path(mechanism.classifier).resolve()))
        return cls(mechanism, knowledge)

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows that a stream takes in."""
        if self.mechanism.classifier_digest() != self.knowledge:
            raise KnowledgeError(
                "the classifier on this machine is not the one the work was planned with. Install the same."
            )
        paths = self.mechanism.categories_of(rows).alias(PATH)
        top = pl.col(PATH).str.splitn(self.mechanism.category_separator, 2).struct.field("field_0").alias(TOP)
        return rows.select(*TAKEN, paths).filter(pl.col(PATH) != "").with_columns(top)


@dataclass(frozen=True)
class Streaming:
    """A stream for each category of a block of categories."""

    mechanism: Stream
    noise: Parts

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """What comes out of them."""
        k = self.mechanism.settings().rules.k
        # No pool of a category can ever hold more people than the category: where that is too few, none is opened.
        rows = rows.filter(pl.col("user").n_unique().over(TOP) > k)
        parts = rows.partition_by(TOP, as_dict=True, include_key=False)
        came_out = []
        with progress.parts("streaming the categories", len(parts)) as part:
            for (top,), records in sorted(parts.items()):
                with part():
                    came_out.append(self._stream(str(top), records))
        return pl.concat([pl.DataFrame(schema=RELEASED), *came_out])

    def _stream(self, top: str, rows: pl.DataFrame) -> pl.DataFrame:
        noise = self.noise.of(top)
        rows = in_canonical_order(rows)[noise.stream("stream: records of one time").permutation(rows.height)]
        log = QueryLog(rows.sort("time", nulls_last=True, maintain_order=True))
        live = LiveStream(self.mechanism.settings(), noise, _paths, all_at_once=True)
        made = gather(live, [*live.push_with_owners(log), *live.finish_with_owners()], log)
        order = pl.Series(ORDER, noise.stream("release order").permutation(made.height))
        return made.with_columns(order).select(pl.col(name).cast(dtype) for name, dtype in RELEASED.items())


def _paths(batch: QueryLog) -> pl.Series:
    return batch.frame[PATH]
