"""Acquaintances find people in a raw log and hardly anybody in a safe release."""

from collections import defaultdict
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryveil.audit.attacks.uniqueness import Acquaintances, Holdings
from queryveil.errors import ParameterError
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise

LOG = synth(users=300, records=15_000, seed=3)


def test_two_queries_single_nearly_everybody_out_in_the_raw_log_and_nobody_in_a_shared_one():
    raw = Acquaintances(LOG, LOG, LOG.frame["user"]).attack(2, Noise.seeded(1))
    assert raw.raw == raw.singled_out == raw.found
    assert raw.raw.at_least > 0.95
    release = make("microaggregate", k=3, k_text=3).protect(LOG, Noise.seeded(1))
    shared = Acquaintances(LOG, release.log, release.receivers).attack(5, Noise.seeded(1))
    assert shared.raw.at_least > 0.95
    assert (shared.singled_out.right, shared.found.right, shared.found.tried) == (0, 0, 300)
    assert shared.singled_out.at_most < 0.01


def test_who_is_singled_out_in_a_mixed_stream_is_somebody_else():
    release = make("stream", k=3, k_text=2, mode="paper").protect(LOG, Noise.seeded(1))
    found = Acquaintances(LOG, release.log, release.receivers).attack(1, Noise.seeded(1))
    assert found.singled_out.at_least > 0.4
    assert found.found.right == 0  # in paper mode a record never carries its owner's name


def test_known_queries_that_the_release_lacks_are_passed_over():
    raw = QueryLog.of([("ann", "tulips"), ("ann", "gone"), ("bob", "gone")])
    released = QueryLog.of([("u1", "tulips"), ("u2", "chess")])
    found = Acquaintances(raw, released).attack(2, Noise.seeded(1))
    assert (found.singled_out.right, found.singled_out.tried, found.found) == (1, 2, None)


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), min_size=1, max_size=40),
    st.lists(st.tuples(st.sampled_from("pqrst"), st.sampled_from("uvwxyz")), min_size=1, max_size=40),
    st.integers(1, 4),
)
@settings(deadline=None)
def test_candidates_agree_with_plain_sets(raw_rows, shown_rows, m):
    raw, shown = QueryLog.of(raw_rows), QueryLog.of(shown_rows)
    attack = Acquaintances(raw, shown)
    texts = sorted({text for _, text in raw_rows} | {text for _, text in shown_rows})
    holders = defaultdict(set)
    for name, text in shown_rows:
        holders[text].add(name)
    choices = list(combinations(range(len(texts)), min(m, len(texts))))
    counts, only = attack.shown.candidates(np.array(choices, np.int64))
    names = attack.shown.users.to_list()
    for choice, count, one in zip(choices, counts.tolist(), only.tolist(), strict=True):
        sets = [holders[texts[place]] for place in choice if holders[texts[place]]]
        expected = set.intersection(*sets) if sets else set()
        assert count == min(len(expected), 2)
        assert count != 1 or {names[one]} == expected


def test_draws_are_texts_of_the_person_without_repetition_and_each_is_as_likely():
    """n = 30,000 draws of 2 of 4 texts: each of the 6 pairs has 1/6, within 5 standard errors (α < 1e-6)."""
    log = QueryLog.of([("a", t) for t in "wxyz"] + [("b", "w")])
    held = Holdings(log.frame, log.frame["query"].unique().sort())
    drawn = held.drawn(np.zeros(30_000, np.int64), 2, Noise.seeded(1))
    pairs, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(pairs) == 6
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert np.abs(counts / 30_000 - 1 / 6).max() < 5 * np.sqrt(5 / 36 / 30_000)
    assert held.drawn(np.ones(3, np.int64), 3, Noise.seeded(1)).tolist() == [[0, 0, 0]] * 3


def test_a_sample_is_as_large_as_asked_and_parameters_are_checked():
    attack = Acquaintances(LOG, LOG)
    assert attack.attack(1, Noise.seeded(1), people=40).raw.tried == 40
    with pytest.raises(ParameterError, match="known must be"):
        attack.attack(0, Noise.seeded(1))


def test_capitals_marks_and_the_order_of_words_hide_nobody():
    raw = synth(users=80, records=2000, seed=1)
    shouted = QueryLog(raw.frame.with_columns(pl.col("query").str.to_uppercase() + " !"))
    for known in (1, 3):
        as_typed = Acquaintances(raw, raw).attack(known, Noise.seeded(1))
        loud = Acquaintances(raw, shouted).attack(known, Noise.seeded(1))
        assert loud.singled_out.share > as_typed.singled_out.share - 0.05
        assert loud.singled_out.share > 0.3


def test_one_unknown_owner_does_not_end_the_attack():
    raw = synth(users=80, records=2000, seed=1)
    behind = raw.frame["user"]
    holes = behind.to_frame().with_row_index().select(pl.when(pl.col("index") % 5 > 0).then("user"))["user"]
    full, known = (Acquaintances(raw, raw, people).attack(3, Noise.seeded(1)).found for people in (behind, holes))
    assert known.right >= full.right - 2 > 0  # who has few records may have none left
    nobody_knows = pl.select(pl.when(behind != behind[0]).then(behind))["user"]
    some = Acquaintances(raw, raw, nobody_knows).attack(3, Noise.seeded(1)).found
    assert full.right - 1 <= some.right <= full.right
