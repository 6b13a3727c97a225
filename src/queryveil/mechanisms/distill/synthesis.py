"""Users who never were, and what they ask: drawn from the noisy tables alone, in blocks of users.

Queries are drawn first, by the model of words or among the published ones, so that the log's language is the model's.
Then they are dealt out: a user's interests and the topic of the query before say which topic comes next, and a query of
that topic takes the place. Within a session a query may repeat the one before, or add, drop or replace a word of it.
Dates are made up; hours of the week and the time between queries follow the tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil import progress
from queryveil.arrays import Flags, Floats, Longs
from queryveil.log.query_log import COLUMNS, Schema, cores
from queryveil.mechanisms.distill import _synthesis_kernel as kernel
from queryveil.mechanisms.distill import shape as shapes
from queryveil.mechanisms.distill.budget import CLASSES, FOLLOWS, LENGTHS, RANKS, UNIT
from queryveil.mechanisms.distill.contributions import classes_of_words
from queryveil.mechanisms.distill.head import Head
from queryveil.mechanisms.distill.invented import INVENTED, invented_words
from queryveil.mechanisms.distill.known_queries import known_pairs
from queryveil.mechanisms.distill.language import Language, mass_of_classes
from queryveil.mechanisms.distill.tables import NoisyTables
from queryveil.mechanisms.distill.texts import Texts, vocabulary
from queryveil.mechanisms.distill.unions import SEPARATOR
from queryveil.privacy.noise import Noise, NoiseStream

BEGINNING = datetime(2001, 1, 1)
"""A Monday: all dates are made up."""
WEEKS = 13
FROM_INTERESTS = 0.5
"""A new query in a session follows the user's interests so often, else the topic before."""
MOST_OWN = 0.9
"""Published words are at most this part of all words outside the vocabulary."""
MOST_OUTSIDE = 0.5
FEW_WORDS = 4
"""Most queries have at most so many words, and are put together faster by themselves."""
COMPOSED_AGAIN = 3
"""How often a text is composed anew at most, where the tables say that hardly anybody asks it."""
HASH = np.cumprod(np.full(LENGTHS, 0x9E3779B97F4A7C15, np.uint64))
"""Odd numbers, by which rows of numbers are told apart."""
USERS_AT_ONCE = 2048
"""Synthetic users are drawn in blocks of so many."""
RECORDS: Schema = {name: COLUMNS[name] for name in ("user", "query", "time", "rank", "url")}


