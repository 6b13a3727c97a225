"""Weighted selection: what it spends by exact laws, what a person adds, what is published, against a slow oracle."""

import dataclasses
import math
import pickle
from collections import Counter, defaultdict
from fractions import Fraction
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mechanisms.exact_weighted import full_vectors, gaussian_delta, law, one_person_comes_out, spent, tail
from properties import examples
from queryveil.log import QueryLog
from queryveil.log.query_log import LocalTable
from queryveil.mechanisms.sanitize import Sanitize, weighted, weighted_budget
from queryveil.mechanisms.sanitize.safe import Published
from queryveil.mechanisms.sanitize.weighted_budget import LENGTHS, SPLITS, WeightedSelection, _Split
from queryveil.privacy import Noise
from queryveil.privacy.noise import LARGEST_SIGMA
from queryveil.privacy.set_union import equal_weights, weights_of

ALPHA = 1e-6
RULE = WeightedSelection(epsilon=2.0, delta=1e-7, most_queries=4)


@pytest.fixture
def coarse(monkeypatch):
    """A unit of 64, so that every outcome of the noise can be listed."""
    monkeypatch.setattr(weighted_budget, "FINEST_UNIT", 64)
    weighted_budget._best.cache_clear()
    yield
    weighted_budget._best.cache_clear()


# --- what is spent


@pytest.mark.parametrize("keys_only", [False, True])
@pytest.mark.parametrize(
    ("epsilon", "delta", "most"), [(2.0, 1e-3, 8), (1.0, 1e-3, 64), (4.0, 1e-4, 4), (0.5, 0.01, 1)]
)
def test_exact_laws_spend_all_of_delta_and_no_more(epsilon, delta, most, keys_only, coarse):
    """Own keys out of both unions and all steps together, by listing outcomes; at least 0.9 δ, so nothing is wasted."""
    rule = WeightedSelection(epsilon, delta, most, keys_only)
    vectors = full_vectors(rule)
    assert all(sum(x * x for x in vector) == rule.unit**2 for vector in vectors.values())
    assert 0.9 * delta < spent(rule, vectors) <= delta


@settings(max_examples=examples(25), deadline=None)
@given(st.floats(1e-3, 100), st.floats(1e-30, 1e-6), st.integers(1, 300), st.booleans())
def test_every_setting_has_noise_that_can_be_drawn_and_adds_up_to_the_curve(epsilon, delta, most, keys_only):
    """In sums over steps: μ ≤ 1/σ of the whole budget. Thresholds exceed the largest weight of one person."""
    rule = WeightedSelection(epsilon, delta, most, keys_only)
    assert max(rule.sigmas.values()) <= LARGEST_SIGMA
    assert set(rule.sigmas) == set(rule.shares)
    assert rule.rho <= rule.concentrated.rho < rule.rho * Fraction(1002, 1000)
    assert 0 < rule.concentrated.slack < Fraction(repr(delta))
    assert min(rule.thresholds.values()) > rule.unit
    mu = math.sqrt(2 * float(rule.concentrated.rho))
    left = delta - float(rule.concentrated.slack)
    exceeds = stats.norm.logcdf(mu / 2 - epsilon / mu)
    second = epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu)
    assert math.exp(exceeds) * -math.expm1(second - exceeds) <= left * (1 + 1e-6)


def test_the_split_of_delta_has_the_lowest_thresholds_of_all():
    def height(split):
        return sum(split.thresholds.values()) / split.unit

    for epsilon, delta, most in ((0.5, 1e-6, 1), (2.0, 1e-7, 64), (8.0, 1e-9, 20)):
        rule = WeightedSelection(epsilon, delta, most)
        heights = [height(_Split.of(rule, parts)) for parts in range(1, SPLITS)]
        assert sum(rule.thresholds.values()) / rule.unit == min(heights)
        assert min(heights) < heights[0] and min(heights) < heights[-1]


def test_a_query_is_published_as_often_as_the_exact_law_says(coarse):
    """20,000 queries of the same weight, through the code, α = 1e-6: 0.5 off by 0.02 is rejected."""
    rule = WeightedSelection(2.0, 1e-3, 8)
    for weight in (rule.thresholds["queries"] - 60, rule.thresholds["queries"], rule.thresholds["queries"] + 90):
        rows = pl.DataFrame({"query": [f"q{n}" for n in range(20_000)], "weight": weight})
        kept = weighted._select(Noise.seeded(weight).streams("x", 1), "queries", rule, 0, rows).height
        chance = tail(rule.sigmas["queries"], rule.thresholds["queries"] - weight)
        assert stats.binomtest(kept, 20_000, chance).pvalue > ALPHA
        assert stats.binomtest(kept, 20_000, chance + 0.03).pvalue < ALPHA


