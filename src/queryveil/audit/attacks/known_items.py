"""What an acquaintance can know of a person's records, as numbers: the text alone, or all that is published about it.

An *item* is one record in the granularity in which it is published: its text, or its text with every other published
column that holds anything (day or hour, click, rank, category). Columns that are published empty for a record count as
they are: whoever knows the click can see that it was withheld. A text that the person asked in other letters, marks or
order of words only is known by its form (`normal_form`); one that they never asked (a label, a replacement) is not
known, and only the other columns of its record are.

`Crowd` tells who holds an item, `Memory` which items are known of whom; `Holders` whose are the names that hold texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.audit.finding import Success

Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NEVER_KNOWN: Final = ("user", "query", "session")
"""Columns beside which an item is made; the number of a session is nothing that people tell each other."""
IN_WORDS: Final = {"url": "click", "rank": "rank", "shown": "results shown"}
LOTS: Final = 1 << 36
"""Lots for a draw; nobody has 2^27 items, so products stay below 2^63 and no item is likelier by more than 2^-9."""
STEPS: Final = {"day": "1d", "hour": "1h"}


class Crowd:
    """Who holds which item; whoever holds several items of several kinds is listed under each."""

    def __init__(self, people: Sequence[Longs], items: Sequence[Longs], count: int) -> None:
        person, item = pairs(np.concatenate(people), np.concatenate(items), count)
        order = np.argsort(item, kind="stable")  # the people under each item stay sorted
        self.holders = person[order].astype(np.int32)
        self.starts = starts(item, count)

    def holds(self, items: Longs) -> Bools:
        """Which items anybody holds."""
        held: Bools = np.diff(self.starts)[items] > 0
        return held

    def candidates(self, known: Longs) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32]]:
        """For each row of items how many hold all that anybody holds (2 stands for more), and one of them."""
        from queryveil.audit.attacks import _uniqueness_kernel

        counts, only = np.zeros(len(known), np.int8), np.full(len(known), -1, np.int32)
        _uniqueness_kernel.find_candidates(self.starts, self.holders, known, counts, only)
        return counts, only


class Memory:
    """Which distinct items are known of each person."""

    def __init__(self, people: Longs, items: Longs, number_of_people: int) -> None:
        person, self.items = pairs(people, items, int(items.max(initial=0)) + 1)
        self.first = starts(person, number_of_people)

    def drawn(self, people: Longs, lots: Longs) -> Longs:
        """As many items of each person as a row of `lots` has, none twice; the last again where they have fewer.

        A lot is a whole number below `LOTS`, so that one draw serves two logs; −1 stands for a person without items.
        """
        size = np.diff(self.first)[people]
        places = np.empty((len(people), 0), np.int64)
        for turn, lot in enumerate(lots.T):
            drawn = (lot * np.maximum(size - turn, 1)) // LOTS
            for taken in places.T:  # sorted: step over what was drawn before
                drawn += drawn >= taken
            places = np.sort(np.column_stack([places, np.where(turn < size, drawn, size - 1)]), axis=1)
        found: Longs = np.full(places.shape, -1)
        some = size > 0
        found[some] = self.items[self.first[people[some]][:, None] + places[some]]
        return found


class Holders:
    """Which names hold which texts, and whose each name is: of rows with `query`, `name` and `person`.

    `held` are the rows of what can be known, where that is not whole texts; a name that several people share is
    nobody's.

    >>> rows = pl.DataFrame({"query": ["a", "b", "a"], "name": ["x", "x", "y"], "person": ["ann", "ann", "bob"]})
    >>> both = pl.DataFrame({"one": ["a"], "two": ["b"]})
    >>> Holders(rows).guessed(both, pl.Series(["ann"]), np.array([0.9]))
    Success(right=1, tried=1)
    """

    def __init__(self, rows: pl.DataFrame, held: pl.DataFrame | None = None) -> None:
        behind = pl.when(pl.col("person").n_unique() == 1).then(pl.col("person").first()).alias("person")
        names = rows.group_by("name").agg(behind).sort("name").with_row_index("number")
        held = rows if held is None else held
        numbered = held.select("query", "name").unique().join(names.select("name", "number"), on="name")
        self._people = names["person"]
        self._texts = numbered["query"].unique().sort()
        places = numbered["query"].cast(pl.Enum(self._texts)).to_physical().to_numpy().astype(np.int64)
        self._crowd = Crowd([numbered["number"].to_numpy().astype(np.int64)], [places], len(self._texts))

    def guessed(self, known: pl.DataFrame, people: pl.Series, draws: npt.NDArray[np.float64]) -> Success:
        """How often one of the names that hold all known texts of a row, drawn at random, is the person's."""
        places = {text: place for place, text in enumerate(self._texts)}
        right = 0
        for texts, person, draw in zip(known.iter_rows(), people, draws, strict=True):
            fitting = self._holding([places.get(text, -1) for text in texts])
            if len(fitting):
                right += self._people[int(fitting[int(draw * len(fitting))])] == person
        return Success(right, len(people))

    def _holding(self, texts: Sequence[int]) -> npt.NDArray[np.int32]:
        """The names that hold all of these texts."""
        if min(texts) < 0:
            return np.zeros(0, np.int32)
        start, stop = self._crowd.starts[:-1], self._crowd.starts[1:]
        rarest, *others = sorted(texts, key=lambda text: stop[text] - start[text])
        fitting = self._crowd.holders[start[rarest] : stop[rarest]]
        for text in others:
            holders = self._crowd.holders[start[text] : stop[text]]
            at = np.minimum(np.searchsorted(holders, fitting), len(holders) - 1)
            fitting = fitting[holders[at] == fitting]
        return fitting

    def chance(self, people: pl.Series) -> float:
        """How often a name drawn at random is the person's."""
        own = self._people.value_counts(name="names").drop_nulls()
        names = people.to_frame("person").join(own, on="person", how="left")["names"].fill_null(0)
        return int(names.sum()) / max(len(names) * len(self._people), 1)


