"""Deliberately wrong variants of weighted selection: exact laws must reject each, and accept the real one."""

import dataclasses
import itertools

import numpy as np
import polars as pl
import pytest

from mechanisms.exact_weighted import full_vectors, gaussian_delta, one_person_comes_out, spent
from queryveil.log.query_log import LocalTable
from queryveil.mechanisms.sanitize import weighted, weighted_budget
from queryveil.mechanisms.sanitize.weighted_budget import SPLITS, WeightedSelection, _Split
from queryveil.privacy import Noise
from queryveil.privacy.joint_gaussian import joint_sigmas, union_threshold

EPSILON, DELTA, MOST = 2.0, 1e-3, 16


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """A unit of 64, so that every outcome of the noise can be listed."""
    monkeypatch.setattr(weighted_budget, "FINEST_UNIT", 64)
    weighted_budget._best.cache_clear()
    yield
    weighted_budget._best.cache_clear()


@pytest.fixture
def real():
    return WeightedSelection(EPSILON, DELTA, MOST)


@dataclasses.dataclass(frozen=True)
class Wrong:
    """A rule whose numbers are given, as `spent` and the steps read them."""

    epsilon: float
    unit: int
    most_keys: dict
    counted_in_full: int
    sigmas: dict
    thresholds: dict
    keys_only: bool = False


def wrong(rule, **changes) -> Wrong:
    names = [field.name for field in dataclasses.fields(Wrong)]
    return dataclasses.replace(Wrong(**{name: getattr(rule, name) for name in names}), **changes)


def measured(rule) -> dict[str, list[int]]:
    """What one person with four queries, each clicked, moves the sums of every step by, through the code."""
    rows = pl.DataFrame({"user": "a", "query": list("qrst"), "url": "u"})
    streams = Noise.seeded(1).streams("x", 1)
    queries = rows.select("query").with_columns(weight=pl.lit(1, pl.Int64))
    entries = weighted._of_queries(queries, rows)
    clicks = entries.select("asked", "url", weight=pl.lit(1, pl.Int64))
    items = weighted.items_of(queries, clicks).with_columns(topic=pl.lit(0, pl.Int64)).drop("query", "weight")
    cells = weighted._cells(streams, items, rule, 0, entries).sort("cell")
    limits = (0, items.height, items.height + weighted_budget.LENGTHS, 10**9)
    parts = [
        cells.filter(pl.col("cell").is_between(low, high - 1))["weight"].to_list()
        for low, high in itertools.pairwise(limits)
    ]
    return {
        "queries": weighted._weigh_queries(streams, rule, 0, rows.select("user", "query"))["weight"].to_list(),
        "clicks": weighted._weigh_clicks(streams, rule, 0, entries)["weight"].to_list(),
        **dict(zip(("counts", "lengths", "topics"), parts, strict=True)),
    }


def test_the_real_one_is_accepted_with_what_the_code_itself_adds(real):
    assert measured(real) == full_vectors(real)
    assert 0.9 * DELTA < spent(real, measured(real)) <= DELTA


def test_weights_that_are_not_normalised_are_rejected(real, monkeypatch):
    """Every key of a person weighs 1."""
    monkeypatch.setattr(weighted, "equal_weights", lambda keys, unit: np.full(len(keys), unit))
    assert measured(real)["queries"] == [real.unit] * 4
    assert spent(real, measured(real)) > 10 * DELTA


def test_clicks_that_are_not_normalised_are_rejected(real, monkeypatch):
    monkeypatch.setattr(weighted, "weights_of", lambda person, stream, most_keys, unit: np.full(len(person), unit))
    assert spent(real, measured(real)) > 2 * DELTA


def test_counts_that_nobody_caps_are_rejected(real):
    """Everybody counts in full for every item."""
    assert spent(real, measured(wrong(real, counted_in_full=1)) | {"counts": [real.unit] * 4}) > DELTA


