"""Strings and logs that break careless readers and writers, as Hypothesis strategies."""

from __future__ import annotations

import datetime as dt

import polars as pl
from hypothesis import strategies as st

from queryveil.log import QueryLog

HOSTILE_TEXTS = (
    '"',
    '""',
    '"quoted", with comma',
    '5" pipe',
    "tab\there",
    "line\nfeed",
    "carriage\rreturn",
    "both\r\nends\r\n",
    "\r",
    "\n",
    "\t",
    " ",
    "  padded  ",
    "nul\0byte",
    "\ufeffmark",
    "inner\ufeffmark",
    "line\u2028separator\u2029paragraph\x85next\x0b\x0c",
    "😀👩‍👩‍👧‍👦🇪🇸",
    "\u0301lone combining",
    "\u202eright to left\u202c مرحبا שלום",
    "NULL",
    "null",
    "None",
    "nan",
    "NaN",
    "inf",
    "-",
    "0",
    "007",
    "1e5",
    "true",
    "\\",
    "\\n",
    "\\x22",
    '\\"',
    "%00%ff+&=?#",
    "a,b;c|d",
    "{}",
    "[]",
    '{"user": "x"}',
    "AnonID",
    "user",
    "=cmd()",
    "user_query",
    "QueryTime",
    "*",
    "^.*$",
    "\x01\x02\x03\x1f\x7f",
    "\U0010ffff\ue000\ufffd",
    "x" * 70_000,
    "é" * 3_000,
)

any_text = st.one_of(
    st.sampled_from(HOSTILE_TEXTS),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20),
    st.text(st.sampled_from('",;\t\r\n\\ \0ab\ufeff'), min_size=1, max_size=8),
)
plain_text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
any_time = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999))
second = st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2069, 12, 31)).map(lambda time: time.replace(microsecond=0))
any_rank = st.integers(0, 2**32 - 1)


@st.composite
def logs(
    draw: st.DrawFn,
    *,
    text: st.SearchStrategy[str] = any_text,
    user: st.SearchStrategy[str] | None = None,
    time: st.SearchStrategy[dt.datetime | None] | None = None,
    columns: tuple[str, ...] = ("time", "rank", "url", "session"),
    extras: bool = False,
) -> QueryLog:
    """A log of one to six records; columns not named stay empty."""
    maybe = {
        "time": st.none() | any_time if time is None else time,
        "rank": st.none() | any_rank,
        "url": st.none() | text,
        "session": st.none() | text,
    }
    row = st.tuples(
        text if user is None else user, text, *(maybe[name] if name in columns else st.none() for name in maybe)
    )
    log = QueryLog.of(draw(st.lists(row, min_size=1, max_size=6)))
    if not extras:
        return log
    names = draw(st.lists(any_text.filter(lambda name: name not in log.frame.columns), unique=True, max_size=3))
    added = [
        pl.Series(name, draw(st.lists(st.none() | text, min_size=len(log), max_size=len(log))), dtype=pl.String)
        for name in names
    ]
    return QueryLog(log.frame.with_columns(added))
