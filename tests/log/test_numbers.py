"""Integers that must be the same on every machine, against slow twins in plain Python."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from queryveil.log._numbers import Dice, below, fraction, head_first, mixed, pick, zipf

WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20)


def words(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def slow_mixed(word: int, salt: int) -> int:
    z = (word + (salt + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def test_splitmix_gives_its_published_first_output_for_seed_zero():
    assert int(mixed(words([0]), 0)[0]) == 0xE220A8397B1DCDAF


@given(WORDS, st.integers(0, 100))
def test_mixing_is_splitmix(values, salt):
    assert mixed(words(values), salt).tolist() == [slow_mixed(value, salt) for value in values]


@given(WORDS, st.integers(1, 2**31))
def test_scaling_down_takes_the_top_bits(values, limit):
    assert below(words(values), limit).tolist() == [(value >> 32) * limit >> 32 for value in values]
    assert head_first(words(values), limit).max() < limit


@given(WORDS, st.lists(st.integers(0, 1000), min_size=1, max_size=8).filter(any))
def test_picking_follows_the_weights_exactly(values, weights):
    def slow(value: int) -> int:
        at = int(Fraction(value >> 11, 2**53) * sum(weights))
        return next(i for i in range(len(weights)) if at < sum(weights[: i + 1]))

    assert pick(words(values), weights).tolist() == [slow(value) for value in values]


def test_the_largest_word_stays_below_one():
    assert fraction(words([2**64 - 1]))[0] == 1 - 2**-53
    assert pick(words([2**64 - 1]), zipf(1000))[0] == 999


def test_zipf_weights_fall_as_one_over_the_rank():
    assert zipf(4).tolist() == [2**32, 2**31, 2**32 // 3, 2**30]


def test_dice_repeat_themselves_for_a_seed():
    assert Dice(5).words(3).tolist() == Dice(5).words(3).tolist() != Dice(6).words(3).tolist()
    assert sorted(Dice(5).permutation(50).tolist()) == list(range(50)) != Dice(5).permutation(50).tolist()
