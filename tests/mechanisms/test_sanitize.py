"""Sanitize as a mechanism: parameters, promises, errors, and what neighbours see."""

import math

import numpy as np
import pytest

from hostile_values import NOT_A_NUMBER
from queryveil.errors import DataError, ParameterError, RefusedError
from queryveil.log import QueryLog
from queryveil.mechanisms.sanitize import Sanitize
from queryveil.mechanisms.sanitize.sanitization import shared_counts
from queryveil.privacy import ApproxDP, NoGuarantee, Noise
from queryveil.testing import check_mechanism, sample_log
from vectors.sanitize import FIGURE_1

LN2 = math.log(2)
NAMES = ["p1", "p2", "google", "p4", "car"]


def log_of(matrix) -> QueryLog:
    rows = []
    for user, counts in enumerate(matrix):
        for pair, count in enumerate(counts):
            rows += [(f"08{user + 1}", NAMES[pair % 5] + "x" * (pair // 5), None, None, f"site{pair}.example")] * count
    return QueryLog.of(rows)


def crowd(people: int, pairs: int = 3) -> QueryLog:
    return QueryLog.of(
        [(f"user {k}", f"query {j}", None, None, f"site{j}.example") for k in range(people) for j in range(pairs)]
    )


# --- parameters


@pytest.mark.parametrize("value", NOT_A_NUMBER, ids=repr)
@pytest.mark.parametrize("name", ["epsilon", "contribution", "support", "population"])
def test_parameters_that_are_no_numbers_are_refused(name, value):
    if name == "contribution" and value is None:
        assert Sanitize().used == 64 and Sanitize(selection="capped").used == 20  # each selection has its own
        return
    with pytest.raises(ParameterError, match=name):
        Sanitize(**{name: value})


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"delta": 0.0},
        {"delta": 1.0},
        {"contribution": 0},
        {"support": 0},
        {"support": 1.5},
        {"size": 0, "objective": "frequent"},
        {"size": 10},
        {"population": 0},
        {"objective": "beauty"},
        {"mode": "paperish"},
        {"laplace_d": 1.0, "mode": "paper"},
        {"laplace_d": 1.0, "laplace_epsilon": 1.0},
    ],
    ids=str,
)
def test_impossible_parameters_are_refused_before_any_data(bad):
    with pytest.raises(ParameterError):
        Sanitize(**bad)


@pytest.mark.parametrize(
    ("population", "largest"), [(1_000, 1e-6), (100_000, 1e-6), (1_000_000, 1e-7), (65_000_000, 1 / 650_000_000)]
)
def test_delta_is_limited_by_the_declared_population(population, largest):
    assert Sanitize(population=population).slack == largest
    assert Sanitize(population=population, delta=largest).slack == largest
    with pytest.raises(RefusedError, match="delta must be at most"):
        Sanitize(population=population, delta=largest * 1.001)


def test_the_limit_on_delta_does_not_depend_on_the_log():
    small, large = (Sanitize().protect(crowd(n), Noise.seeded(1)).guarantee for n in (5, 400))
    assert small == large


# --- promises


def test_safe_mode_promises_end_to_end_and_charges_the_dataset():
    mechanism = Sanitize(epsilon=1.5, delta=1e-8, contribution=7, selection="capped")
    promise = mechanism.guarantee()
    assert isinstance(promise, ApproxDP)
    assert (promise.epsilon, promise.delta, promise.unit, promise.evidence) == (1.5, 1e-8, "user", "proved")
    assert "At most 7 distinct pairs" in promise.statement()
    assert "No row corresponds to a person" in promise.statement()
    charge = mechanism.charge()
    assert (charge.scope, float(charge.epsilon), float(charge.delta)) == ("dataset", 1.5, 1e-8)


def test_paper_mode_claims_the_sampling_step_only_with_the_effective_numbers():
    mechanism = Sanitize(mode="paper", epsilon=2.0, delta=0.5)
    promise = mechanism.guarantee()
    assert isinstance(promise, NoGuarantee)
    assert promise.evidence == "paper"
    statement = promise.statement()
    assert "sampling step only" in statement
    assert "b = 0.6932" in statement  # ln 2, rounded up: δ is the one that binds
    assert "probability up to 0.5 a user's pseudonym" in statement
    assert "No end-to-end differential privacy is claimed" in statement
    assert mechanism.charge().scope == "nothing"


@pytest.mark.parametrize(
    "mechanism",
    [
        Sanitize(),
        Sanitize(objective="diversity", contribution=1, epsilon=100.0),
        Sanitize(mode="paper"),
        Sanitize(mode="paper", objective="frequent", support=0.05),
        Sanitize(mode="paper", objective="diversity"),
    ],
    ids=repr,
)
def test_it_behaves_like_a_mechanism(mechanism):
    """In safe mode the kit's own log of twelve people gives an empty release, so a crowd is added to it."""
    log = sample_log()
    if mechanism.mode == "safe":
        log = QueryLog.of([*log.frame.iter_rows(), *crowd(150).frame.iter_rows()])
    check_mechanism(mechanism, log=log)


# --- paper mode end to end


@pytest.mark.parametrize("objective", ["size", "frequent", "diversity"])
def test_paper_mode_keeps_the_constraints_and_publishes_no_unique_pair(objective):
    log = log_of(FIGURE_1)
    mechanism = Sanitize(mode="paper", objective=objective, epsilon=20.0, delta=1 - 1e-8, support=0.05)
    for seed in range(20):
        released = mechanism.protect(log, Noise.seeded(seed)).log
        assert set(released.queries()) <= {"p2", "google", "car"}
        assert 0 < len(released) <= 3 * mechanism.limit


