"""The last step over a block of users: fresh names, and an order that tells nothing.

Block by block, so that one machine and a cluster give the same names to the same people. What only the holder may know
travels in columns that a finished log hides: whose record it is (`OWNER`), whom its name stands for where that is
somebody else (`RECEIVER`), and a random number that orders records of one name and time (`ORDER`).

>>> rows = pl.DataFrame({"user": ["ann", "bob", "ann"], "query": ["tulips", "tea", "bulbs"]})
>>> renamed = Renaming.of(Noise.seeded(1), blocks=1)(0, rows)
>>> renamed["__owner"].to_list(), renamed["user"].n_unique()
(['ann', 'ann', 'bob'], 2)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from queryveil.log.table import Schema, in_canonical_order
from queryveil.privacy import Noise
from queryveil.privacy.noise import Streams, random_names

OWNER, RECEIVER, ORDER = "__owner", "__receiver", "__order"
HIDDEN: Mapping[str, pl.DataType] = {OWNER: pl.String(), RECEIVER: pl.String(), ORDER: pl.Int64()}


@dataclass(frozen=True)
class Renaming:
    """Gives the users of a block fresh random names."""

    names: Streams
    order: Streams

    @classmethod
    def of(cls, noise: Noise, blocks: int) -> Renaming:
        """The renaming of one release."""
        return cls(noise.streams("pseudonyms", blocks), noise.streams("release order", blocks))

    @staticmethod
    def schema(before: Schema) -> Schema:
        """The columns that renaming makes of these."""
        return {**before, OWNER: pl.String(), ORDER: pl.Int64()}

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of a block of users, renamed, in an order that does not depend on how they came."""
        rows = in_canonical_order(rows)
        named = random_names(rows["user"], self.names[block])
        return rows.with_columns(
            pl.col("user").alias(OWNER),
            pl.col("user").replace_strict(named["user"], named["pseudonym"], return_dtype=pl.String),
            pl.Series(ORDER, self.order[block].permutation(rows.height)),
        )
