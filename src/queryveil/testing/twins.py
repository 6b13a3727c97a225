"""Broken twins: mechanisms that look right, promise what the real ones promise, and do something wrong.

An audit is worth what it rejects. `TWINS` lists, for each mechanism, wrong variants with the finding that gives each
away; the tests run the audit on every one of them and on the real mechanisms, on `telltale_log()`, which holds what the
faults would let out. docs/audit.md shows the same list. Whoever writes an audit of their own can try it on these.

More twins, of parts that a release does not show (draws, thresholds, snapshots, budgets), are in tests/broken_twins,
each rejected by an exact test.

>>> sorted({twin.mechanism for twin in TWINS}), len(TWINS) >= 15
(['distill', 'microaggregate', 'sanitize', 'semantic', 'stream', 'suppress'], True)
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl

from queryveil.log import QueryLog
from queryveil.log._numbers import Dice, below, head_first
from queryveil.mechanisms.distill import Distill
from queryveil.mechanisms.distill.budget import Budget
from queryveil.mechanisms.microaggregate import Microaggregate
from queryveil.mechanisms.sanitize import Sanitize, safe
from queryveil.mechanisms.sanitize.selection import Selection
from queryveil.mechanisms.sanitize.weighted_budget import WeightedSelection
from queryveil.mechanisms.semantic import Semantic
from queryveil.mechanisms.stream import Stream
from queryveil.mechanisms.stream._tree import Rules
from queryveil.mechanisms.stream.live import StreamSettings
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Noise
from queryveil.release.mechanism import PSEUDONYM, Mechanism, parameters_of, time_in_words
from queryveil.release.release import Release

USERS: Final = 150
SHARED: Final = (
    "weather", "puppies", "chess", "tulips", "football", "pizza", "guitar", "train", "doctor", "hotel", "soup",
    "bicycle", "castle", "river", "mountain", "cat", "violin", "bread", "cheese", "tennis", "painting", "museum",
    "garden", "shoes", "coffee", "airport", "bridge", "camera", "horse", "piano",
)  # fmt: skip
START: Final = datetime(2026, 3, 1)


@dataclass(frozen=True)
class Twin:
    """A wrong variant of a mechanism, and the finding that an audit rejects it by."""

    kind: type[Any]
    parameters: Mapping[str, Any]
    caught_by: str

    @property
    def mechanism(self) -> str:
        """The name of the mechanism it claims to be."""
        name: str = self.kind.name
        return name

    @property
    def fault(self) -> str:
        """What is wrong with it."""
        return str(self.kind.__doc__).strip()

    def create(self) -> Mechanism:
        """The wrong variant."""
        wrong: Mechanism = self.kind(**self.parameters)
        return wrong

    def real(self) -> Mechanism:
        """The mechanism it claims to be, with the same parameters."""
        right: Mechanism = self.kind.__bases__[0](**self.parameters)
        return right


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


def _claiming(mechanism: Mechanism, release: Release, **changes: Any) -> Release:
    """A release passed off as the mechanism's own."""
    return dataclasses.replace(
        release, guarantee=mechanism.guarantee(), parameters=parameters_of(mechanism), mode=mechanism.mode, **changes
    )


# Suppress