def test_a_whole_release_publishes_a_toy_s_query_and_click_by_the_exact_law(coarse):
    """Few people ask and click each of 3,000 queries: P(click) = P(query) · P(click | query), α = 1e-6."""
    rule = WeightedSelection(2.0, 0.05, 1)
    people = round(rule.thresholds["queries"] / rule.unit)
    rows = [(f"p{q} {k}", f"query {q}", "u") for q in range(3000) for k in range(people)]
    pairs = weighted.publish(LocalTable(frame(rows)), Noise.seeded(4), rule).pairs
    query, click = (tail(rule.sigmas[u], rule.thresholds[u] - people * rule.unit) for u in ("queries", "clicks"))
    assert 0.2 < query < 0.8 and 0.2 < click < 0.8
    queries, clicks = pairs["url"].is_null().sum(), pairs["url"].is_not_null().sum()
    assert stats.binomtest(queries, 3000, query).pvalue > ALPHA
    assert stats.binomtest(clicks, 3000, query * click).pvalue > ALPHA
    assert stats.binomtest(clicks, 3000, query * click * 0.8).pvalue < ALPHA


def test_counts_have_the_noise_of_their_share():
    """2,000 queries of 60 people, far above the threshold, at ε = 8: χ² against the rounded law, α = 1e-6."""
    rule = WeightedSelection(8.0, 1e-6, 64)
    people = 60
    rows = pl.DataFrame({"n": np.repeat(np.arange(2000), people)}).select(
        pl.format("u{}", pl.int_range(pl.len())).alias("user"), pl.format("q{}", "n").alias("query"),
        pl.lit(None, pl.String).alias("url"),
    )  # fmt: skip
    published = weighted.publish(LocalTable(rows), Noise.seeded(3), rule)
    assert published.pairs.height == 2000
    spread = rule.sigmas["counts"] / rule.unit * math.sqrt(rule.counted_in_full)
    edges = np.arange(-9.5, 10, 1)
    cells = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) / spread))
    seen = np.histogram(published.people - people, np.concatenate([[-1e9], edges, [1e9]]))[0]
    assert stats.chisquare(seen, cells * 2000).pvalue > ALPHA
    assert abs(published.lengths[0] - 120_000) < 8 * rule.sigmas["lengths"] / rule.unit


# --- what a person adds


RECORDS = st.lists(
    st.tuples(
        st.sampled_from("abcdé"), st.sampled_from(["q", "r", "s", "t", "", " q"]), st.sampled_from(["u", "v", None])
    ),
    min_size=1,
    max_size=60,
)


def frame(rows) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"user": pl.String, "query": pl.String, "url": pl.String}, orient="row")


def weights(rows, most=64) -> dict:
    rule = dataclasses.replace(RULE, most_queries=most)
    found = weighted._weigh_queries(Noise.seeded(1).streams("x", 1), rule, 0, frame(rows).select("user", "query"))
    return dict(found.rows())


def numbered(rows) -> pl.DataFrame:
    queries = frame(rows).select("query").unique().sort("query")
    return weighted._of_queries(queries, frame(rows))


def click_weights(entries, most=64) -> dict:
    rule = dataclasses.replace(RULE, most_queries=most)
    found = weighted._weigh_clicks(Noise.seeded(1).streams("x", 1), rule, 0, entries)
    return {(asked, url): weight for asked, url, weight in found.rows()}


def items_for(rows) -> pl.DataFrame:
    """Every query, and the clicks on url u, are published; topics by number."""
    queries = frame(rows).select("query").unique().sort("query").with_columns(pl.lit(1, pl.Int64).alias("weight"))
    clicks = numbered(rows).filter(pl.col("url") == "u").select("asked", "url").unique()
    items = weighted.items_of(queries, clicks.with_columns(pl.lit(1, pl.Int64).alias("weight")))
    return items.with_columns((pl.col("item") % 5).alias("topic")).drop("query", "weight")


def cells(items, entries, seed=1) -> dict:
    return dict(weighted._cells(Noise.seeded(seed).streams("x", 1), items, RULE, 0, entries).rows())


def difference(one: dict, other: dict) -> dict:
    return {
        key: one.get(key, 0) - other.get(key, 0) for key in one.keys() | other.keys() if one.get(key) != other.get(key)
    }


