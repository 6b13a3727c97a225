"""What entries of different kinds lose together: never less than the exact loss of the worst releases of their kinds.

The oracle composes the worst releases there are, without any of our code: for pure ε and (ε, δ) randomised response
that gives itself away with probability δ (Kairouz, Oh and Viswanath 2015), for Gaussian entries normal laws with a
slack of runs that give themselves away. Losses are enumerated, δ is exact but for floats.
"""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from properties import examples
from queryveil.errors import DataError, ParameterError
from queryveil.privacy import Charge, Concentrated, composition
from queryveil.privacy.accounting import DELTA_UNIT, EPSILON_UNIT, Loss
from queryveil.privacy.bounds import concentrated_delta, exponential, gaussian_delta, normal_tail, square_root
from queryveil.privacy.composition import RHO_UNIT, Entry, fits, left, replaced, spent, times_left
from queryveil.privacy.joint_gaussian import joint_rho, joint_smoothed_rho


def pure(epsilon):
    return Entry.of(Charge.dataset(epsilon=epsilon))


def approx(epsilon, delta):
    return Entry.of(Charge.dataset(epsilon=epsilon, delta=delta))


def by_rho(rho, *, slack=0.0, more=0.0, gaussian=True, epsilon=50.0, delta=0.5):
    """An entry by ρ; its own ε and δ are so large that basic composition never helps."""
    numbers = {"rho": Fraction(str(rho)), "slack": Fraction(str(slack)), "pure": Fraction(str(more))}
    return Entry.of(
        Charge.dataset(epsilon=epsilon, delta=delta, concentrated=Concentrated(**numbers, gaussian=gaussian))
    )


def curve(mu, t):
    """Balle and Wang's δ at t, which may be negative."""
    if t > 600:
        return norm.cdf(mu / 2 - t / mu) if mu else 0.0
    if mu == 0:
        return max(0.0, 1 - math.exp(t))
    return norm.cdf(mu / 2 - t / mu) - math.exp(t) * norm.cdf(-mu / 2 - t / mu)


def exact_delta(epsilon, *, responses=(), given_away=(), mu=0.0):
    """δ of all of them together: randomised responses, chances of giving oneself away, one Gaussian."""
    found = 0.0
    for signs in itertools.product((1, -1), repeat=len(responses)):
        chance = math.prod(1 / (1 + math.exp(-sign * p)) for sign, p in zip(signs, responses, strict=True))
        found += chance * curve(mu, epsilon - sum(sign * p for sign, p in zip(signs, responses, strict=True)))
    return 1 - math.prod(1 - s for s in given_away) * (1 - found)


def exact_of(entries, epsilon):
    responses = [e.epsilon / EPSILON_UNIT for e in entries if not e.rho] + [
        e.pure / EPSILON_UNIT for e in entries if e.pure
    ]
    given_away = [(e.slack if e.rho else e.delta) / DELTA_UNIT for e in entries]
    mu = math.sqrt(2 * sum(e.rho for e in entries) / RHO_UNIT)
    return exact_delta(epsilon, responses=responses, given_away=given_away, mu=mu)


kinds = st.one_of(
    st.builds(pure, st.floats(0.001, 3).map(lambda x: round(x, 4))),
    st.builds(approx, st.floats(0.001, 2).map(lambda x: round(x, 4)), st.sampled_from([1e-9, 1e-7, 1e-5, 1e-3])),
    st.builds(
        lambda rho, slack, more, gaussian: by_rho(round(rho, 5), slack=slack, more=more, gaussian=gaussian),
        st.floats(0.0001, 1),
        st.sampled_from([0.0, 1e-8, 1e-4]),
        st.sampled_from([0.0, 0.0, 0.3]),
        st.booleans(),
    ),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(kinds, min_size=1, max_size=6), st.sampled_from([1e-6, 1e-4, 1e-2]))
def test_no_account_costs_less_than_the_worst_releases_of_its_kinds(entries, delta):
    """A Gaussian release is the worst there is for both kinds of ρ, up to what the moments say too much."""
    found = spent(Counter(entries), round(delta * DELTA_UNIT))
    if found is None:
        assert sum(e.slack if e.rho else e.delta for e in entries) >= delta * DELTA_UNIT * 0.99
        return
    assert exact_of(entries, found / EPSILON_UNIT) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("times", [1, 2, 10, 52, 500])
