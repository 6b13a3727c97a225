"""What is in a log, in counts and shares: how much, how varied, how telling.

`describe` answers "what have I got and how risky is it at a glance" before any mechanism runs. It shows no text, no
user and no time; but the numbers are exact functions of the private log, so they are for its holder only.

A text of one user's own is a query text that nobody else in the log asked. A user is singled out by m known queries
when an attacker who learns m of their distinct texts, chosen at random (all, if they have fewer), finds nobody else in
the log who asked them all: what de Montjoye et al. (2013), "Unique in the Crowd", measure for places. It is exact
when all choices can be counted (at most `MOST_CHOICES`, and always for m = 1); beyond, that many choices are taken by a
fixed rule, as many for each user, or one for each of that many users (standard error below 0.0023). The same log gives
the same answer in any row order.

Cost: a few groupings of the records and a sort of the distinct texts; about a second for a million records.

>>> log = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "tulip bulbs"), ("ann", "tulip bulbs")])
>>> seen = describe(log)
>>> seen.records, seen.users, seen.texts, seen.texts_of_one_user, seen.repeat_rate
(4, 2, 2, 0.5, 0.25)
>>> seen.singled_out_by_1, seen.singled_out_by_2  # ann's tulips do, half of the time; knowing both texts, always
(0.25, 0.5)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from math import comb
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from queryveil.display import table
from queryveil.log._numbers import I64, below, mixed
from queryveil.log.identifying import EMAIL, LONG_NUMBER, plain
from queryveil.log.query_log import QueryLog

MOST_CHOICES: Final = 50_000
TITLES: Final = {
    "records": "Records",
    "users": "People (user ids)",
    "texts": "Different query texts",
    "records_per_user_min": "Records a person, fewest",
    "records_per_user_median": "Records a person, median",
    "records_per_user_mean": "Records a person, mean",
    "records_per_user_max": "Records a person, most",
    "words_per_query": "Words a query",
    "records_with_click": "Records with a click",
    "days": "Days covered",
    "repeat_rate": "Records that repeat the person's own text",
    "texts_of_one_user": "Texts that one person alone typed",
    "records_with_text_of_one_user": "Records with such a text",
    "users_with_text_of_their_own": "People with such a text",
    "singled_out_by_1": "People singled out by one known query",
    "singled_out_by_2": "People singled out by two known queries",
    "singled_out_by_3": "People singled out by three known queries",
    "records_with_email": "Records with an e-mail address",
    "records_with_long_number": "Records with a long number",
}
"""Every statistic of a log by its name, for people."""
SHARES: Final = frozenset(
    {
        "records_with_click",
        "repeat_rate",
        "texts_of_one_user",
        "records_with_text_of_one_user",
        "users_with_text_of_their_own",
        "singled_out_by_1",
        "singled_out_by_2",
        "singled_out_by_3",
    }
)
_BLOCK: Final = 1 << 22  # candidates looked at in one go: bounds the memory


def _told(name: str, value: float) -> str:
    if name in SHARES:
        return f"{value:.1%}"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


@dataclass(frozen=True, kw_only=True)
class LogStatistics:
    """Counts and shares of a log. What an empty log leaves undefined is None, and so is the span without times."""

    records: int
    users: int
    texts: int
    """Distinct query texts."""
    records_per_user_min: int | None
    records_per_user_median: float | None
    records_per_user_mean: float | None
    records_per_user_max: int | None
    words_per_query: float | None
    """Mean over records."""
    records_with_click: float | None
    """Share of records with a rank or a URL."""
    days: float | None
    """From the first to the last record."""
    repeat_rate: float | None
    """Share of records that are not a user's first with that text: 1 - distinct (user, text) / records."""
    texts_of_one_user: float | None
    """Share of the distinct texts."""
    records_with_text_of_one_user: float | None
    users_with_text_of_their_own: float | None
    singled_out_by_1: float | None
    """Share of users singled out by one known query, averaged over which one; likewise for two and three."""
    singled_out_by_2: float | None
    singled_out_by_3: float | None
    records_with_email: int
    records_with_long_number: int

    def _repr_html_(self) -> str:
        """In a notebook: every figure with its words."""
        rows = [(TITLES[name], _told(name, value)) for name, value in asdict(self).items() if value is not None]
        return table(rows, title="What is in the log")

    def as_dict(self) -> dict[str, int | float | None]:
        """The statistics by name, ready for JSON."""
        return asdict(self)

    def frame(self) -> pl.DataFrame:
        """The statistics as a table `statistic, value`."""
        values = self.as_dict()
        return pl.DataFrame(
            {"statistic": list(values), "value": list(values.values())},
            schema={"statistic": pl.String, "value": pl.Float64},
            strict=False,
        )


