"""Who shares a log: pseudonyms that hold the very same records as often, in whatever order.

>>> released = pl.DataFrame({"user": ["a", "a", "b", "b", "c"], "query": ["x", "y", "y", "x", "x"]})
>>> a, _, b, _, c = group_of_records(released).tolist()
>>> a == b, a == c
(True, False)
"""

from __future__ import annotations

import numpy as np
import polars as pl

from queryveil.arrays import Longs


def hashed_logs(records: pl.DataFrame) -> pl.DataFrame:
    """`user`, `log`: a hash of the log of each user, the same for the same records; every column counts."""
    hashed = records.select("user", records.drop("user").hash_rows().alias("record"))
    logs = hashed.group_by("user", maintain_order=True)
    return logs.agg(pl.col("record").sort().cast(pl.String).str.join(" ").hash().alias("log"))


def logs_of(records: pl.DataFrame) -> pl.DataFrame:
    """`user`, `log`: a number for the log of each user, the same for the same records; every column counts."""
    return hashed_logs(records).with_columns(pl.col("log").rank("dense").cast(pl.Int64) - 1)


def group_of_records(released: pl.DataFrame) -> Longs:
    """For each record the number of those who share its pseudonym's log of texts."""
    texts = released.select("user", "query")
    found = texts.select("user").join(logs_of(texts), on="user", how="left", maintain_order="left")["log"]
    return found.to_numpy().astype(np.int64)
