"""Sybils: what becomes of a promise of a crowd when most of the crowd is one attacker's.

Every promise of k people assumes that an id is a person. Here somebody opens accounts for each of some victims and has
every account ask half of what the victim asked, at the same moments, so that whoever groups or pools people by what
they ask puts them together. The mechanism is run again on a log of some hundred people with those accounts planted:

- where people share a log, a victim is *alone* if nobody else honest shares it: the group is the attacker's, and what
  is in the log that the accounts did not ask is the victim's;
- where records come out of pools, a record is if everybody else in its pool is planted.

A scenario: it needs accounts in the log before it is released, so it is told beside the other attacks and does not
count as what a recipient gets. Nothing of it is released.

Cost: one run of the mechanism on at most `PEOPLE` people and their sybils.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import polars as pl

from queryveil.audit.attacks.groups import group_of_records
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import CANNOT_BE_MADE_AGAIN, Found, LeftOut, Question, Success, risk
from queryveil.errors import QueryVeilError
from queryveil.log import QueryLog
from queryveil.privacy.noise import NoiseStream

PEOPLE = 400
VICTIMS = 120
RECORDS_EACH = 40
SCENARIO = "somebody plants accounts that copy a victim's queries"


class Sybils:
    """Accounts that copy a victim's queries."""

    key: ClassVar[str] = "sybils"
    title: ClassVar[str] = "Alone among planted accounts"
    question: ClassVar[Question] = "singling out"
    counts_toward_risk: ClassVar[bool] = False
    is_scenario: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        k = context.promised_k("k-anonymity", "probabilistic-k-anonymity")
        if k is None or not context.safe:
            return
        try:
            mechanism: Any = context.made_again()
        except QueryVeilError:
            yield LeftOut(title=self.title, reason=CANNOT_BE_MADE_AGAIN, by_settings=True)
            return
        if context.parameters.get("state"):
            yield LeftOut(title=self.title, reason="groups that are kept are not touched to try this", by_settings=True)
            return
        noise = context.fresh_noise()
        pooled = context.declares("pools")
        sybils = k if pooled else k - 1
        log, victims = planted(context.original.frame, sybils, noise.stream("attack: victims"))
        if not len(victims):
            yield LeftOut(title=self.title, reason="the log has too few people to plant accounts among")
            return
        found = _alone_in_pools(mechanism, log, noise) if pooled else _alone_in_groups(mechanism, log, victims, noise)
        where = "records of victims that leave a pool in which everybody else is planted" if pooled else (
            "victims whose published log nobody honest shares")  # fmt: skip
        if found.measured:
            yield risk(
                "sybils", f"Alone among {sybils} planted accounts", "scenario: planted accounts", self.question, found,
                f"Share of {where}, if {sybils} accounts for each victim ask half of what the victim asks. Tried on a "
                f"run made again with at most {PEOPLE} people of the log.",
                raw=1.0, population="victims' records" if pooled else "victims", scenario=SCENARIO,
            )  # fmt: skip


def planted(frame: pl.DataFrame, sybils: int, stream: NoiseStream) -> tuple[QueryLog, pl.Series]:
    """Some people of a log with accounts planted for some of them, named after them; and the victims."""
    people = frame["user"].unique().sort()
    some = people.gather(stream.permutation(len(people))[:PEOPLE])
    honest = frame.drop("rank", "url", "session").filter(pl.col("user").is_in(some.implode()))
    honest = honest.filter(pl.int_range(pl.len()).over("user") < RECORDS_EACH).with_row_index("place")
    victims = some.gather(stream.permutation(len(some))[: min(VICTIMS, len(some) // 3)]).alias("user")
    theirs = honest.filter(pl.col("user").is_in(victims.implode()))
    copies = theirs.join(pl.DataFrame({"number": np.arange(sybils)}), how="cross")
    half = pl.Series(stream.below(2, copies.height).astype(bool)) if copies.height else pl.Series([], dtype=pl.Boolean)
    account = pl.concat_str("user", pl.lit(" and sybil "), "number").alias("user")
    accounts = copies.filter(half).rechunk().with_columns(account).select(honest.columns)
    together = pl.concat([honest, accounts])
    return QueryLog(together.sort("place", maintain_order=True).drop("place")), victims


def _is_sybil(names: pl.Series) -> pl.Series:
    return names.str.contains(r" and sybil \d+$")


def _victim(names: pl.Series) -> pl.Series:
    return names.str.replace(r" and sybil \d+$", "")


def _alone_in_groups(mechanism: Any, log: QueryLog, victims: pl.Series, noise: Any) -> Success:
    """Victims whose group (the same published log) holds nobody else honest."""
    release = mechanism.protect(log, noise)
    if release.receivers is None:
        return Success(0, 0)
    group = pl.Series("group", group_of_records(release.log.frame))
    behind = pl.DataFrame([release.receivers.alias("person"), group]).unique()
    groups = behind.filter(~_is_sybil(behind["person"]))
    honest = groups.group_by("group").agg(pl.col("person").n_unique().alias("honest"))
    judged = groups.join(honest, on="group").filter(pl.col("person").is_in(victims.implode()))
    return Success(int((judged["honest"] == 1).sum()), judged.height)


def _alone_in_pools(mechanism: Any, log: QueryLog, noise: Any) -> Success:
    """Records of victims whose pool holds nobody else but the victim's sybils."""
    pools = mechanism.pools(log, noise)
    sizes = np.diff(pools.starts)
    sybil = _is_sybil(pools.members)
    members = pl.DataFrame({"record": np.repeat(np.arange(len(sizes)), sizes), "honest": ~sybil})
    honest = members.group_by("record").agg(pl.col("honest").sum()).sort("record")["honest"]
    crowds = pl.DataFrame([honest, pools.owners.alias("owner")])
    copied = _victim(pools.members.filter(sybil)).unique()
    judged = crowds.filter(pl.col("owner").is_in(copied.implode()))
    return Success(int((judged["honest"] == 1).sum()), judged.height)
