"""Click logs for benchmarks: from the synthetic log, from a Zipf law (large), and from the AOL sample."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl

from queryveil import log as log_room
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.sanitization import shared_counts

ROOT = Path(__file__).parent.parent


def paper_sized() -> ClickCounts:
    """2,500 users of the synthetic log with about 6,000 shared pairs, as in the paper's Table 3."""
    return shared_counts(synth(users=2500, records=600_000, seed=1))


def zipf(*, users: int, clicks: int, vocabulary: int, exponent: float = 0.8, seed: int = 1) -> ClickCounts:
    """Shared pairs of a log in which pairs are clicked by a Zipf law and users' activity is lognormal."""
    random = np.random.default_rng(seed)
    activity = random.lognormal(0, 1.2, users)
    who = random.choice(users, clicks, p=activity / activity.sum())
    popularity = np.cumsum((np.arange(vocabulary) + 10.0) ** -exponent)
    what = np.searchsorted(popularity / popularity[-1], random.random(clicks))
    cells, count = np.unique(what.astype(np.int64) * users + who, return_counts=True)
    counts = ClickCounts(
        user=cells % users,
        pair=cells // users,
        count=count.astype(np.int64),
        user_names=pl.Series("user", np.arange(users)),
        pair_names=pl.DataFrame({"query": np.arange(vocabulary), "url": np.arange(vocabulary)}),
    )
    return counts.without_unique_pairs()


def aol_sample() -> QueryLog | None:
    """The AOL sample with query and rank as the clicked item, or None where it is absent."""
    folder = Path(os.environ.get("QUERYVEIL_DATA", ROOT.parent / "shared" / "data"))
    path = folder / "aol" / "aol-1017-users.tsv.gz"
    if not path.is_file():
        return None
    frame = log_room.read(path).frame
    return QueryLog(frame.with_columns(url=pl.format("rank {}", pl.col("rank"))))  # null where there is no click
