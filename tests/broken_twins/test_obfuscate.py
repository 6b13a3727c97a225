"""Wrong variants of obfuscation that look right: each is rejected by the judge that accepts the real one.

*Law judge*: 20,000 draws for a word of a toy against the exact law, χ² at α = 1e-6 (spec 003: 248 to 1,184 suffice).
*Noise judge*: moments of 100,000 noise vectors as `NoisyWords.points` makes them. A squared coordinate has mean 3 and
fourth moment 45 (in units of Σ), so the mean of 100,000 has a relative deviation of 0.63 %; 3.2 % are allowed, 5 such
(α < 1e-6), and a variance that is 6.4 % off is caught.
*Ratio judge*: log-ratio of the whole numbers that are drawn from, over all pairs of words and answers, against ε·d.
*Repeat judge*: the same question gives the same answers. *Verbatim judge*: no unknown word comes out.
"""

import itertools
import math

import numpy as np
import pytest

from mechanisms.obfuscation_oracle import (
    ALPHA,
    CMP_ON_THE_LINE,
    DRAWS,
    VICKREY_ON_THE_LINE,
    cloud,
    line,
    p_value,
    vocabulary,
)
from queryveil.mechanisms.obfuscate import Obfuscate
from queryveil.mechanisms.obfuscate.noisy import NoisyWords
from queryveil.mechanisms.obfuscate.selecting import SelectedWords
from queryveil.mechanisms.obfuscate.words import Reader, tokens_of
from queryveil.privacy import Noise
from queryveil.privacy.noise import laplace_words

NOISE_DRAWS = 100_000


def stream(seed=1):
    return Noise.seeded(seed).stream("test")


# The law of plain and Vickrey on a line


class HalfTheNoise(NoisyWords):
    def points(self, indices, words):
        plain = self.vectors.matrix[indices]
        return plain + (super().points(indices, words) - plain) / 2


class NoiseOffCentre(NoisyWords):
    """Noise that moves every word a little to one side."""

    def points(self, indices, words):
        return super().points(indices, words) + 0.2


class SwappedT(NoisyWords):
    def _answers(self, indices, words, total):
        mine, self.t = self.t, 1 - self.t
        try:
            return super()._answers(indices, words, total)
        finally:
            self.t = mine


class AlwaysTheNearest(NoisyWords):
    def _answers(self, indices, words, total):
        return self.search.two(self.points(indices, words[:, :-1]))[0][:, 0]


class AlwaysTheSecond(NoisyWords):
    def _answers(self, indices, words, total):
        return self.search.two(self.points(indices, words[:, :-1]))[0][:, 1]


class ChoosesWithTheSameWordAsTheNoise(NoisyWords):
    """The Vickrey chance is not a draw of its own, but the first of the noise."""

    def _answers(self, indices, words, total):
        return super()._answers(indices, np.concatenate([words[:, :-1], words[:, :1]], axis=1), total)


def fits(mechanism, rows) -> bool:
    return all(p_value(mechanism.replace(np.full(DRAWS, word), stream(word)), rows[word]) > ALPHA for word in range(3))


def test_the_law_judge_accepts_the_real_ones():
    assert fits(NoisyWords(line(), epsilon=1.0), CMP_ON_THE_LINE)
    assert fits(NoisyWords(line(), epsilon=1.0, t=0.75), VICKREY_ON_THE_LINE)


@pytest.mark.parametrize("broken", [HalfTheNoise, NoiseOffCentre, AlwaysTheSecond])
def test_the_law_judge_rejects_broken_noise(broken):
    assert not fits(broken(line(), epsilon=1.0), CMP_ON_THE_LINE)


@pytest.mark.parametrize("broken", [SwappedT, AlwaysTheNearest, AlwaysTheSecond, ChoosesWithTheSameWordAsTheNoise])
def test_the_law_judge_rejects_broken_vickrey_choices(broken):
    assert not fits(broken(line(), epsilon=1.0, t=0.75), VICKREY_ON_THE_LINE)


# The noise in two dimensions with Σ = diag(1.8, .2), as the covariance of four words, at ε = 2

SIGMA = np.array([1.8, 0.2])
EPSILON = 2.0


def cross():
    """Four words whose covariance is diag(9, 1) / 2, so diag(1.8, .2) at trace 2."""
    return vocabulary([[3, 0], [-3, 0], [0, 1], [0, -1]])


