"""Whether distill's noise is what the promise needs, against sums that are known."""

import collections
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import log_ndtr

from queryveil.log import QueryLog
from queryveil.log.query_log import LocalTable
from queryveil.log.synthetic import synth
from queryveil.mechanisms.distill import tables
from queryveil.mechanisms.distill.budget import MOST_KEYS, REGIMES, STEPS, UNIT, Budget
from queryveil.mechanisms.distill.texts import vocabulary
from queryveil.privacy import Noise, noise
from queryveil.privacy.joint_gaussian import key_weight, union_threshold

EPSILON, DELTA = 4.0, 1e-8
PEOPLE = 1500


def spent(budget):
    """The whole δ that a budget's noise and thresholds spend at its ε, for each one of what was promised."""
    distance = math.sqrt(sum(UNIT**2 / (sigma * sigma - 4) for sigma in budget.sigmas.values()))
    epsilon = budget.epsilon
    gaussian = math.exp(log_ndtr(distance / 2 - epsilon / distance)) - math.exp(
        epsilon + log_ndtr(-distance / 2 - epsilon / distance)
    )
    unions = sum(
        max(
            keys * math.exp(log_ndtr(-(threshold - key_weight(keys, UNIT)) / budget.sigmas[name]))
            for keys in range(1, MOST_KEYS[name] + 1)
        )
        for name, threshold in budget.thresholds.items()
    )
    return (gaussian + unions) / budget.delta


class HalfTheNoise(Budget):
    @property
    def sigmas(self):
        whole = Budget(self.epsilon, self.delta, self.regime).sigmas
        return {name: sigma // 2 for name, sigma in whole.items()}


class NotDivided(Budget):
    """Every union spends what all of them have."""

    @property
    def thresholds(self):
        return {
            name: union_threshold(sigma=self.sigmas[name], delta=self.delta / 10, most_keys=most, unit=UNIT)
            for name, most in MOST_KEYS.items()
        }


@pytest.mark.parametrize("regime", range(REGIMES))
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0, 50.0])
def test_the_budget_is_spent_and_no_more(epsilon, regime):
    assert 0.99 < spent(Budget(epsilon, DELTA, regime)) <= 1
    assert spent(HalfTheNoise(epsilon, DELTA, regime)) > 100
    assert spent(NotDivided(epsilon, DELTA, regime)) > 1.3
    sigmas = Budget(epsilon, DELTA, regime).sigmas
    assert all(type(sigma) is int for sigma in sigmas.values())  # so that the sampler's σ² is σ² and not above
    assert sum(Fraction(UNIT**2, 2 * sigma**2) for sigma in sigmas.values()) <= Budget(epsilon, DELTA).rho
    assert sum(Fraction(UNIT**2, 2 * (sigma**2 - 4)) for sigma in sigmas.values()) <= (
        Budget(epsilon, DELTA).concentrated.rho
    )


@given(st.integers(-(10**9), 10**14), st.sampled_from([0.1, 1.0, 4.0, 50.0]))
def test_the_regime_is_how_many_steps_the_noisy_number_of_people_has_passed(noisy, epsilon):
    budget = Budget(epsilon, DELTA)
    ratio, slow = Fraction(noisy, budget.sigmas["users"]), 0
    while slow < len(STEPS) and ratio > STEPS[slow]:
        slow += 1
    assert budget.for_people(noisy) == Budget(epsilon, DELTA, slow)
    assert budget.for_people(noisy).sigmas["users"] == budget.sigmas["users"]


def check_the_noisy_number_decides(budget):
    """As many people as the first step: by chance of their noise on either side of it."""
    people = round(STEPS[0] * Budget(EPSILON, DELTA).sigmas["users"] / UNIT)
    log = QueryLog.of([(f"p{i}", "weather") for i in range(people)])
    found = [tables.collect(log.table(), Noise.seeded(seed), budget) for seed in range(6)]
    for one in found:
        noisy = int(one.cells["users"][0])
        assert one.budget.regime == Budget(EPSILON, DELTA).for_people(noisy).regime
        assert usual(one.cells["topics_3000"][2000:] / one.budget.sigmas["topics_3000"])
    assert {one.budget.regime for one in found} == {0, 1}


