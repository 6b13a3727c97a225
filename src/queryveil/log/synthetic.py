"""Realistic query logs from a seed: public, about nobody, and the same on every machine.

How people behave here, each part vectorised over all records:

- *Activity* falls with the rank x in (0, 1] of a user as (1-x)^1.5 / x^0.625: a Zipf head that thins out to people
  with one record, as in AOL's log. Everyone has at least one record.
- *Needs.* Each ask draws the number of one of the person's needs with P(number > j) = (1 + j/c)^-0.2. Low numbers come
  back day after day, high ones never again, and distinct texts grow as a power of the records (Heaps' law).
- *Texts.* A need is a well-known site or a common query (both Zipf, shared by all), a text of the person's own in their
  favourite topics, or rarely something about themselves: an invented name, town and illness, a mail address at
  example.org, a long number. Words are nouns of WordNet; see `_vocabulary`.
- *Time.* Asks come in sessions over 92 days with AOL's hours of the day; records of one session are at most 30 minutes
  apart, and a person's sessions more than 30, unless the person is busier than the span allows (then their times are
  squeezed into it).
- *Clicks.* 53 % of the records have one, as in AOL's full log (19,442,629 of 36,389,567 lines, says its readme; Pass,
  Chowdhury and Torgeson 2006, "A picture of search", describe it). Ranks fall off as in AOL's; the result at a rank of
  a query is the same for everybody.

- *Details*, where asked for: country and region of each person, a language, and the device of each session, all with a
  few that are frequent; addresses and telephone numbers among the texts about oneself; the ten results shown first.

docs/synthetic.md compares the outcome with a real sample. Cost: linear but for three sorts.

>>> log = synth(users=20, records=500, seed=7)
>>> log
QueryLog(500 records, 20 users)
>>> log == synth(users=20, records=500, seed=7), log == synth(users=20, records=500, seed=8)
(True, False)
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from queryveil.checks import require, whole_number
from queryveil.log._numbers import I64, U64, Dice, fraction, mixed, pick, zipf
from queryveil.log._synthetic_text import compose, result_sites
from queryveil.log.query_log import QueryLog
from queryveil.log.shown import SHOWN, as_text

MOST_RECORDS: Final = 100_000_000
START: Final = datetime(2026, 3, 1)
DAYS: Final = 92
_SPAN: Final = DAYS * 86_400
PAUSE: Final = 1800  # seconds without a record that end a session

# Chosen so that a log of the real sample's size looks like it; docs/synthetic.md shows how near it comes.
_CONTINUES = 0.36  # the next record is another click on, or another page of, the same ask
_NEW_SESSION = 0.55  # of asks
_MOST_SESSIONS = 1000  # of one person
_CLICKED = 0.534  # of asks
_FAVOURITES = 1.5  # c of the law of needs: the smaller, the more a person repeats
_HOURS = (36, 21, 14, 8, 9, 13, 14, 20, 30, 46, 47, 51, 51, 51, 53, 57, 57, 62, 61, 63, 65, 62, 60, 49)
_RANKS = (393, 119, 85, 62, 51, 42, 36, 32, 30, 32, 118)  # of a thousand clicks; the last: below the first ten
_DEEPEST = 500

_FOREIGN = 0.1  # of people use another language than their country's
_OTHER_DEVICE = 0.25  # of sessions are on any device rather than the person's own
_PLANTED: Final = "planted"
REGIONS: Final = 16
PAGE: Final = 10  # results shown at once
COUNTRIES: Final = {"US": "en", "DE": "de", "FR": "fr", "IT": "it", "ES": "es", "PL": "pl", "NL": "nl", "SE": "sv"}
"""Countries of a log with details, the most frequent first, and the language of each."""
DEVICES: Final = {"phone": 60, "desktop": 34, "tablet": 6}

I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]


def synth(*, users: int = 1000, records: int = 50_000, seed: int = 1, details: bool = False) -> QueryLog:
    """A log of exactly `users` people and `records` records, in time order.

    With `details` it has the columns `country`, `region`, `device`, `language` and `shown`, and other texts, addresses
    and telephone numbers among them.
    """
    return QueryLog(_made(users, records, seed, details).drop(_PLANTED))


def planted(*, users: int = 1000, records: int = 50_000, seed: int = 1) -> pl.DataFrame:
    """The distinct texts of the log with details, and what in each identifies somebody: `query`, `kind` or null."""
    return _made(users, records, seed, details=True).select("query", kind=_PLANTED).unique("query").sort("query")


def _made(users: int, records: int, seed: int, details: bool) -> pl.DataFrame:
    require(
        whole_number("users", users, at_least=1, at_most=MOST_RECORDS, suggest=1000),
        whole_number("records", records, at_least=1, at_most=MOST_RECORDS, suggest=50_000),
        whole_number("seed", seed, at_least=0, at_most=2**64 - 1, suggest=1),
    )
    # Everyone has at least one record.
    require(whole_number("records", records, at_least=users, suggest=min(50 * users, MOST_RECORDS)))
    dice = Dice(int(seed))

    user = np.repeat(np.arange(users, dtype=np.int32), _activity(int(users), int(records), dice))
    ask_starts = _starts(user) | (dice.fractions(records) >= _CONTINUES)
    ask = _numbered(ask_starts)
    asker = user[ask_starts]
    clicked = dice.fractions(len(asker)) < _CLICKED
    session = _sessions(asker, dice)[ask]
    time = _times(user, session, same_moment=clicked[ask] & ~ask_starts, dice=dice)
    session = _in_order_of_time(session, time)
    person = mixed(asker.astype(np.uint64) + dice.words(1), 0)
    queries = compose(person=person, need=_needs(person, dice), details=details)
    rank = _ranks(records, dice)

    order = np.argsort(time, kind="stable")
    user, ask, time, rank, session = user[order], ask[order], time[order], rank[order], session[order]
    has_click = pl.lit(pl.Series(clicked[ask]))
    return pl.select(
        user=_labels("u", users).gather(user),
        query=queries.text.gather(ask),
        time=pl.lit(START).dt.cast_time_unit("us") + pl.Series(time * 1_000_000).cast(pl.Duration("us")),
        rank=pl.when(has_click).then(pl.Series(rank.astype(np.uint32))),
        url=pl.when(has_click).then(result_sites(queries.first_result[ask], rank)),
        session=_labels("s", int(session.max()) + 1).gather(session),
    ).with_columns(
        *([*_metadata(person[ask], session), _shown(queries.first_result[ask])] if details else ()),
        queries.planted.gather(ask).alias(_PLANTED),
    )


def _metadata(person: U64, session: I32) -> list[pl.Series]:
    """Where, on what and in which language each record was made; a person keeps all but, at times, the device."""
    country = pick(mixed(person, 40), zipf(len(COUNTRIES)))
    region = pl.Series(1 + pick(mixed(person, 41), zipf(REGIONS))).cast(pl.String)
    foreign = fraction(mixed(person, 42)) < _FOREIGN
    language = np.where(foreign, pick(mixed(person, 43), zipf(len(COUNTRIES))), country)
    away = fraction(mixed(person + session.astype(np.uint64), 44)) < _OTHER_DEVICE
    device = np.where(away, mixed(person + session.astype(np.uint64), 45), mixed(person, 45))
    names = pl.Series(list(COUNTRIES)).gather(country)
    return [
        names.alias("country"),
        (names + "-" + region).alias("region"),
        pl.Series("device", list(DEVICES)).gather(pick(device, tuple(DEVICES.values()))),
        pl.Series("language", list(COUNTRIES.values())).gather(language),
    ]


def _shown(first_result: I64) -> pl.Series:
    """The results of the first page of each record's query; few lists are different, and rows share their text."""
    first, place = np.unique(first_result, return_inverse=True)
    pages = [result_sites(first, np.full(len(first), rank)) for rank in range(1, 1 + PAGE)]
    lists = pl.Series(SHOWN, [as_text(page) for page in zip(*pages, strict=True)], dtype=pl.String)
    return lists.gather(place)


