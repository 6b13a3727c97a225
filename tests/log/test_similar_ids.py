"""Ids that may be one person are found however they are written; the slow twin folds each id in plain Python."""

from __future__ import annotations

import unicodedata
from collections import Counter

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from properties import SOAK
from queryveil.log import QueryLog, read_with_report, write
from queryveil.log.identifying import ids_meant, merged, representatives, represented, similar_ids

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


@pytest.mark.parametrize(
    ("written", "stands_for_it"),
    [
        ("Bob", "bob"),
        (" ANN\u200b", "ann"),
        ("７", "7"),
        ("u 1", "u 1"),
        ("ΑΣ ", "ας"),
        (" ", " "),
        ("\u200b", "\u200b"),
    ],
)
def test_who_stands_for_an_id(written, stands_for_it):
    assert representatives(pl.Series([written])).to_list() == [stands_for_it]
    assert represented([written]) == [stands_for_it]


@given(ids=IDS, others=IDS)
def test_who_stands_for_an_id_depends_on_that_id_alone(ids, others):
    alone = [represented([one])[0] for one in ids]
    together = representatives(pl.Series([*others, *ids, *others, *ids], dtype=pl.String)).to_list()
    assert together[len(others) : len(others) + len(ids)] == together[-len(ids) or len(together) :] == alone
    assert all(alone)


@given(ids=IDS)
def test_similar_ids_have_one_representative_which_stands_for_itself(ids):
    forms = represented(ids)
    assert represented(forms) == forms
    for one, form in zip(ids, forms, strict=True):
        if one != form:
            assert similar_ids(pl.Series([one, form])) == 2
    left = Counter(form for one, form in zip(ids, forms, strict=True) if form.strip() and slow_form(one))
    assert sum(count for count in left.values() if count > 1) <= similar_ids(pl.Series(ids, dtype=pl.String))


def characters():
    """Every one; of the planes where nothing is assigned, or only for private use, one in a hundred but in soaks."""
    for plane in range(17):
        step = 1 if plane in (0, 1, 2, 3, 14) or SOAK else 101
        yield from (chr(code) for code in range(plane << 16, (plane + 1) << 16, step) if not 0xD800 <= code < 0xE000)


def test_every_character_has_one_form():
    letters = [letter for letter in characters() if letter != "\0"]
    ids = pl.Series([before + letter + after for letter in letters for before, after in (("", ""), ("a", "b"))])
    forms = representatives(ids)
    assert forms.equals(representatives(forms))
    assert (forms.str.len_bytes() > 0).all()


def test_half_a_surrogate_pair_stands_for_itself():
    assert represented(["Ann", "\ud800", "bob"]) == ["ann", "\ud800", "bob"]


def test_merging_replaces_every_id_and_nothing_else():
    log = QueryLog.of([("Ann", "A"), ("bob", "B"), ("ann", "C"), ("BOB ", "D")])
    one = merged(log)
    assert one.frame["user"].to_list() == ["ann", "bob", "ann", "bob"]
    assert one.frame.drop("user").equals(log.frame.drop("user"))
    assert (log.similar_ids, one.similar_ids, one.without_users(["ann"]).similar_ids) == ("different", "same", "same")


def test_reading_notes_how_many_and_never_which(tmp_path):
    write(QueryLog.of([("ann", "a"), ("ANN", "b"), ("bob", "c"), ("bob", "d")]), tmp_path / "log.csv")
    notes = read_with_report(tmp_path / "log.csv")[1].notes
    assert notes == ("user ids that differ only in blanks around, case, Unicode form or invisible characters: 2",)
    write(QueryLog.of([("ann", "a"), ("bob", "b")]), tmp_path / "other.csv")
    assert read_with_report(tmp_path / "other.csv")[1].notes == ()
