"""k users share one log, chosen by what they search for.

Erola, Castellà-Roca, Navarro-Arribas and Torra (2011), "Semantic microaggregation for the anonymization of query logs
using the Open Directory Project". Each user is described by how often each category of a directory occurs among the
terms of their queries, at several depths (`profiles`); the most similar users are grouped, k at a time (`partition`);
and each group gets one log, made of records of all its members, that replaces the log of each of them (`aggregation`).

Departs from the paper. Corrected in both modes: the union in equation 1, the loop's condition in Algorithm 3, the
diagonal in Algorithm 4 (see `partition`). In safe mode also: users left over join a group, not lost; no user
supplies more than 1/k of a log, nor more of a text than they asked; rare texts give way to labels of categories, and
identifying ones to nothing; ties are broken at random. `state` keeps groups from release to release, and who has to
wait does not count for `k_text`. Times, ranks and URLs are dropped in both modes: a shared log has none.

Up to 20,000 users the search is exact, beyond it works in blocks. Records are worked on block by block, wherever they
lie. One machine, the driver, sees a row for each user (name, sizes, group, pseudonym), up to `k_text` users of each
category's label, and profiles of up to 20,000 users or of those whom the search in blocks leaves over: never a text.
Cost: see the parts.

>>> log = QueryLog.of([(user, text) for user in "abcdef" for text in ("weather", "puppies" if user < "d" else "chess")])
>>> release = Microaggregate(k=3, k_text=2, levels=2, categories="1").protect(log, Noise.seeded(1))
>>> sorted(release.log.frame.group_by("user").agg(pl.col("query").sort().str.join(" "))["query"])[::3]
['chess chess weather', 'puppies weather weather']
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl

from queryveil.arrays import Ints, Longs
from queryveil.checks import one_of, require, whole_number
from queryveil.knowledge.categories import WORDNET, load_classifier
from queryveil.log import QueryLog
from queryveil.log.query_log import Schema, Table
from queryveil.mechanisms.microaggregate import aggregation
from queryveil.mechanisms.microaggregate.aggregation import MEMBERS, QUOTA, RECORDS
from queryveil.mechanisms.microaggregate.grouping import (
    GROUP,
    PROFILED,
    SIZE,
    TOTAL,
    Chosen,
    Profiling,
    people_of,
    search,
)
from queryveil.mechanisms.microaggregate.profiles import TextReading
from queryveil.mechanisms.microaggregate.publishable import ASKED, PAIRS, Counting, Judging, Labels, in_brackets
from queryveil.mechanisms.microaggregate.state import NO_GROUP, FrozenGroups
from queryveil.privacy import Charge, Guarantee, KAnonymity, Noise
from queryveil.privacy.guarantee import (
    COMES_AND_GOES,
    COMPARED_RELEASES,
    COMPARISON,
    KNOWN_PAST,
    ONE_ID_ONE_PERSON,
    PLANTED_ACCOUNTS,
    TRUSTED_HOLDER,
)
from queryveil.release.mechanism import MODES, PSEUDONYM, Mode
from queryveil.release.release import Release

ALL = "all"
MOST_CATEGORIES = 50
DEEPEST_LEVEL = 16
NAMES: Schema = {"user": pl.String()}


@dataclass(frozen=True)
class GroupedRelease(Release):
    """A release that knows, for its holder, who is in which group."""

    members: pl.DataFrame | None = field(default=None, repr=False)
    """`user`, `pseudonym`, `group` of everybody in the release; never leaves with it."""


@dataclass(frozen=True, kw_only=True)
class Microaggregate:
    """Give each group of at least `k` users with like interests one common log."""

    name: ClassVar[str] = "microaggregate"
    title: ClassVar[str] = "Group people alike"
    summary: ClassVar[str] = "People with like interests share one published log."
    sweep: ClassVar = {"k": [3, 10, 30]}
    effort: ClassVar[float] = 2.0
    text_parameters: ClassVar = ("categories",)
    citation: ClassVar[str] = """@article{erola2011semantic,
  author  = {Arnau Erola and Jordi Castell{\\`a}-Roca and Guillermo Navarro-Arribas and Vicen{\\c{c}} Torra},
  title   = {Semantic microaggregation for the anonymization of query logs using the open directory project},
  journal = {SORT: Statistics and Operations Research Transactions},
  year    = {2011}
}"""
    withholds_rare_texts: ClassVar[tuple[Mode, ...]] = ("safe",)

    k: int = field(
        default=3,
        metadata={"help": "how many users at least share each published log", "label": "people who share a log",
                  "shown": "logs shared by at least {} people"},
    )  # fmt: skip
    levels: int = field(default=5, metadata={"help": "how deep categories are compared"})
    categories: str = field(default="5", metadata={"help": "how many categories of each term count: a number, or all"})
    classifier: str = field(
        default=WORDNET, metadata={"help": "what terms mean: wordnet, or the path of an imported Open Directory index"}
    )
    k_text: int = field(
        default=5,
        metadata={"help": "publish a text only if this many different users issued it",
                  "label": "people behind each text", "shown": "texts of at least {} people"},
    )  # fmt: skip
    state: str | None = field(
        default=None,
        metadata={"help": "secret file that keeps groups the same from release to release (a dry run leaves it alone)"},
    )
    mode: Mode = "safe"

    def __post_init__(self) -> None:
        given: object = self.categories
        if isinstance(given, int) and not isinstance(given, bool):  # who writes Python means the number
            object.__setattr__(self, "categories", str(given))
        require(
            whole_number("k", self.k, at_least=2, at_most=10**6, suggest=3),
            whole_number("levels", self.levels, at_least=1, at_most=DEEPEST_LEVEL, suggest=5),
            _number_or_all("categories", self.categories),
            _text("classifier", self.classifier, suggest=WORDNET),
            whole_number("k_text", self.k_text, at_least=2, at_most=10**9, suggest=5),
            None if self.state is None else _text("state", self.state, suggest="groups.json"),
            one_of("mode", self.mode, MODES, suggest="safe"),
        )

    def guarantee(self) -> Guarantee:
        """Every published log is shared; who wrote a record of it is another matter, and the statement says so."""
        safe = self.mode == "safe"
        counted = " whose logs are published with it" if self.state and safe else ""
        compared = (
            (
                f"{COMPARISON} made without this state, or after both it and the key folder were put back to older "
                "copies",
                COMES_AND_GOES,
            )
            if self.state
            else COMPARED_RELEASES
        )
        return KAnonymity(
            k=self.k,
            relation="users of one group exchanged",
            detail=f"Every published log is shared verbatim by a group of at least k = {self.k} pseudonymous users, so "
            "a member cannot be singled out by the published log itself with probability above "
            f"1/{self.k}. This does not bound who wrote a given query: "
            + (
                f"each member supplies at most 1/{self.k} of the group's log."
                if safe
                else "the largest contributor may supply nearly all of the group's log."
            )
            + f" Texts by fewer than {self.k_text} users{counted}: "
            + (
                f"withheld, or replaced by the label of a category that has such texts of {self.k_text} users."
                if safe
                else "published."
            ),
            assumptions=(ONE_ID_ONE_PERSON, TRUSTED_HOLDER),
            not_protected=(
                KNOWN_PAST,
                PLANTED_ACCOUNTS,
                "background knowledge of texts",
                "what a group's members have in common (homogeneity)",
                *compared,
                "how active a group is: the length of its log follows its members' mean number of records"
                + (", or the number its least active ones have" if safe else ""),
                "that many copies of a text come from one member who asks little else",
                *(
                    [f"texts and labels that somebody with {self.k_text - 1} accounts brings out by typing them"]
                    if safe
                    else []
                ),
            ),
        )

    def charge(self) -> Charge:
        """No loss that adds up."""
        return Charge.nothing()

    def labels(self) -> pl.Series:
        """Every label that may stand in place of a rare text: the classifier's categories."""
        names = load_classifier(self.classifier).tree.names
        return pl.Series([in_brackets(names[node]) for node in range(len(names))], dtype=pl.String).unique()

    @property
    def on_cluster(self) -> bool:
        """Whether the work is done in blocks of records wherever they lie: always."""
        return True

    def protect(self, log: QueryLog, noise: Noise) -> GroupedRelease:
        """Group the users and give each group one log; with a state the groups are kept before this returns."""
        safe = self.mode == "safe"
        frozen = FrozenGroups.read(Path(self.state), self.k, log.similar_ids) if self.state else None
        limit = MOST_CATEGORIES if self.categories == ALL else int(self.categories)
        reading = TextReading.of(self.classifier, categories=limit, levels=self.levels)
        table = log.table().map_rows(Chosen(tuple(ASKED)), ASKED)
        if not safe:
            pairs = table.map_blocks("user", Counting(reading), PAIRS).kept()
            judged = Judged.of(pairs, Labels(reading))
        elif frozen is None:
            judged = judge_among(table, reading, self.k_text)
        else:
            judged = judge_among_published(table, reading, self.k_text, frozen)
        pairs, labels, profiled, people = judged.pairs, judged.labels, judged.profiled, judged.people
        numbering = noise.stream("microaggregate: order of users").permutation(people.height)
        groups, frozen = self._grouped(profiled, people, numbering, len(reading.classifier.tree), frozen)
        members = self._members(people, groups, numbering, noise)
        logs = aggregation.shared_logs(pairs, labels, members, safe, noise)
        del judged, pairs, profiled  # larger than the release, which is sorted next
        columns = {"user": PSEUDONYM, "query": f"a log of its group of at least {self.k} users in place of each user's"}
        release = self._completed(GroupedRelease.of_table(self, logs, noise=noise, columns=columns), members)
        if frozen is not None:
            frozen.save()  # last, when nothing can fail any more, and before anybody sees the release
        return release

    def _grouped(
        self, profiled: Table, people: pl.DataFrame, numbering: Longs, node_count: int, frozen: FrozenGroups | None
    ) -> tuple[Ints, FrozenGroups | None]:
        """The group of each user, −1 for those who have to wait; and the state with the new groups."""
        groups = np.full(people.height, NO_GROUP, np.int32)
        new = np.ones(people.height, np.bool_)
        made = 0
        if frozen is not None:
            placed, sizes = frozen.place(people["user"])
            present = np.bincount(placed[placed >= 0], minlength=len(sizes))
            whole = np.append(present == sizes, False)  # the last entry stands for −1
            groups = np.where(whole[placed], placed, NO_GROUP).astype(np.int32)
            new = placed == NO_GROUP
            made = len(sizes)
        newcomers = np.flatnonzero(new) if self.mode == "paper" else numbering[new[numbering]]
        users, totals = people["user"].gather(newcomers), people[TOTAL].to_numpy()[newcomers]
        found = search(profiled, users, totals, self.k, node_count=node_count, join=self.mode == "safe")
        groups[newcomers] = np.where(found >= 0, found + made, NO_GROUP)
        if frozen is not None:
            frozen = frozen.adding(people["user"], np.where(new, groups, NO_GROUP).astype(np.int32))
        return groups, frozen

    def _members(self, people: pl.DataFrame, groups: Ints, numbering: Longs, noise: Noise) -> pl.DataFrame:
        """Everybody in a group: name, pseudonym, group, and what decides how much of the log is theirs."""
        if self.mode == "paper":
            decides = [pl.col(SIZE).sum().over(GROUP).alias(RECORDS), pl.len().over(GROUP).alias(MEMBERS)]
        else:
            quotas = aggregation.group_quotas(groups, people[SIZE].to_numpy(), numbering, self.k)
            decides = [pl.lit(pl.Series(QUOTA, quotas))]
        members = people.with_columns(pl.Series(GROUP, groups)).select("user", GROUP, *decides)
        members = members.filter(pl.col(GROUP) != NO_GROUP)
        return members.join(noise.pseudonyms(members["user"]), on="user")

    def _completed(self, release: Release, members: pl.DataFrame) -> GroupedRelease:
        """The release with its members; its parameters name the classifier by content and no path of this machine."""
        assert isinstance(release, GroupedRelease)
        classifier = load_classifier(self.classifier)
        parameters = {**release.parameters, "classifier": classifier.name, "classifier_digest": classifier.digest}
        parameters["state"] = "groups are kept" if self.state else None
        known = members.select("user", "pseudonym", pl.col(GROUP).alias("group")).sort("pseudonym")
        return dataclasses.replace(release, parameters=parameters, members=known)


@dataclass(frozen=True)
class Judged:
    """What may be published of whom."""

    pairs: Table
    labels: Labels
    profiled: Table
    people: pl.DataFrame
    """Everybody who has anything that may be published."""

    @classmethod
    def of(cls, pairs: Table, labels: Labels) -> Judged:
        """Profile the people of judged pairs."""
        profiled = pairs.map_blocks("user", Profiling(labels), PROFILED).kept()
        return cls(pairs, labels, profiled, people_of(profiled))


def judge_among(table: Table, reading: TextReading, k_text: int, users: pl.Series | None = None) -> Judged:
    """Judge the texts by all users of the table, or by these users alone, as if nobody else were there."""
    if users is not None:
        table = table.map_rows(Chosen(tuple(ASKED), users.to_frame("user")), ASKED)
    pairs = table.map_blocks("query", Judging(reading, k_text), PAIRS).kept()
    return Judged.of(pairs, Labels.of(pairs, reading, k_text))


def judge_among_published(table: Table, reading: TextReading, k_text: int, frozen: FrozenGroups) -> Judged:
    """Judge the texts by those alone whose group is published.

    With a state some people wait: new ones who are fewer than k, and members of a kept group that is not whole. Their
    records are not published, and so they must not decide what is: else a text that four members ask and that appears
    in the release after a newcomer came would tell that the newcomer asked it. So only people count whose group is
    published. That goes in rounds, because whose group is published depends in turn on who has anything to publish:
    those whom a round leaves without a whole group do not count in the next, until everybody who counts is published.
    Where the new people fall out that way, the rounds begin anew without them, so that nothing at all depends on what
    they asked.

    Cost: a judgement of all texts for each round, of which there is one where nobody waits for want of publishable
    texts.
    """
    present = table.map_blocks("user", names, NAMES).collect()["user"].sort()  # one row for each user
    able = frozen.able(present)
    judged = _judge_until_settled(table, reading, k_text, frozen, able)
    if frozen.has_new(able) and not frozen.has_new(judged.people["user"]):
        judged = _judge_until_settled(table, reading, k_text, frozen, frozen.able(frozen.known(present)))
    return judged


def names(block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Who is in a block of users."""
    return rows.select(pl.col("user").unique())


def _judge_until_settled(
    table: Table, reading: TextReading, k_text: int, frozen: FrozenGroups, able: pl.Series
) -> Judged:
    """Judge among these users until those who count are those whose group is published; they get ever fewer."""
    while True:
        judged = judge_among(table, reading, k_text, able)
        able = frozen.able(judged.people["user"])
        if len(able) == judged.people.height:
            return judged


def _number_or_all(name: str, value: object) -> str | None:
    good = isinstance(value, str) and (
        value == ALL or (value.isascii() and value.isdigit() and len(value) <= 9 and 1 <= int(value) <= MOST_CATEGORIES)
    )
    if good:
        return None
    shown = value if isinstance(value, str) else str(value)
    return one_of(name, shown, [f"1 … {MOST_CATEGORIES}", ALL], suggest="5")


def _text(name: str, value: object, *, suggest: str) -> str | None:
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return None
    return one_of(name, value, ["a name or path"], suggest=suggest)
