"""Earth mover's distance on the category tree, and the surveyor's figures."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from ordinary_log import standard_stream
from properties import examples
from queryveil.audit.attacks.released_stream import ReleasedStream
from queryveil.audit.finding import Success
from queryveil.audit.measures.tree_distance import category_loss
from queryveil.mechanisms.stream import Stream
from queryveil.privacy import Noise
from stream_survey import binomial_verdict, kolmogorov_smirnov, published_loss, survey
from vectors.stream import EARTH_MOVERS, KOLMOGOROV_SMIRNOV, PUBLISHED_LOSS

# root 0; Sp 1, He 2; and below them
NUMBERS = {"Sp/So": 3, "Sp/Te": 4, "He/Fl": 5}
PARENTS, DEPTHS = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 2, 2])


def loss_of_one(original, released, parents=PARENTS, depths=DEPTHS):
    return category_loss([0] * len(original), original, [0] * len(released), released, parents=parents, depths=depths)


def path_length(a, b, parents, depths):
    steps = 0
    while a != b:
        if depths[a] < depths[b]:
            a, b = b, a
        a, steps = parents[a], steps + 1
    return steps


def test_the_example_costs_two_of_twelve_and_not_the_positional_ten():
    original, released = ([NUMBERS[path] for path in EARTH_MOVERS[name]] for name in ("original", "anonymised"))
    found = loss_of_one(original, released)
    assert (found.total, found.worst) == (EARTH_MOVERS["distance"], EARTH_MOVERS["most"])
    assert found.loss == pytest.approx(1 / 6)
    assert found.per_record == pytest.approx(2 / 3)
    positional = sum(path_length(a, b, PARENTS, DEPTHS) for a, b in zip(original, released, strict=True))
    assert positional == EARTH_MOVERS["in their order"]


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), count=st.integers(1, 7))
def test_the_sum_over_edges_is_the_cheapest_matching(data, count):
    parents, depths = [0], [0]
    for number in range(1, data.draw(st.integers(2, 12))):
        parent = data.draw(st.integers(0, number - 1))
        parents.append(parent)
        depths.append(depths[parent] + 1)
    parents, depths = np.array(parents), np.array(depths)
    category = st.integers(0, len(parents) - 1)
    original, released = (data.draw(st.lists(category, min_size=count, max_size=count)) for _ in range(2))
    costs = np.array([[path_length(a, b, parents, depths) for b in released] for a in original])
    rows, columns = linear_sum_assignment(costs)
    assert loss_of_one(original, released, parents, depths).total == costs[rows, columns].sum()


def test_users_are_counted_apart():
    crossed = category_loss([0, 1], [3, 5], [1, 0], [3, 5], parents=PARENTS, depths=DEPTHS)
    assert (crossed.total, crossed.worst, crossed.users) == (8, 8, 2)
    assert (crossed.per_user, crossed.worst_per_user, crossed.loss) == (4, 4, 1)


def test_a_surplus_travels_to_the_root():
    assert loss_of_one([3, 3], [3]).total == 2
    assert loss_of_one([], []).loss == 0


@pytest.mark.parametrize(("shift", "p"), [(2, 0.9970968144), (5, 0.2114760884), (6, 0.0746606335), (7, 0.0207390649)])
def test_kolmogorov_and_smirnov_agree_with_the_exact_values_for_eleven_points(shift, p):
    test = kolmogorov_smirnov([i / 11 for i in range(11)], [(i + shift) / 11 for i in range(11)])
    assert test.distance == pytest.approx(shift / 11)
    assert test.exact == pytest.approx(p, abs=1e-9)
    if shift == 2:
        assert test.asymptotic == pytest.approx(0.96633146, abs=1e-7)


def test_the_published_matches_are_above_one_over_k_from_110_on():
    """The authors' own figures (share of 27,240,000 records), which their KS test accepts as below 1/k."""
    published = {3: 13.192623, 30: 2.315859, 90: 1.055136, 110: 0.917705, 210: 0.593624}
    verdicts = {
        k: binomial_verdict(Success(round(27_240_000 * share / 100), 27_240_000), k) for k, share in published.items()
    }
    assert verdicts == {3: "below", 30: "below", 90: "below", 110: "above", 210: "above"}
    assert binomial_verdict(Success(33, 100), 3) == "open"


