"""Ids that may be one person are found however they are written; the slow twin folds each id in plain Python."""

from __future__ import annotations

import unicodedata
from collections import Counter

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from queryveil.log import QueryLog, read_with_report, write
from queryveil.log.people import ids_meant, similar_ids

LETTERS = st.text(st.sampled_from("aAéÉ eß\u0301\u200b\u00adſKk1.\uff41"), min_size=1, max_size=4)
IDS = st.lists(LETTERS | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3), unique=True)


def slow_form(text: str) -> str:
    shown = "".join(c for c in text if unicodedata.category(c) != "Cf")
    once = unicodedata.normalize("NFKC", shown).casefold()
    return unicodedata.normalize("NFKC", once).strip()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ann", "ann "),
        ("ann", "\tANN"),
        ("rené", "rene\u0301"),
        ("René ", "rene\u0301"),
        ("bob", "bob\u200b"),
        ("bob", "b\u00adob"),
        ("bob", "b\ufe0fob"),
        ("7", "７"),
        ("straße", "STRASSE"),
    ],
)
def test_ids_that_look_alike_are_similar(one, other):
    assert similar_ids(pl.Series([one, other, "eve"])) == 2
    gone, unknown = ids_meant(pl.Series([one, other, "eve"]), [other])
    assert (sorted(gone), unknown) == (sorted([one, other]), 0)


def test_ids_that_a_reader_tells_apart_are_not_similar():
    assert similar_ids(pl.Series(["ann", "anna", "a nn", "ann.", "аnn", "Bob"])) == 0  # the first а of one is Cyrillic
    assert similar_ids(pl.Series([], dtype=pl.String)) == 0


@given(ids=IDS, named=IDS)
@example(ids=["\u200b", " ", "a"], named=[" "])
def test_every_id_with_the_form_of_another_by_the_slow_twin_is_found(ids, named):
    forms = Counter(map(slow_form, ids))
    assert similar_ids(pl.Series(ids, dtype=pl.String)) >= sum(forms[slow_form(one)] > 1 for one in ids)
    wanted = {slow_form(one) for one in named} - {""}
    gone, unknown = ids_meant(pl.Series(ids, dtype=pl.String), named)
    assert set(gone) >= {one for one in ids if slow_form(one) in wanted or one in named}
    assert unknown <= sum(slow_form(one) not in forms for one in named)


@given(ids=IDS)
def test_naming_all_leaves_nobody_and_naming_nobody_leaves_all(ids):
    users = pl.Series(ids, dtype=pl.String)
    assert sorted(ids_meant(users, ids)[0]) == sorted(ids)
    assert ids_meant(users, []) == ([], 0)


def test_reading_notes_how_many_and_never_which(tmp_path):
    write(QueryLog.of([("ann", "a"), ("ANN", "b"), ("bob", "c"), ("bob", "d")]), tmp_path / "log.csv")
    notes = read_with_report(tmp_path / "log.csv")[1].notes
    assert notes == ("user ids that differ only in blanks around, case, Unicode form or invisible characters: 2",)
    write(QueryLog.of([("ann", "a"), ("bob", "b")]), tmp_path / "other.csv")
    assert read_with_report(tmp_path / "other.csv")[1].notes == ()
