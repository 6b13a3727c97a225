"""What comparing releases tells: of all people, who can still be the one behind a person's logs?

An attacker who finds a person's group in each of several releases (by a few known queries, say) and knows in which of
them the person is, keeps those who share a group with the person in every release where the person is, and are absent
where the person is absent. Where groups are formed anew each time that is soon the person alone; where groups stay the
same it is the whole group, for ever.

>>> spring = pl.DataFrame({"user": ["a", "b", "c", "d"], "group": [1, 1, 2, 2]})
>>> summer = pl.DataFrame({"user": ["a", "b", "c", "d"], "group": [1, 2, 1, 2]})
>>> candidates(spring, spring)["candidates"].to_list(), candidates(spring, summer)["candidates"].to_list()
([2, 2, 2, 2], [1, 1, 1, 1])
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import polars as pl

from queryveil.log import QueryLog


@dataclass(frozen=True)
class Intersection:
    """How many candidates are left, over everybody who is in at least one release."""

    smallest: int
    mean: float
    singled_out: float
    """The share of people with one candidate: themselves."""


def candidates(*releases: pl.DataFrame) -> pl.DataFrame:
    """`user`, `candidates` from the groups of each release (columns `user`, `group`; a user once in each)."""
    renamed = [one.select("user", pl.col("group").alias(f"group {number}")) for number, one in enumerate(releases)]
    seen = reduce(lambda left, right: left.join(right, on="user", how="full", coalesce=True), renamed)
    where = [column for column in seen.columns if column != "user"]  # null: absent, which the attacker knows as well
    return seen.select("user", pl.len().over(where).alias("candidates")).sort("user")


def intersect(*releases: pl.DataFrame) -> Intersection:
    """The attack over all releases, summed up."""
    left = candidates(*releases)["candidates"].to_numpy()
    if not len(left):
        return Intersection(0, float("nan"), float("nan"))
    return Intersection(int(left.min()), float(left.mean()), float((left == 1).mean()))


def groups_by_log(released: QueryLog, members: pl.DataFrame) -> pl.DataFrame:
    """The groups an attacker sees: people whose published logs are the same. `members` has `user`, `pseudonym`."""
    logs = released.frame.group_by("user").agg(pl.col("query").sort().str.join("\0")).rename({"user": "pseudonym"})
    return members.select("user", "pseudonym").join(logs, on="pseudonym").select("user", pl.col("query").alias("group"))