@dataclass(frozen=True)
class Synthesis:
    """All that synthetic users are drawn from."""

    tables: NoisyTables
    language: Language
    shape: shapes.Shape

    @classmethod
    def of(cls, tables: NoisyTables) -> Synthesis:
        """Estimate everything once."""
        return cls(tables, Language.of(tables), shapes.Shape.of(tables))

    @cached_property
    def names(self) -> pl.Series:
        """The words by their numbers: the vocabulary, two that are never drawn, published and invented ones."""
        own = self.tables.unions["own_words"]["key"].to_list()
        return pl.Series([*vocabulary().words.to_list(), None, None, *own, *invented_words()], dtype=pl.String)

    @cached_property
    def own_words(self) -> Floats:
        """The share of each published word outside the vocabulary among all such words."""
        own = self.tables.unions["own_words"]["weight"].to_numpy().astype(np.float64)
        shares: Floats = own / max(own.sum(), 1.0) * self.published_outside
        return shares

    @cached_property
    def own_words_alone(self) -> Floats:
        """The same among those that are queries of one word: what was not published as a query hardly is one."""
        published = self.tables.unions["own_words"]["key"].is_in(self.tables.unions["head"]["key"].implode())
        return np.where(published.to_numpy(), 0.0, np.minimum(self.own_words, self.head.most_alone))

    @cached_property
    def _outside(self) -> Floats:
        """Running shares of words outside the vocabulary: published ones by weight, then invented ones, evenly."""
        return _with_invented(self.own_words)

    @cached_property
    def _outside_alone(self) -> Floats:
        """The same of queries of one word."""
        return _with_invented(self.own_words_alone)

    @cached_property
    def published_outside(self) -> float:
        """What part of all words outside the vocabulary the published ones are.

        A person with d such words gives them √d in sum; d follows from how much people ask.
        """
        records = 1.5 * 2.0 ** np.arange(len(self.shape.records))  # the middle of each bucket
        words = records * self.shape.words_in_query * self.language.words.raked[-1]
        everybody = self.shape.people * UNIT * float(self.shape.records @ np.minimum(words, np.sqrt(words)))
        return min(MOST_OWN, float(self.tables.unions["own_words"]["weight"].sum()) / max(everybody, UNIT))

    @cached_property
    def _outside_share(self) -> Floats:
        """P(a word outside the vocabulary), by the class of the word before."""
        words, weights = self.language.words, self.language.mixture
        by_class = weights["coarse"] * words.coarse[:, -1] + weights["fine"] * words.fine[:, -1]
        share: Floats = words.raked[-1] * by_class / (weights["coarse"] + weights["fine"])
        return np.minimum(share, MOST_OUTSIDE)

    @cached_property
    def head(self) -> Head:
        """The queries that come out as a whole, and those of one word."""
        return Head.of(self.tables, self.language, self.shape)

    @cached_property
    def interests(self) -> tuple[Floats, Floats]:
        """The mean interest in each topic, and the directions in which people differ."""
        mass = mass_of_classes(self.language.words.raked, 0)
        return np.sqrt(mass), shapes.interests(self.tables, mass)

    @cached_property
    def successions(self) -> Floats:
        """P(topic | topic before)."""
        return shapes.successions(self.tables, mass_of_classes(self.language.words.raked, 0))

    @cached_property
    def arrays(self) -> tuple[object, ...]:
        """What the kernel draws words from; words outside the vocabulary are left out everywhere."""
        language, words = self.language, self.language.words
        classes = classes_of_words()
        order = np.argsort(classes[2][:-1], kind="stable")
        raked = np.cumsum(words.raked[:-1][order])
        sums = []
        for level, ratio in enumerate((words.coarse, words.fine)):
            mass = np.bincount(classes[level][:-1], words.raked[:-1], minlength=CLASSES[level])
            begins = np.searchsorted(classes[level][:-1][order], np.arange(CLASSES[level]))
            sums += [np.cumsum((ratio * mass)[:, :-1], axis=1), begins]
        shown, public = language.published_pairs, language.public_pairs
        base = len(vocabulary()) + 2
        return (
            language.start, np.cumsum(list(language.mixture.values())), np.cumsum(words.prior[:-1]), raked, order,
            *sums, language.class_before, public.start, public.upper, public.key % base, shown.start, shown.upper,
            shown.key % base, shown.weight, self._outside, self._outside_share,
        )  # fmt: skip

    def compose(self, lengths: Longs, stream: NoiseStream, before: Longs | None = None) -> Longs:
        """Numbers of words of queries of these lengths, one row each, −1 behind the last; `before` begins them."""
        out = np.empty((len(lengths), LENGTHS if before is None else 1), np.int64)
        random = stream.words(kernel.WORDS_A_DRAW * int(lengths.sum()))
        begins = np.full(len(lengths), self.language.start) if before is None else before
        kernel.draw_words(random, lengths, begins, *self.arrays, out)
        return out

    def queries(self, count: int, stream: NoiseStream) -> tuple[pl.Series, Longs, Flags]:
        """So many texts by the model, the numbers of their words, one row each, and which come out as a whole."""
        lengths = draw(self.head.lengths, count, stream) + 1
        numbers = self.compose(lengths, stream)
        again = np.arange(count)
        for _ in range(COMPOSED_AGAIN):
            again = again[self._unasked(numbers[again], lengths[again], stream)]
            numbers[again] = self.compose(lengths[again], stream)
        whole = lengths == 1
        numbers[whole, 0] = self._single_words(int(whole.sum()), stream)
        texts = self.joined(numbers)
        if self.head.often > 0:
            instead = np.flatnonzero(stream.uniform(count) < self.head.often)
            which = draw(self.head.shares, len(instead), stream)
            texts = texts.scatter(instead, self.head.texts.gather(which))
            numbers[instead] = self._head_numbers[which]
            whole[instead] = True
        return texts, numbers, whole

    def _unasked(self, numbers: Longs, lengths: Longs, stream: NoiseStream) -> Longs:
        """Which rows are composed more often than the tables say that people ask them, as many as are too many.

        "how to" is how many queries begin and none ends. A known pair has a cell that tells; another text would have
        been published if as many asked it as compose it. Only texts that were drawn repeatedly can be such, and those
        that were published: they come out as a whole, as often as they are asked.
        """
        rows = np.flatnonzero((lengths > 1) & (numbers < self.language.start).all(axis=1))
        text, first, place, count = np.unique(
            hashed(numbers[rows]), return_index=True, return_inverse=True, return_counts=True
        )
        kept = np.ones(len(first))
        looked_at = np.flatnonzero((count > 1) | np.isin(text, self._published_whole))
        kept[looked_at] = self.how_often_kept(numbers[rows[first[looked_at]]])
        unasked: Longs = rows[stream.uniform(len(rows)) >= kept[place]]
        return unasked

    def how_often_kept(self, texts: Longs) -> Floats:
        """How often texts of several known words, which were composed, are kept: rows of numbers as `compose` has."""
        words = (texts >= 0).sum(axis=1)
        likely = self.head.lengths[words - 1] * (1 - self.head.often)
        before = np.full(len(texts), self.language.start)
        for column in texts.T[: int(words.max(initial=0))]:
            there = column >= 0
            likely[there] *= self.language.probability(before[there], column[there])
            before = np.where(there, column, before)
        kept: Floats = np.minimum(1.0, self.head.unpublished / np.maximum(likely, 1e-300))
        pair = texts[:, 0] * len(vocabulary()) + texts[:, 1]
        cell = np.searchsorted(known_pairs(), pair).clip(0, len(known_pairs()) - 1)
        known = (words == 2) & (known_pairs()[cell] == pair)
        kept[known] = self.head.thinned[cell[known]]
        kept[np.isin(hashed(texts), self._published_whole)] = 0.0
        return kept

    @cached_property
    def _published_whole(self) -> npt.NDArray[np.uint64]:
        """The published queries that are known words with blanks between them, hashed as what is composed is."""
        published = self.tables.unions["head"]["key"]
        numbers = self._rows_of(published)
        composable = (self.joined(numbers) == published).to_numpy() & (numbers < self.language.other).all(axis=1)
        return hashed(numbers[composable])

    def _single_words(self, count: int, stream: NoiseStream) -> Longs:
        """The words of so many queries of one word."""
        word = draw(self.head.single, count, stream)
        outside = np.flatnonzero(word == self.language.other)
        word[outside] = self.language.start + 1 + _draw(self._outside_alone, len(outside), stream)
        return word

    @cached_property
    def _head_numbers(self) -> Longs:
        """The words' numbers of the queries that come out as a whole, one row each."""
        return self._rows_of(self.head.texts)

    def _rows_of(self, queries: pl.Series) -> Longs:
        texts = Texts.of(queries)
        rows = np.full((len(queries), LENGTHS), kernel.NOTHING, np.int64)
        of, place = texts.spread(np.arange(len(rows)))
        column = place - texts.offsets[of]
        rows[of[column < LENGTHS], column[column < LENGTHS]] = texts.numbers[place[column < LENGTHS]]
        return rows

    def joined(self, numbers: Longs) -> pl.Series:
        """The texts of rows of numbers."""
        short = np.flatnonzero(numbers[:, FEW_WORDS] < 0)
        long = np.flatnonzero(numbers[:, FEW_WORDS] >= 0)
        texts = pl.concat([self._side_by_side(numbers[short, :FEW_WORDS]), self._side_by_side(numbers[long])])
        return texts.gather(np.argsort(np.concatenate([short, long])))

    def _side_by_side(self, numbers: Longs) -> pl.Series:
        columns = [self.names.gather(np.where(column < 0, self.language.other, column)) for column in numbers.T]
        frame = pl.DataFrame({f"w{place}": column for place, column in enumerate(columns)})
        return frame.select(pl.concat_str(pl.all(), separator=" ", ignore_nulls=True).alias("query"))["query"]

    def _topics(self, numbers: Longs) -> Longs:
        """The class of 64 of each row's rarest known word."""
        known = np.where(numbers < self.language.other, numbers, -1).max(axis=1)
        topics: Longs = classes_of_words()[0][known]
        return topics

    def records(self, users: int | None, noise: Noise) -> Iterator[pl.DataFrame]:
        """The records of so many users, by default of the noisy number of people, in pieces.

        Users differ by chance alone, so their fresh names are drawn first and given out in order: the pieces follow
        each other by user, and within a user by time.
        """
        wanted = users or self.shape.people
        blocks = -(-wanted // USERS_AT_ONCE)
        drawing = noise.streams("distill: synthetic users", blocks)
        names = ordered_names(wanted, noise.stream("distill: synthetic names"))
        _ = self.arrays, self.interests, self.successions, self.head, self.names, self._head_numbers
        _ = self._outside_alone, self._published_whole  # all computed once, before threads ask

        with progress.parts("drawing synthetic users", blocks) as part, ThreadPoolExecutor(cores()) as threads:

            def drawn(number: int) -> pl.DataFrame:
                with part():
                    mine = names[number * USERS_AT_ONCE : (number + 1) * USERS_AT_ONCE]
                    rows = self.users(len(mine), drawing[number]).sort("user", "time", maintain_order=True)
                    return rows.with_columns(mine.gather(rows["user"]).alias("user"))

            waiting: deque[Future[pl.DataFrame]] = deque()
            for number in range(blocks):
                waiting.append(threads.submit(drawn, number))
                if len(waiting) > cores():  # drawn no faster than they are taken: all of them may outgrow the memory
                    yield waiting.popleft().result()
            for last in waiting:
                yield last.result()

    def users(self, count: int, stream: NoiseStream) -> pl.DataFrame:
        """So many users' records: `user` (0, 1, …), `query, time, rank, url`."""
        bucket = draw(self.shape.records, count, stream)
        records = np.left_shift(1, bucket) + stream.below(np.left_shift(1, bucket))
        total = int(records.sum())
        session = np.empty(total, np.int64)
        kernel.lay_out_sessions(stream.words(total), records, _running(self.shape.session_lengths), session)
        user = np.repeat(np.arange(count), records)
        first = np.concatenate([[True], session[1:] != session[:-1]]) if total else np.zeros(0, np.bool_)
        texts, numbers, whole = self.queries(total, stream)
        topics = self._topics(numbers)
        dealt = deal(self._wanted(user, first, count, stream), topics, CLASSES[0], stream)
        texts, topics = texts.gather(dealt), topics[dealt]
        texts = self._go_on(texts, numbers[dealt], first | whole[dealt], stream)
        rank, url = self._clicks(texts, topics, stream)
        return pl.DataFrame(
            {"user": user, "query": texts, "time": self._times(session, first, stream), "rank": rank, "url": url}
        )

    def _wanted(self, user: Longs, first: Flags, users: int, stream: NoiseStream) -> Longs:
        """The topic of each place: by the user's interests, within a session also by the topic before."""
        mean, directions = self.interests
        along = normal(stream, users * directions.shape[1]).reshape(users, -1)
        strength = np.maximum(mean + along @ directions.T, 1e-4) ** (2 / 1.4)
        wanted = draw_by_rows(strength, user, stream)
        follows = ~first & (stream.uniform(len(user)) >= FROM_INTERESTS)
        after = np.flatnonzero(follows)
        wanted[after] = draw_by_rows(self.successions, wanted[after - 1], stream)
        return wanted

    def _go_on(self, texts: pl.Series, numbers: Longs, kept: Flags, stream: NoiseStream) -> pl.Series:
        """Queries that follow another repeat it, or change a word of it, but for those that are kept."""
        kinds = self.shape.follows.sum(axis=1)
        kind = np.where(kept, len(FOLLOWS), draw(kinds / kinds.sum(), len(texts), stream))
        # A word is added behind the last one, or takes its place behind the one before.
        at = np.roll(np.arange(len(texts)), 1)
        left = (numbers[at] >= 0).sum(axis=1) - (kind == FOLLOWS.index("word replaced"))
        last = np.where(left > 0, numbers[at, left - 1], self.language.start)
        known = np.where(last > self.language.start, self.language.other, last)
        more = np.flatnonzero((kind == FOLLOWS.index("word added")) | (kind == FOLLOWS.index("word replaced")))
        number = np.full(len(texts), self.language.other)
        number[more] = self.compose(np.ones(len(more), np.int64), stream, known[more])[:, 0]
        word = self.names.gather(number)
        frame = pl.DataFrame({"text": texts, "before": texts.shift(1), "word": word, "kind": pl.Series(kind)})
        shorter = pl.col("before").str.replace(r" [^ ]+$", "")
        changed = (
            pl.when(pl.col("kind") == 0)
            .then("before")
            .when(pl.col("kind") == 1)
            .then(pl.concat_str("before", "word", separator=" "))
            .when((pl.col("kind") == 2) & shorter.str.contains(" ", literal=True))
            .then(shorter)
            .when((pl.col("kind") == 3) & (shorter != pl.col("before")))
            .then(pl.concat_str(shorter, pl.lit(" "), "word"))
            .otherwise("text")
        )
        return frame.select(changed.alias("query"))["query"]

    def _times(self, session: Longs, first: Flags, stream: NoiseStream) -> pl.Series:
        sessions = int(session[-1]) + 1 if len(session) else 0
        hour = draw(self.shape.hours, sessions, stream)
        begin = (stream.below(WEEKS, sessions) * 168 + hour) * 3600 + stream.below(3600, sessions)
        bucket = draw(self.shape.gaps, len(session), stream)
        gap = np.where(first, 0, (1 << bucket) - 1 + stream.below(np.left_shift(1, bucket)) if len(bucket) else bucket)
        since = np.cumsum(gap)
        opening = since[first][session] if len(session) else since
        seconds = begin[session] + since - opening
        start = int((BEGINNING - datetime(1970, 1, 1)).total_seconds())
        return pl.Series("time", (seconds + start) * 1_000_000).cast(pl.Datetime("us"))

    def _clicks(self, texts: pl.Series, topics: Longs, stream: NoiseStream) -> tuple[pl.Series, pl.Series]:
        """Rank and url: of the text where clicks on it are published, else of its topic, else unknown."""
        cell = draw(self.shape.ranks, len(texts), stream)
        clicked = cell > 0
        rank = pl.Series(np.where(cell > 0, cell, 1)).cast(pl.UInt32)
        rank = rank.set(pl.Series(~clicked | (cell == RANKS - 1)), None)
        places = np.flatnonzero(clicked)
        url = (
            pl.Series([None], dtype=pl.String).new_from_index(0, len(texts))
            if len(texts)
            else pl.Series(dtype=pl.String)
        )
        for union, key in (("hosts", pl.Series(topics[places]).cast(pl.String)), ("clicks", texts.gather(places))):
            found = draw_second(self.tables.unions[union], key, stream)
            known = found.is_not_null().to_numpy()
            url = url.scatter(places[known], found.drop_nulls())
        return rank, url


def hashed(rows: Longs) -> npt.NDArray[np.uint64]:
    """A number for each row of numbers; two texts of one hash are hardly ever drawn."""
    return np.asarray(rows.astype(np.uint64) @ HASH, np.uint64)  # wraps


def ordered_names(users: int, stream: NoiseStream) -> pl.Series:
    """So many random names as in `random_names`, sorted."""
    words = stream.words(2 * users).reshape(users, 2)
    digits = words[np.lexsort((words[:, 1], words[:, 0]))].astype(">u8").tobytes().hex()
    return pl.Series([f"u{digits[place : place + 24]}" for place in range(0, 32 * users, 32)], dtype=pl.String)


def draw_second(union: pl.DataFrame, first: pl.Series, stream: NoiseStream) -> pl.Series:
    """For each first half of a union's keys a second half, by weight; null where there is none."""
    uniform = pl.Series("at", stream.uniform(len(first)))
    if not union.height or not len(first):
        return pl.Series([None] * len(first), dtype=pl.String)
    halves = union.select(
        pl.col("key").str.splitn(SEPARATOR, 2).struct.rename_fields(["first", "second"]).struct.unnest(), "weight"
    )
    totals = halves.group_by("first").agg(pl.col("weight").sum().alias("total"))
    halves = halves.sort("first", "second").with_columns(pl.col("weight").cum_sum().over("first").alias("upper"))
    order = totals.sort("first").with_columns((pl.col("total").cum_sum() - pl.col("total")).alias("offset"))
    upper = halves.join(order, on="first", maintain_order="left").select(pl.col("upper") + pl.col("offset"))
    asked = pl.DataFrame({"first": first, "at": uniform}).join(order, on="first", how="left", maintain_order="left")
    wanted = asked.select(pl.col("offset") + (pl.col("at") * pl.col("total")).floor())["offset"]
    place = np.searchsorted(upper.to_series().to_numpy(), wanted.fill_null(0).to_numpy(), side="right")
    found = halves["second"].gather(place.clip(0, halves.height - 1))
    return found.set(wanted.is_null(), None)


def deal(wanted: Longs, topic: Longs, topics: int, stream: NoiseStream) -> Longs:
    """Which query takes each place: one of the wanted topic while there are any, at random; then any that is left."""
    places = np.lexsort((stream.words(len(wanted)), wanted))
    queries = np.lexsort((stream.words(len(topic)), topic))
    demand, supply = (np.bincount(of, minlength=topics) for of in (wanted, topic))
    both = np.minimum(demand, supply)
    suited_place, suited_query = (
        np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count) < np.repeat(both, count)
        for order, count in ((places, demand), (queries, supply))
    )
    dealt = np.empty(len(wanted), np.int64)
    dealt[places[suited_place]] = queries[suited_query]
    rest = queries[~suited_query]
    dealt[places[~suited_place]] = rest[stream.permutation(len(rest))]
    return dealt