def test_gaussian_entries_cost_exactly_what_one_gaussian_of_their_rho_costs(times):
    found = spent(Counter({by_rho("0.02", slack=1e-9): times}), 10**12) / EPSILON_UNIT
    mu = math.sqrt(2 * 0.02 * times)
    exact = curve(mu, found) + times * 1e-9
    assert exact <= 1e-6
    assert curve(mu, found * (1 - 1e-4) - 1e-6) + times * 1e-9 > 1e-6  # and no less would do


def test_the_worst_releases_catch_every_wrong_way_of_adding_up(monkeypatch):
    """Broken twins: ρ once too few, ρ twice, δ forgotten (a slack, and a plain δ), ε of a mixed release forgotten."""
    budget_delta = 10**12
    gaussians = [by_rho("0.05", slack=3e-8)] * 8
    mixed = [by_rho("0.05", more=0.4)] * 2
    beside = [by_rho("0.05")] * 4 + [approx(0.001, 4e-7)] * 2

    def is_sound_and_tight():
        sound = all(
            exact_of(entries, spent(Counter(entries), budget_delta) / EPSILON_UNIT) <= 1e-6
            for entries in (gaussians, mixed, beside)
        )
        least = spent(Counter(gaussians), budget_delta) / EPSILON_UNIT
        return sound and exact_of(gaussians, least * 0.999) > 1e-6

    assert is_sound_and_tight()

    def twin(change):
        right = composition._gaussian_fits
        return lambda budget, account: right(budget, change(Counter(account)))

    def changed(account, **changes):
        def fields(entry):
            return {name: change(getattr(entry, name)) for name, change in changes.items()}

        from dataclasses import replace

        return Counter({replace(entry, **fields(entry)): times for entry, times in account.items()})

    twins = {
        "rho once too few": lambda account: Counter({e: max(1, n - 1) for e, n in account.items()}),
        "rho twice": lambda account: changed(account, rho=lambda rho: 2 * rho),
        "slack forgotten": lambda account: changed(account, slack=lambda _: 0),
        "delta forgotten": lambda account: changed(account, delta=lambda delta: 0 if delta < 10**15 else delta),
        "pure part forgotten": lambda account: changed(account, pure=lambda _: 0),
    }
    for name, change in twins.items():
        with monkeypatch.context() as patched:
            patched.setattr(composition, "_concentrated_fits", lambda *_: False)
            assert is_sound_and_tight()
            patched.setattr(composition, "_gaussian_fits", twin(change))
            assert not is_sound_and_tight(), name


@pytest.mark.parametrize(("times", "epsilon"), [(10, 0.1), (100, 0.1), (300, 0.02), (40, 0.5)])
def test_moments_of_pure_entries_bound_the_exact_loss_and_beat_the_plain_sum(times, epsilon):
    """n equal randomised responses: δ is a sum over a binomial law."""
    found = spent(Counter({pure(epsilon): times}), 10**12) / EPSILON_UNIT
    heads = np.arange(times + 1)
    chances = np.exp([math.lgamma(times + 1) - math.lgamma(k + 1) - math.lgamma(times - k + 1) for k in heads])
    chances *= (1 / (1 + math.exp(-epsilon))) ** heads * (1 / (1 + math.exp(epsilon))) ** (times - heads)
    excess = np.maximum(0, 1 - np.exp(found - (2 * heads - times) * epsilon))
    assert float(chances @ excess) <= 1e-6
    assert found <= times * epsilon
    if times >= 100:
        assert found < 0.75 * times * epsilon