class ByTheExactNumber(Budget):
    """Takes the regime of the people that are there, whatever their noisy number is."""

    def for_people(self, noisy):
        exact = STEPS[0] * Budget(EPSILON, DELTA).sigmas["users"]
        return super().for_people(exact)


def test_shares_go_by_the_noisy_number_of_people():
    check_the_noisy_number_decides(Budget(EPSILON, DELTA))


def test_shares_chosen_by_the_exact_number_of_people_are_caught():
    with pytest.raises(AssertionError):
        check_the_noisy_number_decides(ByTheExactNumber(EPSILON, DELTA))


def usual(scaled):
    """Whether numbers look like standard normals (χ² of their squares at 1e-5 on each side; half the noise fails)."""
    chance = stats.chi2.cdf((scaled**2).sum(), len(scaled))
    return 1e-5 < chance < 1 - 1e-5


def test_every_public_cell_has_its_noise_where_nobody_is():
    budget = Budget(EPSILON, DELTA)
    found = tables.collect(QueryLog.empty().table(), Noise.seeded(7), budget)
    for name, cells in found.cells.items():
        assert usual(cells / budget.sigmas[name]), name
        if len(cells) > 10:
            assert not usual(2 * cells / budget.sigmas[name]), name


class Everything(Budget):
    @property
    def thresholds(self):
        return dict.fromkeys(MOST_KEYS, -(10**15))


@pytest.mark.parametrize("blocks", [1, 4])
def test_every_key_has_noise_of_its_own(blocks):
    """Everybody has one key in each union, of weight UNIT, and all keys come out: what is above UNIT is the noise."""
    words = vocabulary().words.to_list()[5000:]
    log = QueryLog.of([(f"p{i}", f"{words[i]} qz{i}z", None, 1, f"http://h{i}.org/") for i in range(PEOPLE)])
    table = LocalTable(log.table().frame, blocks=blocks)
    found = tables.collect(table, Noise.seeded(5), Everything(EPSILON, DELTA))
    sigmas = found.budget.sigmas
    assert found.budget.regime == 1
    drawn = {"pairs": (found.pairs["weight"].to_numpy() - UNIT) / sigmas["pairs"]}
    drawn |= {name: (keys["weight"].to_numpy() - UNIT) / sigmas[name] for name, keys in found.unions.items()}
    for name, scaled in drawn.items():
        assert len(scaled) == PEOPLE, name
        assert usual(scaled), name
        assert len(np.unique(scaled)) > 0.99 * PEOPLE, name


@pytest.mark.parametrize("blocks", [1, 8])
def test_no_stream_is_read_twice(blocks, monkeypatch):
    used = collections.Counter()
    begin, gaussian, words = noise.NoiseStream.__init__, noise.NoiseStream.discrete_gaussian, noise.NoiseStream.words

    def begun(self, key):
        self.address = key
        begin(self, key)

    def counted(draw):
        def drawing(self, *given):
            used[self.address] += 1
            return draw(self, *given)

        return drawing

    monkeypatch.setattr(noise.NoiseStream, "__init__", begun)
    monkeypatch.setattr(noise.NoiseStream, "discrete_gaussian", counted(gaussian))
    monkeypatch.setattr(noise.NoiseStream, "words", counted(words))
    table = LocalTable(synth(users=100, records=4000, seed=1).table().frame, blocks=blocks)
    tables.collect(table, Noise.seeded(1), Budget(EPSILON, DELTA))
    assert len(used) > 20 and set(used.values()) == {1}


def test_a_key_that_a_format_cannot_hold_is_none():
    log = QueryLog.of([(f"p{i}", "a\x00b", None, 1, "http://h.org/\tx") for i in range(400)])
    found = tables.collect(log.table(), Noise.seeded(1), Budget(EPSILON, DELTA))
    shown = "".join(key for keys in found.unions.values() for key in keys["key"].to_list())
    assert "\x00" not in shown and "/\tx" not in shown
