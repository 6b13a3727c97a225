"""Records that came out of a stream, with what only the holder may see of them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from queryveil.arrays import Ints, Longs, Words


@dataclass(frozen=True)
class Emissions:
    """What came out, one row each in the order it is handed out, with what only the holder may see.

    `rows` are the original records (their `user` is the true owner) with the full `category`; in safe mode without
    click, and `time` is the cut time of the arrival that brought the record out, not the owner's. `serials` counts
    emissions as they left the pools. `owners` and `receivers` are keyed fingerprints of users; `pool_users` and
    `pool_owners` how many distinct ones were in the pool, `records` how many queries were in the query's vertex, all
    before the record left; `delays` how many records came until it left the pool (the mix comes on top).
    """

    rows: pl.DataFrame
    owners: Words
    receivers: Words
    depths: Ints
    pool_users: Ints
    pool_owners: Ints
    records: Ints
    delays: Longs
    pseudonyms: pl.Series
    serials: Longs

    def __len__(self) -> int:
        return len(self.owners)
