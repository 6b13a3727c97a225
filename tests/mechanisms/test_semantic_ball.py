"""The ball law: balls against sorting, exact losses, draws, the best size, many draws, and broken twins."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import chisquare

from mechanisms.semantic_toys import ALPHA, release, semantic
from properties import examples
from queryveil.errors import KnowledgeError, ParameterError
from queryveil.knowledge.wordnet import WordNet
from queryveil.mechanisms.semantic import _ball_kernel
from queryveil.mechanisms.semantic.ball import BallLaw, Nearest, ball, ball_repeated, enumerated, repeated_ball
from queryveil.mechanisms.semantic.calibration import calibrate
from queryveil.mechanisms.semantic.composition import calibrate_repeated, repeated
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import draw
from queryveil.mechanisms.semantic.law_in_words import law_in_words, share_in_words
from queryveil.mechanisms.semantic.optimum import choose, similarities
from queryveil.mechanisms.semantic.replacement import Semantic
from queryveil.privacy import Noise
from queryveil.privacy.bounds import exponential
from semantic_oracle import built, parent_lists, toy_domain, worst_ratio

pytestmark = pytest.mark.usefixtures("a_cache_of_its_own")


@pytest.fixture(scope="module")
def disease():
    return Domain.named(WordNet.load().nouns, "disease", outside=True)


def nearest_by_sorting(domain, concept, size):
    """The slow oracle: sort all outputs by similarity, then by number."""
    similarity = similarities(domain)[concept]
    return set(sorted(range(len(domain)), key=lambda output: (-similarity[output], output))[:size])


def toy_law(domain, size, near, far):
    edges, lasts, _ = enumerated(domain, size)
    return BallLaw(domain, size, near, far, edges, lasts)


def at_most_exponential(ratio, epsilon):
    with localcontext(prec=60):
        return Decimal(ratio.numerator) / Decimal(ratio.denominator) <= Decimal(epsilon).exp()


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(parent_lists(), min_size=1, max_size=3), st.booleans(), st.floats(0.01, 30), st.data())
def test_the_law_is_exactly_what_enumeration_says(forest, outside, epsilon, data):
    """Every ball by sorting, every row sums up to 1, and no ratio of two inputs is above e^ε: all in fractions."""
    domain = Domain.of([built(parents) for parents in forest], outside=outside)
    size = data.draw(st.integers(1, len(domain) - 1))
    certified = ball(domain, epsilon, size)
    law = certified.law
    rows = [law.probabilities(concept) for concept in range(len(domain))]
    for concept, row in enumerate(rows):
        inside = {output for output, p in enumerate(row) if p == Fraction(law.near, law.total)}
        assert inside == nearest_by_sorting(domain, concept, size)
        assert concept in inside and sum(row) == 1
    assert law.matrix() == pytest.approx(np.array(rows, float), rel=1e-15)
    assert law.total <= 2**62 and law.near > law.far
    exact = worst_ratio(rows)
    assert at_most_exponential(exact, certified.epsilon) and certified.epsilon == epsilon
    assert float(exact) == pytest.approx(math.exp(epsilon), rel=1e-4)
    output, likely, unlikely = certified.witness
    assert law.probability(likely, output) / law.probability(unlikely, output) == exact


@pytest.mark.parametrize("name", ["disease", "sport|social_event"])
def test_balls_end_where_sorting_says_in_domains_of_many_blocks(name):
    """Every input, with balls within a block of concepts, over many blocks, and of nearly everything."""
    domain = Domain.named(WordNet.load().nouns, name, outside=True)
    similarity = similarities(domain)
    nearest_first = np.argsort(-similarity, axis=1, kind="stable")
    for size in (1, 2, 25, len(domain) // 2, len(domain) - 1):
        edges, lasts, _ = enumerated(domain, size)
        law = BallLaw(domain, size, 2, 1, edges, lasts)
        for concept in range(0, len(domain), 1 if size == 25 else 7):
            assert np.array_equal(np.flatnonzero(law.members(concept)), np.sort(nearest_first[concept, :size]))


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(parent_lists(), min_size=1, max_size=2), st.booleans(), st.floats(0.1, 8))
def test_the_size_is_the_best_of_all_sizes_and_no_law_by_rank_is_better(forest, outside, epsilon):
    domain = Domain.of([built(parents) for parents in forest], outside=outside)
    ranked = np.sort(similarities(domain), axis=1)[:, ::-1].mean(axis=0)
    laws = {size: ball(domain, epsilon, size).law for size in range(1, len(domain))}
    kept = {size: law.expected_similarity() for size, law in laws.items()}
    for size, law in laws.items():
        assert kept[size] == pytest.approx((law.matrix() * similarities(domain)).sum(axis=1).mean(), abs=1e-6)
    chosen = ball(domain, epsilon).law
    assert chosen.expected_similarity() == pytest.approx(max(kept.values()), abs=1e-6)
    # The best weights by rank: maximise Σ w_r s_r with Σ w_r = 1 and u ≤ w_r ≤ e^ε u.
    count = len(domain)
    bounds = np.vstack([np.hstack([np.eye(count), -np.full((count, 1), math.exp(epsilon))]),
                        np.hstack([-np.eye(count), np.ones((count, 1))])])  # fmt: skip
    best = linprog(np.append(-ranked, 0.0), A_ub=bounds, b_ub=np.zeros(2 * count),
                   A_eq=np.append(np.ones(count), 0.0)[None, :], b_eq=[1.0])  # fmt: skip
    assert chosen.expected_similarity() == pytest.approx(-best.fun, abs=1e-5)
    assert Nearest.of(domain).floor == pytest.approx(similarities(domain).mean(), abs=1e-6)


def test_every_number_below_the_total_belongs_to_the_output_with_its_share():
    """Exhaustive on a law with tiny weights: the whole map from numbers to outputs, for all inputs at once."""
    domain = toy_domain(outside=True)
    for size in range(1, len(domain)):
        law = toy_law(domain, size, 7, 3)
        inputs = np.repeat(np.arange(len(domain), dtype=np.int32), law.total)
        outputs = law.outputs(inputs, np.tile(np.arange(law.total), len(domain)))
        for concept in range(len(domain)):
            counts = np.bincount(outputs[inputs == concept], minlength=len(domain))
            assert [Fraction(int(n), law.total) for n in counts] == law.probabilities(concept)


def test_draws_follow_the_law_and_not_that_of_another_size(disease):
    """n = 100,000 of one input among 607, α = 1e-6; a ball that is larger by one of 25 is caught for sure."""
    law = ball(disease, 4.0).law
    drawn = draw(law, np.full(100_000, 300, np.int32), Noise.seeded(3).stream("draws"))
    counts = np.bincount(drawn, minlength=len(disease))
    right, wrong = (np.array(one.probabilities(300), float) for one in (law, ball(disease, 4.0, law.size + 1).law))
    assert chisquare(counts, right * len(drawn)).pvalue > ALPHA
    assert chisquare(counts, wrong * len(drawn)).pvalue < ALPHA


def test_inputs_of_a_batch_do_not_influence_each_other(disease):
    law = ball(disease, 2.0).law
    many = np.random.default_rng(5).integers(0, len(disease), 5000).astype(np.int32)
    together = draw(law, many, Noise.seeded(9).stream("x"))
    assert draw(law, many[:50], Noise.seeded(9).stream("x")).tolist() == together[:50].tolist()
    assert draw(law, np.empty(0, np.int32), Noise.seeded(9).stream("y")).tolist() == []


@pytest.mark.parametrize(
    ("epsilon", "wanted", "before"), [(1.0, 0.170, 0.146), (2.0, 0.219, 0.158), (4.0, 0.341, 0.208)]
)
def test_the_figures_of_the_specification_and_auto_takes_the_ball(disease, epsilon, wanted, before):
    inside = Domain.named(WordNet.load().nouns, "disease", outside=False)
    assert ball(inside, epsilon).law.expected_similarity() == pytest.approx(wanted, abs=0.001)
    chosen = choose(disease, epsilon)
    assert chosen.criterion == "ball"
    assert chosen.law.expected_similarity() > before
    assert chosen.use.expected == pytest.approx(wanted, abs=0.002)
    assert chosen.use.floor == pytest.approx(0.138, abs=0.001)


def test_a_ball_of_one_is_randomised_response_and_auto_says_so(disease):
    assert ball(disease, 10.0).law.size == 1
    assert choose(disease, 10.0).criterion == "nsqc"


def test_what_is_read_from_the_cache_is_the_same_law_and_an_altered_file_is_not_believed(disease, a_cache_of_its_own):
    made = ball(disease, 3.0)
    (file,) = a_cache_of_its_own.iterdir()
    assert ball(disease, 3.0).digest == made.digest
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    assert ball(disease, 3.0).digest == made.digest
    assert ball(disease, 3.0, made.law.size + 1).digest != made.digest


# Broken twins


def test_a_ball_whose_size_depends_on_the_input_is_caught(monkeypatch):
    """The twin takes all concepts as near as the m-th: with ties its balls differ in size, and e^ε is exceeded."""
    domain = toy_domain()
    size = 2

    def with_ties(concept):
        row = similarities(domain)[concept]
        return row >= np.sort(row)[::-1][size - 1]

    ratio, rows = Fraction(5), []
    for concept in range(len(domain)):
        weights = [ratio if inside else Fraction(1) for inside in with_ties(concept)]
        rows.append([weight / sum(weights) for weight in weights])
    assert worst_ratio(rows) > ratio
    right = _ball_kernel.find_edges

    def takes_ties(first, last, size, arrays, ranks, edges, lasts, found):
        right(first, last, size, arrays, ranks, edges, lasts, found)
        lasts[first:last] = len(found) - 1
        found[first:last] = [with_ties(concept).sum() for concept in range(first, last)]

    monkeypatch.setattr(_ball_kernel, "find_edges", takes_ties)
    with pytest.raises(KnowledgeError, match="another size"):
        enumerated(domain, size)


@pytest.mark.parametrize("size", [0, -1, 6, 7])
def test_a_ball_of_nothing_or_of_everything_is_refused(size):
    with pytest.raises(ParameterError, match="a ball has from 1 to 5 concepts"):
        enumerated(toy_domain(), size)


# Many draws


@pytest.mark.parametrize(("size", "epsilon", "times"), [(1, 1.0, 3), (2, 0.7, 3), (3, 0.5, 4), (5, 1.5, 3)])
def test_many_draws_lose_no_more_than_is_said(size, epsilon, times):
    """δ of all pairs of inputs by enumerating every outcome of `times` draws, in fractions."""
    certified = ball(toy_domain(), epsilon, size)
    law, delta = certified.law, 0.01
    said = repeated_ball(certified, times, delta)
    assert said <= epsilon * times + 1e-12
    assert said == repeated(certified, times, delta)
    rows = [law.probabilities(concept) for concept in range(len(law.domain))]
    with localcontext(prec=40):
        factor = Fraction(Decimal(said).exp())
    worst = Fraction(0)
    for one, other in itertools.permutations(rows, 2):
        ratios: dict[Fraction, Fraction] = {}
        for p, q in zip(one, other, strict=True):
            ratios[p / q] = ratios.get(p / q, Fraction(0)) + p
        excess = Fraction(0)
        for outcome in itertools.product(ratios.items(), repeat=times):
            chance = math.prod(p for _, p in outcome)
            excess += max(Fraction(0), chance - factor * chance / math.prod(ratio for ratio, _ in outcome))
        worst = max(worst, excess)
    assert worst <= Fraction(delta)
    if size in (1, 3) and said < epsilon * times:  # some two balls have no member in common: nothing is given away
        assert worst > Fraction(delta) * Fraction(99, 100)


def test_with_delta_the_ball_keeps_more_than_randomised_response_and_keeps_its_promise(disease):
    chosen = ball_repeated(disease, 10.0, 1e-6, 100)
    response = calibrate_repeated(disease, "nsqc", 10.0, 1e-6, 100)
    assert chosen.law.expected_similarity() > response.law.expected_similarity() + 0.003
    assert 9.9 < repeated(chosen, 100, 1e-6) <= chosen.measured <= 10.0
    assert chosen.epsilon > 0.1
    one = ball_repeated(disease, 2.0, 1e-6, 1)
    assert one.epsilon <= 2.0


# The mechanism


@pytest.mark.parametrize("criterion", ["ball", "auto"])
@pytest.mark.parametrize(("epsilon", "times"), [(1.0, 5), (0.1, 7), (10.0, 3)])
def test_an_equal_share_that_no_float_is_is_rounded_down(criterion, epsilon, times):
    """δ is too small to be of use, so that each query has its share of ε, and all of them are within ε as printed."""
    made = Semantic(epsilon=epsilon, per="user", delta=1e-30, domain="sport", criterion=criterion, max_queries=times)
    law = made.certified.law
    loss = exponential(made.losses.per_user / times, up=True)
    for output in (0, 1):
        chances = [law.probability(concept, output) for concept in range(len(law.domain))]
        assert max(chances) <= min(chances) * loss
    assert Fraction(made.certified.measured) <= made.losses.per_user == Fraction(repr(epsilon))


def test_a_release_by_the_ball_law_and_its_words():
    mechanism = semantic(criterion="ball", epsilon=4.0)
    made = release(mechanism, [("ann", "asthma"), ("ann", "flu"), ("bob", "skin disease")])
    assert len(made.log) == 3
    statement = mechanism.guarantee().statement()
    assert "ε = 4 by a ball of 25 concepts: 70 queries in 100 become one of the 25 concepts nearest" in statement
    assert "mean similarity of 0.340" in statement and "concepts drawn at random have 0.138" in statement
    assert mechanism.charge() == semantic(criterion="sqc1", epsilon=4.0).charge()


def test_randomised_response_in_words(disease):
    """ε = 4 over 607 concepts: e^4 / (e^4 + 606) is 0.083."""
    statement = semantic(criterion="nsqc", epsilon=4.0).guarantee().statement()
    assert (
        "ε = 4 by randomised response: one query in 12 is the true concept, the others are drawn evenly." in statement
    )
    assert law_in_words(ball(disease, 10.0), 10.0).startswith("ε = 10 by randomised response: 97 queries in 100 are")


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.2, "one query in five is"), (1 / 3, "one query in three is"), (0.49, "one query in two is"),
     (1e-5, "one query in 100,000 is"), (0.9996, "9,996 queries in 10,000 are"), (1 - 1e-12, "all queries are")],
)  # fmt: skip
def test_shares_in_words(share, words):
    assert share_in_words(share) == words


def test_paper_mode_knows_no_ball():
    with pytest.raises(ParameterError, match="ball is not in the paper"):
        semantic(criterion="ball", mode="paper")


@pytest.mark.parametrize("name", ["sport", "contact_sport"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 8.0])
def test_the_ball_keeps_more_than_the_papers_law_at_every_loss(name, epsilon):
    domain = semantic(epsilon=epsilon, per="query", domain=name).public_domain
    papers = calibrate(domain, "sqc1", epsilon).law.expected_similarity()
    assert ball(domain, epsilon).law.expected_similarity() > papers
