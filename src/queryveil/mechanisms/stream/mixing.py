"""Release a stream of queries under other people's names, drawn from pools of people with like interests.

Pàmies-Estrems and Garcia-Alfaro (2023), "On the self-adjustment of privacy safeguards for query log streams": each
record joins its category in a tree. When more than k distinct users wait in the category, or else in the deepest branch
above it that holds so many, a waiting query leaves under the name of another waiting user. Nothing is written to disk
and nothing is recomputed: the tree only holds what waits.

`mode="paper"` is their Algorithm 1 as their program runs it (more than k, draws over entries, the root is never a
branch, up to two emissions an arrival), but labels each query with its own category; `base=True` is their predecessor,
without the branch step. Its promise does not hold: a pool may have one owner only, busy users own most of it, and a
text that comes back never meets its owner.

`mode="safe"` (the default) corrects that: more than k distinct *owners* as well as users; owner and receiver drawn
uniformly over distinct people, the owner allowed as receiver; at most `cap` waiting records per user and category;
texts wait outside until `k_text` distinct users issued them among the last `window` records; what leaves the pools is
shuffled within windows of `mix` arrivals; the time is that of the release, cut, not the owner's; records are not
numbered, identifying texts, clicked URLs and ranks are withheld; what is left at the end of an epoch is suppressed.

The promise is for one record taken alone. When a record comes out depends on who left before it, so somebody who
watches both arrivals and releases can learn more; the statement says so.

Cost: O(depth) per record, whatever was seen before; memory follows what waits, the window and the mix.

>>> log = QueryLog.of([(f"user {i % 6}", "weather", None) for i in range(40)])
>>> release = Stream(k=2, k_text=2, depth=1).protect(log, Noise.seeded(1))
>>> 20 < len(release.log) <= 40
True
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from queryveil.checks import one_of, require, truth_value, whole_number
from queryveil.errors import DataError, ParameterError
from queryveil.knowledge.categories import WORDNET, load_classifier
from queryveil.log import QueryLog
from queryveil.mechanisms.stream import by_category
from queryveil.mechanisms.stream._tree import Rules
from queryveil.mechanisms.stream.emissions import Emissions
from queryveil.mechanisms.stream.live import LiveStream
from queryveil.mechanisms.stream.pools import Pools, observed_pools
from queryveil.mechanisms.stream.running import StreamSettings
from queryveil.privacy import Charge, Guarantee, NoGuarantee, Noise, ProbabilisticKAnonymity
from queryveil.privacy.guarantee import (
    COMPARED_RELEASES,
    KNOWN_PAST,
    ONE_ID_ONE_PERSON,
    PLANTED_ACCOUNTS,
    TRUSTED_HOLDER,
)
from queryveil.progress import each
from queryveil.release.mechanism import (
    MODES,
    PSEUDONYM,
    Mode,
    TimeTreatment,
    check_time,
    coarsened,
    refuse_exact_times,
    time_in_words,
)
from queryveil.release.release import OWNER, RECEIVER, Release

ENDLESS = 1 << 62
DEEPEST = 1000
TEXTS_AT_ONCE = 1 << 14
PSEUDONYM_LIVES = ("record", "session", "epoch")


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Release each query under the name of somebody from a pool of more than `k` people with like interests."""

    name: ClassVar[str] = "stream"
    title: ClassVar[str] = "Mix as it flows"
    summary: ClassVar[str] = "Each query appears under the name of somebody alike."
    sweep: ClassVar = {"k": [5, 30], "pseudonym": ["epoch", "record"]}
    effort: ClassVar[float] = 2.5
    paper_parameters: ClassVar = ("base",)
    citation: ClassVar[str] = """@article{pamies2023self,
  author  = {David P{\\`a}mies-Estrems and Joaquin Garcia-Alfaro},
  title   = {On the self-adjustment of privacy safeguards for query log streams},
  journal = {Computers \\& Security},
  volume  = {134},
  pages   = {103450},
  year    = {2023},
  doi     = {10.1016/j.cose.2023.103450}
}"""
    reassigns_records: ClassVar[bool] = True
    owner_in_pool: ClassVar[tuple[Mode, ...]] = ("safe",)
    withholds_rare_texts: ClassVar[tuple[Mode, ...]] = ("safe",)

    k: int = field(
        default=5,
        metadata={"help": "release only from pools of more than this many people", "label": "people in each crowd",
                  "shown": "crowds of more than {} people"},
    )  # fmt: skip
    depth: int = field(default=3, metadata={"help": "levels of the category path to use"})
    k_text: int = field(
        default=5,
        metadata={"help": "safe: hold a text back until this many users issued it", "label": "people behind each text",
                  "shown": "texts of at least {} people"},
    )  # fmt: skip
    window: int = field(
        default=100_000,
        metadata={"help": "safe: records within which k_text users are counted", "label": "records to count people in",
                  "shown": "counted within {} records"},
    )  # fmt: skip
    epoch: int = field(
        default=1_000_000,
        metadata={"help": "safe: records after which everything starts afresh", "label": "records until a fresh start",
                  "shown": "a fresh start every {} records"},
    )  # fmt: skip
    cap: int = field(default=3, metadata={"help": "safe: records a user may have waiting in one category"})
    mix: int = field(
        default=1000,
        metadata={"help": "safe: records taken in before what came out meanwhile is shuffled and handed out"},
    )
    pseudonym: Literal["record", "session", "epoch"] = field(
        default="epoch",
        metadata={"help": "how long a pseudonym lives: one record, one released day or hour, or one epoch (until the "
                  "next fresh start)", "label": "how long a name lives",
                  "shown": {"record": "a new name for each record", "session": "a new name for each day or hour",
                            "epoch": "a new name after each fresh start"}},
    )  # fmt: skip
    strict: bool = field(default=False, metadata={"help": "safe: count owners in the query's own category only"})
    base: bool = field(default=False, metadata={"help": "paper: the predecessor, fixed depth and no branch step"})
    time: TimeTreatment = field(default="day", metadata={"help": "what becomes of times: drop, day, hour or keep"})
    category_column: str | None = field(
        default=None, metadata={"help": "the column that holds category paths; without it the classifier is asked"}
    )
    category_separator: str = field(default=": ", metadata={"help": "what stands between the levels of a path"})
    classifier: str = field(
        default=WORDNET, metadata={"help": "who categorises queries: wordnet, or an Open Directory index file"}
    )
    by_category: bool = field(
        default=False,
        metadata={
            "help": "one stream for each top-level category, as a cluster runs it; windows, epochs and pseudonyms then "
            "count within a category"
        },
    )
    mode: Mode = "safe"

    def __post_init__(self) -> None:
        require(
            whole_number("k", self.k, at_least=2, at_most=10**9, suggest=5),
            whole_number("depth", self.depth, at_least=1, at_most=DEEPEST, suggest=3),
            whole_number("k_text", self.k_text, at_least=2, at_most=10**9, suggest=5),
            whole_number("window", self.window, at_least=1, at_most=10**9, suggest=100_000),
            whole_number("epoch", self.epoch, at_least=1, at_most=10**12, suggest=1_000_000),
            whole_number("cap", self.cap, at_least=1, at_most=1000, suggest=3),
            whole_number("mix", self.mix, at_least=1, at_most=10**9, suggest=1000),
            one_of("pseudonym", self.pseudonym, PSEUDONYM_LIVES, suggest="epoch"),
            truth_value("strict", self.strict),
            truth_value("base", self.base),
            truth_value("by_category", self.by_category),
            check_time("time", self.time),
            one_of("mode", self.mode, MODES, suggest="safe"),
            _some_text("category_column", self.category_column, optional=True),
            _some_text("category_separator", self.category_separator),
            _some_text("classifier", self.classifier),
        )
        refuse_exact_times(self.mode, self.time)
        if self.base and self.mode == "safe":
            raise ParameterError(["base is the paper's predecessor and has no safe form; use it with mode=paper."])
        if self.strict and self.mode == "paper":
            raise ParameterError(["strict belongs to mode=safe; the paper does not count owners."])
        if self.by_category and self.mode == "paper":
            raise ParameterError(["by_category belongs to mode=safe; the paper has one stream."])
        if self.pseudonym == "session" and self.time == "drop":
            raise ParameterError(["pseudonym=session lasts as long as a released time; use time=day or time=hour."])

    def guarantee(self) -> Guarantee:
        """One record taken alone, for an attacker who knows its pool; nothing in paper mode."""
        when = "when a query was asked" if self.mode == "paper" else "when a query came out, so about when it was asked"
        unprotected = (
            KNOWN_PAST,
            PLANTED_ACCOUNTS,
            "what the text itself tells",
            *(self._profile_in_words() if self.pseudonym != "record" else []),
            "how active each user is",
            *([] if self.time == "drop" else [f"{when} ({time_in_words(self.time)})"]),
        )
        if self.mode == "paper":
            pool = "category" if self.base else "category branch"
            return NoGuarantee(
                reason=f"each released query got a pseudonym drawn at random from a pool holding more than {self.k} "
                f"distinct users of the same {pool}, never its own. This is a mixing heuristic: it bounds attribution "
                f"by 1/{self.k} only when every user in the pool has exactly one waiting record and no text repeats",
                assumptions=(ONE_ID_ONE_PERSON, TRUSTED_HOLDER),
                not_protected=("identifying and repeated texts", *unprotected, *COMPARED_RELEASES),
            )
        counted = "records" + self._of_what
        where = "the query's own category" if self.strict else "the pool's branch of categories"
        return ProbabilisticKAnonymity(
            k=self.k,
            unit="query",
            relation="the same log with a query's owner exchanged for another owner in the pool",
            detail=f"Every released record was drawn from more than {self.k} distinct owners in {where}, each with "
            f"the same chance, and its pseudonym from more than {self.k} distinct users, independently: to somebody "
            f"who knows who is in the pool at that release but not who wrote what, and sees the record taken alone, "
            f"no one is its owner with a probability above 1/{self.k + 1}, if all of the pool are equally likely to "
            f"have asked it before the release is seen. Taken alone means: without the moment or "
            f"the number of releases, the other releases' pools, or repeats. Texts issued by fewer than "
            f"{self.k_text} users within {self.window:,} {counted} are withheld. {self._pseudonym_in_words()}"
            f"{self._streams_in_words()}",
            assumptions=(
                ONE_ID_ONE_PERSON,
                TRUSTED_HOLDER,
                "the attacker knows who is in the release pool"
                + ("" if self.strict else ", but not in which category below it each searched"),
            ),
            not_protected=(
                *unprotected,
                "when and how many records come out, for somebody who watches arrivals",
                f"texts that somebody with {self.k_text - 1} accounts brings out by typing them",
                "what somebody learns who compares several records, repeated texts or the times before and after a "
                "fresh start, and knows their pools",
                "that the whole pool shares a sensitive category",
                *COMPARED_RELEASES,
            ),
        )

    def charge(self) -> Charge:
        """No loss that adds up."""
        return Charge.nothing()

    def open(self, noise: Noise, *, for_science: bool = False, all_at_once: bool = False) -> LiveStream:
        """A live stream: `push` batches, `snapshot` at any time, `restore`, `finish`.

        With seeded noise or in paper mode it hands records out only `for_science`. `all_at_once` is for a whole log of
        which nothing is published before its end.
        """
        if self.by_category:
            raise ParameterError(["by_category is for a whole log; a live stream takes its records in as they come."])
        return LiveStream(self.settings(), noise, self.categories, for_science=for_science, all_at_once=all_at_once)

    def start(self, run: str) -> LiveStream:
        """A live stream with secure noise whose key is kept under the run's name, so that it can be resumed.

        The key lies with the holder's other keys (`queryveil.privacy.keys`), never in a snapshot. Once the run is over,
        delete it: who has the key and the arrivals can repeat every draw.
        """
        return self.open(Noise.create(_key_name(run)))

    def resume(self, run: str, snapshot: bytes) -> LiveStream:
        """Go on with a run that `start` began, in this or another process, where its snapshot was taken."""
        live = self.open(Noise.load(_key_name(run)))
        live.restore(snapshot)
        return live

    def settings(self) -> StreamSettings:
        """What a live stream must know."""
        safe = self.mode == "safe"
        if safe:
            rules = Rules.safe(self.k, self.cap, strict=self.strict)
        else:
            rules = Rules.base(self.k) if self.base else Rules.paper(self.k)
        return StreamSettings(
            rules=rules,
            depth=self.depth,
            separator=self.category_separator,
            safe=safe,
            k_text=self.k_text,
            window=self.window,
            epoch=self.epoch if safe else ENDLESS,
            mix=self.mix,
            pseudonym=self.pseudonym,
            time=self.time,
        )

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """Push the whole log through and suppress what is left."""
        safe = self.mode == "safe"
        columns = {
            "user": f"{PSEUDONYM} of somebody in the pool",
            "query": f"kept where at least {self.k_text} users share it" if safe else "kept as it was",
            "time": f"of the release, not of the query; {time_in_words(self.time)}"
            if safe and self.time != "drop"
            else time_in_words(self.time),
        }
        if not safe:
            columns |= {"url": "kept as it was", "rank": "kept as it was"}
        if self.by_category:
            table = by_category.stream_categories(self, log, noise)
            release = Release.of_table(self, table, noise=noise, columns=columns)
        else:
            live = self.open(noise, all_at_once=True)
            frame = by_category.gather(live, [*live.push_with_owners(log), *live.finish_with_owners()], log)
            release = Release.of(
                self,
                QueryLog(frame.with_columns(coarsened(self.time))),
                noise=noise,
                columns=columns,
                owners=frame[OWNER],
                receivers=frame[RECEIVER],
                keep_order=not safe,
            )
        return replace(release, parameters={**release.parameters, **self._classifier_by_content()})

    @property
    def on_cluster(self) -> bool:
        """Only with a stream for each category: one stream takes its records in one after the other.

        An Open Directory index is read by the workers at the same path; one that differs from the driver's is refused.
        """
        return self.by_category and self.mode == "safe"

    def _classifier_by_content(self) -> dict[str, str | None]:
        """The classifier by name and content, not by a path on the holder's machine; none where it was not asked."""
        if self.classifier == WORDNET:
            return {}
        if self.category_column is not None:
            return {"classifier": None}
        classifier = load_classifier(self.classifier)
        return {"classifier": classifier.name, "classifier_digest": classifier.digest}

    def observe(self, log: QueryLog, noise: Noise) -> list[Emissions]:
        """What `protect` releases, as it is handed out and with the true owners: for the holder and the surveyor.

        Of one stream; with by_category there is no one order in which records are handed out, and it is refused.
        """
        live = self.open(noise, all_at_once=True)
        return [*live.push_with_owners(log), *live.finish_with_owners()]

    def pools(self, log: QueryLog, noise: Noise) -> Pools:
        """Who could have written each record of a run, for whoever tests the promise; safe mode and one stream only."""
        return observed_pools(self if not self.by_category else replace(self, by_category=False), log, noise)

    def categories(self, log: QueryLog) -> pl.Series:
        """The category path of each record, null for none: from the column or from the classifier."""
        return self.categories_of(log.frame)

    def categories_of(self, rows: pl.DataFrame) -> pl.Series:
        """As `categories`, of the rows of a table."""
        self.check_column(rows.columns)
        if self.category_column is not None:
            return rows[self.category_column].cast(pl.String)
        return self._classified(rows["query"])

    @property
    def reads_columns(self) -> tuple[str, ...]:
        """Columns beyond the canonical ones that it needs."""
        return () if self.category_column is None else (self.category_column,)

    def check_column(self, columns: Sequence[str]) -> None:
        """Refuse a log without the column that holds its categories."""
        if self.category_column is not None and self.category_column not in columns:
            raise DataError("the log has no column of the name given as category_column. Check its header.")

    def classifier_digest(self) -> str | None:
        """Which classifier is asked: machines that share one work must have the same; none where there is a column."""
        return load_classifier(self.classifier).digest if self.category_column is None else None

    def _classified(self, queries: pl.Series) -> pl.Series:
        distinct = queries.unique(maintain_order=True)
        classifier = load_classifier(self.classifier)
        pieces = [distinct[start : start + TEXTS_AT_ONCE] for start in range(0, len(distinct), TEXTS_AT_ONCE)]
        found = [classifier.best(piece.to_list()) for piece in each("finding categories", pieces)]
        best = np.concatenate([np.empty(0, np.int32), *found])
        paths: dict[int, str | None] = {-1: None}
        paths |= {
            category: self.category_separator.join(classifier.tree.path(category))
            for category in set(best.tolist()) - {-1}
        }
        listed = pl.Series([paths[category] for category in best.tolist()], dtype=pl.String)
        return queries.replace_strict(distinct, listed, return_dtype=pl.String) if len(queries) else listed

    @property
    def _of_what(self) -> str:
        """Behind "records", what they are counted in."""
        return " of the category" if self.by_category else ""

    def _pseudonym_in_words(self) -> str:
        often = f"every {self.epoch:,} records{self._of_what}"
        lives = {
            "record": "Every record has a pseudonym of its own.",
            "session": f"Pseudonyms change with every released {self.time} and {often}.",
            "epoch": f"Pseudonyms change {often}.",
        }
        return lives[self.pseudonym]

    def _profile_in_words(self) -> list[str]:
        if not self.by_category:
            return ["a user's profile of categories, which is kept on purpose"]
        return [
            "a user's profile within a top-level category, which is kept on purpose",
            "that pseudonyms of several categories are the same user's, where activity or interests tell",
        ]

    def _streams_in_words(self) -> str:
        """What by_category makes of everything that is counted."""
        if not self.by_category:
            return ""
        twice = (
            ""
            if self.category_column is None
            else " A text that stands in several top-level categories is counted in each by itself."
        )
        names = "" if self.pseudonym == "record" else ", and nobody has one pseudonym in two categories"
        return (
            " Category here means top-level category: each is a stream of its own, in which its records count, in the "
            f"order of their times{names}.{twice}"
        )


def _key_name(run: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", run):
        raise ParameterError(["run must be 1 to 64 letters, digits, - or _: it names the file that keeps the key."])
    return f"stream-{run}.key"


def _some_text(name: str, value: object, *, optional: bool = False) -> str | None:
    if (optional and value is None) or (isinstance(value, str) and value):
        return None
    return f"{name} must be a text of at least one character."
