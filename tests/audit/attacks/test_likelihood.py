"""The likelihood attack: exact on three words on a line, strong where ε is large, blind where it is small.

How each law is known, estimated or learned: test_word_law.py.
"""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from queryveil.audit.attacks import _learned_law
from queryveil.audit.attacks.likelihood import bayes_vulnerability, guess_words, log_chance_of_occurring, recovery
from queryveil.errors import ParameterError
from queryveil.knowledge import word_distances
from queryveil.knowledge.embeddings import WordVectors
from queryveil.mechanisms.obfuscate import word_mechanism
from queryveil.privacy import Noise
from vectors.obfuscate import LAW_ON_THE_LINE

CMP_LINE = np.array(LAW_ON_THE_LINE[1.0]["cmp"])
VKR_LINE = np.array(LAW_ON_THE_LINE[1.0]["vickrey"])


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    path = tmp_path_factory.mktemp("line") / "line.npz"
    np.savez(path, words=np.array(["a", "b", "c"]), vectors=np.array([[0.0], [1.0], [3.0]], np.float32))
    return WordVectors.load(path)


@pytest.fixture(scope="module")
def glove():
    return WordVectors.load(most=2000)


class Silent:
    """A mechanism that can be run and tells nothing of its law."""

    def __init__(self, words):
        self.vectors, self.replace = words.vectors, words.replace


def best_chance(law, outputs):
    """The chance of the best guess from so many outputs, by listing them all."""
    return sum(
        max(np.prod([law[word, u] for u in seen]) for word in range(3)) / 3
        for seen in product(range(3), repeat=outputs)
    )


def test_bayes_vulnerability_is_the_best_guess_from_one_output():
    assert bayes_vulnerability(CMP_LINE) == pytest.approx((0.69673467 + 0.51279495 + 0.81606028) / 3, abs=1e-8)
    for law in (CMP_LINE, VKR_LINE):
        assert bayes_vulnerability(law) == pytest.approx(best_chance(law, 1))
    assert bayes_vulnerability(np.full((4, 4), 0.25)) == 0.25
    assert bayes_vulnerability(np.eye(4)) == 1.0


@pytest.mark.parametrize("told", [word_mechanism, lambda *given, **more: Silent(word_mechanism(*given, **more))])
@pytest.mark.parametrize(("name", "law"), [("cmp", CMP_LINE), ("vkr-cmp", VKR_LINE)])
def test_on_a_line_the_attack_does_as_well_as_the_best_possible(line, name, law, told):
    # 3,000 words, α = 1e-6: standard error .0086, so a loss of 5 points against the best attack is caught.
    words = np.tile(np.arange(3), 1000)
    mechanism = told(name, line, epsilon=1.0)
    found = recovery(mechanism, words, Noise.seeded(4), counts=(1, 2, 3), draws=2000)
    for count, success in found.by_count.items():
        chance = best_chance(law, count)
        limits = stats.binom.ppf([5e-7, 1 - 5e-7], len(words), chance)
        assert limits[0] <= success.right <= limits[1], (count, success.share, chance)
    kept = np.trace(law) / 3
    limits = stats.binom.ppf([5e-7, 1 - 5e-7], 3 * len(words), kept)
    assert limits[0] <= found.kept.right <= limits[1]


def test_on_a_line_the_guess_from_one_output_is_the_likeliest_word(line):
    mechanism = word_mechanism("vkr-cmp", line, epsilon=1.0)
    guesses = guess_words(mechanism, np.array([[0], [1], [2]]), Noise.seeded(1), counts=(1,), draws=50_000)[1][0]
    assert guesses.tolist() == VKR_LINE.argmax(axis=0).tolist() == [0, 1, 2]


def test_an_attacker_with_20_obfuscations_recovers_words_that_single_outputs_hide(glove):
    # Vickrey at ε = 50 answers with the true word less than 2 times in 3, yet 20 answers give nearly every word away.
    # 30 words: at a true recovery of .5 the chance of 24 right or more is 7e-4; of .35 below 1e-6.
    words = Noise.seeded(9).stream("targets").permutation(len(glove))[:30]
    found = recovery(word_mechanism("vkr-cmp", glove, epsilon=50.0), words, Noise.seeded(2), counts=(20,))
    assert found.kept.share < 0.65
    assert found.by_count[20].right >= 24
    assert found.by_count[20].at_least > found.kept.share


def test_a_large_epsilon_hides_nothing_and_a_small_one_hides_the_word(glove):
    # 30 words each. By chance a word is found with probability 1/2000: 4 of 30 right would have probability 2e-9.
    words = Noise.seeded(9).stream("targets").permutation(len(glove))[:30]
    open_book = recovery(word_mechanism("cmp", glove, epsilon=50.0), words, Noise.seeded(2), counts=(1, 5))
    assert [open_book.by_count[n].right for n in (1, 5)] == [30, 30]
    hidden = recovery(word_mechanism("cmp", glove, epsilon=0.2), words, Noise.seeded(2), counts=(20,), draws=100)
    assert hidden.by_count[20].right <= 3
    assert hidden.by_count[20].at_most < 0.3


