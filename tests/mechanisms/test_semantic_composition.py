"""Many draws together: the figures of the specification, exact enumeration on toys, bounds that really bound."""

import dataclasses
import math
from itertools import product

import numpy as np
import pytest
from scipy import fft
from scipy.optimize import brentq

from queryveil.knowledge.wordnet import WordNet
from queryveil.mechanisms.semantic import composition, sealed
from queryveil.mechanisms.semantic.calibration import Certified, calibrate, loss
from queryveil.mechanisms.semantic.composition import (
    calibrate_repeated,
    least_curve,
    losses_above,
    pair_curve,
    repeated,
)
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import ClassLaw
from queryveil.privacy import repeated_losses
from semantic_oracle import toy_domain
from vectors.semantic import EPSILON_OF_A_RESPONSE


@pytest.fixture(autouse=True)
def a_cache_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(sealed, "cache_folder", lambda: tmp_path)
    return tmp_path


def certified(law: ClassLaw, criterion: str, exponent: float) -> Certified:
    found = loss(law)
    return Certified(law, criterion, exponent, found.epsilon, (0, 0, 0), found.epsilon)


class Response:
    """k-ary randomised response over any number of concepts, as far as the accountant looks at it."""

    def __init__(self, size: int, epsilon: float) -> None:
        self.domain = range(size)
        self.same = math.exp(epsilon) / (math.exp(epsilon) + size - 1)

    def probability(self, concept: int, output: int) -> float:
        return self.same if concept == output else (1 - self.same) / (len(self.domain) - 1)


@pytest.mark.parametrize(("size", "per_query"), EPSILON_OF_A_RESPONSE.items())
def test_a_hundred_responses_are_within_ten_and_a_millionth_and_use_it(size, per_query):
    at = composition._composed(Response(size, per_query), "nsqc", per_query, 100, 1e-6)
    assert at == pytest.approx(10.0, rel=2e-4)
    assert at >= 10.0 - 1e-6
    assert composition._composed(Response(size, per_query * 0.999), "nsqc", per_query * 0.999, 100, 1e-6) < 10.0


def tilted_delta(law: Response, epsilon: float, times: int, total: float) -> float:
    """δ of many responses by a transform of their law tilted to `total`: an oracle for what nobody can enumerate."""
    losses, chances = np.array([-1, 0, 1]), np.array([law.probability(0, 1), 0.0, law.probability(0, 0)])
    chances[1] = 1 - chances.sum()

    def tilted(tilt: float) -> np.ndarray:
        return chances * np.exp(tilt * losses) / (chances @ np.exp(tilt * losses))

    tilt = brentq(lambda t: times * epsilon * (tilted(t) @ losses) - total, -20, 20)
    law_here = tilted(tilt)
    mean = times * (law_here @ losses)
    spread = math.sqrt(times * (law_here @ losses**2) - mean**2 / times)
    first, bins = int(mean - 12 * spread), fft.next_fast_len(int(24 * spread) + 3)
    wrapped = np.zeros(bins)
    np.add.at(wrapped, losses % bins, law_here)
    sums = np.real(fft.ifft(fft.fft(wrapped) ** times))
    places = np.arange(first, first + bins)
    above = places * epsilon > total
    scale = times * math.log(chances @ np.exp(tilt * losses)) - tilt * places[above]
    return float(sums[places[above] % bins] @ (np.exp(scale) * -np.expm1(total - places[above] * epsilon)))


@pytest.mark.parametrize(
    ("per_query", "times", "delta"),
    [(1.5, 100, 3e-13), (0.37, 10**4, 3e-13), (0.1, 10**6, 3e-13), (0.04, 10**6, 1e-12), (0.1, 10**6, 1e-10)],
)
def test_many_responses_are_within_a_small_delta(per_query, times, delta):
    """A margin for rounding that does not grow with the number of draws is above it at 10^6 draws."""
    law = Response(606, per_query)
    total = composition._composed(law, "nsqc", per_query, times, delta)
    assert 0.99 * delta < tilted_delta(law, per_query, times, total) <= delta


@pytest.mark.parametrize("epsilon", [2.0, 1e-2, 1e-4])
def test_the_losses_made_from_a_curve_have_one_that_is_nowhere_below(epsilon):
    """Also where the points are so near that differences are mostly rounding."""
    domain = Domain.named(WordNet.load().nouns, "contact_sport", outside=True)
    law = calibrate(domain, "sqc1", epsilon).law
    gap, curve = pair_curve(law.matrix(), epsilon)
    losses = losses_above(curve, gap, -composition.POINTS)
    places = np.arange(len(curve))
    for place in (*range(0, len(curve) - 1, 50), len(curve) - 2):
        shares = -np.expm1(-gap * (places[place + 1 :] - place))
        assert math.fsum(losses.chances[place + 1 :] * shares) >= curve[place]
    assert 1 <= losses.chances.sum() < 1 + 1e-6


def exact_delta(matrix: np.ndarray, one: tuple, other: tuple, epsilon: float) -> float:
    """δ of several draws between two sequences of inputs, over all sequences of outputs."""
    total = 0.0
    for outputs in product(range(len(matrix)), repeat=len(one)):
        p = math.prod(matrix[i, o] for i, o in zip(one, outputs, strict=True))
        q = math.prod(matrix[i, o] for i, o in zip(other, outputs, strict=True))
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


