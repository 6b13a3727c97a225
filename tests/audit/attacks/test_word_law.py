"""Laws that mechanisms declare to the attacker: what is drawn has them, and the guess is the likeliest word."""

import numpy as np
import pytest
from scipy import stats

from mechanisms.obfuscation_oracle import cloud, vocabulary
from queryveil.audit.attacks import _word_law
from queryveil.audit.attacks._noise_law import guess_by_noise, nearest
from queryveil.audit.attacks._word_law import KnownLaw, KnownNoise, guess_by_law
from queryveil.audit.attacks.likelihood import recovery
from queryveil.knowledge.embeddings import WordVectors
from queryveil.mechanisms.obfuscate import WORD_MECHANISMS, word_mechanism
from queryveil.mechanisms.obfuscate.words import NOISY, SELECTING
from queryveil.privacy import Noise

ALPHA = 1e-6


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYVEIL_CACHE", str(tmp_path / "cache"))


def stream(seed=1):
    return Noise.seeded(seed).stream("test")


def slow_law(name, vectors, epsilon, sets=None):
    """P(output | word) by the formulas of the papers, word by word; custext's sets are given."""
    rows = np.asarray(vectors.matrix, np.float64)
    count = len(rows)
    away = np.array([[np.sqrt(((a - b) ** 2).sum()) for b in rows] for a in rows])
    cost = away
    if name == "tem":
        cost = np.minimum(away, 2 / epsilon * np.log(0.999 / 0.001 * (count - 1)))
    weights = np.exp(-epsilon / 2 * cost)
    if name == "custext":
        same = sets[:, None] == sets
        widest = np.array([away[np.ix_(sets == s, sets == s)].max() for s in sets])
        weights = np.where(same, np.exp(-epsilon / 2 * away / widest[:, None]), 0.0)
    if name == "wbb":  # the 20 words behind the 5 nearest weigh ⌊e^ε⌋, all others 1
        ranks = away.argsort(axis=1, kind="stable").argsort(axis=1)
        weights = np.where((ranks >= 5) & (ranks < 25), np.floor(np.exp(epsilon)), 1.0)
    return weights / weights.sum(axis=1, keepdims=True)


def declared_law(mechanism):
    """The same from what the mechanism tells attackers."""
    count = len(mechanism.vectors)
    law = np.zeros((count, count))
    for output in range(count):
        words, weights = mechanism.log_weights(np.array([output]))
        law[words, output] = np.exp(weights[0])
    return law / np.exp(mechanism.log_totals(np.arange(count)))[:, None]


def sets_of(mechanism):
    return mechanism._sets[0] if hasattr(mechanism, "_sets") else None


def test_every_word_mechanism_tells_its_law_or_its_noise():
    told = {name: word_mechanism(name, cloud(), epsilon=5.0, lambda_=0.5) for name in WORD_MECHANISMS}
    assert [name for name in told if isinstance(told[name], KnownLaw)] == list(SELECTING)
    assert [name for name in told if isinstance(told[name], KnownNoise)] == list(NOISY)


@pytest.mark.parametrize("name", SELECTING)
@pytest.mark.parametrize("epsilon", [0.5, 8.0])
def test_the_law_that_is_declared_is_the_papers_and_its_bound_is_below_its_totals(name, epsilon):
    mechanism = word_mechanism(name, cloud(), epsilon=epsilon)
    expected = slow_law(name, cloud(), epsilon, sets_of(mechanism))
    assert declared_law(mechanism) == pytest.approx(expected, abs=1e-5)
    totals = mechanism.log_totals(np.arange(len(mechanism.vectors)))
    assert (mechanism.least_log_totals() <= totals + 1e-5).all()


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 6.0])
@pytest.mark.parametrize("cells", [4, 40])
def test_the_bound_from_cells_of_words_is_below_every_total_and_near_it_for_small_epsilon(epsilon, cells, monkeypatch):
    from queryveil.knowledge import word_distances

    monkeypatch.setattr(word_distances, "CELLS", cells)
    vectors = WordVectors.load(most=1500)
    mechanism = word_mechanism("santext", vectors, epsilon=epsilon)
    short = mechanism.log_totals(np.arange(1500)) - mechanism.least_log_totals()
    assert short.min() >= -1e-4
    if epsilon < 1:
        assert np.median(short) < 0.1  # and not the trivial bound, ln 1, which is 6 short