def test_discrete_gaussians_of_many_releases_are_covered_by_their_smoothed_rho():
    """52 releases of one whole number with noise of σ = 64, sensitivity 16: δ of the sum's own law, convolved."""
    sigma, unit, times = 64, 16, 52
    rho = joint_smoothed_rho([sigma], unit=unit)
    assert joint_rho([sigma], unit=unit) < rho < joint_rho([sigma], unit=unit) * Fraction(1001, 1000)
    found = spent(Counter({by_rho(0.01, gaussian=True): 1}), 10**12)
    entry = Entry.of(Charge.dataset(epsilon=9, delta=0.1, concentrated=Concentrated(rho=rho, gaussian=True)))
    found = spent(Counter({entry: times}), 10**12) / EPSILON_UNIT
    numbers = np.arange(-800, 801)
    law = np.exp(-(numbers**2) / (2 * sigma**2))
    law /= law.sum()
    total, base, n = np.ones(1), law, times
    while n:
        total = np.convolve(total, base) if n & 1 else total
        base, n = np.convolve(base, base), n >> 1
    sums = np.arange(len(total)) - len(total) // 2
    losses = (2 * unit * sums + times * unit**2) / (2 * sigma**2)
    exact = float(total @ np.maximum(0, 1 - np.exp(np.minimum(found - losses, 0))))
    assert 0.9e-6 < exact <= 1e-6


# Records replaced


@settings(max_examples=examples(60), deadline=None)
@given(st.floats(0.0005, 0.5).map(lambda x: round(x, 5)), st.sampled_from([1e-9, 1e-7, 1e-5]), st.floats(0.1, 6))
def test_a_removal_and_an_addition_of_a_gaussian_entry_cover_the_worst_of_two_steps(rho, slack, t):
    """P(S) ≤ s + F(s + F(x)) is the exact worst case of two steps; what the entry claims is nowhere below."""
    entry = replaced(by_rho(rho, slack=slack))
    mu = math.sqrt(2 * rho)
    levels = np.logspace(-14, -1, 400)

    def most(x):
        return norm.cdf(norm.ppf(x) + mu)

    two_steps = np.minimum(1, slack + most(np.minimum(1, slack + most(levels))))
    claimed = curve(math.sqrt(2 * entry.rho / RHO_UNIT), t) + entry.slack / DELTA_UNIT
    assert (two_steps - math.exp(t) * levels).max() <= claimed * (1 + 1e-9)
    assert entry.rho == pytest.approx(4 * rho * RHO_UNIT)
    assert not entry.moments and entry.slack > 2 * slack * DELTA_UNIT


def test_records_replaced_cost_twice_epsilon_and_other_kinds_lose_their_rho():
    assert replaced(pure(0.3)) == Entry(6 * 10**8, 0, "pure")
    assert replaced(by_rho("0.1")).rho == 4 * RHO_UNIT // 10
    assert replaced(by_rho("0.1")).moments
    for entry in (by_rho("0.1", gaussian=False, slack=1e-9), by_rho("0.1", more=0.2)):
        assert replaced(entry).kind == "approx"
    twice = replaced(approx(1.0, 1e-9))
    assert twice.delta == math.ceil((1 + Fraction(math.e * (1 + 1e-12))) * 10**9)


# What is left


def test_what_is_left_fits_and_more_does_not():
    budget = Loss(10 * EPSILON_UNIT, 10**12)
    account = Counter({by_rho("0.02", slack=1e-9, epsilon=1.0, delta=1e-7): 20})
    rest = left(budget, account)
    assert fits(budget, account + Counter({Entry.plain(rest): 1}))
    assert not fits(budget, account + Counter({Entry.plain(Loss(rest.epsilon + 10**5, rest.delta)): 1}))
    more = by_rho("0.02", slack=1e-9)
    times = times_left(budget, account, more)
    assert fits(budget, account + Counter({more: times}))
    assert not fits(budget, account + Counter({more: times + 1}))


def test_without_delta_everything_is_plain_and_nothing_left_is_nothing():
    budget = Loss(EPSILON_UNIT, 0)
    assert left(budget, Counter({pure(0.4): 2})) == Loss(2 * 10**8, 0)
    assert left(budget, Counter({pure(0.5): 2})) == Loss(0, 0)
    assert not fits(budget, Counter({by_rho("0.0001"): 1}))
    assert spent(Counter({by_rho("0.01", slack=0.01): 1}), 10**12) is None
    assert spent(Counter(), 10**12) == 0
    for gaussian in (True, False):  # a δ that the slack takes up has nothing left for any ε
        assert spent(Counter({by_rho("1.0", slack=1e-4, gaussian=gaussian): 1}), 10**14) is None


