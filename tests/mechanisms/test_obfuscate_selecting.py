"""TEM, SanText and CusText: their laws exactly, what these promise, and what is drawn."""

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.obfuscation_oracle import ALPHA, DRAWS, cloud, line, p_value, vocabulary
from properties import examples
from queryveil.mechanisms.obfuscate import promise, word_mechanism
from queryveil.mechanisms.obfuscate.selecting import BETA, CustomisedWords, SelectedWords, partition
from queryveil.privacy import Noise
from queryveil.privacy.guarantee import rounded_up


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYVEIL_CACHE", str(tmp_path / "cache"))


def stream(seed=1):
    return Noise.seeded(seed).stream("test")


def law(mechanism, count):
    """P(answer | word) from the whole numbers that are drawn from."""
    rows = np.zeros((count, count))
    for word in range(count):
        if isinstance(mechanism, CustomisedWords):
            own, weights = mechanism.law(word)
        else:
            own, weights = np.arange(count), np.diff(mechanism._cumulative(word), prepend=0)
        rows[word, own] = weights / weights.sum()
    return rows


def paper_tem(vectors, epsilon, word):
    """The paper's own two steps: words within γ or ⊥ by the exponential mechanism, then ⊥ as any other word alike."""
    count = len(vectors)
    gamma = 2 / epsilon * math.log((1 - BETA) * (count - 1) / BETA)
    away = [math.dist(vectors.matrix[word], row) for row in vectors.matrix]
    near = [u for u in range(count) if away[u] <= gamma]
    others = count - len(near)
    weights = {u: math.exp(epsilon / 2 * -away[u]) for u in near}
    rest = math.exp(epsilon / 2 * (-gamma + 2 * math.log(others) / epsilon)) if others else 0.0
    total = sum(weights.values()) + rest
    return [weights[u] / total if u in weights else rest / others / total for u in range(count)]


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 40.0])
def test_tem_is_the_papers_law_in_one_step(epsilon):
    drawn_from = law(word_mechanism("tem", cloud(), epsilon=epsilon), 60)
    for word in (0, 17):
        assert drawn_from[word] == pytest.approx(paper_tem(cloud(), epsilon, word), abs=1e-12)


def test_santext_on_the_line_is_the_exponential_of_half_epsilon_times_distance():
    expected = [math.exp(-0.5 * x) for x in (0, 1, 3)]
    assert law(word_mechanism("santext", line(), epsilon=1.0), 3)[0] == pytest.approx(
        np.array(expected) / sum(expected), abs=1e-12
    )


def exact_law(vectors, epsilon, word, gamma):
    """P(answer | word) with 60 digits, from the vectors as they are stored."""
    with localcontext(prec=60):
        rows = [[Decimal(float(x)) for x in row] for row in vectors.matrix]
        away = [sum((a - b) ** 2 for a, b in zip(rows[word], row, strict=True)).sqrt() for row in rows]
        weights = [(-Decimal(epsilon) / 2 * min(x, Decimal(gamma))).exp() for x in away]
        return [weight / sum(weights) for weight in weights]


def total_variation(whole, ideal):
    with localcontext(prec=60):
        total = int(whole.sum())
        return float(sum(abs(Decimal(int(w)) / total - p) for w, p in zip(whole, ideal, strict=True)) / 2)


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 2**32), st.floats(0.05, 30), st.sampled_from(["tem", "santext"]))
def test_the_law_drawn_from_is_within_delta_of_an_ideal_one_that_keeps_the_ratio(seed, epsilon, name):
    vectors = vocabulary(np.random.default_rng(seed).standard_normal((15, 3)))
    mechanism = word_mechanism(name, vectors, epsilon=epsilon)
    delta = mechanism.guarantee().delta
    ideal = [exact_law(vectors, epsilon, word, mechanism.truncation) for word in range(15)]
    for word in range(15):
        assert total_variation(np.diff(mechanism._cumulative(word), prepend=0), ideal[word]) <= delta
    for a, b in itertools.permutations(range(15), 2):
        limit = math.exp(epsilon * mechanism.distances(np.array([a]), np.array([b]))[0] + 1e-12)
        assert all(float(p) <= limit * float(q) for p, q in zip(ideal[a], ideal[b], strict=True))


