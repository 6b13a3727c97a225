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
from typing import ClassVar

import polars as pl

from queryveil.audit.attacks.groups import logs_of
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Finding,
    Found,
    LeftOut,
    Question,
)
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
    logs = logs_of(released.frame.select("user", "query")).rename({"user": "pseudonym", "log": "group"})
    return members.select("user", "pseudonym").join(logs, on="pseudonym").select("user", "group")


class TwoReleases:
    """Who is left as a candidate after both releases."""

    key: ClassVar[str] = "two-releases"
    title: ClassVar[str] = "Candidates left after comparing two releases"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        title = self.title
        if context.other is None:
            reason = "needs a second release of the same people"
            yield LeftOut(title=title, reason=reason, by_settings=True)
            return
        others = None if context.other_secrets is None else context.known_people(context.other_secrets.receivers)
        if context.receivers is None or others is None:
            reason = "needs the secrets files of both releases"
            yield LeftOut(title=title, reason=reason, by_settings=True)
            return
        if context.declares("reassigns_records"):
            reason = "needs the pools records came out of, which only a live run shows"
            yield LeftOut(title=title, reason=reason, by_settings=True)
            return
        logs = (context.released, context.receivers), (context.other, others)
        seen = [groups_by_log(log, _members(log.frame["user"], people)) for log, people in logs]
        raw = groups_by_log(context.original, context.users.to_frame("user").with_columns(pseudonym="user"))
        both, alone = intersect(*seen), intersect(raw)
        k = context.promised_k("k-anonymity") if context.parameters.get("state") else None
        yield Finding(
            key="two-releases-smallest", title=title, kind="risk", topic="two releases", question="linkability",
            value=both.smallest, raw=alone.smallest, bound=k, trials=len(seen[0]), better="higher", unit="count",
            explanation="The fewest people who can be behind somebody's logs for an attacker who knows that person's "
            "log "
            "in each release, and where they are absent. Counted, not sampled.",
        )  # fmt: skip
        yield Finding(
            key="two-releases-singled-out", title="Singled out by comparing two releases", kind="risk",
            topic="two releases", question="singling out", value=both.singled_out, raw=alone.singled_out,
            bound=None if k is None else 0.0, trials=len(seen[0]), better="lower", unit="share",
            explanation="Share of people with nobody else left as a candidate. Counted, not sampled.",
        )  # fmt: skip


def _members(names: pl.Series, people: pl.Series) -> pl.DataFrame:
    pairs = pl.DataFrame([people.alias("user"), names.alias("pseudonym")]).drop_nulls()
    return pairs.group_by("user").agg(pl.col("pseudonym").min())