def test_a_mechanism_with_half_the_noise_it_claims_is_noticed(glove):
    # The broken twin of ε = 4 runs at ε = 8. 30 words from 5 outputs each; the exact bounds at 95 % must not overlap.
    words = Noise.seeded(9).stream("targets").permutation(len(glove))[:30]
    claimed, twin = (
        recovery(word_mechanism("cmp", glove, epsilon=epsilon), words, Noise.seeded(5), counts=(5,), draws=150)
        for epsilon in (4.0, 8.0)
    )
    assert claimed.by_count[5].at_most < twin.by_count[5].at_least


def test_the_same_outputs_give_the_same_guesses(line):
    mechanism = word_mechanism("cmp", line, epsilon=1.0)
    outputs = np.array([[0, 1, 0], [2, 2, 1]])
    first, second = (guess_words(mechanism, outputs, Noise.seeded(4), counts=(1, 3)) for _ in range(2))
    assert {count: found.tolist() for count, found in first.items()} == {
        count: found.tolist() for count, found in second.items()
    }


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("name", ["cmp", "vkr-cmp", "tem"])
@pytest.mark.parametrize("epsilon", [1e3, 1e5])
def test_where_the_noise_never_moves_a_word_the_attack_finds_it_and_takes_no_logarithm_of_0(
    line, name, epsilon, silent
):
    """The fitted law underflows to 0 away from the word itself; pytest turns NumPy's warning into an error."""
    mechanism = word_mechanism(name, line, epsilon=epsilon)
    mechanism = Silent(mechanism) if silent else mechanism
    with np.errstate(divide="raise", invalid="raise"):
        found = recovery(mechanism, np.arange(3), Noise.seeded(1), counts=(1, 5), draws=50)
    if name != "vkr-cmp":  # whose second nearest word comes up however small the noise is
        assert found.kept.share == 1.0
    assert [found.by_count[count].right for count in (1, 5)] == [3, 3]


def test_an_output_that_no_word_ever_gives_has_the_chance_of_the_floor(line):
    law = _learned_law.DistanceLaw(word_mechanism("cmp", line, epsilon=1e5), Noise.seeded(1).stream("fit"))
    chances = law.chances(np.array([0, 0]), np.array([0, 2]))
    assert chances == pytest.approx([1.0, _learned_law.FLOOR])
    learned = _learned_law.LearnedLaw(law, np.arange(3), 50, Noise.seeded(2))
    assert np.isfinite(learned.log_chances(np.array([0]), np.array([2]))).all()


def test_the_law_over_the_vocabulary_in_blocks_is_that_of_one_table(glove, monkeypatch):
    monkeypatch.setattr(word_distances, "DISTANCES_AT_ONCE", 300 * 7)
    law = _learned_law.DistanceLaw(word_mechanism("cmp", glove, epsilon=5.0), Noise.seeded(1).stream("fit"))
    words = np.array([0, 255, 256, 299, 300, 1000, 1999])
    matrix = np.asarray(glove.matrix, np.float64)
    away = np.linalg.norm(matrix[words][:, None] - matrix, axis=2)
    assert np.concatenate([block.copy() for _, block in law._distances.blocks(words)], axis=1) == pytest.approx(
        away, abs=1e-4
    )
    assert law.log_totals(words) == pytest.approx(np.log(np.exp(-law.scale * away).sum(axis=1)), abs=1e-4)
    assert law.chances(words, words) == pytest.approx(np.exp(-law.log_totals(words)))


def test_words_occur_in_a_log_as_zipf_says_and_a_long_log_holds_the_frequent_ones_for_certain():
    few, many = (np.exp(log_chance_of_occurring(1000, words)) for words in (10, 100_000))
    harmonic = sum(1 / rank for rank in range(1, 1001))
    assert few[[0, 9, 999]] == pytest.approx([1 - np.exp(-10 / rank / harmonic) for rank in (1, 10, 1000)])
    assert many[:100] == pytest.approx(np.ones(100), abs=1e-6)
    assert (np.diff(few) < 0).all()


def test_who_expects_frequent_words_finds_more_of_them_and_the_better_attacker_counts(glove):
    # 300 of the 500 most frequent words under custext at ε = 0.5: blind to all but the set. By exact binomial tests the
    # flat attacker's share is near 1/20; the other's must be beyond its interval at α = 1e-6.
    words = Noise.seeded(9).stream("targets").permutation(500)[:300]
    mechanism = word_mechanism("custext", glove, epsilon=0.5)
    prior = log_chance_of_occurring(len(glove), 100)
    flat, expecting, both = (
        recovery(mechanism, words, Noise.seeded(2), counts=(1,), log_priors=np.array(priors)).by_count[1]
        for priors in ([0 * prior], [prior], [0 * prior, prior])
    )
    assert stats.binomtest(expecting.right, 300, flat.share, alternative="greater").pvalue < 1e-6
    assert both == expecting


@pytest.mark.parametrize("options", [{"draws": 0}, {"shortlist": 0}, {"counts": (0,)}, {"draws": True}])
def test_wrong_numbers_are_refused(line, options):
    with pytest.raises(ParameterError):
        recovery(word_mechanism("cmp", line, epsilon=1.0), np.array([0]), Noise.seeded(1), **options)
