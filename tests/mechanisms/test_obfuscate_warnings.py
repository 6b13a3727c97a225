"""Words that as good as always come out as they went in: told in the statement and before anything is sent."""

import numpy as np
import pytest
from scipy import stats

from mechanisms.obfuscation_oracle import cloud, line, vocabulary
from queryveil.mechanisms.obfuscate import WORD_MECHANISMS, Obfuscate, promise, word_mechanism
from queryveil.mechanisms.obfuscate.noisy import noise_beyond
from queryveil.mechanisms.obfuscate.words import SELECTING
from queryveil.privacy import Noise
from queryveil.privacy.noise import laplace_vectors, laplace_words


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYVEIL_CACHE", str(tmp_path / "cache"))


def stream(seed=1):
    return Noise.seeded(seed).stream("test")


@pytest.mark.parametrize("dimension", [1, 2, 3, 50])
def test_noise_reaches_so_far_in_one_direction_as_often_as_the_formula_says(dimension):
    # 40,000 draws, exact binomial at α = 1e-6 for each of three reaches: a chance off by a tenth is caught.
    words = stream().words(40_000 * laplace_words(dimension)).reshape(40_000, -1)
    first = laplace_vectors(words, dimension)[:, 0]
    for reach in (0.5, np.sqrt(dimension), 2 * np.sqrt(dimension)):
        chance = float(noise_beyond(np.array([reach]), dimension)[0])
        assert stats.binomtest(int((first > reach).sum()), len(first), chance).pvalue > 1e-6
        if chance > 0.01:
            assert stats.binomtest(int((first > reach).sum()), len(first), 0.8 * chance).pvalue < 1e-6


@pytest.mark.parametrize("name", WORD_MECHANISMS)
@pytest.mark.parametrize("epsilon", [2.0, 20.0, 500.0])
def test_a_word_comes_out_unchanged_at_least_as_often_as_is_told(name, epsilon):
    # 2,000 runs of 5 words; the told chance must not be rejected from below at α = 1e-6.
    mechanism = word_mechanism(name, cloud(), epsilon=epsilon, lambda_=0.5)
    words, nearest = (found[:5] for found in promise._nearest_of_sample(cloud()))
    told = mechanism.chance_unchanged(words, nearest)
    assert ((told >= 0) & (told <= 1)).all()
    for word, chance in zip(words.tolist(), told.tolist(), strict=True):
        same = int((mechanism.replace(np.full(2000, word), stream(word)) == word).sum())
        assert stats.binomtest(same, 2000, chance, alternative="less").pvalue > 1e-6
        if name in SELECTING:  # known exactly
            assert stats.binomtest(same, 2000, chance).pvalue > 1e-6


@pytest.mark.parametrize("name", [name for name in WORD_MECHANISMS if not name.startswith("vkr") and name != "wbb"])
def test_there_is_a_warning_where_words_are_certain_and_none_where_they_are_not(name):
    some, none = (word_mechanism(name, cloud(), epsilon=epsilon, lambda_=0.5) for epsilon in (5000.0, 1.0))
    assert promise.warnings(none) == ()
    (warning,) = promise.warnings(some)
    assert "100%" in warning
    assert "deniability 1" in warning
    assert warning in promise.of_words(some, n=1, mode="safe").not_protected
    assert warning in promise.of_words(some, n=1, mode="safe").statement()


def test_vickrey_is_never_certain_but_where_the_noise_is_next_to_nothing():
    assert promise.warnings(word_mechanism("vkr-cmp", line(), epsilon=1000.0)) == ()
    assert len(promise.warnings(word_mechanism("vkr-cmp", line(), epsilon=1e6))) == 1


def test_the_share_is_of_the_words_that_are_certain():
    """A pair of near words among eight far from everything."""
    vectors = vocabulary([[1000.0 * place, 0.0] for place in range(8)] + [[50_000.0, 0.0], [50_000.1, 0.0]])
    (warning,) = promise.warnings(word_mechanism("santext", vectors, epsilon=2.0))
    assert "80%" in warning


def test_the_baselines_and_ordinary_settings_warn_of_nothing():
    assert Obfuscate(mechanism="aed").warnings() == ()
