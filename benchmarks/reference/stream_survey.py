"""The surveyor of a stream release: what the paper reports about a run, in one place.

Pàmies-Estrems and Garcia-Alfaro (2023), section 5: share released, final |Q|, utility loss, delay, users left at each
level, and the Kolmogorov–Smirnov test of matched shares against 1/k. That test, on eleven points a side, cannot reject
unless its D reaches 7/11, so `binomial_verdict` says instead, for each k, whether the matched share is below 1/k beyond
chance.

Two utility losses stand side by side. `StreamSurvey.loss` is the honest one: the categories of a user's own queries
against those of the queries released under the user's name, whole paths, over the distance through the root.
`published_loss` is what the paper's figure 9 shows, as far as the published numbers tell (the surveyor is not public):
steps inside the first ℓ levels are not counted, as if every query stayed in its category of level ℓ, and the worst case
of a query is the way up to the root and down to the deepest level there is. Then the loss falls with ℓ, to nothing at
the deepest level, and does not depend on k nor on what was released; see docs/stream.md.

>>> test = kolmogorov_smirnov([i / 11 for i in range(11)], [(i + 2) / 11 for i in range(11)])
>>> round(test.distance, 4), round(test.exact, 7)
(0.1818, 0.9970968)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from queryveil.audit.attacks.released_stream import ReleasedStream
from queryveil.audit.finding import Success
from queryveil.audit.measures.tree_distance import CategoryLoss, category_loss
from queryveil.mechanisms.stream import Emissions

DEEPEST_PUBLISHED = 13
"""Levels of the paper's category tree."""


@dataclass(frozen=True)
class StreamSurvey:
    """What a run of the stream mechanism kept, and what it cost."""

    arrived: int
    released: int
    final_size: float
    """Mean |Q| of the vertex a query left, before it left: the paper's final |Q|."""
    pool_users: float
    """Mean number of distinct users in the pool a query left."""
    smallest_pool: int
    smallest_owners: int
    """The fewest distinct owners in any pool a query left; 0 in paper mode, which does not count them."""
    delay: float
    delay_median: float
    delay_99: float
    loss: CategoryLoss

    @property
    def released_share(self) -> float:
        """Released of all that arrived."""
        return self.released / self.arrived if self.arrived else 0.0


def survey(parts: Sequence[Emissions], arrived: int, stream: ReleasedStream | None = None) -> StreamSurvey:
    """Survey what a live stream released out of `arrived` records."""
    parts = [part for part in parts if len(part)]
    stream = ReleasedStream.of(parts) if stream is None else stream
    loss = category_loss(
        stream.owners,
        stream.categories,
        stream.receivers,
        stream.categories,
        parents=stream.parents,
        depths=stream.depths,
    )
    if not parts:
        return StreamSurvey(arrived, 0, 0.0, 0.0, 0, 0, 0.0, 0.0, 0.0, loss)
    sizes, pools, owners, delays = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("records", "pool_users", "pool_owners", "delays")
    )
    return StreamSurvey(
        arrived=arrived,
        released=len(stream),
        final_size=float(sizes.mean()),
        pool_users=float(pools.mean()),
        smallest_pool=int(pools.min()),
        smallest_owners=int(owners.min()),
        delay=float(delays.mean()),
        delay_median=float(np.median(delays)),
        delay_99=float(np.quantile(delays, 0.99)),
        loss=loss,
    )


def published_loss(stream: ReleasedStream, depth: int, deepest: int = DEEPEST_PUBLISHED) -> CategoryLoss:
    """The utility loss in the paper's sense for a run at depth ℓ; not what the release is worth, see above."""
    below = category_loss(
        stream.owners,
        stream.categories,
        stream.receivers,
        stream.categories,
        parents=np.where(stream.depths <= depth + 1, 0, stream.parents),
        depths=np.maximum(stream.depths - depth, 0),
    )
    worst = int(stream.depths[stream.categories].sum()) + deepest * len(stream)
    return CategoryLoss(below.total, worst, below.users, below.records)


@dataclass(frozen=True)
class KolmogorovSmirnov:
    """A two-sample test: the largest distance of the distribution functions and its two p-values."""

    distance: float
    exact: float
    asymptotic: float


def kolmogorov_smirnov(first: Sequence[float], second: Sequence[float]) -> KolmogorovSmirnov:
    """The test as the paper used it, on two short lists of numbers."""
    exact = stats.ks_2samp(first, second, method="exact")
    asymptotic = stats.ks_2samp(first, second, method="asymp")
    return KolmogorovSmirnov(float(exact.statistic), float(exact.pvalue), float(asymptotic.pvalue))


def binomial_verdict(success: Success, k: int) -> str:
    """`below`, `above` or `open`: where a matched share lies against 1/k, beyond chance at 95 % each way.

    `not measured` where the attack had nothing to try.
    """
    if not success.measured:
        return "not measured"
    if success.at_most <= 1 / k:
        return "below"
    return "above" if success.at_least > 1 / k else "open"