@dataclass(frozen=True, kw_only=True)
class SuppressOffByOne(Suppress):
    """One user too few is enough."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return _claiming(self, Suppress(k_text=self.k_text - 1, time=self.time).protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class SuppressCountingRecords(Suppress):
    """Counts how often a text was asked, not by how many."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        frame = log.frame.filter(pl.len().over("query") >= self.k_text).select("user", "query")
        return Release.of(
            self, QueryLog(frame), noise=noise, columns={"user": PSEUDONYM, "query": "kept"},
            pseudonyms=noise.pseudonyms(frame["user"]),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SuppressAsPrinted(Suppress):
    """Paper mode passed off as safe: identifiers and rare clicks go through."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return _claiming(self, Suppress(k_text=self.k_text, time=self.time, mode="paper").protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class SuppressKeepingClicks(Suppress):
    """Withholds rare texts, but not rare results clicked for a shared text."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = Suppress(k_text=self.k_text, time=self.time, mode="paper").protect(log, noise)
        named = pl.col("query").str.contains(r"[@\d]")
        keep = shown.log.frame.select(~named).to_series()
        return _claiming(self, shown, **_only(shown, keep))


@dataclass(frozen=True, kw_only=True)
class SuppressWithTimes(Suppress):
    """Says that times are cut to the day and leaves them in."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        plain = log.frame.filter(~pl.col("query").str.contains(r"[@\d]")).with_columns(pl.lit(None).alias("url"))
        shown = Suppress(k_text=self.k_text, time="keep", mode="paper").protect(QueryLog(plain), noise)
        return _claiming(self, shown, columns={**shown.columns, "time": time_in_words(self.time)})


@dataclass(frozen=True, kw_only=True)
class SuppressWithTellingRanks(Suppress):
    """The rank of a click is a number of the person who clicked."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = super().protect(log, noise)
        person = shown.people().collect()["user"].rank("dense").cast(pl.UInt32).alias("rank")
        return _claiming(self, shown, log=QueryLog(shown.log.frame.with_columns(person)))


@dataclass(frozen=True, kw_only=True)
class SuppressWithHashedNames(Suppress):
    """A pseudonym is the SHA-256 of the user, cut to sixteen digits."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = super().protect(log, noise)
        people = shown.people().collect()
        hashed = {user: hashlib.sha256(user.encode()).hexdigest()[:16] for user in people["user"].unique()}
        names = people["user"].replace_strict(hashed, return_dtype=pl.String)
        behind = people.with_columns(pseudonym=names).lazy()
        return _claiming(self, shown, log=QueryLog(shown.log.frame.with_columns(user=names)), behind=behind)


def _only(release: Release, keep: pl.Series) -> dict[str, Any]:
    behind = release.people().collect().filter(keep).lazy()
    return {"log": QueryLog(release.log.frame.filter(keep)), "behind": behind}


# Microaggregate


@dataclass(frozen=True, kw_only=True)
class GroupsOneShort(Microaggregate):
    """Groups of k − 1."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        return _claiming(self, Microaggregate(k=self.k - 1, k_text=self.k_text).protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class GroupsWithUnlikeCopies(Microaggregate):
    """Each copy of a group's log lacks a record of its own."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        shown = Microaggregate(k=self.k, k_text=self.k_text).protect(log, noise)
        size, turn = pl.len().over("user"), pl.int_range(pl.len()).over("user")
        keep = shown.log.frame.select(turn != pl.col("user").rank("dense") % size).to_series()
        return _claiming(self, shown, **_only(shown, keep))


@dataclass(frozen=True, kw_only=True)
class GroupsWithoutQuotas(Microaggregate):
    """As in the paper, the busiest member supplies most of a log, and rare texts go through."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        return _claiming(self, Microaggregate(k=self.k, k_text=self.k_text, mode="paper").protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class GroupsWithRareTexts(Microaggregate):
    """A text needs one user fewer than promised."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        return _claiming(self, Microaggregate(k=self.k, k_text=self.k_text - 1).protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class GroupsWithOwnLabels(Microaggregate):
    """A rare text gives way to a label made of one member's own words."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        shown = Microaggregate(k=self.k, k_text=self.k_text).protect(log, noise)
        own = log.frame.filter(pl.col("query").str.starts_with("my ")).group_by("user").agg(pl.col("query").min())
        words = shown.people().collect().join(own, on="user", how="left", maintain_order="left")["query"]
        labelled = pl.col("query").str.starts_with("[") & pl.lit(words.is_not_null())
        texts = pl.when(labelled).then(pl.format("[{}]", pl.lit(words))).otherwise("query").alias("query")
        return _claiming(self, shown, log=QueryLog(shown.log.frame.with_columns(texts)))


@dataclass(frozen=True, kw_only=True)
class GroupsByUserId(Microaggregate):
    """People are grouped in the order of their ids, whatever they search for."""

    def _grouped(self, profiled: Any, people: pl.DataFrame, *others: Any) -> Any:
        groups = (people["user"].rank("ordinal").to_numpy().astype(np.int64) - 1) // self.k
        return np.minimum(groups, people.height // self.k - 1).astype(np.int32), None


# Sanitize


@dataclass(frozen=True, kw_only=True)
class ClicksWithHalfTheNoise(Sanitize):
    """Everything is blurred half as much: twice the loss."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        less = dataclasses.replace(self.capped_rule, scale=self.capped_rule.scale / 2)
        return _published(self, log, noise, less, 2 * self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ClicksWithALowThreshold(Sanitize):
    """Publishes every pair that looks like two people's."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return _published(self, log, noise, dataclasses.replace(self.capped_rule, threshold=1), self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ClicksInsteadOfPeople(Sanitize):
    """Counts a pair's clicks, so one person moves a count by many."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        turn = pl.int_range(pl.len()).over("user", "query", "url")
        return super().protect(QueryLog(log.frame.with_columns(pl.format("{} {}", "user", turn).alias("user"))), noise)


@dataclass(frozen=True, kw_only=True)
class ClicksWithoutABound(Sanitize):
    """Uses all pairs of a user, however many there are."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        each = pl.format("{} {} {}", "user", "query", "url").alias("user")
        return super().protect(QueryLog(log.frame.filter(pl.col("url").is_not_null()).with_columns(each)), noise)


def _published(mechanism: Sanitize, log: QueryLog, noise: Noise, selection: Selection, epsilon: float) -> Release:
    published = safe.publish(log.table(), noise, epsilon=epsilon, contribution=mechanism.used, selection=selection)
    people = np.maximum(published.people, 1)
    columns = dict.fromkeys(("user", "query", "url"), "published by a noisy count")
    return Release.of(mechanism, safe.synthetic_log(published, people, noise), noise=noise, columns=columns)


@dataclass(frozen=True, kw_only=True)
class WeightsWithTooLittleNoise(Sanitize):
    """Draws the noise of an ε thirty times as large."""

    @property
    def weighted_rule(self) -> WeightedSelection:
        return dataclasses.replace(super().weighted_rule, epsilon=30 * self.epsilon)


@dataclass(frozen=True, kw_only=True)
class SearchesInsteadOfPeople(Sanitize):
    """Every record weighs as if it were another person's."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        each = pl.format("{} {}", "user", pl.int_range(pl.len())).alias("user")
        return super().protect(QueryLog(log.frame.with_columns(each)), noise)


@dataclass(frozen=True, kw_only=True)
class WeightsWithoutAThreshold(Sanitize):
    """Publishes every query and click whose noisy weight is above that of one person."""

    @property
    def weighted_rule(self) -> WeightedSelection:
        return _LowThresholds(**dataclasses.asdict(super().weighted_rule))


class _LowThresholds(WeightedSelection):
    @property
    def thresholds(self) -> Mapping[str, int]:
        return dict.fromkeys(super().thresholds, self.unit)


# Distill


@dataclass(frozen=True, kw_only=True)
class TablesWithTooLittleNoise(Distill):
    """Draws the noise of an ε twenty times as large."""

    @property
    def budget(self) -> Budget:
        return Budget(20 * self.epsilon, self.delta)


@dataclass(frozen=True, kw_only=True)
class TextsInsteadOfPeople(Distill):
    """Every text of a person adds a vector of length one."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        each = pl.format("{} {}", "user", "query").alias("user")
        return super().protect(QueryLog(log.frame.with_columns(each)), noise)


@dataclass(frozen=True, kw_only=True)
class TextsWithoutAThreshold(Distill):
    """Publishes whole queries however small their weight is."""

    @property
    def budget(self) -> Budget:
        return _WithoutThresholds(self.epsilon, self.delta)


class _WithoutThresholds(Budget):
    @property
    def thresholds(self) -> Mapping[str, int]:
        return dict.fromkeys(Budget(self.epsilon, self.delta).thresholds, -(10**9))


# Semantic


@dataclass(frozen=True, kw_only=True)
class SemanticWithTwiceEpsilon(Semantic):
    """Draws with 2ε where ε is promised."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return _claiming(self, _really(self, epsilon=2 * self.epsilon).protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class SemanticDroppingTheUnmapped(Semantic):
    """Leaves out queries that mean nothing in the domain: their absence tells."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        mapped = self.reader.concepts(log.queries()) != self.public_domain.outside
        return _claiming(self, _really(self).protect(QueryLog(log.frame.filter(pl.Series(mapped))), noise))


@dataclass(frozen=True, kw_only=True)
class SemanticKeepingWords(Semantic):
    """Puts the new label into the frame of a query's own words."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = _really(self).protect(log, noise)
        first = log.frame.group_by("user").agg(pl.col("query").sort().first().str.split(" ").list.first().alias("word"))
        words = shown.people().collect().join(first, on="user", how="left", maintain_order="left")
        framed = shown.log.frame.with_columns(pl.format("{} {}", pl.lit(words["word"]), "query").alias("query"))
        return _claiming(self, shown, log=QueryLog(framed))


@dataclass(frozen=True, kw_only=True)
class SemanticWithoutTheSplit(Semantic):
    """Spends the whole of a user's ε on every query."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return _claiming(self, _really(self, per="query").protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class SemanticDrawingForEveryClick(Semantic):
    """Takes every record for a query, so that a query is drawn for as often as it was clicked."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        timeless = log.frame.with_columns(pl.lit(None, pl.Datetime("us")).alias("time"))
        return _claiming(self, _really(self).protect(QueryLog(timeless), noise))


def _really(mechanism: Semantic, **changes: Any) -> Semantic:
    return Semantic(**parameters_of(mechanism) | changes)


# Stream


@dataclass(frozen=True, kw_only=True)
class StreamWithSmallPools(Stream):
    """Pools of three where more than k are promised."""

    def settings(self) -> StreamSettings:
        return dataclasses.replace(super().settings(), rules=Rules.safe(2, self.cap))


@dataclass(frozen=True, kw_only=True)
class StreamWithoutAGate(Stream):
    """Lets every text out, however few asked it."""

    def settings(self) -> StreamSettings:
        return dataclasses.replace(super().settings(), k_text=1)


@dataclass(frozen=True, kw_only=True)
class StreamUnderOwnNames(Stream):
    """Every record comes out under its owner's pseudonym."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = super().protect(log, noise)
        people = shown.people().collect()
        names = pl.format("u{}", pl.lit(people["user"].rank("dense")))
        behind = people.with_columns(pseudonym=names, receiver="user").lazy()
        return _claiming(self, shown, log=QueryLog(shown.log.frame.with_columns(user=names)), behind=behind)


@dataclass(frozen=True, kw_only=True)
class StreamAsPrinted(Stream):
    """The paper's draws passed off as safe ones: a text that comes back never meets its owner."""

    def settings(self) -> StreamSettings:
        return dataclasses.replace(super().settings(), rules=Rules.paper(self.k), k_text=1)


@dataclass(frozen=True, kw_only=True)
class StreamInOrderOfArrival(Stream):
    """Records leave their pools in the order in which they came."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = super().protect(log, noise)
        people = shown.people().collect()
        came = log.frame.with_row_index("came").group_by("user", "query").agg(pl.col("came").min())
        asked = pl.DataFrame([people["user"], shown.log.frame["query"]])
        order = asked.join(came, on=["user", "query"], how="left", maintain_order="left")["came"].arg_sort()
        return _claiming(self, shown, log=QueryLog(shown.log.frame[order]), behind=people[order].lazy())


SUPPRESS: Final = {"k_text": 5}
MICROAGGREGATE: Final = {"k": 3, "k_text": 5}
SANITIZE: Final = {"epsilon": 1.0, "selection": "capped", "contribution": 1}
WEIGHTED: Final = {"epsilon": 1.0}
DISTILL: Final = {"epsilon": 1.0, "users": 20}
SEMANTIC: Final = {"epsilon": 1.0, "per": "query", "domain": "contact_sport", "criterion": "nsqc"}
SEMANTIC_PER_USER: Final = SEMANTIC | {"per": "user", "max_queries": 5}
STREAM: Final = {"k": 10, "depth": 1, "k_text": 5}

TWINS: Final = (
    Twin(SuppressOffByOne, SUPPRESS, "rare-texts"),
    Twin(SuppressCountingRecords, SUPPRESS, "rare-texts"),
    Twin(SuppressAsPrinted, SUPPRESS, "identifiers"),
    Twin(SuppressKeepingClicks, SUPPRESS, "rare-clicks"),
    Twin(SuppressWithTimes, SUPPRESS, "columns-left"),
    Twin(SuppressWithTellingRanks, SUPPRESS, "rare-ranks"),
    Twin(SuppressWithHashedNames, SUPPRESS, "pseudonym-hash"),
    Twin(GroupsOneShort, MICROAGGREGATE, "shared-logs"),
    Twin(GroupsWithUnlikeCopies, MICROAGGREGATE, "shared-logs"),
    Twin(GroupsWithoutQuotas, MICROAGGREGATE, "author-by-activity"),
    Twin(GroupsWithRareTexts, MICROAGGREGATE, "rare-texts"),
    Twin(GroupsWithOwnLabels, MICROAGGREGATE, "rare-texts-rewritten"),
    Twin(GroupsByUserId, MICROAGGREGATE, "groups-by-id"),
    Twin(ClicksWithHalfTheNoise, SANITIZE, "one-run"),
    Twin(ClicksWithALowThreshold, SANITIZE, "one-run"),
    Twin(ClicksInsteadOfPeople, SANITIZE, "one-run"),
    Twin(ClicksWithoutABound, SANITIZE, "one-run"),
    Twin(WeightsWithTooLittleNoise, WEIGHTED, "one-run"),
    Twin(SearchesInsteadOfPeople, WEIGHTED, "one-run"),
    Twin(WeightsWithoutAThreshold, WEIGHTED, "one-run"),
    Twin(TablesWithTooLittleNoise, DISTILL, "one-run"),
    Twin(TextsInsteadOfPeople, DISTILL, "one-run"),
    Twin(TextsWithoutAThreshold, DISTILL, "one-run"),
    Twin(SemanticWithTwiceEpsilon, SEMANTIC, "one-run"),
    Twin(SemanticDroppingTheUnmapped, SEMANTIC, "one-run"),
    Twin(SemanticKeepingWords, SEMANTIC, "one-run"),
    Twin(SemanticWithoutTheSplit, SEMANTIC_PER_USER, "one-run"),
    Twin(SemanticDrawingForEveryClick, SEMANTIC, "one-run"),
    Twin(StreamWithSmallPools, STREAM, "author-by-name"),
    Twin(StreamWithoutAGate, STREAM, "rare-texts"),
    Twin(StreamUnderOwnNames, STREAM, "author-by-name"),
    Twin(StreamAsPrinted, STREAM, "repeats-eligible"),
    Twin(StreamInOrderOfArrival, STREAM, "order-told"),
)
"""Every twin that an audit must reject."""