@pytest.mark.parametrize("criterion", ["sqc1", "nsqc"])
@pytest.mark.parametrize("delta", [1e-1, 1e-2, 1e-3])
def test_three_draws_on_the_toy_are_within_what_is_said_by_exact_enumeration(criterion, delta):
    found = calibrate(toy_domain(), criterion, 1.0)
    claimed = repeated(found, 3, delta)
    matrix = found.law.matrix()
    worst = max(
        exact_delta(matrix, (a, b, b), (c, d, c), claimed) for a, b, c, d in product((0, 2, 5), repeat=4) if a != c
    )
    assert worst <= delta
    assert claimed <= 3.0 * (1 + 1e-12)


def test_one_draw_by_enumeration_is_tight_for_response():
    found = calibrate(toy_domain(), "nsqc", 2.0)
    claimed = repeated(found, 1, 0.05)
    assert exact_delta(found.law.matrix(), (0,), (5,), claimed) == pytest.approx(0.05, rel=5e-3)


def test_both_curves_lie_above_the_curve_of_every_pair():
    domain = Domain.named(WordNet.load().nouns, "contact_sport", outside=True)
    law = ClassLaw.of(domain, "sqc1", 3.0)
    matrix, epsilon = law.matrix(), loss(law).epsilon
    gap, pairs = pair_curve(matrix, epsilon)
    least_gap, least = least_curve(law, epsilon)
    for place, t in enumerate(np.arange(-composition.POINTS, composition.POINTS + 1) * gap):
        if place % 100 == 0:
            exact = np.maximum(matrix[:, None, :] - np.exp(t) * matrix[None, :, :], 0).sum(axis=2).max()
            rounded = np.maximum(matrix[:, None, :] - np.exp(t - gap) * matrix[None, :, :], 0).sum(axis=2).max()
            assert exact - 1e-12 <= pairs[place] <= rounded + 1e-12
    for place in range(0, len(least), 200):
        exact = np.maximum(matrix[:, None, :] - np.exp(place * least_gap) * matrix[None, :, :], 0).sum(axis=2).max()
        assert least[place] >= exact - 1e-12
    assert pairs[-1] <= 1e-12
    assert least[-1] <= 1e-12


def test_the_bound_for_large_domains_is_not_below_the_one_of_all_pairs(monkeypatch):
    domain = Domain.named(WordNet.load().nouns, "sport", outside=True)
    law = ClassLaw.of(domain, "sqc1", 0.8)
    found = certified(law, "sqc1", 0.8)
    by_pairs = repeated(found, 100, 1e-6)
    monkeypatch.setattr(composition, "CONCEPTS_FOR_ALL_PAIRS", 0)
    by_least = repeated(found, 100, 1e-6)
    assert by_pairs <= by_least <= 100 * found.epsilon
    assert by_pairs < 0.5 * 100 * found.epsilon


def test_without_delta_losses_add_up():
    found = calibrate(toy_domain(), "sqc1", 0.1)
    assert repeated(found, 100, 0.0) == pytest.approx(10.0, rel=1e-9)
    assert repeated(found, 100, 0.0) >= 100 * found.epsilon


@pytest.mark.parametrize("criterion", ["sqc1", "nsqc"])
def test_a_law_calibrated_for_many_draws_spends_the_budget_and_no_more(criterion):
    domain = Domain.named(WordNet.load().nouns, "contact_sport", outside=True)
    found = calibrate_repeated(domain, criterion, 5.0, 1e-6, 50)
    assert 4.98 < repeated(found, 50, 1e-6) <= 5.0
    assert found.epsilon > 2 * 5.0 / 50
    again = calibrate_repeated(domain, criterion, 5.0, 1e-6, 50)
    assert again.digest == found.digest


def test_what_was_measured_is_kept_and_compared_with_the_claim_again(monkeypatch):
    """A file under the right key, of a law whose measured loss is above the claim, is not taken."""
    honest = calibrate_repeated(toy_domain(), "nsqc", 5.0, 1e-6, 50)
    assert honest.epsilon <= honest.measured <= 5.0
    above = dataclasses.replace(honest, measured=5.1)
    with monkeypatch.context() as careless:
        careless.setattr(composition, "search", lambda *rest: above)
        assert calibrate_repeated(toy_domain(outside=True), "nsqc", 5.0, 1e-6, 50) is above
    again = calibrate_repeated(toy_domain(outside=True), "nsqc", 5.0, 1e-6, 50)
    assert repeated(again, 50, 1e-6) <= again.measured <= 5.0


def test_another_version_of_the_accountant_is_a_new_claim(a_cache_of_its_own, monkeypatch):
    calibrate_repeated(toy_domain(), "nsqc", 5.0, 1e-6, 50)
    assert len(list(a_cache_of_its_own.iterdir())) == 1
    monkeypatch.setattr(repeated_losses, "VERSION", repeated_losses.VERSION + 1)
    calibrate_repeated(toy_domain(), "nsqc", 5.0, 1e-6, 50)
    assert len(list(a_cache_of_its_own.iterdir())) == 2


def test_one_draw_is_never_calibrated_above_all_of_them_together():
    """With δ = 0.3 a single response may lose more than ε with probability δ; that is not made use of."""
    found = calibrate_repeated(toy_domain(), "nsqc", 1.0, 0.3, 1)
    assert repeated(found, 1, 0.3) < 0.9
    assert found.epsilon <= 1.0
