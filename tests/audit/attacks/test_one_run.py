"""The audit in one run: the table of the specification, never above a true claim, above it for twins at twice ε."""

import math

import numpy as np
import pytest

from queryveil.audit.attacks.one_run import epsilon_at_least, rehearse, seeded_noises
from queryveil.errors import ParameterError
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.testing.twins import (
    ClicksInsteadOfPeople,
    ClicksWithALowThreshold,
    ClicksWithHalfTheNoise,
    ClicksWithoutABound,
    SemanticDrawingForEveryClick,
    SemanticDroppingTheUnmapped,
    SemanticKeepingWords,
    SemanticWithoutTheSplit,
    SemanticWithTwiceEpsilon,
)

CLAIMS = (0.5, 1.0, 2.0)
SMALL = {"per": "query", "domain": "contact_sport"}


@pytest.mark.parametrize(
    ("right", "guesses", "epsilon"),
    [(600, 1000, 0.297), (731, 1000, 0.881), (900, 1000, 2.021), (1000, 1000, 5.809), (90, 100, 1.631)],
)
def test_the_table_of_the_specification(right, guesses, epsilon):
    assert epsilon_at_least(right, guesses) == pytest.approx(epsilon, abs=5e-4)


def exact_chance(right, guesses, epsilon, delta, canaries):
    """Theorem 5.2 with whole sums, written from the paper."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    law = [math.comb(guesses, w) * q**w * (1 - q) ** (guesses - w) for w in range(guesses + 1)]
    slack = max((sum(law[right - i : right]) / i for i in range(1, right + 1)), default=0.0)
    return sum(law[right:]) + 2 * canaries * delta * slack


@pytest.mark.parametrize(("right", "guesses", "delta"), [(40, 50, 0.0), (40, 50, 1e-4), (12, 12, 1e-3), (30, 60, 0.0)])
def test_the_bound_is_the_largest_epsilon_that_the_guesses_rule_out(right, guesses, delta):
    found = epsilon_at_least(right, guesses, miss=0.05, delta=delta, canaries=80)
    if found:
        assert exact_chance(right, guesses, found, delta, 80) <= 0.05 + 1e-6
    assert exact_chance(right, guesses, found + 1e-3, delta, 80) > 0.05


def test_nothing_follows_from_no_guesses_and_nonsense_is_refused():
    assert epsilon_at_least(0, 0) == 0
    assert epsilon_at_least(500, 1000) == 0
    assert epsilon_at_least(900, 1000, delta=1e-6, canaries=1000) < epsilon_at_least(900, 1000)
    with pytest.raises(ParameterError, match="right must be"):
        epsilon_at_least(11, 10)
    with pytest.raises(ParameterError, match="at least one kind"):
        rehearse(make("sanitize"), [], seeded_noises(1))


def runs(mechanism, seeds):
    noises = seeded_noises(1)
    rehearsed = rehearse(mechanism, mechanism.canaries(noises), noises)
    return [rehearsed.run(mechanism, Noise.seeded(10_000 + seed)) for seed in range(seeds)]


def real(epsilon):
    yield "semantic", SMALL | {"criterion": "nsqc", "epsilon": epsilon}
    yield "semantic", SMALL | {"criterion": "sqc1", "epsilon": epsilon}
    yield "semantic", SMALL | {"criterion": "ball", "epsilon": epsilon}
    yield "semantic", SMALL | {"criterion": "nsqc", "epsilon": epsilon, "per": "user", "max_queries": 5}
    yield "sanitize", {"epsilon": epsilon, "contribution": 1, "selection": "capped"}
    yield "sanitize", {"epsilon": epsilon, "contribution": 2, "objective": "diversity", "selection": "capped"}
    yield "sanitize", {"epsilon": epsilon}


def twins(epsilon):
    for kind in (
        SemanticWithTwiceEpsilon, SemanticDroppingTheUnmapped, SemanticKeepingWords, SemanticDrawingForEveryClick
    ):  # fmt: skip
        yield kind, SMALL | {"criterion": "nsqc", "epsilon": epsilon}
    yield SemanticWithoutTheSplit, SMALL | {"criterion": "nsqc", "epsilon": epsilon, "per": "user", "max_queries": 5}
    for kind in (ClicksWithHalfTheNoise, ClicksWithALowThreshold, ClicksInsteadOfPeople, ClicksWithoutABound):
        yield kind, {"epsilon": epsilon, "contribution": 1, "selection": "capped"}


def at_every_claim(cases):
    """The claim 2 each time, the others, which take longer, with `make soak`."""
    for epsilon in CLAIMS:
        marks = () if epsilon == CLAIMS[-1] else (pytest.mark.soak,)
        for kind, given in cases(epsilon):
            told = f"{getattr(kind, '__name__', kind)}-{'-'.join(map(str, given.values()))}"
            yield pytest.param(kind, given, marks=marks, id=told)


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.soak)])
@pytest.mark.parametrize(("name", "given"), list(at_every_claim(real)))
def test_no_run_of_a_real_mechanism_proves_more_than_its_claim(name, given, times):
    """Each of three runs shows twice the loss, see the twins below, so that five of a faulty one could not miss it."""
    found = runs(make(name, **given), times)
    assert max(run.epsilon for run in found) <= given["epsilon"]
    assert min(run.detectable for run in found) > given["epsilon"]  # a larger loss could have shown


@pytest.mark.parametrize(("kind", "given"), list(at_every_claim(twins)))
def test_runs_of_a_twin_with_twice_the_loss_all_prove_more_than_its_claim(kind, given):
    assert min(run.epsilon for run in runs(kind(**given), 3)) > given["epsilon"]


def test_paper_mode_and_mechanisms_without_such_a_claim_have_no_canaries():
    paper = make("semantic", epsilon=1.0, criterion="nsqc", mode="paper", **SMALL)
    assert paper.canaries(seeded_noises(1)) == []


def test_the_same_noise_gives_the_same_outcome():
    mechanism = make("sanitize", epsilon=1.0, contribution=1, selection="capped")
    noises = seeded_noises(1)
    rehearsed = rehearse(mechanism, mechanism.canaries(noises), noises)
    assert rehearsed.run(mechanism, Noise.seeded(5)) == rehearsed.run(mechanism, Noise.seeded(5))
    evidence = rehearsed.canaries.evidence(
        mechanism.protect(rehearsed.canaries.log(np.ones(2000, bool)), Noise.seeded(6))
    )
    assert (evidence > 0).mean() > 0.6