def normals(seed=1):
    return np.random.default_rng(seed).standard_normal((NOISE_DRAWS, 2))


def noise_of(mechanism):
    """What the mechanism adds to a vector, times ε."""
    words = stream().words(NOISE_DRAWS * laplace_words(2)).reshape(NOISE_DRAWS, -1)
    places = np.zeros(NOISE_DRAWS, np.int64)
    return (mechanism.points(places, words) - mechanism.vectors.matrix[0]) * mechanism.epsilon


def real_noise():
    return noise_of(NoisyWords(cross(), epsilon=EPSILON, lambda_=1.0))


def released_sampler():
    """The authors' program: the coloured direction is scaled back to Euclidean length 1."""
    coloured = normals() * np.sqrt(SIGMA)
    unit = coloured / np.linalg.norm(coloured, axis=1, keepdims=True)
    return unit * np.random.default_rng(2).gamma(2, 1, (NOISE_DRAWS, 1))


def radius_of_shape_one():
    unit = normals() / np.linalg.norm(normals(), axis=1, keepdims=True)
    return unit * np.random.default_rng(2).gamma(1, 1, (NOISE_DRAWS, 1)) * np.sqrt(SIGMA)


class MultipliesByEpsilon(NoisyWords):
    """ε as the scale of the noise in place of its rate."""

    def points(self, indices, words):
        plain = self.vectors.matrix[indices]
        return plain + (super().points(indices, words) - plain) * self.epsilon**2


class WholeCovariance(NoisyWords):
    """Σ in place of its root."""

    @property
    def _root(self):
        return self.vectors.covariance(self.lambda_)


class ForgetsTheCovariance(NoisyWords):
    """Euclidean noise under a Mahalanobis promise."""

    _root = None


class SixPercentTooWide(NoisyWords):
    """The smallest fault that is surely caught."""

    def points(self, indices, words):
        plain = self.vectors.matrix[indices]
        return plain + (super().points(indices, words) - plain) * math.sqrt(1.064)


def independent_laplace_coordinates():
    return np.random.default_rng(2).laplace(size=(NOISE_DRAWS, 2)) * np.sqrt(SIGMA)


def good_moments(noise) -> bool:
    """Variances 5.4 and .6, and E‖z‖_M = 2."""
    length = np.linalg.norm(noise / np.sqrt(SIGMA), axis=1).mean()
    return np.allclose(noise.var(axis=0), [5.4, 0.6], rtol=0.032) and abs(length - 2) < 5 * math.sqrt(2 / NOISE_DRAWS)


def test_the_noise_judge_accepts_the_real_noise():
    assert good_moments(real_noise())


@pytest.mark.parametrize(
    "broken",
    [released_sampler, radius_of_shape_one, independent_laplace_coordinates],
)
def test_the_noise_judge_rejects_wrong_noise(broken):
    assert not good_moments(broken())


@pytest.mark.parametrize("broken", [MultipliesByEpsilon, WholeCovariance, ForgetsTheCovariance, SixPercentTooWide])
def test_the_noise_judge_rejects_mechanisms_that_use_it_wrongly(broken):
    assert not good_moments(noise_of(broken(cross(), epsilon=EPSILON, lambda_=1.0)))


# Exact ratios of the laws that are drawn from


class WholeEpsilonInTheExponent(SelectedWords):
    """ "The factor 2 is wasted": not here, where sums of weights differ from word to word."""

    def _weights(self, index):
        return super()._weights(index) ** 2


class SquaredDistance(SelectedWords):
    def _weights(self, index):
        cost = -2 / self.epsilon * np.log(super()._weights(index))
        return np.exp(-self.epsilon / 2 * cost**2)


class CutsOffFarWords(SelectedWords):
    """Truncation that leaves far words out in place of giving them all the same chance."""

    def _weights(self, index):
        weights = super()._weights(index)
        return np.where(weights < np.quantile(weights, 0.5), 0.0, weights)