def _activity(users: int, records: int, dice: Dice) -> I64:
    """How many records each user has: one, and of the rest a share by the law of activity with some jitter."""
    rank = dice.permutation(users)
    x = (rank + 2.0) / (users + 2.0)  # the shift keeps the busiest few from towering over the next
    rest = (users - rank) / users
    weight = rest * np.sqrt(rest) / (np.sqrt(x) * np.sqrt(np.sqrt(np.sqrt(x))))
    weight *= 0.75 + 0.5 * dice.fractions(users)
    ends: I64 = np.cumsum((weight * 2.0**20).astype(np.int64) + 1)
    given = (ends * ((records - users) / ends[-1])).astype(np.int64)
    given[-1] = records - users
    extra: I64 = np.diff(given, prepend=0)
    return extra + np.int64(1)


def _needs(person: U64, dice: Dice) -> U64:
    """The key of the need behind each ask: the person's need number j, where P(j > x) = (1 + x/c)^-0.2."""
    u = 1.0 - dice.fractions(len(person))  # in (0, 1]
    number = np.floor(_FAVOURITES * (1.0 / (u * u * u * u * u) - 1.0))  # far beyond 2^64: kept as a float's bits
    return mixed(person ^ number.view(np.uint64), 1)


def _sessions(asker: I32, dice: Dice) -> I32:
    """Which session each ask belongs to; the busiest people have long sessions rather than ever more of them."""
    share = np.minimum(_NEW_SESSION, _MOST_SESSIONS / np.bincount(asker))
    return _numbered(_starts(asker) | (dice.fractions(len(asker)) < share[asker]))