def draw(shares: Floats, count: int, stream: NoiseStream) -> Longs:
    """Cells by their shares."""
    return _draw(_running(shares), count, stream)


def _draw(running: Floats, count: int, stream: NoiseStream) -> Longs:
    return np.searchsorted(running, stream.uniform(count), side="right").clip(0, len(running) - 1).astype(np.int64)


def normal(stream: NoiseStream, count: int) -> Floats:
    """Normal draws (Box and Muller), for what is processed further."""
    first, second = stream.uniform(count), stream.uniform(count)
    drawn: Floats = np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second)
    return drawn


def _with_invented(shares: Floats) -> Floats:
    """Running shares of published words, and of invented ones, which have the rest evenly."""
    return _running(np.concatenate([shares, np.full(INVENTED, (1 - shares.sum()) / INVENTED)]))


def _running(shares: Floats) -> Floats:
    running: Floats = np.cumsum(shares) / shares.sum()
    return running


def draw_by_rows(shares: Floats, row: Longs, stream: NoiseStream) -> Longs:
    """A cell for each of some rows of shares, by its shares.

    Row r's running shares lie between r and r + 1, so that one list holds all of them, sorted.
    """
    running = np.cumsum(shares, axis=1)
    running /= running[:, -1:]
    upper = (running + np.arange(len(shares))[:, None]).ravel()
    cells = shares.shape[1]
    place = np.searchsorted(upper, row + stream.uniform(len(row)), side="right")
    drawn: Longs = np.minimum(place - row * cells, cells - 1).astype(np.int64)
    return drawn
