"""A log that holds what the twins' faults would let out."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np
import polars as pl

from queryveil.log import QueryLog
from queryveil.log._numbers import Dice, below, head_first

USERS: Final = 150
SHARED: Final = (
    "weather", "puppies", "chess", "tulips", "football", "pizza", "guitar", "train", "doctor", "hotel", "soup",
    "bicycle", "castle", "river", "mountain", "cat", "violin", "bread", "cheese", "tennis", "painting", "museum",
    "garden", "shoes", "coffee", "airport", "bridge", "camera", "horse", "piano",
)  # fmt: skip
START: Final = datetime(2026, 3, 1)


def telltale_log() -> QueryLog:
    """Shared texts of many users, personal ones that come back, identifiers that several share, clicks, busy users."""
    dice = Dice(7)
    sizes = 20 + below(dice.words(USERS), 40)
    sizes[0] = 900  # one who asks far more than anybody else
    user = np.repeat(np.arange(USERS), sizes)
    text = head_first(dice.words(len(user)), len(SHARED))
    personal = below(dice.words(len(user)), 6) == 0
    minute = below(dice.words(len(user)), 60 * 24 * 10)
    clicked = below(dice.words(len(user)), 2) == 0
    frame = pl.DataFrame({"person": user, "text": text, "own": personal, "minute": minute, "clicked": clicked})
    words = pl.Series(SHARED)
    common = pl.lit(words).gather(pl.col("text").cast(pl.UInt32))
    own = pl.format("my {} {}", common, "person")
    site = pl.when(pl.col("text") < 6).then(pl.lit("all.example")).otherwise(pl.format("only{}.example", "person"))
    asked = frame.select(
        pl.format("person {}", "person").alias("user"),
        pl.when("own").then(own).otherwise(common).alias("query"),
        (pl.lit(START).cast(pl.Datetime("us")) + pl.duration(minutes="minute")).alias("time"),
        pl.when("clicked").then(site).alias("url"),
    )
    shared_by_few = pl.DataFrame(
        [(f"person {place}", query, START, None) for query, people in (
            ("help@castle.example", range(12)), ("castle 555 123 4567", range(12)), ("rare castle", range(4)),
        ) for place in people],
        schema=asked.schema, orient="row",
    )  # fmt: skip
    return QueryLog(pl.concat([asked, shared_by_few]).sort("time", "user", "query"))