@settings(max_examples=examples(60), deadline=None)
@given(RECORDS)
def test_sums_with_and_without_a_person_differ_by_the_person_s_own_vector(rows):
    """Nobody has more keys than count, so that nothing is drawn: exact equality, for queries and for clicks."""
    others, own = [row for row in rows if row[0] != "a"], [row for row in rows if row[0] == "a"]
    entries = numbered(rows)
    mine = entries.filter(pl.col("user") == "a")
    assert difference(weights(rows), weights(others)) == weights(own)
    assert difference(click_weights(entries), click_weights(entries.filter(pl.col("user") != "a"))) == click_weights(
        mine
    )
    for vector in (weights(own), click_weights(mine)):
        assert sum(x * x for x in vector.values()) <= RULE.unit**2
        assert len(set(vector.values())) <= 1


@settings(max_examples=examples(60), deadline=None)
@given(RECORDS, st.integers(0, 99))
def test_counts_lengths_and_topics_move_by_at_most_a_unit_each(rows, seed):
    items, entries = items_for(rows), numbered(rows)
    mine = cells(items, entries.filter(pl.col("user") == "a"), seed)
    counts = [w for cell, w in mine.items() if cell < items.height]
    lengths = [w for cell, w in mine.items() if items.height <= cell < items.height + LENGTHS]
    topics = [w for cell, w in mine.items() if cell >= items.height + LENGTHS]
    assert sum(x * x for x in counts) <= RULE.unit**2
    assert lengths == ([RULE.unit] if counts else [])
    assert topics == ([RULE.unit] if len(counts) > 1 else [])
    # Without what is drawn, the sums differ by that vector.
    both = cells(items, entries, seed)
    without = cells(items, entries.filter(pl.col("user") != "a"), seed)
    below = items.height + LENGTHS
    differ = {cell: w for cell, w in difference(both, without).items() if cell < below}
    assert differ == {cell: w for cell, w in mine.items() if cell < below}


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=120), st.integers(1, 9), st.integers(0, 99))
def test_nobody_s_vector_is_longer_than_the_unit_however_many_keys(people, most, seed):
    person = np.sort(np.unique(people, return_inverse=True)[1]).astype(np.int64)
    weight = weights_of(person, Noise.seeded(seed).stream("x"), most_keys=most, unit=1 << 16)
    for one in np.unique(person):
        vector = weight[person == one]
        assert sum(int(x) ** 2 for x in vector) <= 1 << 32
        assert np.count_nonzero(vector) == min(len(vector), most)