@pytest.mark.parametrize("name", SELECTING)
def test_what_is_drawn_has_the_declared_law_and_not_that_of_half_the_noise(name):
    # 20,000 draws of one word, χ² at α = 1e-6: the law at twice ε is rejected with power above .999 (its
    # noncentrality is above 1,000).
    mechanism, twin = (word_mechanism(name, cloud(), epsilon=epsilon) for epsilon in (4.0, 8.0))
    word = np.full(20_000, 3)

    def p_value(drawn_by, law):
        seen = np.bincount(drawn_by.replace(word, stream()), minlength=len(law))
        expected = law * len(word)
        rest = expected < 10  # classes too small for χ² are one
        seen = np.append(seen[~rest], seen[rest].sum())
        expected = np.append(expected[~rest], expected[rest].sum())
        used = expected > 0
        assert seen[~used].sum() == 0
        return stats.chisquare(seen[used], expected[used] * seen.sum() / expected[used].sum()).pvalue

    law = declared_law(mechanism)[3]
    assert p_value(mechanism, law) > ALPHA
    assert p_value(twin, law) < ALPHA


@pytest.mark.parametrize("name", SELECTING)
@pytest.mark.parametrize("epsilon", [0.5, 3.0, 9.0])
@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_the_guess_by_a_known_law_is_the_likeliest_word_of_all(name, epsilon, prior):
    """Beside a slow look at every word for every row; a row whose two best words tie is not judged."""
    mechanism = word_mechanism(name, cloud(), epsilon=epsilon)
    count = len(mechanism.vectors)
    outputs = mechanism.replace(np.repeat(np.arange(count), 4), stream()).reshape(count, 4)
    log_prior = -prior * np.log(np.arange(1.0, count + 1))
    guesses = guess_by_law(mechanism, outputs, (1, 4), np.array([0 * log_prior, log_prior]))
    law = slow_law(name, cloud(), epsilon, sets_of(mechanism))
    judged = 0
    for which, before in enumerate((0 * log_prior, log_prior)):
        for seen in (1, 4):
            for row, guess in zip(outputs[:, :seen], guesses[seen][which], strict=True):
                with np.errstate(divide="ignore"):
                    likely = np.log(law[:, row]).sum(axis=1) + before
                assert likely[guess] >= likely.max() - 1e-4
                best = np.sort(likely)
                if best[-1] - best[-2] > 1e-3:
                    assert guess == likely.argmax()
                    judged += 1
    assert judged > 2 * count or name == "wbb"  # words whose boxes hold an output are equally likely


def test_totals_are_taken_only_for_words_that_could_win(monkeypatch):
    vectors = WordVectors.load(most=2000)
    mechanism = word_mechanism("santext", vectors, epsilon=8.0)
    outputs = mechanism.replace(np.arange(100, 160), stream())[:, None]
    taken = []
    honest = type(mechanism).log_totals
    monkeypatch.setattr(
        type(mechanism), "log_totals", lambda self, words: taken.append(len(words)) or honest(self, words)
    )
    guesses = guess_by_law(mechanism, outputs, (1,), np.zeros((1, 2000)))[1][0]
    assert sum(taken) < 1000 < 60 * 2000
    every = mechanism.log_weights(outputs[:, 0])[1] - honest(mechanism, np.arange(2000))
    assert every[np.arange(60), guesses] == pytest.approx(every.max(axis=1), abs=1e-4)


def test_many_rows_of_short_lists_are_all_judged_exactly():
    """custext: 300 rows of sets of 20 need more sums than may be taken over the vocabulary."""
    mechanism = word_mechanism("custext", WordVectors.load(most=2000), epsilon=0.5)
    outputs = mechanism.replace(np.arange(300), stream())[:, None]
    prior = -np.log(np.arange(1.0, 2001))
    together = guess_by_law(mechanism, outputs, (1,), np.array([0 * prior, prior]))[1]
    for number, before in enumerate((0 * prior, prior)):
        alone = guess_by_law(mechanism, outputs, (1,), before[None])[1][0]
        assert alone.tolist() == together[number].tolist()
        for output, guess in zip(outputs[:, 0], alone, strict=True):
            words, weights = mechanism.log_weights(np.array([output]))
            likely = weights[0] - mechanism.log_totals(words) + before[words]
            assert likely[words == guess] == pytest.approx(likely.max())