def test_delta_is_no_additive_slack_and_the_statement_does_not_call_it_one():
    """A vocabulary where the hockey-stick distance of the whole-number laws is far above δ: floors at a far group."""
    half = 1000
    near = math.log(half / 9)
    # Placed so that from the near group each far word should weigh 1.9, and weighs 1.
    far = -math.log(1.9 * 2.0**-53 * (half + math.exp(-near))) - near
    mechanism = word_mechanism("santext", vocabulary([[0.0], *[[near]] * half, *[[-far]] * half]), epsilon=2.0)
    first, second = (np.diff(mechanism._cumulative(word), prepend=0).astype(float) for word in (0, 1))
    allowed = math.exp(2.0 * mechanism.distances(np.array([0]), np.array([1]))[0]) * (1 + 1e-9)
    excess = np.maximum(first / first.sum() - allowed * second / second.sum(), 0).sum()
    assert excess > 10 * len(mechanism.vectors) * 2.0**-52
    told = promise.of_words(mechanism, n=3, mode="safe").statement()
    assert "except with probability δ" in told
    assert "the 3 obfuscations sent are those of an ideal mechanism" in told
    assert "and δ =" not in told


def test_tem_limits_what_any_two_words_can_differ_by():
    vectors = vocabulary([[0.0], [1.0], [1000.0]])
    tem, santext = (word_mechanism(name, vectors, epsilon=2.0) for name in ("tem", "santext"))
    far = np.array([0]), np.array([2])
    assert tem.distances(*far)[0] == pytest.approx(tem.truncation) == pytest.approx(math.log(0.999 / 0.001 * 2))
    assert santext.distances(*far)[0] == 1000.0
    one, twenty = (promise.of_words(tem, n=n, mode="safe").statement() for n in (1, 20))
    assert f"differ by more than e^{rounded_up(2.0 * tem.truncation)} in odds" in one
    assert f"differ by more than e^{rounded_up(20 * 2.0 * tem.truncation)} in odds over the 20" in twenty
    assert "with certainty" not in one + twenty
    assert "however far apart" not in promise.of_words(santext, n=20, mode="safe").statement()


def test_the_limit_for_any_two_words_holds_for_the_exact_law_of_all_obfuscations_together():
    tem = word_mechanism("tem", vocabulary([[0.0], [1.0], [1000.0]]), epsilon=2.0)
    once = np.log(law(tem, 3))
    told = promise.of_words(tem, n=20, mode="safe").statement()
    limit = float(told.split("differ by more than e^")[1].split()[0])
    most = 20 * np.abs(once[:, None] - once[None]).max()  # the same answer twenty times
    assert limit / 2 - 1e-9 <= most <= limit  # the two weights; the sums of weights may add as much again


@pytest.mark.parametrize("name", ["tem", "santext", "custext"])
def test_what_is_drawn_has_the_law_and_not_that_of_half_or_twice_epsilon(name):
    """n = 20,000 draws, α = 1e-6: ε off by a factor 2 moves the law by far more than the 1,184 draws' worth."""
    mechanism = word_mechanism(name, cloud(), epsilon=4.0)
    drawn = mechanism.replace(np.full(DRAWS, 7), stream())
    assert p_value(drawn, law(mechanism, 60)[7]) > ALPHA
    for wrong in (2.0, 8.0):
        assert p_value(drawn, law(word_mechanism(name, cloud(), epsilon=wrong), 60)[7]) < ALPHA


@pytest.mark.parametrize("name", ["tem", "santext", "custext"])
def test_answers_do_not_depend_on_how_many_follow(name):
    mechanism = word_mechanism(name, cloud(), epsilon=4.0)
    long = mechanism.replace(np.arange(120) % 60, stream())
    assert mechanism.replace(np.arange(45), stream()).tolist() == long[:45].tolist()