def pairs(first: Longs, second: Longs, count: int) -> tuple[Longs, Longs]:
    """The distinct pairs of two numbers, sorted; the second is below `count`."""
    both = np.unique(first.astype(np.int64) * max(count, 1) + second)
    return both // max(count, 1), both % max(count, 1)


def starts(numbers: Longs, count: int) -> Longs:
    """Where each number begins in a sorted list."""
    found = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=count), out=found[1:])
    return found


def joint(*columns: Longs) -> Longs:
    """One dense number for each combination of numbers, in their order."""
    combined = columns[0].astype(np.int64)
    for column in columns[1:]:
        combined = np.unique(combined * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    return combined


def published_columns(frame: pl.DataFrame) -> list[str]:
    """The columns beside user and text that hold anything and that people can know."""
    return [
        name for name in frame.columns if name not in NEVER_KNOWN and frame[name].null_count() < frame.height
    ]  # fmt: skip


def unit_of_time(times: pl.Series) -> str:
    """`day` or `hour` where times were cut to it, else `time`."""
    told = times.drop_nulls()
    return next((unit for unit, step in STEPS.items() if (told == told.dt.truncate(step)).all()), "time")


def in_words(frame: pl.DataFrame, columns: Sequence[str]) -> str:
    """The columns as an acquaintance would name them."""
    names = [unit_of_time(frame["time"]) if name == "time" else IN_WORDS.get(name, name) for name in columns]
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def column_numbers(frame: pl.DataFrame, columns: Sequence[str], unit: str = "") -> Longs:
    """One number for what the columns of each record hold, times cut to a unit; columns not there tell nothing."""
    cut = [
        pl.col(name).dt.truncate(STEPS[unit]) if name == "time" and unit in STEPS else pl.col(name)
        for name in columns if name in frame.columns
    ]  # fmt: skip
    ranks = frame.select(expr.rank("dense").fill_null(0).cast(pl.Int64) for expr in cut)
    return joint(np.zeros(frame.height, np.int64), *(ranks[name].to_numpy() for name in ranks.columns))