def test_without_room_for_totals_the_bound_decides_and_nothing_hangs(monkeypatch):
    monkeypatch.setattr(_word_law, "MOST_TOTALS", 0)
    monkeypatch.setattr(_word_law, "FEW_WORDS", 0)
    mechanism = word_mechanism("tem", cloud(), epsilon=9.0)
    guesses = guess_by_law(mechanism, np.arange(10)[:, None], (1,), np.zeros((1, len(mechanism.vectors))))[1][0]
    assert (guesses == np.arange(10)).sum() >= 5


@pytest.mark.parametrize("name", NOISY)
def test_chances_from_shared_points_are_those_of_running_the_mechanism(name):
    # 40,000 runs of each of 6 words, 4,000 noises around each: every chance within 5 standard errors of both.
    vectors = vocabulary(np.random.default_rng(3).normal(size=(40, 3)))
    mechanism = word_mechanism(name, vectors, epsilon=3.0, lambda_=0.5)
    words, every = np.arange(6), np.arange(40)
    estimated = mechanism.cell_chances(words, every, every, mechanism.noise_vectors(4000, stream(2))).T
    runs = 40_000
    counted = np.stack(
        [np.bincount(mechanism.replace(np.full(runs, w), stream(w)), minlength=40) / runs for w in words]
    )
    error = np.sqrt(np.maximum(counted, 1 / runs) * (1 / runs + 1 / 4000))
    assert (np.abs(estimated - counted) < 5 * error + 1e-4).all()
    assert estimated.sum(axis=1) == pytest.approx(np.ones(6), abs=0.1)
    half = word_mechanism(name, vectors, epsilon=6.0, lambda_=0.5)
    twin = half.cell_chances(words, every, every, half.noise_vectors(4000, stream(2))).T
    assert (np.abs(twin - counted) > 5 * error + 1e-4).any(axis=1).all()


def test_shared_points_tell_rare_outputs_better_than_counting_does():
    """The same noises counted word by word, without the weights of other words' points, miss what is rare."""
    vectors = vocabulary(np.random.default_rng(3).normal(size=(40, 3)))
    mechanism = word_mechanism("cmp", vectors, epsilon=3.0)
    words, every = np.arange(6), np.arange(40)
    true = mechanism.cell_chances(words, every, every, mechanism.noise_vectors(60_000, stream(7))).T
    noise = mechanism.noise_vectors(100, stream(2))
    shared = mechanism.cell_chances(words, every, every, noise).T
    alone = np.stack([mechanism.cell_chances(np.array([w]), every, every, noise)[:, 0] for w in words])
    seldom = (true < 0.01) & (true > 1e-5)
    assert np.abs(shared - true)[seldom].mean() < 0.7 * np.abs(alone - true)[seldom].mean()
    assert (shared[seldom] == 0).mean() < (alone[seldom] == 0).mean()


@pytest.mark.parametrize("count", [1, 50, 700, 3000, 9999])
def test_the_nearest_words_are_found_without_sorting_all(count):
    away = np.random.default_rng(1).normal(size=3000).astype(np.float32)
    away[::2] += 9  # a sample that is not like the rest must not lose words
    away[5] = away[7] = -20
    for given in (away, away[::-1], away[:3]):
        assert nearest(given, count).tolist() == np.argsort(given, kind="stable")[:count].tolist()


@pytest.mark.parametrize(("name", "epsilon"), [("custext", 4.0), ("tem", 4.0), ("vkr-cmp", 6.0)])
def test_half_the_noise_is_seen_and_the_same_seed_gives_the_same_figure(name, epsilon):
    # 200 words, N = 1: the intervals of the claim and of its broken twin at twice ε must not overlap.
    vectors = WordVectors.load(most=1500)
    words = Noise.seeded(9).stream("targets").permutation(1500)[:200]
    given = {"counts": (1,), "draws": 100}
    claimed, again, twin = (
        recovery(word_mechanism(name, vectors, epsilon=e), words, Noise.seeded(5), **given)
        for e in (epsilon, epsilon, 2 * epsilon)
    )
    assert claimed == again
    assert claimed.by_count[1].at_most < twin.by_count[1].at_least


def test_the_shortlist_is_of_words_near_all_outputs():
    vectors = vocabulary(np.arange(30.0)[:, None])
    mechanism = word_mechanism("cmp", vectors, epsilon=3.0)
    rows = np.array([[4, 5, 6], [20, 21, 19]])
    guesses = guess_by_noise(mechanism, rows, (3,), np.zeros((1, 30)), Noise.seeded(1), shortlist=1, draws=50)[3][0]
    assert guesses.tolist() == [5, 20]