# Entries as text


def test_an_entry_is_read_as_it_was_kept_and_a_strange_one_is_refused():
    for entry in (pure(0.1), approx(1.0, 1e-7), by_rho("0.3", slack=1e-9, more=0.5), by_rho("0.3", gaussian=False)):
        assert Entry.read(entry.loss, entry.as_text("approx-dp")) == entry
    assert Entry.read(Loss(10**9, 0), "pure-dp") == pure(1.0)
    for text in (
        "approx-dp; gaussian 0 0 0",
        "approx-dp; gaussian -5 0 0",
        "x; other 1 0 0",
        "x; zcdp 1 0",
        "x; zcdp a 0 0",
        "x;zcdp 1 0 0",
        ";",
        "x; zcdp 1 0 0; y",
        "x; zcdp 1 0 0 ",
        "x; zcdp 1_0 0 0",
        "x; zcdp ٣ 0 0",
        "x; zcdp nan 0 0",
        f"x; zcdp {'9' * 5000} 0 0",
        b"approx-dp",
        None,
    ):
        with pytest.raises(DataError, match="does not know"):
            Entry.read(Loss(1, 1), text)
    for number in (-1, 0.5, math.nan, math.inf, "1", b"1", None, True):
        for loss in (Loss(number, 1), Loss(1, number)):
            with pytest.raises(DataError, match="does not know"):
                Entry.read(loss, "approx-dp")
    with pytest.raises(ValueError, match="one word"):
        pure(1.0).as_text("approx-dp; gaussian 1 0 0")


@pytest.mark.parametrize(
    "changes", [{"rho": 0}, {"rho": -1}, {"rho": math.nan}, {"slack": 1}, {"slack": -0.1}, {"pure": -1}]
)
def test_a_rho_that_could_hide_a_loss_cannot_be_made(changes):
    with pytest.raises(ParameterError):
        Concentrated(**{"rho": Fraction(1, 2), **changes})


# Bounds


@settings(max_examples=examples(60), deadline=None)
@given(st.fractions(-12, 12, max_denominator=1000))
def test_bounds_enclose_what_they_bound_and_are_close(x):
    low, high = normal_tail(x, up=False), normal_tail(x, up=True)
    assert low < high <= low * (1 + Fraction(1, 10**30))
    assert float(high) == pytest.approx(norm.sf(float(x)), rel=1e-12)
    low, high = exponential(x, up=False), exponential(x, up=True)
    assert low < high <= low * (1 + Fraction(1, 10**30))
    assert float(high) == pytest.approx(math.exp(x), rel=1e-12)


def test_the_square_root_is_enclosed():
    for value in (Fraction(2), Fraction(1, 3), Fraction(10**9), Fraction(1, 10**20)):
        assert square_root(value, up=False) ** 2 <= value < square_root(value, up=True) ** 2


@pytest.mark.parametrize(("rho", "epsilon"), [(0.5, 1), (0.02, 0.9), (3, 20), (0.0001, 0.01), (0.5, -1), (8, 60)])
def test_the_gaussian_curve_is_that_of_floats_and_never_below(rho, epsilon):
    assert float(gaussian_delta(Fraction(str(rho)), Fraction(str(epsilon)))) == pytest.approx(
        curve(math.sqrt(2 * rho), epsilon), rel=1e-6, abs=1e-30
    )


@settings(max_examples=examples(40), deadline=None)
@given(st.floats(0.001, 2), st.floats(0.01, 15))
def test_moments_of_a_gaussian_bound_its_own_curve(rho, epsilon):
    assume(epsilon < 30 * math.sqrt(2 * rho))  # far beyond, tails are only known to be below 10^-783
    exact = gaussian_delta(Fraction(rho), Fraction(epsilon))
    assert concentrated_delta(Fraction(rho), Fraction(2 * rho), Fraction(epsilon)) >= exact
