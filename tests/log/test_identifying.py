"""Identifiers are found as a reader sees them; the slow twin copies every text plainly and tries each pattern."""

from __future__ import annotations

import sys
from urllib.parse import quote

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.log import identifying
from queryveil.log.identifying import CREDENTIALS, DEVICE, EMAIL, LONG_NUMBER, is_identifying, plain, visible


def judged(*texts: str | None) -> list[bool | None]:
    return pl.DataFrame({"q": texts}, schema={"q": pl.String}).select(is_identifying("q"))["q"].to_list()


FOUND = [
    "ann@example.com",
    "ann @  example.com",
    "ann﹫example.com",
    "ann＠example.com",
    "ann@example。com",
    "ann(at)example.com",
    "ann [at] example [dot] com",
    "anne\u200b@\u200bexample.com",
    "https://news.org/unsubscribe?email=ann.lee%40example.com",
    "https://news.org/unsubscribe?email=ann.lee%252540example.com",
    "ann％40example.com",
    "555\u200b123\u200b4567",
    "555\u00ad123\u00ad4567",
    "555\u2060123 4567",
    *(f"555{mark}123{mark}4567" for mark in "−:*·|~'’–\\/.,_;"),
    "555    123     4567",
    "5\u03325\u03325\u03321\u03322\u03323\u03324",
    "٠١٢٣٤٥٦٧",
    "①②③④⑤⑥⑦",
    "５５５１２３４",
    "%3555123456",
    "x %12345678",
    "https://x.org/?password%3Dabc",
    "https://x.org/?jwt=abc",
    "https://x.org/?sig=abc",
    "https://x.org/?X-Amz-Signature=abc",
    "https://x.org/?code=abc",
    "https://x.org/?a=1&auth_code=abc",
    "00:1b:44:11:3a:b7",
    "00-1B-44-11-3A-B7",
    "001b.4411.3ab7",
    "2001:db8::ff00:42:8329",
    "2001:DB8:0:0:0:ff00:42:8329",
    "fe80::1",
]


@pytest.mark.parametrize("text", FOUND)
def test_an_identifier_is_found_in_every_common_form(text):
    assert judged(text, f"my {text} here") == [True, True]


@pytest.mark.parametrize(
    "text",
    [
        "tulip bulbs",
        "weather 2026",
        "iphone 17",
        "rock @ ring",
        "http://example.org",
        "c# vs c++ 11 12",
        "std::vector",
        "a::b",
        "12:30:45",
        "100% cotton",
        "50%20 off",
        "john 3:16",
        "https://shop.example/?zipcode=90210&promo_code=may",
        "https://shop.example/?design=red&page=2",
        "meet me (at) noon",
        "straße ﬁne café",
        "北京 天气",
        "",
    ],
)
def test_an_ordinary_text_is_not_taken_for_one(text):
    assert judged(text) == [False]


def test_nothing_stays_nothing_and_texts_are_not_changed():
    texts = pl.Series(["%41\u200b", None, "a@b.c"])
    frame = texts.to_frame("q")
    assert frame.select(is_identifying("q"))["q"].to_list() == [False, None, True]
    assert plain(texts).to_list() == ["A", None, "a@b.c"]
    assert texts.to_list() == frame["q"].to_list() == ["%41\u200b", None, "a@b.c"]


def test_it_works_in_a_filter_of_a_lazy_table_too():
    frame = pl.LazyFrame({"q": ["a", "a@b.c", "555:123:4567"], "n": [1, 2, 3]})
    assert frame.filter(~is_identifying("q")).collect()["n"].to_list() == [1]


WRITTEN = [
    "ann",
    "com",
    "@",
    "＠",
    ".",
    "。",
    "(at)",
    " ",
    "%40",
    "%2540",
    "555",
    "123",
    "4567",
    "?",
    "jwt",
    "=",
    ":",
    "::",
]
ODD = ["\u200b", "\u00ad", "−", "·", "|", "0a", "é", "①", "Ŀ", "ﬁ", "%", "％", "%4", "0", "\u0301", "ſ", "#"]
PIECES = st.sampled_from(WRITTEN) | st.sampled_from(ODD)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=12), min_size=1, max_size=8))
def test_quick_ways_out_lose_nothing_that_the_slow_twin_finds(texts):
    column = pl.Series("q", texts, dtype=pl.String)
    slow = identifying._decoded(column)  # of every text, whether it seems to need it or not
    patterns = (EMAIL, LONG_NUMBER, CREDENTIALS, DEVICE)
    expected = [
        any(pl.Series([one, other]).str.contains(pattern).any() for pattern in patterns)
        for one, other in zip(texts, slow, strict=True)
    ]
    assert judged(*texts) == expected


@given(st.sampled_from(FOUND), st.integers(1, 3))
def test_an_encoded_identifier_is_found(text, times):
    for _ in range(times):
        text = quote(text, safe="")
    assert judged(f"https://x.org/?to={text}") == [True]


def test_no_character_that_becomes_part_of_an_identifier_is_passed_over():
    every = [chr(code) for code in range(128, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]
    frame = pl.DataFrame({"c": every}).with_columns(visible("c").alias("seen"))
    changed = frame.filter(pl.col("c") != pl.col("seen"))
    assert changed.height > 5_000
    telling = changed.filter(pl.col("seen").str.contains(r"[!-~\d。·•´’]"))
    assert telling.filter(~pl.col("c").str.contains(identifying._NOT_PLAIN)).height == 0
    letters = frame.filter(~pl.col("c").str.contains(identifying._NOT_ONLY_LETTERS))
    assert letters.height > 100_000
    assert letters.filter(pl.col("seen").str.contains(r"""[^\pL\pM\s,'"·]""")).height == 0
