"""CMP, Mahalanobis and Vickrey: the exact numbers of the specification, and the draws against exact laws."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from mechanisms.obfuscation_oracle import (
    ALPHA,
    CMP_ON_THE_LINE,
    DRAWS,
    LINE,
    VICKREY_ON_THE_LINE,
    cloud,
    line,
    p_value,
    vocabulary,
)
from properties import examples
from queryveil.errors import KnowledgeError, ParameterError, RefusedError
from queryveil.mechanisms.obfuscate import noisy, word_mechanism
from queryveil.mechanisms.obfuscate.noisy import NoisyWords, longest_noise, vickrey_choice_probability
from queryveil.mechanisms.obfuscate.words import MOST_EXAMINED
from queryveil.privacy import Noise
from queryveil.privacy.noise import laplace_vectors, laplace_words
from vectors.obfuscate import LAW_ON_THE_LINE, RATIOS_OF_A_CELL


def stream(seed=1):
    return Noise.seeded(seed).stream("test")


def noise(dimension, count, seed=1):
    return laplace_vectors(stream(seed).words(count * laplace_words(dimension)).reshape(count, -1), dimension)


def law_on_the_line(epsilon, t):
    """P(answer | word) by integrating over where the point lands."""
    edges = [-60.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 60.0]  # words, borders of first and of second cells
    law = np.zeros((3, 3))
    for word, place in enumerate(LINE):

        def chance(point, answer, place=place):
            order = np.argsort(np.abs(np.array(LINE) - point), kind="stable")
            near, second = (abs(LINE[i] - point) for i in order[:2])
            first = float(vickrey_choice_probability(np.float64(near), np.float64(second), t))
            share = {order[0]: first, order[1]: 1.0 - first}.get(answer, 0.0)
            return share * epsilon / 2 * math.exp(-epsilon * abs(point - place))

        for answer in range(3):
            for low, high in pairwise(edges):
                law[word, answer] += integrate.quad(chance, low, high, args=(answer,), epsabs=1e-12)[0]
    return law


# The exact numbers


@pytest.mark.parametrize(
    ("nearest", "second", "t", "probability"),
    [
        (1.0, 2.0, 0.75, 0.4),
        (1.0, 1.0, 0.75, 0.25),
        (0.0, 1.0, 0.75, 1.0),
        (6.0, 7.8, 0.75, 0.3023255813953488),
        (1.0, 2.0, 1.0, 0.0),
        (1.0, 2.0, 0.0, 1.0),
        (1.0, 2.0, 0.5, 2 / 3),
        (0.0, 0.0, 0.75, 1.0),
    ],
)
def test_vickrey_chooses_the_nearest_word_as_often_as_the_paper_says(nearest, second, t, probability):
    assert vickrey_choice_probability(np.float64(nearest), np.float64(second), t) == pytest.approx(probability)


@pytest.mark.parametrize("epsilon", LAW_ON_THE_LINE)
def test_three_words_on_a_line_have_the_law_that_was_integrated_apart(epsilon):
    rows = LAW_ON_THE_LINE[epsilon]
    assert law_on_the_line(epsilon, 0.0) == pytest.approx(np.array(rows["cmp"]), abs=1e-9)
    assert law_on_the_line(epsilon, 0.75) == pytest.approx(np.array(rows["vickrey"]), abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("t", [0.0, 0.75])
def test_no_answer_on_the_line_tells_two_words_apart_by_more_than_epsilon_times_their_distance(epsilon, t):
    law = law_on_the_line(epsilon, t)
    for a in range(3):
        for b in range(3):
            assert np.log(law[a] / law[b]).max() <= epsilon * abs(LINE[a] - LINE[b]) + 1e-6


@pytest.mark.parametrize(("name", "printed"), [("cmp", CMP_ON_THE_LINE), ("vkr-cmp", VICKREY_ON_THE_LINE)])
def test_what_is_drawn_on_the_line_has_that_law_and_not_the_other(name, printed):
    mechanism = word_mechanism(name, line(), epsilon=1.0)
    other = VICKREY_ON_THE_LINE if name == "cmp" else CMP_ON_THE_LINE
    for word in range(3):
        drawn = mechanism.replace(np.full(DRAWS, word), stream(word))
        assert p_value(drawn, printed[word]) > ALPHA
        if word != 1:  # the middle word's two laws are nearly the same
            assert p_value(drawn, other[word]) < ALPHA


def test_vickrey_with_t_0_is_plain_cmp_draw_for_draw():
    words = np.arange(500) % 60
    plain = word_mechanism("cmp", cloud(), epsilon=3.0).replace(words, stream())
    assert word_mechanism("vkr-cmp", cloud(), epsilon=3.0, t=0.0).replace(words, stream()).tolist() == plain.tolist()
    assert word_mechanism("vkr-cmp", cloud(), epsilon=3.0, t=0.5).replace(words, stream()).tolist() != plain.tolist()


def test_mahalanobis_with_lambda_0_is_plain_cmp():
    words = np.arange(500) % 60
    plain = word_mechanism("cmp", cloud(), epsilon=3.0).replace(words, stream())
    assert word_mechanism("mhl", cloud(), epsilon=3.0, lambda_=0.0).replace(words, stream()).tolist() == plain.tolist()


# The noise


@pytest.mark.parametrize("dimension", [1, 2, 3, 50, 300])
def test_the_radius_has_mean_n_and_variance_n(dimension):
    """n = 100,000 draws, α = 1e-6 (4.9 standard errors). Caught: a mean off by 5/√(100,000·n), a shape off by one."""
    count = 100_000 if dimension < 300 else 20_000
    radius = np.linalg.norm(noise(dimension, count), axis=1)
    assert abs(radius.mean() - dimension) < 4.9 * math.sqrt(dimension / count)
    spread = math.sqrt((2 * dimension**2 + 6 * dimension) / count)  # of a Gamma variance
    assert abs(radius.var() - dimension) < 4.9 * spread


def test_300_dimensions_at_epsilon_10_have_the_radius_of_the_specification():
    """n = 20,000: mean 30 ± 0.06, coordinate variance 3.01; scale ε would give 3000, shape 1 would give 0.1."""
    drawn = noise(300, 20_000) / 10
    assert np.linalg.norm(drawn, axis=1).mean() == pytest.approx(30.0, abs=0.06)
    assert drawn.var() == pytest.approx(3.01, rel=0.01)


@pytest.mark.parametrize("dimension", [2, 3, 7])
def test_directions_are_uniform_and_independent_of_the_radius(dimension):
    """n = 100,000, α = 1e-6 for each of the moments: a share of 1 % of another direction would show."""
    drawn = noise(dimension, 100_000)
    radius = np.linalg.norm(drawn, axis=1)
    unit = drawn / radius[:, None]
    limit = 5.5 / math.sqrt(100_000)
    assert np.abs(unit.mean(axis=0)).max() < limit
    assert np.abs(unit.T @ unit / len(unit) - np.eye(dimension) / dimension).max() < limit
    assert np.abs([np.corrcoef(radius, unit[:, i] ** 2)[0, 1] for i in range(dimension)]).max() < limit


def test_mahalanobis_noise_has_the_variances_of_the_paper_and_not_those_of_the_released_program():
    """Σ = diag(1.8, .2), ε = 1: 5.4 and .6, where the released program has 4.5 and 1.5. 14,400 draws tell them apart
    at 5σ; here 100,000."""
    random = np.random.default_rng(5).standard_normal((4000, 2))
    random = (random - random.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(random, rowvar=False))).T
    mechanism = NoisyWords(vocabulary(random * np.sqrt([1.8, 0.2])), epsilon=1.0, lambda_=1.0)
    words = stream().words(100_000 * laplace_words(2)).reshape(100_000, -1)
    drawn = mechanism.points(np.zeros(100_000, np.int64), words) - mechanism.vectors.matrix[0]
    assert drawn.var(axis=0) == pytest.approx([5.4, 0.6], rel=0.04)
    assert np.linalg.norm(drawn / np.sqrt([1.8, 0.2]), axis=1).mean() == pytest.approx(2.0, rel=0.015)
    assert np.linalg.norm(drawn, axis=1).mean() == pytest.approx(1.902526, rel=0.015)


CELL = ((0.01, 0.04), (-0.01, 0.01))
"""Seen from a word at (0, 0) and another at (0, 0.1): the first sees it along the wide axis of Σ = diag(1.8, 0.2)."""


def chance_of_the_cell(density, word):
    """∫ density(point − word) over the cell; densities are those at ε = 1."""
    (left, right), (low, high) = CELL
    return integrate.dblquad(
        lambda y, x: density(x - word[0], y - word[1]), left, right, low, high, epsabs=1e-13, epsrel=1e-11
    )[0]


def right_density(x, y):
    return math.exp(-math.sqrt(x * x / 1.8 + y * y / 0.2)) / (2 * math.pi * 0.6)


def released_density(x, y):
    """Directions of Σ^½·normal, radius Gamma(2): the released program."""
    shape = (x * x / 1.8 + y * y / 0.2) / (x * x + y * y)
    return math.exp(-math.hypot(x, y)) / (2 * math.pi * 0.6 * shape)


def skewed_vocabulary():
    """Covariance diag(1.8, 0.2), with a word at the origin and one at (0, 0.1)."""
    cross = np.array([[a, 0.0] for a in (3.0, -3.0)] + [[0.0, a] for a in (1.0, -1.0)])
    return vocabulary(np.concatenate([np.repeat(cross, 500, axis=0), [[0.0, 0.0], [0.0, 0.1]]]))


def test_a_cell_tells_two_words_apart_within_the_mahalanobis_bound_and_the_released_program_breaks_it():
    """1.2235 ≤ e^(0.1 / √0.2) = 1.2506 < 6.7076."""
    bound = math.exp(0.1 / math.sqrt(0.2))
    right, released = (
        chance_of_the_cell(density, (0.0, 0.0)) / chance_of_the_cell(density, (0.0, 0.1))
        for density in (right_density, released_density)
    )
    assert bound == pytest.approx(RATIOS_OF_A_CELL["bound"])
    assert right == pytest.approx(RATIOS_OF_A_CELL["paper"])
    assert released == pytest.approx(RATIOS_OF_A_CELL["released program"])
    assert right <= bound < released


@pytest.mark.parametrize("place", [(0.0, 0.0), (0.0, 0.1)])
def test_draws_fall_into_the_cell_as_often_as_the_law_says(place):
    """n = 2,000,000, α = 1e-6: about 300 expected; the released program would have half as many again, or a quarter."""
    mechanism = NoisyWords(skewed_vocabulary(), epsilon=1.0, lambda_=1.0)
    assert mechanism.vectors.covariance(1.0) == pytest.approx(np.diag([1.8, 0.2]), abs=2e-3)
    seen, draws = 0, 2_000_000
    numbers = stream()
    for _ in range(8):
        words = numbers.words(draws // 8 * laplace_words(2)).reshape(draws // 8, -1)
        points = mechanism.points(np.zeros(draws // 8, np.int64), words) - mechanism.vectors.matrix[0] + place
        seen += int(((points > [CELL[0][0], CELL[1][0]]) & (points < [CELL[0][1], CELL[1][1]])).all(axis=1).sum())
    chances = [chance_of_the_cell(density, place) for density in (right_density, released_density)]
    low, high = stats.binom.ppf([5e-7, 1 - 5e-7], draws, chances[0])
    assert low <= seen <= high
    assert not low <= draws * chances[1] <= high


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 8), st.floats(0, 1))
def test_the_covariance_has_trace_n_and_its_root_squares_to_it(seed, dimension, share):
    vectors = vocabulary(np.random.default_rng(seed).standard_normal((50, dimension)))
    sigma, root = vectors.covariance(share), vectors.covariance_root(share)
    assert np.trace(sigma) == pytest.approx(dimension, abs=1e-8)
    assert root @ root == pytest.approx(sigma, abs=1e-8)


def test_many_questions_at_once_have_the_answers_of_each_by_itself(monkeypatch):
    monkeypatch.setattr(noisy, "DRAWS_AT_ONCE", 7)
    for name in ("cmp", "vkr-mhl"):
        mechanism = word_mechanism(name, cloud(), epsilon=5.0)
        asked = [np.arange(size) for size in (3, 0, 9, 1, 5)]
        alone = [mechanism.replace(indices, stream(seed)).tolist() for seed, indices in enumerate(asked)]
        together = mechanism.replace_many([(indices, stream(seed)) for seed, indices in enumerate(asked)])
        assert [drawn.tolist() for drawn in together] == alone
    assert mechanism.replace_many([]) == []


def test_answers_do_not_depend_on_how_many_follow():
    for name in ("cmp", "vkr-mhl"):
        mechanism = word_mechanism(name, cloud(), epsilon=5.0)
        long = mechanism.replace(np.arange(40), stream())
        assert mechanism.replace(np.arange(7), stream()).tolist() == long[:7].tolist()


# What is promised


@pytest.mark.parametrize("dimension", [1, 2, 50, 300])
def test_noise_is_hardly_ever_longer_than_the_bound_on_floating_point_assumes(dimension):
    """At most 2^-52, by the exact tail of Gamma(n); and no more than a few standard deviations too long."""
    assert stats.gamma.sf(longest_noise(dimension), dimension) <= 2.0**-52
    assert stats.gamma.sf(longest_noise(dimension) / 2, dimension) > 2.0**-52


def test_twice_the_mean_would_not_do_in_one_dimension():
    assert stats.gamma.sf(2, 1) == pytest.approx(math.exp(-2))
    assert longest_noise(1) > 36


@pytest.mark.parametrize("dimension", [1, 2, 50, 300])
def test_the_floating_point_error_counts_the_noise_the_vectors_and_the_tail(dimension):
    matrix = np.random.default_rng(dimension).standard_normal((20, dimension))
    matrix[0] = 0.0
    matrix[0, 0] = 100.0
    error = NoisyWords(vocabulary(matrix), epsilon=3.0).float_error
    length = 3.0 * 2 * 100.0 + longest_noise(dimension)
    assert error == pytest.approx((5 * 20 * (dimension / 16 + 40) * length + 1) * 2.0**-52)


def test_rounding_moves_a_noisy_point_by_less_than_the_bound_allows():
    """The point made in double precision against the exact sum, for words far from the origin."""
    vectors = vocabulary(np.random.default_rng(2).standard_normal((20, 50)) * 1e3)
    mechanism = NoisyWords(vectors, epsilon=10.0)
    words = stream().words(20 * laplace_words(50)).reshape(20, -1)
    noises = laplace_vectors(words, 50) / 10.0
    for row, drawn, point in zip(vectors.matrix, noises, mechanism.points(np.arange(20), words), strict=True):
        away = [
            Fraction(float(p)) - Fraction(float(x)) - Fraction(float(z))
            for p, x, z in zip(point, row, drawn, strict=True)
        ]
        moved = math.sqrt(float(sum(part * part for part in away)))
        assert moved <= (50 / 16 + 40) * 2.0**-52 * (2 * mechanism.search.longest + longest_noise(50) / 10.0)
        assert moved > 2.0**-60 * mechanism.search.longest  # the vectors' own length matters


def test_the_distance_is_that_of_the_noise():
    vectors = cloud()
    first, second = np.array([0, 5]), np.array([1, 5])
    sigma = np.linalg.inv(vectors.covariance(0.5))
    away = (vectors.matrix[0] - vectors.matrix[1]).astype(float)
    assert word_mechanism("cmp", vectors, epsilon=1.0).distances(first, second) == pytest.approx(
        [np.linalg.norm(away), 0.0]
    )
    assert word_mechanism("mhl", vectors, epsilon=1.0, lambda_=0.5).distances(first, second) == pytest.approx(
        [math.sqrt(away @ sigma @ away), 0.0]
    )


def test_the_smallest_eigenvalue_is_told_and_a_flat_vocabulary_is_refused():
    told = word_mechanism("mhl", cloud(), epsilon=1.0, lambda_=0.5).guarantee().statement()
    assert "Smallest eigenvalue of Σ" in told
    flat = vocabulary(np.random.default_rng(1).standard_normal((30, 3)) * [1, 1, 0])
    with pytest.raises(RefusedError, match="lambda below 1"):
        word_mechanism("mhl", flat, epsilon=1.0, lambda_=1.0)
    word_mechanism("mhl", flat, epsilon=1.0, lambda_=0.5)


def test_t_gives_no_privacy_beyond_that_of_the_noise():
    plain, vickrey = (word_mechanism(name, cloud(), epsilon=2.0).guarantee() for name in ("cmp", "vkr-cmp"))
    assert plain == vickrey


def test_deniability_counts_the_words_whose_density_at_the_points_is_at_least_half():
    vectors, epsilon = cloud(), 2.0
    mechanism = word_mechanism("cmp", vectors, epsilon=epsilon)
    words = np.array([4, 9])
    drawn = mechanism.replace(np.tile(words, 3), stream()).reshape(3, 2)
    again = stream().words(6 * (laplace_words(4) + 1)).reshape(6, -1)[:, :-1]
    points = (vectors.matrix[np.tile(words, 3)] + laplace_vectors(again, 4) / epsilon).reshape(3, 2, 4)
    for place, (word, count) in enumerate(zip(words, mechanism.deniability(words, drawn, stream()), strict=True)):
        density = [
            math.prod(math.exp(-epsilon * math.dist(p, v)) for p in points[:, place]) for v in vectors.matrix.tolist()
        ]
        assert count.words == sum(d >= density[word] / 2 for d in density)


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 20.0])
@pytest.mark.parametrize("name", ["cmp", "mhl"])
def test_deniability_in_blocks_counts_as_a_slow_look_at_every_word_does(name, epsilon, monkeypatch):
    monkeypatch.setattr(noisy, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(noisy, "POINTS_AT_ONCE", 2)
    monkeypatch.setattr(noisy, "DRAWS_AT_ONCE", 50)
    vectors = cloud()
    mechanism = word_mechanism(name, vectors, epsilon=epsilon, lambda_=0.7)
    words, draws = np.arange(25), 5
    drawn = mechanism.replace(np.tile(words, draws), stream()).reshape(draws, 25)
    each = laplace_words(4) + 1
    points = mechanism.points(np.tile(words, draws), stream().words(draws * 25 * each).reshape(-1, each)[:, :-1])
    inverse = np.eye(4) if name == "cmp" else np.linalg.inv(vectors.covariance(0.7))
    counts = mechanism.deniability(words, drawn, stream())
    assert len(counts) == MOST_EXAMINED == 20
    for place, count in enumerate(counts):
        away = points.reshape(draws, 25, 4)[:, place][:, None] - vectors.matrix.astype(float)[None]
        likely = -epsilon * np.sqrt(np.einsum("pwi,ij,pwj->pw", away, inverse, away)).sum(axis=0)
        assert count.words == (likely >= likely[place] - math.log(2)).sum()


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, 1e9, "1", True, None])
def test_a_bad_epsilon_is_refused(epsilon):
    with pytest.raises(ParameterError, match="epsilon must be"):
        word_mechanism("cmp", cloud(), epsilon=epsilon)


def test_a_vocabulary_of_one_word_is_refused():
    alone = cloud()
    one = type(alone).__new__(type(alone))
    one.matrix = alone.matrix[:1]
    with pytest.raises(KnowledgeError, match="at least two words"):
        word_mechanism("cmp", one, epsilon=1.0)
