"""How much of what each user searched for is still there after microaggregation, and whose words the logs hold.

Erola et al. (2011) measure the *semantic remain percentage*: of a user's categories at a level, counted with
repetitions, the share that the log published in their place holds as well,

    SRP_l(u) = Σ_c min(original_u(c), published_u(c)) / Σ_c original_u(c),

averaged over users (`by_level`). The paper's formula leaves open over what it sums; this reading gives 1/k on average
for users without common interests, as the paper derives. `cumulative` adds up levels 1 to l, as the one of 2010 did.
A user without any category at a level has no value there and does not count. `pooled` divides the sums over all users
instead: the mean over users favours groups of unlike size, where a large log covers all that small users searched for.

Beside it stand the measures of attribution that the paper lacks: how many published texts were asked by one user only,
and how much of a group's log its largest contributor supplied.

>>> original = Profiles(np.array([0, 2]), np.array([0, 1], np.int32), np.array([3, 1], np.int32), 2)
>>> published = Profiles(np.array([0, 1]), np.array([0], np.int32), np.array([2], np.int32), 2)
>>> srp(original, published, depths=np.array([1, 2]), levels=2).by_level
(0.6666666666666666, 0.0)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.knowledge._arrays import Ints
from queryveil.knowledge.categories import Classifier
from queryveil.log import QueryLog
from queryveil.mechanisms.microaggregate.profiles import CountedLog, Profiles, Vocabulary


@dataclass(frozen=True)
class SemanticRemain:
    """The mean over users at each level 1 … L, level by level and summed up to it; NaN where nobody has a category."""

    by_level: tuple[float, ...]
    cumulative: tuple[float, ...]
    pooled: tuple[float, ...]
    """What all users together kept, level by level."""
    by_user: npt.NDArray[np.float64]
    """users × levels; NaN where a user has no category at a level."""


@dataclass(frozen=True)
class Attribution:
    """Whose words the published logs hold. Exact figures about a private log: for the holder's eyes only."""

    texts_of_one_user: float
    """The share of published records whose text one user only asked in the original."""
    largest_contributor: float
    """The share of a log that its largest contributor supplied, on average over logs."""
    largest_contributor_at_worst: float
    distinct_texts: float
    """Distinct texts in a log, on average: a log of few texts tells what all of its group search for."""


def srp(original: Profiles, published: Profiles, *, depths: Ints, levels: int) -> SemanticRemain:
    """SRP of users described by the rows of two matrices; `depths` is the level of each column."""
    kept, had = np.zeros((len(original), levels)), np.zeros((len(original), levels))
    level = depths[original.nodes] - 1
    np.add.at(had, (original.rows(), level), original.counts)
    mine = original.rows().astype(np.int64) * original.node_count + original.nodes
    theirs = published.rows().astype(np.int64) * published.node_count + published.nodes
    _, here, there = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    np.add.at(kept, (original.rows()[here], level[here]), np.minimum(original.counts[here], published.counts[there]))
    by_user, summed = _ratio(kept, had), _ratio(kept.cumsum(axis=1), had.cumsum(axis=1))
    pooled = _ratio(kept.sum(axis=0), had.sum(axis=0))
    return SemanticRemain(_means(by_user), _means(summed), tuple(pooled.tolist()), by_user)


def release_srp(
    log: QueryLog,
    released: QueryLog,
    members: pl.DataFrame,
    classifier: Classifier,
    *,
    levels: int = 5,
    categories: int = 5,
) -> SemanticRemain:
    """SRP of a release. `members` (columns `user`, `pseudonym`) says whose log each pseudonym's stands for.

    Users who are not in it, because they were left out of the release, do not count.
    """
    pairs = members.select("user", "pseudonym").unique("user").sort("user")
    original = log.frame.select("user", "query").join(pairs, on="user", how="semi")
    shown = released.frame.select(pl.col("user").alias("pseudonym"), "query").join(pairs, on="pseudonym")
    before, after = CountedLog.of(original), CountedLog.of(shown.select("user", "query"))
    texts = pl.concat([before.texts, after.texts]).unique().sort()
    vocabulary = Vocabulary.of(texts, classifier, categories=categories, levels=levels)
    first = vocabulary.profiles(_recoded(before, texts))
    second = vocabulary.profiles(_recoded(after, texts))
    empty = np.setdiff1d(np.arange(len(before.users)), before.users.search_sorted(after.users).to_numpy())
    return srp(first, _with_empty_rows(second, empty, len(first)), depths=classifier.tree.depths, levels=levels)


def members_by_owner(owners: pl.Series, released: QueryLog) -> pl.DataFrame:
    """Whose log each pseudonym's stands for, from the owners of records: any log that a user supplied a record to.

    The logs of a group are identical, so it does not matter which is found. A user who supplied nothing is missing.
    """
    pairs = pl.DataFrame([owners.alias("user"), released.frame["user"].alias("pseudonym")])
    return pairs.group_by("user").agg(pl.col("pseudonym").min()).sort("user")


def attribution(log: QueryLog, released: QueryLog, owners: pl.Series) -> Attribution:
    """Who supplied the published records; `owners` is the true user of each."""
    asked = log.frame.group_by("query").agg(pl.col("user").n_unique().alias("askers"))
    frame = released.frame.select("user", "query").with_columns(owners.alias("owner"))
    alone = frame.join(asked, on="query", how="left").select((pl.col("askers") == 1).fill_null(False).mean()).item()
    logs = frame.group_by("user").agg(
        pl.col("owner").unique_counts().max().truediv(pl.len()).alias("largest"), pl.col("query").n_unique()
    )
    mean, worst, texts = logs.select(
        pl.col("largest").mean(), pl.col("largest").max().alias("worst"), pl.col("query").mean()
    ).row(0)
    return Attribution(*(float("nan") if value is None else value for value in (alone, mean, worst, texts)))


def _recoded(log: CountedLog, texts: pl.Series) -> CountedLog:
    """The same log with its texts numbered within a larger list."""
    places = texts.search_sorted(log.texts).to_numpy().astype(np.int32)
    return CountedLog(log.users, texts, log.pair_users, places[log.pair_texts], log.pair_counts)


def _with_empty_rows(profiles: Profiles, empty: npt.NDArray[np.integer], rows: int) -> Profiles:
    lengths = np.zeros(rows, np.int64)
    lengths[np.setdiff1d(np.arange(rows), empty)] = np.diff(profiles.offsets)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Profiles(offsets, profiles.nodes, profiles.counts, profiles.node_count)


def _ratio(top: npt.NDArray[np.float64], bottom: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)


def _means(by_user: npt.NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(
        float(column[~np.isnan(column)].mean()) if not np.isnan(column).all() else float("nan") for column in by_user.T
    )
