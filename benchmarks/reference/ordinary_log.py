"""The stated stream on which attacks on the stream mechanism are judged: bursts, and personal texts that come back.

Sixteen top categories with three below each. People search in bursts (mean four records in a row, interleaved with
others') and are busy to very different degrees (Zipf–Mandelbrot). A quarter of the records are personal: each person
has three texts of their own, in favourite categories, that nobody else issues and that come back. The others are texts
that many issue, Zipf within their category.

>>> log = standard_stream(records=2000, users=50, seed=1)
>>> share = log.frame["query"].str.starts_with("own").mean()
>>> 0.2 < share < 0.3
True
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.log import QueryLog
from queryveil.privacy import Noise
from queryveil.privacy.noise import integer_weights

TOP, BELOW = 16, 3
TEXTS = 12
OWN_TEXTS = 3
PERSONAL = 0.25
BURST = 4.0
GAP = 12.0


def standard_stream(*, records: int = 60_000, users: int = 600, seed: int = 1) -> QueryLog:
    """The log, with its category paths in the column `category`, in order of time."""
    noise = Noise.seeded(seed)

    def uniform(what: str, size: int) -> npt.NDArray[np.float64]:
        return noise.stream(f"standard stream: {what}").uniform(size)

    def choice(what: str, weights: npt.ArrayLike, size: int) -> npt.NDArray[np.int64]:
        return noise.stream(f"standard stream: {what}").choice(integer_weights(weights), size)

    bursts = records  # more than enough; the surplus is cut
    lengths = 1 + np.floor(np.log(1 - uniform("lengths", bursts)) / np.log(1 - 1 / BURST)).astype(np.int64)
    bursts = int(np.searchsorted(np.cumsum(lengths), records)) + 1
    of_burst = np.repeat(np.arange(bursts), lengths[:bursts])[:records]
    activity = 1.0 / (np.arange(users) + 20.0)
    person = choice("people", activity, bursts)[of_burst]
    start = np.sort(uniform("starts", bursts)) * records * 1.0
    first = np.r_[True, np.diff(of_burst) != 0]
    gaps = -np.log(1 - uniform("gaps", records)) * GAP
    gaps[first] = 0
    since = np.cumsum(gaps)
    moment = start[of_burst] + since - since[first][of_burst]
    favourites = choice("favourites", 1.0 / np.arange(1, TOP * BELOW + 1), users * OWN_TEXTS).reshape(users, OWN_TEXTS)
    which = noise.stream("standard stream: which").below(OWN_TEXTS, records)
    personal = uniform("personal", records) < PERSONAL
    # A burst stays in one category; half of the bursts are in a favourite one.
    elsewhere = choice("categories", 1.0 / np.arange(1, TOP * BELOW + 1), bursts)
    at_home = uniform("home", bursts) < 0.5
    burst_person, burst_which = person[np.flatnonzero(first)], which[np.flatnonzero(first)]
    category = np.where(at_home, favourites[burst_person, burst_which], elsewhere)[of_burst]
    category = np.where(personal, favourites[person, which], category)
    shared = choice("texts", 1.0 / np.arange(1, TEXTS + 1), records)
    order = np.argsort(moment, kind="stable")
    frame = pl.DataFrame(
        {"person": person[order], "which": which[order], "category": category[order], "shared": shared[order],
         "personal": personal[order]}
    )  # fmt: skip
    top, below = pl.col("category") % TOP, pl.col("category") // TOP
    own = pl.format("own {} of {}", "which", "person")
    common = pl.format("text {} on {}", "shared", "category")
    return QueryLog(
        frame.select(
            pl.format("person {}", "person").alias("user"),
            pl.when("personal").then(own).otherwise(common).alias("query"),
            (pl.datetime(2026, 3, 1) + pl.duration(seconds=60 * pl.int_range(pl.len()))).alias("time"),
            pl.format("top {}: below {}", top, below).alias("category"),
        )
    )