def describe(log: QueryLog) -> LogStatistics:
    """Count what is in the log; see the module for what each number means."""
    frame = log.frame
    pairs = frame.group_by("user", "query").agg(pl.len().alias("records"))
    texts = pairs.group_by("query").agg(pl.len().alias("users"), pl.col("records").sum()).sort("query")
    people = pairs.group_by("user").agg(pl.col("records").sum()).sort("user")
    own = pairs.join(texts.filter(pl.col("users") == 1), on="query", how="semi")

    per_user = people["records"]
    clicked = frame.select((pl.col("rank").is_not_null() | pl.col("url").is_not_null()).sum()).item()
    first, last = frame.select(pl.col("time").min().alias("first"), pl.col("time").max().alias("last")).row(0)
    asked = (
        texts.with_columns(plain(texts["query"]).alias("shown"))
        .select(
            words=(pl.col("query").str.count_matches(r"\S+").cast(pl.Int64) * pl.col("records")).sum(),
            email=pl.col("records").filter(pl.col("shown").str.contains(EMAIL)).sum(),
            number=pl.col("records").filter(pl.col("shown").str.contains(LONG_NUMBER)).sum(),
        )
        .row(0, named=True)
    )
    one, two, three = _singled_out(pairs, texts, people)
    return LogStatistics(
        records=len(log),
        users=people.height,
        texts=texts.height,
        records_per_user_min=per_user.min(),  # type: ignore[arg-type]
        records_per_user_median=per_user.median(),  # type: ignore[arg-type]
        records_per_user_mean=_share(len(log), people.height),
        records_per_user_max=per_user.max(),  # type: ignore[arg-type]
        words_per_query=_share(asked["words"], len(log)),
        records_with_click=_share(clicked, len(log)),
        days=None if first is None else (last - first).total_seconds() / 86_400,
        repeat_rate=_share(len(log) - pairs.height, len(log)),
        texts_of_one_user=_share(own.height, texts.height),
        records_with_text_of_one_user=_share(int(own["records"].sum()), len(log)),
        users_with_text_of_their_own=_share(own["user"].n_unique(), people.height),
        singled_out_by_1=one,
        singled_out_by_2=two,
        singled_out_by_3=three,
        records_with_email=asked["email"],
        records_with_long_number=asked["number"],
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _singled_out(pairs: pl.DataFrame, texts: pl.DataFrame, people: pl.DataFrame) -> list[float | None]:
    """The share of users singled out by one, two and three of their texts."""
    if pairs.is_empty():
        return [None, None, None]
    text_numbers = texts.select("query").with_row_index("text")
    numbers = pairs.join(text_numbers, on="query").join(people.select("user").with_row_index("person"), on="user")
    held = _Holdings(numbers["person"].to_numpy(), numbers["text"].to_numpy())
    return [held.singled_out_by(m) for m in (1, 2, 3)]


class _Holdings:
    """Who asked which text, in numbers from zero without gaps, looked up in both directions."""

    def __init__(self, user: NDArray[np.uint32], text: NDArray[np.uint32]) -> None:
        self.texts_of = np.bincount(user)
        self.first_of_user = np.cumsum(self.texts_of) - self.texts_of
        self.text = text[np.lexsort((text, user))].astype(np.int64)
        self.askers_of = np.bincount(text)
        self.first_of_text = np.cumsum(self.askers_of) - self.askers_of
        self.users = len(self.texts_of)
        self.pairs = np.sort(text.astype(np.int64) * self.users + user)  # by text, then by user

    def singled_out_by(self, m: int) -> float:
        """The mean over users of the share of their choices of m texts that nobody else holds."""
        sizes, users_of_size = np.unique(self.texts_of, return_counts=True)
        choices = sum(
            comb(size, min(m, size)) * users for size, users in zip(sizes.tolist(), users_of_size.tolist(), strict=True)
        )
        owner, place = self._every_choice(m, sizes) if m == 1 or choices <= MOST_CHOICES else self._some_choices(m)
        known = self.text[self.first_of_user[owner][:, None] + place]
        held = self._held_by_another(owner, known)
        choices_of = np.bincount(owner)
        return 1.0 - float(np.mean(np.bincount(owner, weights=held)[choices_of > 0] / choices_of[choices_of > 0]))

    def _every_choice(self, m: int, sizes: I64) -> tuple[I64, I64]:
        """All choices: whose, and which of their texts by place; short choices are filled up with their last text."""
        owners, places = [], []
        for size in sizes.tolist():
            choices = np.array(list(combinations(range(size), min(m, size))), dtype=np.int64)
            choices = choices[:, np.minimum(np.arange(m), choices.shape[1] - 1)]
            users = np.flatnonzero(self.texts_of == size)
            owners.append(np.repeat(users, len(choices)))
            places.append(np.tile(choices, (len(users), 1)))
        return np.concatenate(owners), np.concatenate(places)

    def _some_choices(self, m: int) -> tuple[I64, I64]:
        """At least `MOST_CHOICES` choices, as many for each chosen user, drawn by hashing the number of the draw."""
        chosen = np.argsort(mixed(np.arange(self.users, dtype=np.uint64), m), kind="stable")[:MOST_CHOICES]
        owner = np.repeat(chosen, -(-MOST_CHOICES // len(chosen)))
        size = self.texts_of[owner]
        number = np.arange(len(owner), dtype=np.uint64)
        place = np.empty((len(owner), 0), dtype=np.int64)
        for j in range(m):
            drawn = below(mixed(number, j), np.maximum(size - j, 1))  # one of those left
            for taken in place.T:
                drawn += drawn >= taken
            drawn = np.where(j < size, drawn, size - 1)
            place = np.sort(np.column_stack([place, drawn]), axis=1)
        return owner, place

    def _held_by_another(self, owner: I64, known: I64) -> NDArray[np.bool_]:
        """Whether some other user asked all the known texts, one row of them for each owner."""
        known = np.take_along_axis(known, np.argsort(self.askers_of[known], axis=1), axis=1)
        rarest = known[:, 0]
        held = np.zeros(len(owner), dtype=np.bool_)
        open_rows = np.flatnonzero(self.askers_of[rarest] > 1)
        looked_at, width = 0, 4
        # Go through the askers of the rarest text, a few of every open row at a time: most rows are decided early.
        while len(open_rows):
            for part in np.array_split(open_rows, -(-len(open_rows) * width // _BLOCK)):
                held[part[self._found(owner[part], known[part], looked_at, width)]] = True
            looked_at, width = looked_at + width, width * 4
            open_rows = open_rows[~held[open_rows] & (self.askers_of[rarest[open_rows]] > looked_at)]
        return held

    def _found(self, owner: I64, known: I64, skip: int, width: int) -> I64:
        """The rows of which one of `width` askers of the first text, after `skip`, is another user who holds all."""
        asker = skip + np.arange(width)
        row, place = np.nonzero(asker < self.askers_of[known[:, 0]][:, None])
        candidate = self.pairs[self.first_of_text[known[row, 0]] + asker[place]] % self.users
        left = np.flatnonzero(candidate != owner[row])
        for column in known.T[1:]:
            wanted = column[row[left]] * self.users + candidate[left]
            at = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
            left = left[self.pairs[at] == wanted]
        return row[left]