@pytest.mark.parametrize("shift", KOLMOGOROV_SMIRNOV)
def test_kolmogorov_and_smirnov_agree_with_the_law_computed_apart(shift):
    test = kolmogorov_smirnov([i / 11 for i in range(11)], [(i + shift) / 11 for i in range(11)])
    distance, p = KOLMOGOROV_SMIRNOV[shift]
    assert (test.distance, test.exact) == (pytest.approx(distance), pytest.approx(p, abs=1e-9))


def test_the_published_percentage_is_a_ratio_of_means():
    ratio = PUBLISHED_LOSS["mean distance"] / PUBLISHED_LOSS["mean most"]
    assert 100 * ratio == pytest.approx(PUBLISHED_LOSS["percent"], abs=1e-4)


def test_utility_is_lost_less_with_deeper_categories_and_whatever_k():
    log = standard_stream(records=8000, users=100)
    losses = {}
    for k, depth in itertools.product((3, 8), (1, 2)):
        made = Stream(k=k, depth=depth, mode="paper", category_column="category")
        found = survey(made.observe(log, Noise.seeded(1)), len(log))
        losses[k, depth] = found.loss.loss
        assert found.smallest_pool > k
        assert found.released_share > 0.85
        assert found.final_size > 1
        assert found.delay_99 >= found.delay > 0
    assert losses[3, 2] < losses[3, 1]
    assert losses[8, 1] == pytest.approx(losses[3, 1], rel=0.25)


def test_an_empty_release_is_surveyed_without_complaint():
    assert survey([], 5).released_share == 0


def test_the_published_loss_counts_no_step_inside_the_first_levels():
    # ann's own queries are in a: x: p and b: y, she is given b: z: q and a: x: r; bob the other way round
    rows = [
        ("ann", "bob", "1", "b: z: q"),
        ("ann", "bob", "2", "a: x: r"),
        ("bob", "ann", "3", "a: x: p"),
        ("bob", "ann", "4", "b: y"),
    ]
    stream = ReleasedStream.of_names(rows)
    # honest: p to r is 2 steps, y to z: q is 3; the same for bob
    honest = category_loss(
        stream.owners, stream.categories, stream.receivers, stream.categories,
        parents=stream.parents, depths=stream.depths,
    )  # fmt: skip
    assert (honest.total, honest.worst) == (10, 22)
    found = {depth: published_loss(stream, depth) for depth in (1, 2, 3)}
    assert {depth: loss.total for depth, loss in found.items()} == {1: 10, 2: 6, 3: 0}
    assert {loss.worst for loss in found.values()} == {3 + 3 + 3 + 2 + 4 * 13}
    assert published_loss(stream, 2, deepest=3).loss == 6 / (11 + 4 * 3)


def test_the_published_loss_falls_with_the_depth_and_hardly_moves_with_k_while_the_honest_one_stays():
    log = standard_stream(records=3000, users=200)
    deepest = int(log.frame["category"].str.split(": ").list.len().max())
    honest, published = {}, {}
    for k in (3, 10):
        for depth in range(1, deepest + 1):
            made = Stream(k=k, depth=depth, mode="paper", category_column="category")
            parts = made.observe(log, Noise.seeded(1))
            stream = ReleasedStream.of(parts)
            honest[k, depth] = survey(parts, len(log), stream).loss.loss
            published[k, depth] = published_loss(stream, depth).loss
        falling = [published[k, depth] for depth in range(1, deepest + 1)]
        assert falling == sorted(falling, reverse=True) and falling[0] > 0 and falling[-1] == 0
    assert honest[3, deepest] > 0.5 * honest[3, 1]
    assert all(abs(published[3, depth] - published[10, depth]) < 0.02 for depth in range(1, deepest + 1))