def keeps_the_ratio(mechanism) -> bool:
    laws = []
    for word in range(len(mechanism.vectors)):
        weights = np.diff(mechanism._cumulative(word), prepend=0).astype(float)
        laws.append(weights / weights.sum())
    for a, b in itertools.permutations(range(len(laws)), 2):
        limit = mechanism.epsilon * mechanism.distances(np.array([a]), np.array([b]))[0]
        # The least weight here is above 2^24, so whole numbers move a log-ratio by less than 2^-22.
        if np.log(laws[a] / laws[b]).max() > limit + 2.0**-22:
            return False
    return True


@pytest.mark.parametrize("truncated", [False, True])
def test_the_ratio_judge_accepts_the_real_ones(truncated):
    assert keeps_the_ratio(SelectedWords(cloud(), epsilon=6.0, truncated=truncated))


@pytest.mark.parametrize("broken", [WholeEpsilonInTheExponent, SquaredDistance, CutsOffFarWords])
def test_the_ratio_judge_rejects_wrong_weights(broken):
    assert not keeps_the_ratio(broken(cloud(), epsilon=6.0, truncated=True))


# Repeats and unknown words


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    words = np.array(["public", "throat", "cancer", "weather", "train"])
    np.savez(folder / "toy.npz", words=words, vectors=np.random.default_rng(1).standard_normal((5, 3)))
    return str(folder / "toy.npz")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYVEIL_CACHE", str(tmp_path / "cache"))


class RedrawsOnRepeat(Obfuscate):
    def stream_of(self, indices, noise):
        return Noise.secure().stream("obfuscate")


class DependsOnHowManyAreAsked(Obfuscate):
    """n in the pseudo-random function: asking for 5 and then for 20 gives 25 answers to average."""

    def draw(self, indices, n, noise):
        words = self.words.replace(np.tile(indices, n), noise.repeatable(f"obfuscate {n}", self.settings(indices)))
        return words.reshape(n, len(indices))


class DependsOnSpelling(Obfuscate):
    """The text in the pseudo-random function: more answers for who types a query with a capital."""

    def obfuscate(self, query, n, noise):
        words = noise.repeatable("obfuscate", query.encode())
        drawn = self.words.replace(np.tile(self.reader.query(query), n), words).reshape(n, -1)
        return [self.reader.text(row) for row in drawn]


def repeats(kind, embedding) -> bool:
    mechanism, noise = kind(epsilon=2.0, n=40, embedding=embedding, mode="paper"), Noise.seeded(1)
    all_of_them = mechanism.obfuscate("throat cancer", 40, noise)
    again = mechanism.obfuscate("Throat cancer", 40, noise)
    return all_of_them == again and mechanism.obfuscate("throat cancer", 15, noise) == all_of_them[:15]


def test_the_repeat_judge_accepts_the_real_one(embedding):
    assert repeats(Obfuscate, embedding)


@pytest.mark.parametrize("broken", [RedrawsOnRepeat, DependsOnHowManyAreAsked, DependsOnSpelling])
def test_the_repeat_judge_rejects_noise_that_can_be_averaged(broken, embedding):
    assert not repeats(broken, embedding)


class UnknownWordsVerbatim(Obfuscate):
    def obfuscate(self, query, n, noise):
        known = iter(super().obfuscate(query, n, noise)[0].split())
        numbers = self.vectors.numbers
        return [" ".join(next(known) if token in numbers else token for token in tokens_of(query))]


class QueryItselfOnFailure(Obfuscate):
    def obfuscate(self, query, n, noise):
        try:
            return super().obfuscate(query, n, noise)
        except Exception:
            return [query]


def nothing_unknown_comes_out(kind, embedding) -> bool:
    mechanism = kind(epsilon=2.0, embedding=embedding, mode="paper")
    known = set(Reader(mechanism.vectors, keep_places=True).vectors.words.to_list())
    for query in ("zzyzx cancer", "zzyzx", "zzyzx " * 5000):
        try:
            sent = mechanism.obfuscate(query, 1, Noise.seeded(1))
        except Exception:
            continue
        if not {word for text in sent for word in text.split()} <= known:
            return False
    return True


def test_the_verbatim_judge_accepts_the_real_one(embedding):
    assert nothing_unknown_comes_out(Obfuscate, embedding)


@pytest.mark.parametrize("broken", [UnknownWordsVerbatim, QueryItselfOnFailure])
def test_the_verbatim_judge_rejects_words_that_slip_through(broken, embedding):
    assert not nothing_unknown_comes_out(broken, embedding)
