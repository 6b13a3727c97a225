"""Who shares a log: pseudonyms that hold the very same texts as often.

>>> shared_logs(pl.DataFrame({"user": ["a", "a", "b", "b", "c"], "query": ["x", "y", "y", "x", "x"]})).tolist()
[1, 1, 1, 1, 0]
"""

from __future__ import annotations

import numpy as np
import polars as pl

from queryveil.arrays import Longs


def shared_logs(released: pl.DataFrame) -> Longs:
    """For each record the number of its pseudonym's group."""
    logs = released.group_by("user").agg(pl.col("query").sort().str.join("\0").alias("log"))
    groups = logs.with_columns(pl.col("log").rank("dense").cast(pl.Int64).alias("group") - 1).select("user", "group")
    found = released.select("user").join(groups, on="user", how="left", maintain_order="left")["group"]
    return found.to_numpy().astype(np.int64)