def test_paper_mode_draws_users_who_clicked_the_pair():
    log = log_of(FIGURE_1)
    release = Sanitize(mode="paper", epsilon=17.5, delta=1 - 1e-9).protect(log, Noise.seeded(1))
    true = set(log.frame.select("user", "query").iter_rows())
    drawn = set(zip(release.owners.to_list(), release.log.queries(), strict=True))
    assert drawn <= true
    assert len(release.log) == 31
    assert not set(release.log.users()) & set(log.users())


def test_the_statement_claims_no_bound_once_the_laplace_step_may_break_it():
    plain = Sanitize(mode="paper", epsilon=1.0, delta=0.05).guarantee().statement()
    assert "Pr[R(D) in S]" in plain
    noisy = Sanitize(mode="paper", epsilon=1.0, delta=0.05, laplace_d=1.0, laplace_epsilon=0.1)
    assert "no bound holds" in noisy.guarantee().statement()
    assert "Pr[R(D) in S]" not in noisy.guarantee().statement()


def test_a_safe_epsilon_that_means_nothing_is_refused():
    with pytest.raises(ParameterError, match="<= 100; got 400"):
        Sanitize(epsilon=400, contribution=5000)


def test_paper_mode_with_the_laplace_step_runs_to_the_end():
    settings = {"mode": "paper", "epsilon": 3.0, "delta": 0.9, "laplace_d": 3.0, "laplace_epsilon": 1.0}
    for objective in ("size", "frequent", "diversity"):
        release = Sanitize(objective=objective, support=0.1, **settings).protect(log_of(FIGURE_1), Noise.seeded(2))
        assert set(release.log.queries()) <= {"p2", "google", "car"}


# --- neighbours


def pair_sets(mechanism, log, seeds=range(40)):
    return {
        frozenset(mechanism.protect(log, Noise.seeded(s)).log.frame.select("query", "url").drop_nulls().iter_rows())
        for s in seeds
    }


def test_neighbours_in_paper_mode_are_told_apart_with_certainty():
    """Documents finding 001-2: two users, one pair. With both the pair is published always, without one never: the
    total variation of the published pairs is 1 where (ln 2, ½) is claimed."""
    both = log_of([[1], [1]])
    mechanism = Sanitize(mode="paper", epsilon=LN2, delta=0.5)
    assert pair_sets(mechanism, both) == {frozenset({("p1", "site0.example")})}
    with pytest.raises(DataError, match="two different users"):
        mechanism.protect(both.without_users(["081"]), Noise.seeded(1))


def test_neighbours_in_paper_mode_have_disjoint_outputs_for_every_user_of_figure_1():
    """The full pipeline on D and on D − A_k for all k: the sets of published pairs differ surely for some k."""
    log = log_of(FIGURE_1)
    mechanism = Sanitize(mode="paper", objective="diversity", epsilon=17.5, delta=1 - 1e-9)
    here = pair_sets(mechanism, log, range(3))
    variation = [float(not here & pair_sets(mechanism, log.without_users([u]), range(3))) for u in log.users()]
    assert max(variation) == 1.0


@pytest.mark.parametrize("selection", ["weighted", "capped"])
def test_neighbours_in_safe_mode_publish_alike(selection):
    """A user with a pair of their own, and one who shares popular ones: over 40 seeds the three popular pairs are
    published in both logs, and the pair of one user never is (P < 1e-8)."""
    log = crowd(300)
    with_her = QueryLog.of(
        [
            *log.frame.iter_rows(),
            ("her", "her own", None, None, "her.example"),
            ("her", "query 0", None, None, "site0.example"),
        ]
    )
    mechanism = Sanitize(epsilon=2.0, contribution=3, selection=selection)
    popular = frozenset((f"query {j}", f"site{j}.example") for j in range(3))
    assert pair_sets(mechanism, log, range(40)) == pair_sets(mechanism, with_her, range(40)) == {popular}


# --- odd logs


@pytest.mark.parametrize(
    "log",
    [
        QueryLog.empty(),
        QueryLog.of([("a", "x", None, None, "u")]),
        QueryLog.of([("a", "x", None, None, "u"), ("a", "y", None, None, "v"), ("b", "z", None, None, "w")]),
        QueryLog.of([("a", "x"), ("b", "x")]),
    ],
    ids=["empty", "one user", "nothing shared", "no clicks"],
)
def test_a_log_without_shared_pairs_is_an_error_in_paper_mode_and_an_empty_release_in_safe_mode(log):
    """In safe mode an error that depends on the private log would tell about it; an empty release does not."""
    with pytest.raises(DataError, match="clicked by two different users"):
        Sanitize(mode="paper").protect(log, Noise.seeded(1))
    assert len(Sanitize().protect(log, Noise.seeded(1)).log) == 0


def test_a_size_above_the_maximum_is_an_error():
    mechanism = Sanitize(mode="paper", objective="frequent", epsilon=3.0, delta=0.99, size=50, support=0.1)
    with pytest.raises(DataError, match="size must not be above"):
        mechanism.protect(log_of(FIGURE_1), Noise.seeded(1))


def test_a_support_nobody_reaches_is_an_error():
    mechanism = Sanitize(mode="paper", objective="frequent", epsilon=3.0, delta=0.99, support=0.95)
    with pytest.raises(DataError, match="Lower support"):
        mechanism.protect(log_of(FIGURE_1), Noise.seeded(1))


def test_the_released_log_reads_as_a_click_log_again():
    release = Sanitize(epsilon=4.0, contribution=3).protect(crowd(500), Noise.seeded(1))
    clicks = release.log.clicks()
    assert clicks.columns == ["user", "query", "url", "count"]
    assert np.abs(clicks.group_by("query").agg(n=clicks["count"].sum())["n"].to_numpy()).min() > 0
    assert shared_counts(release.log).pairs == 3