def test_a_hostile_person_with_a_thousand_queries_a_thousand_times_weighs_as_much_as_anybody():
    rows = [("a", f"q{n % 1000}", f"u{n}") for n in range(5000)]
    vector = weights(rows, most=64)
    assert len(vector) == 64
    assert 0.99 * RULE.unit**2 < sum(x * x for x in vector.values()) <= RULE.unit**2
    clicks = click_weights(numbered(rows), most=64)
    assert len(clicks) == weighted_budget.MOST_CLICKS
    assert sum(x * x for x in clicks.values()) <= RULE.unit**2
    held = cells(
        items_for([("a", f"q{n}", "u") for n in range(300)]), numbered([("a", f"q{n}", "u") for n in range(300)])
    )
    counts = [w for cell, w in held.items() if cell < 600]
    assert len(counts) == 300  # nothing is left out: each counts 2/√300 of a person
    assert set(counts) == {math.isqrt(RULE.unit**2 // 300)}


def test_queries_that_count_are_chosen_evenly_among_a_person_s_own():
    """4,000 people with 3 queries of which 1 counts, α = 1e-6: a share of 1/3 off by 0.06 is rejected."""
    rows = [(f"u{k}", f"q{j}", None) for k in range(4000) for j in range(3)]
    seen = sorted(weight // RULE.unit for weight in weights(rows, most=1).values())
    assert sum(seen) == 4000
    assert stats.chisquare(seen).pvalue > ALPHA
    assert stats.chisquare(seen, [1093, 1333, 1574]).pvalue < ALPHA


# --- a slow oracle


def slow_weights(rows) -> dict:
    """Person by person, in plain Python."""
    keys = defaultdict(set)
    for user, query, _ in rows:
        keys[user].add(query)
    sums = Counter()
    for mine in keys.values():
        for query in mine:
            sums[query] += math.isqrt(RULE.unit**2 // len(mine))
    return dict(sums)


def slow_items(rows, shown) -> dict:
    """The items of each person: published clicks, and queries without one."""
    items = defaultdict(set)
    for user, query, url in rows:
        if (query, url) in shown:
            items[user].add((query, url))
    for user, query, _ in rows:
        if not any(asked == query and url is not None for asked, url in items[user]):
            items[user].add((query, None))
    return items


@settings(max_examples=examples(60), deadline=None)
@given(RECORDS)
def test_the_sums_equal_a_slow_oracle_s(rows):
    assert weights(rows) == slow_weights(rows)
    clicks = [(user, (query, url), None) for user, query, url in rows if url is not None]
    names = sorted({query for _, query, _ in rows})
    assert {(names[asked], url): w for (asked, url), w in click_weights(numbered(rows)).items()} == slow_weights(clicks)
    shown = {(query, url) for _, query, url in rows if url == "u"}
    items = items_for(rows)
    labels = [(names[asked], url) for asked, url in items.select("asked", "url").rows()]
    expected = Counter()
    for mine in slow_items(rows, shown).values():
        expected[items.height + min(len(mine), LENGTHS) - 1] += RULE.unit
        for item in mine:
            expected[labels.index(item)] += math.isqrt(RULE.unit**2 // max(len(mine), RULE.counted_in_full))
    found = {cell: w for cell, w in cells(items, numbered(rows)).items() if cell < items.height + LENGTHS}
    assert found == dict(expected)


# --- what is published


def town(people=400, lone=50) -> QueryLog:
    rows = [(f"p{k}", "weather", None, None, "sky.example" if k % 2 else None) for k in range(people)]
    rows += [(f"p{k}", "call 555 123 4567", None, None, None) for k in range(people)]
    rows += [(f"p{k}", "bell \x07", None, None, None) for k in range(people)]
    rows += [(f"p{k}", f"my own {k}", None, None, "own.example") for k in range(lone)]
    return QueryLog.of(rows)


@pytest.mark.parametrize("objective", ["size", "frequent", "diversity"])
def test_queries_without_a_click_are_published_too_and_identifying_texts_never(objective):
    release = Sanitize(epsilon=4.0, objective=objective, support=0.01).protect(town(), Noise.seeded(2))
    rows = set(release.log.frame.select("query", "url").rows())
    alone = set() if objective == "diversity" else {("weather", None)}
    assert rows == {("weather", "sky.example")} | alone
    if objective == "size":
        clicked = release.log.frame["url"].is_not_null().sum()
        assert abs(clicked - 200) < 60 and abs(len(release.log) - clicked - 200) < 60


def test_a_query_whose_clicks_are_all_rare_is_published_without_them():
    rows = [(f"p{k}", "weather", None, None, f"mine{k}.example") for k in range(400)]
    release = Sanitize(epsilon=4.0).protect(QueryLog.of(rows), Noise.seeded(2))
    assert set(release.log.frame.select("query", "url").rows()) == {("weather", None)}


def test_noise_in_empty_cells_makes_no_busy_users():
    """2,000 people with one item each: noise on the 19 other lengths, half of it upwards, once made users of twenty."""
    log = QueryLog.of([(f"p{k}", "weather", None, None, "sky.example") for k in range(2000)])
    for seed in range(5):
        made = Sanitize(epsilon=2.0).protect(log, Noise.seeded(seed)).log
        users = made.frame.group_by("user").len()["len"]
        assert (users > 1).sum() <= 60 and abs(len(made) - 2000) < 200


def test_a_click_s_people_are_told_better_by_count_and_weight_than_by_the_count_alone():
    """200 clicks of 100 to 160 people at ε = 2, weights of 0.8 each: by the variances the mean square error falls to
    (403 / 653)² = 0.38 of the count's, and by the noise of weights a little less; below a half is asked for."""
    rule, random = WeightedSelection(2.0, 1e-7, 64), np.random.default_rng(1)
    people = random.integers(100, 160, 200)
    weight = np.rint(people * 0.8 * rule.unit + random.normal(0, rule.sigmas["clicks"], 200)).astype(np.int64)
    scale = rule.unit / math.sqrt(rule.counted_in_full)
    counts = np.rint(people * scale + random.normal(0, rule.sigmas["counts"], 200)).astype(np.int64)
    items = pl.DataFrame({"asked": np.arange(200), "url": "u", "weight": weight})
    told = weighted.estimate_people(items, counts, rule)
    alone = np.rint(counts / scale)
    assert ((told - people) ** 2).mean() < 0.5 * ((alone - people) ** 2).mean()
    assert abs((told - people).mean()) < 3


def test_a_log_in_which_nothing_is_shared_gives_an_empty_release():
    rows = [(f"p{k}", f"text {k}", None, None, None) for k in range(300)]
    for objective in ("size", "diversity"):
        assert len(Sanitize(epsilon=4.0, objective=objective).protect(QueryLog.of(rows), Noise.seeded(2)).log) == 0


def test_the_release_depends_on_the_log_by_what_is_published_only(monkeypatch):
    """Two logs, the same `Published` handed on: the same release, byte for byte."""
    kept = weighted.publish(town().table(), Noise.seeded(5), Sanitize().weighted_rule)
    monkeypatch.setattr(weighted, "publish", lambda table, noise, rule: kept)
    one, other = (Sanitize().protect(log, Noise.seeded(9)).log for log in (town(), QueryLog.of([("x", "y")])))
    assert one == other and len(one) > 100
    assert {field.name for field in dataclasses.fields(Published)} == {
        "pairs",
        "people",
        "lengths",
        "topic",
        "meetings",
    }


def test_the_promise_says_what_is_used_and_the_charge_how_it_adds_up():
    mechanism = Sanitize(epsilon=2.0, delta=1e-7)
    told = mechanism.guarantee().statement()
    assert "At most 64 distinct queries" in told and "16 clicks" in told and "rho = 0.08008" in told
    charge = mechanism.charge()
    assert charge.epsilon == 2 and charge.delta == Fraction(1, 10**7)
    assert charge.concentrated.gaussian and charge.concentrated.slack < charge.delta
    assert Sanitize(selection="capped").charge().concentrated is None
    assert Sanitize(mode="paper").charge().concentrated is None


def test_many_queries_of_a_person_lower_a_threshold_less_than_a_fixed_cap_raises_it():
    """Why weights: who has one query weighs 1 whatever the bound; a fixed cap of 20 asks for 83 people."""
    rule = Sanitize(epsilon=2.0, delta=1e-7).weighted_rule
    assert rule.thresholds["queries"] / rule.unit < 25
    assert Sanitize(epsilon=2.0, delta=1e-7, selection="capped").capped_rule.half_kept > 80


def test_equal_weights_are_whole_roots():
    assert equal_weights(np.array([1, 4, 3, 4]), 1 << 16).tolist() == [65536, 32768, 37837, 32768]


def test_the_oracle_s_laws_are_laws():
    noise, mass = law(70)
    assert mass.sum() == pytest.approx(1) and float(mass @ noise**2) == pytest.approx(4900, rel=1e-9)
    low, high = gaussian_delta([(64, 149)], 0.5)
    mu = 64 / 149
    exact = stats.norm.cdf(mu / 2 - 0.5 / mu) - math.exp(0.5) * stats.norm.cdf(-mu / 2 - 0.5 / mu)
    assert low <= exact <= high < 1.01 * low
    assert one_person_comes_out(100, 400, 64, 1) == pytest.approx(stats.norm.sf(336.5 / 100), rel=1e-3)


@pytest.mark.parametrize("cut", [1, 8])
def test_the_law_of_what_is_published_does_not_depend_on_the_cut(cut, coarse):
    """200 queries at the threshold, 20 seeds: as many as the exact law says, α = 1e-6; 5 % more are rejected."""
    rule = WeightedSelection(2.0, 1e-3, 1)
    people = round(rule.thresholds["queries"] / rule.unit)
    rows = [(f"p{q} {k}", f"query {q}", None) for q in range(200) for k in range(people)]
    kept = sum(
        weighted.select_queries(LocalTable(frame(rows), cut), Noise.seeded(seed), rule).height for seed in range(20)
    )
    chance = tail(rule.sigmas["queries"], rule.thresholds["queries"] - people * rule.unit)
    assert stats.binomtest(kept, 4000, chance).pvalue > ALPHA
    assert stats.binomtest(kept, 4000, chance * 1.15).pvalue < ALPHA


def test_workers_are_sent_the_numbers_and_compute_none(monkeypatch):
    rule = WeightedSelection(2.0, 1e-7, 33)
    rule.compute()
    sent = pickle.dumps(rule)

    def refuse(*arguments, **settings):
        raise AssertionError("a worker's own numbers")

    monkeypatch.setattr(weighted_budget, "_best", refuse)
    got = pickle.loads(sent)
    assert (got.unit, got.sigmas, got.thresholds) == (rule.unit, rule.sigmas, rule.thresholds)
    with pytest.raises(AssertionError):
        _ = WeightedSelection(2.0, 1e-7, 34).unit


def test_work_is_a_function_of_a_block_alone():
    rows = frame([(f"p{k}", f"q{k % 7}", None) for k in range(50)])
    work = partial(weighted._weigh_queries, Noise.seeded(1).streams("x", 4), RULE)
    assert (
        work(2, rows.select("user", "query"))
        .sort("query")
        .equals(work(2, rows.select("user", "query").reverse()).sort("query"))
    )