def _times(user: I32, session: I32, *, same_moment: Flags, dice: Dice) -> I64:
    """Seconds since the start of the log for each record, rising within a user."""
    session_starts = _starts(session)
    first = np.flatnonzero(session_starts)
    last = np.append(first[1:], len(user)) - 1
    owner = user[first]

    u = dice.fractions(len(user))
    steps = np.where(session_starts | same_moment, 0, 5 + (u * u * u * (PAUSE - 5)).astype(np.int64))
    elapsed: I64 = np.cumsum(steps)
    begin, length = elapsed[first], elapsed[last] - elapsed[first]

    # A session starts when its person likes, or a pause after their last one, whichever is later: start_k is the
    # maximum over i <= k of wish_i + (all sessions and pauses from i up to k). Lifting each person above the one
    # before makes this one running maximum for all.
    busy = np.cumsum(length + PAUSE + 1) - (length + PAUSE + 1)
    busy -= busy[_starts(owner)][owner]
    lift = owner.astype(np.int64) * _SPAN
    start = np.maximum.accumulate(_wishes(owner, dice) - busy + lift) - lift + busy

    number = _numbered(session_starts)
    time: I64 = elapsed + (start - begin)[number]
    end = (start + length)[np.append(np.flatnonzero(_starts(owner))[1:], len(owner)) - 1]
    late = (end >= _SPAN)[user]
    time[late] = time[late] * (_SPAN - 1) // end[user[late]]
    return time


def _wishes(owner: I32, dice: Dice) -> I64:
    """When each session would like to start: any day, at an hour people are awake, rising within an owner."""
    day = (np.sort(owner + dice.fractions(len(owner))) - owner) * DAYS
    whole = np.minimum(np.floor(day), DAYS - 1.0)
    ends = np.cumsum(_HOURS)
    at = np.clip(day - whole, 0.0, 1.0 - 2.0**-30) * ends[-1]
    hour = np.searchsorted(ends, at, side="right")
    share = (at - (ends - _HOURS)[hour]) / np.array(_HOURS)[hour]
    return np.asarray(whole * 86_400 + (hour + share) * 3600, dtype=np.int64)


def _ranks(n: int, dice: Dice) -> I64:
    """The position of each click: a table for the first page, a falling power of the depth below it."""
    rank = 1 + pick(dice.words(n), _RANKS)
    deep = np.flatnonzero(rank == len(_RANKS))
    u = 1.0 - dice.fractions(len(deep))
    rank[deep] = np.minimum(len(_RANKS) + (31.0 / np.sqrt(u) - 31.0).astype(np.int64), _DEEPEST)
    return rank


def _starts(groups: I32) -> Flags:
    """Where a new number begins in an array of rising numbers."""
    return np.asarray(np.diff(groups, prepend=-1) != 0)


def _numbered(starts: Flags) -> I32:
    """0, 1, 2 … stepping up wherever `starts` is true; the first must be."""
    return np.cumsum(starts, dtype=np.int32) - np.int32(1)


def _in_order_of_time(session: I32, time: I64) -> I32:
    """The sessions numbered again by when they start, so that a number says nothing about whose it is."""
    number = np.empty(int(session[-1]) + 1, dtype=np.int32)
    number[np.argsort(time[_starts(session)], kind="stable")] = np.arange(len(number), dtype=np.int32)
    return number[session]


def _labels(prefix: str, n: int) -> pl.Series:
    numbers = pl.Series(np.arange(n)).cast(pl.String).str.zfill(len(str(n - 1)))
    return prefix + numbers