# CusText


def slow_partition(matrix, size):
    left, sets = list(range(len(matrix))), {}
    number = 0
    while len(left) >= 2 * size:
        seed = left[0]
        near = sorted(left, key=lambda u: (u != seed, math.dist(matrix[seed], matrix[u]), u))[:size]
        sets.update(dict.fromkeys(near, number))
        left = [u for u in left if u not in sets]
        number += 1
    sets.update(dict.fromkeys(left, number))
    return [sets[u] for u in range(len(matrix))]


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 130), st.integers(2, 9))
def test_the_partition_is_a_word_and_the_nearest_left_over_and_over(seed, count, size):
    matrix = np.random.default_rng(seed).integers(-50, 50, (count, 2)).astype(np.float32)
    assert partition(matrix, size).tolist() == slow_partition(matrix.tolist(), size)


def test_the_partition_goes_on_when_the_neighbours_it_knows_are_taken():
    matrix = np.random.default_rng(8).standard_normal((3000, 2)).astype(np.float32)
    sets = partition(matrix, 20)
    assert np.bincount(sets).min() >= 20
    assert sets.tolist() == slow_partition(matrix.tolist(), 20)


def test_custext_is_epsilon_private_inside_a_set_and_names_the_set():
    mechanism = word_mechanism("custext", cloud(), epsilon=3.0)
    drawn_from = law(mechanism, 60)
    _, members = mechanism._sets
    for own in members:
        inside = drawn_from[np.ix_(own, own)]
        assert np.log(inside.max(axis=0) / inside.min(axis=0)).max() <= 3.0
    a, b = members[0][0], members[1][0]
    assert not (drawn_from[a] * drawn_from[b]).any()  # no answer in common: told apart with certainty
    assert mechanism.distances(np.array([a, a, a]), np.array([a, members[0][1], b])).tolist() == [0.0, 1.0, math.inf]
    told = mechanism.guarantee()
    assert "infinite between words of different sets" in told.headline()
    assert any("which set" in leak for leak in told.not_protected)


# Deniability


@pytest.mark.parametrize("name", ["tem", "santext", "custext"])
def test_deniability_is_counted_from_the_law(name):
    mechanism = word_mechanism(name, cloud(), epsilon=2.0)
    rows = law(mechanism, 60)
    words = np.array([3, 8])
    drawn = mechanism.replace(np.tile(words, 2), stream()).reshape(2, 2)
    counts = mechanism.deniability(words, drawn, stream())
    for place, word in enumerate(words):
        likely = rows[:, drawn[:, place]].prod(axis=1)
        assert counts[place].words == (likely >= likely[word] / 2 * (1 - 1e-6)).sum()
        assert counts[place].how == "counted exactly"


def test_deniability_of_many_words_is_estimated_and_says_so():
    vectors = vocabulary(np.random.default_rng(2).standard_normal((400, 3)))
    mechanism = SelectedWords(vectors, epsilon=0.01, truncated=False)
    drawn = mechanism.replace(np.array([5]), stream()).reshape(1, 1)
    (count,) = mechanism.deniability(np.array([5]), drawn, stream())
    assert "estimated" in count.how
    assert count.words == 400  # at ε = 0.01 every word is as likely


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 14.0, 40.0])
def test_no_word_of_a_set_comes_out_unchanged_more_often_than_is_bounded(epsilon):
    mechanism = word_mechanism("custext", cloud(), epsilon=epsilon)
    assert (np.diag(law(mechanism, 60)) <= mechanism.most_unchanged * (1 + 1e-12)).all()


def test_what_custext_promises_is_told_without_cutting_the_vocabulary():
    mechanism = word_mechanism("custext", cloud(), epsilon=2.0)
    assert "Two words of one set" in promise.of_words(mechanism, n=1, mode="safe").statement()
    assert not mechanism.prepared
