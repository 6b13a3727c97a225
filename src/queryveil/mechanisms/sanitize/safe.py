"""Safe mode, end to end differentially private ("DP-UMP"): the sound successor of the paper's procedure.

1. *Contribution.* Each user keeps at most d distinct pairs, uniformly at random; how often they clicked does not count.
2. *Pairs* (0.8 ε, δ). People per pair, with noise and a threshold; see `selection.py` for the rule and the proof.
3. *Lengths* (0.1 ε). A histogram of how many published pairs a user has, with discrete Laplace noise of scale 10/ε.
4. *Topics* (0.1 ε). A table of which topics meet in one user, with the same noise.
5. The three objectives are post-processing of the noisy counts and cost nothing more: `size` publishes every pair as
   often as it has people, `frequent` the pairs with at least a given share, in proportion, `diversity` each pair once
   (then step 2 needs keys only). Synthetic users take them up; see `synthetic_users.py`.

Why the sum is (ε, δ)-DP: step 1 looks at each user alone, so adding a user to the log adds at most d entries of that
user to what the other steps see. Step 2 is (0.8 ε, δ)-DP. In steps 3 and 4 one user changes one cell by one, given what
step 2 published, so each is 0.1 ε-DP. Losses of steps run one after the other add up (adaptive composition). The
specification gives every step its share of δ; steps 3 and 4 are pure and need none, so step 2 has all of it.
Every published number comes from integer samplers.

Records are worked on block by block (`blocks.py`). All entries of a user share a block in steps 1, 3 and 4, and all
people of a pair in step 2, so every user's pairs are drawn once and every pair gets one noise. Blocks draw from streams
of their own, independent of each other: the argument does not depend on who is in which block, nor on their number.

Cost: a few sorts of the entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.errors import DataError
from queryveil.log import QueryLog
from queryveil.log.query_log import Table
from queryveil.mechanisms.sanitize import blocks, synthetic_users
from queryveil.mechanisms.sanitize.selection import Selection
from queryveil.privacy import Noise

Objective: TypeAlias = Literal["size", "frequent", "diversity"]

PAIRS_SHARE, LENGTHS_SHARE, TOPICS_SHARE = Fraction(8, 10), Fraction(1, 10), Fraction(1, 10)


@dataclass(frozen=True)
class Published:
    """All that safe mode lets out: everything else is computed from this."""

    pairs: pl.DataFrame
    people: Longs
    """The noisy number of people of each pair."""
    lengths: Longs
    """Noisy: how many users have 1, 2, … published pairs."""
    topic: Longs
    meetings: Longs
    """Noisy: which topics meet in one user."""


def rule(*, epsilon: float, delta: float, contribution: int, objective: Objective) -> Selection:
    """The selection that a release with these public parameters uses."""
    share = Fraction(epsilon) * PAIRS_SHARE
    below = float(share)
    below = below if Fraction(below) <= share else float(np.nextafter(below, 0.0))
    return Selection.best(epsilon=below, delta=delta, contribution=contribution, keys_only=objective == "diversity")


def publish(table: Table, noise: Noise, *, epsilon: float, contribution: int, selection: Selection) -> Published:
    """Steps 1 to 4, over a table with `user, query, url`: the only ones that see private data."""
    entries = blocks.contributions(table, noise, contribution)
    selected = blocks.people_of_pairs(entries, noise, selection)
    pairs, people = selected.drop("people"), selected["people"].to_numpy()
    topic = synthetic_users.topics_of(pairs, people) if pairs.height else np.zeros(0, dtype=np.int64)
    lengths, meetings = blocks.lengths_and_meetings(entries, pairs, topic, noise, contribution)
    scale = 1 / (Fraction(epsilon) * LENGTHS_SHARE)
    lengths = lengths + noise.stream("sanitize: lengths").discrete_laplace(scale, len(lengths))
    scale = 1 / (Fraction(epsilon) * TOPICS_SHARE)
    blur = noise.stream("sanitize: topics").discrete_laplace(scale, meetings.size)
    return Published(pairs, people, lengths, topic, meetings + blur.reshape(meetings.shape))


def copies_for(people: Longs, *, objective: Objective, support: float, size: int | None) -> Longs:
    """How often each published pair appears: the three objectives as post-processing."""
    if objective == "diversity":
        return np.minimum(people, 1)
    if objective == "size" or not len(people):
        return people.copy()
    frequent = people >= support * people.sum()
    if not frequent.any():
        raise DataError("no published pair has the wanted share of all of them. Lower support.")
    greatest = int(people.sum())
    wanted = int(people[frequent].sum()) if size is None else size
    if wanted > greatest:
        raise DataError(f"size must not be above the {greatest} that the noisy counts allow; got {size}. Lower size.")
    return synthetic_users.apportioned(np.where(frequent, people, 0), wanted)


def synthetic_log(published: Published, copies: Longs, noise: Noise) -> QueryLog:
    """The published pairs dealt out to synthetic users with fresh names; one row for each copy."""
    if not int(copies.sum()):
        return QueryLog.empty()
    dealt = synthetic_users.assemble(copies, published.topic, published.lengths, published.meetings, noise)
    names = noise.pseudonyms(pl.Series(np.arange(dealt.users)).cast(pl.String).str.zfill(12))["pseudonym"]
    return QueryLog(
        pl.DataFrame(
            {
                "user": names.gather(dealt.user),
                "query": published.pairs["query"].gather(dealt.pair),
                "url": published.pairs["url"].gather(dealt.pair),
            }
        )
    )