def test_weights_rounded_up_or_to_the_nearest_are_rejected(real, monkeypatch):
    monkeypatch.setattr(weighted, "equal_weights", lambda keys, unit: np.ceil(unit / np.sqrt(keys)).astype(np.int64))
    three = pl.DataFrame({"user": "a", "query": list("qrs")})
    vector = weighted._weigh_queries(Noise.seeded(1).streams("x", 1), real, 0, three)["weight"].to_list()
    assert sum(x * x for x in vector) > real.unit**2  # the property test of vectors rejects it


def test_a_threshold_of_another_bound_is_rejected(real):
    """Calibrated for people with one query, used with sixteen."""
    each = float(real.union_delta) / 2
    low = {u: union_threshold(sigma=real.sigmas[u], delta=each, most_keys=1, unit=real.unit) for u in real.thresholds}
    assert one_person_comes_out(real.sigmas["queries"], low["queries"], real.unit, MOST) > 2 * each
    assert spent(wrong(real, thresholds=low)) > DELTA


def test_a_delta_that_the_thresholds_forget_is_rejected(real):
    """Thresholds spend δ on top of the δ of the noise."""
    each = float(real.union_delta) / 2
    sigmas = joint_sigmas(epsilon=EPSILON, delta=DELTA, shares=real.shares, unit=real.unit)
    kept = {
        union: union_threshold(sigma=sigmas[union], delta=each, most_keys=most, unit=real.unit)
        for union, most in real.most_keys.items()
    }
    assert spent(wrong(real, sigmas=sigmas, thresholds=kept)) > DELTA


def test_two_unions_that_each_spend_the_delta_of_both_are_rejected(real):
    both = float(real.union_delta)
    low = {
        union: union_threshold(sigma=real.sigmas[union], delta=both, most_keys=most, unit=real.unit)
        for union, most in real.most_keys.items()
    }
    assert spent(wrong(real, thresholds=low)) > 1.2 * DELTA


@pytest.mark.parametrize("left_out", ["queries", "clicks", "counts", "lengths", "topics"])
def test_a_rho_that_is_added_once_too_few_is_rejected(real, left_out):
    """The budget is shared out as if one step were not run; its steps alone exceed what δ leaves them."""
    noise = DELTA - float(real.union_delta)
    others = {name: share for name, share in real.shares.items() if name != left_out}
    grown = {name: share / sum(others.values()) for name, share in others.items()}
    twin = joint_sigmas(epsilon=EPSILON, delta=noise, shares=grown, unit=real.unit) | {left_out: real.sigmas[left_out]}

    def bounds(sigmas):
        moved = full_vectors(real).items()
        return gaussian_delta([(shift, sigmas[step]) for step, vector in moved for shift in vector], EPSILON)

    assert bounds(real.sigmas)[1] <= noise
    assert bounds(twin)[0] > noise


def test_half_the_noise_is_rejected(real):
    assert spent(wrong(real, sigmas={name: sigma // 2 for name, sigma in real.sigmas.items()})) > 10 * DELTA


def test_another_split_than_the_noise_was_made_for_is_rejected(real):
    """The noise of one split of δ with the thresholds of another."""
    noisy, low = _Split.of(real, 1), _Split.of(real, SPLITS - 1)
    scaled = {u: t * noisy.sigmas[u] // low.sigmas[u] for u, t in low.thresholds.items()}
    assert spent(wrong(real, sigmas=noisy.sigmas, thresholds=scaled)) > DELTA


def test_clicks_selected_before_queries_would_publish_texts_nobody_paid_for():
    """A person's own query with a popular url: whatever the clicks are, its text does not come out."""
    popular = [(f"p{k}", "weather", "sky.example") for k in range(500)]
    own = [(f"p{k}", f"own {k}", "sky.example") for k in range(500)]
    table = LocalTable(pl.DataFrame(popular + own, schema=["user", "query", "url"], orient="row"))
    rule = WeightedSelection(4.0, 1e-7, MOST)
    for seed in range(5):
        assert set(weighted.publish(table, Noise.seeded(seed), rule).pairs["query"]) == {"weather"}
