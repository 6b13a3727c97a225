"""Wrong variants of semantic release that look right: each is rejected by the judge that accepts the real one.

*Exact judge*: the worst log-ratio over all inputs and outputs of the law that a variant draws from.
*Sampling judge*: logs that differ in one query, one event, n = 60,000 releases of it for each, α = 1e-6: the lower
confidence bound of the log-ratio of the event's probabilities must not exceed the claim. At a claim of 1 it catches a
true loss of 1.1 where the event has probability 1/2, and any event that one log makes impossible.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta

from queryveil.errors import BudgetError
from queryveil.log import QueryLog
from queryveil.mechanisms.semantic import Semantic, SemanticStream
from queryveil.mechanisms.semantic.calibration import calibrate
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import ClassLaw, class_row_of, draw, printed_exponents
from queryveil.privacy import Ledger, Noise
from queryveil.release.release import Release
from queryveil.testing.twins import SemanticDrawingForEveryClick
from semantic_oracle import place, toy_domain

EPSILON = 1.0
DRAWS = 60_000
ALPHA = 1e-6


# The exact judge


def exact_loss(matrix: np.ndarray) -> float:
    with np.errstate(divide="ignore"):
        return math.log((matrix.max(axis=0) / matrix.min(axis=0)).max())


def exponential_matrix(domain: Domain, exponent: float, *, rows: list[np.ndarray] | None = None) -> np.ndarray:
    scores = rows or [domain.class_similarity[class_row_of(domain, i)] for i in range(len(domain))]
    weights = np.exp(exponent * np.array(scores))
    return weights / weights.sum(axis=1, keepdims=True)


def real(domain: Domain) -> np.ndarray:
    return calibrate(domain, "sqc1", EPSILON).law.matrix()


def without_the_certificate_at_twice_the_printed_exponent(domain: Domain) -> np.ndarray:
    """ "The factor 2 is wasted, so leave it out": true only nearly."""
    return exponential_matrix(domain, EPSILON / (1 - domain.minimum_similarity))


def calibrated_without_outside_and_used_with_it(domain: Domain) -> np.ndarray:
    inner = Domain.of(domain.parts, outside=False)
    return ClassLaw.of(domain, "sqc1", calibrate(inner, "sqc1", EPSILON).exponent).matrix()


def least_similarity_of_the_data(domain: Domain) -> np.ndarray:
    """Δ from the concepts seen (flu, asthma, H) in place of the taxonomy."""
    seen = [place(domain, name) for name in ("flu", "asthma", "H")]
    least = min(domain.class_similarity[class_row_of(domain, a)][b] for a in seen for b in seen)
    return exponential_matrix(domain, EPSILON / (2 * (1 - least)) * 1.9)


def an_output_left_out_for_one_input(domain: Domain) -> np.ndarray:
    """ "Never answer with the truth"."""
    matrix = real(domain).copy()
    matrix[3, 3] = 0.0
    return matrix / matrix.sum(axis=1, keepdims=True)


def unmapped_queries_always_become_outside(domain: Domain) -> np.ndarray:
    matrix = real(domain).copy()
    matrix[domain.outside] = np.arange(len(domain)) == domain.outside
    return matrix


def weights_that_may_be_zero(domain: Domain) -> np.ndarray:
    """Weights of too few bits without the floor of 1: rare outputs vanish for some inputs."""
    matrix = np.floor(exponential_matrix(domain, 8.0) * 2**8)
    return matrix / matrix.sum(axis=1, keepdims=True)


def test_the_real_law_passes_the_exact_judge():
    assert exact_loss(real(toy_domain(outside=True))) <= EPSILON + 1e-12


@pytest.mark.parametrize(
    "broken",
    [
        without_the_certificate_at_twice_the_printed_exponent,
        calibrated_without_outside_and_used_with_it,
        least_similarity_of_the_data,
        an_output_left_out_for_one_input,
        unmapped_queries_always_become_outside,
        weights_that_may_be_zero,
    ],
    ids=lambda broken: broken.__name__,
)
def test_the_exact_judge_rejects(broken):
    assert exact_loss(broken(toy_domain(outside=True))) > EPSILON + 1e-3


def test_the_printed_law_is_within_its_claim_but_wastes_it():
    domain = toy_domain(outside=True)
    matrix = ClassLaw.of(domain, "sqc1", printed_exponents(domain, "sqc1", EPSILON).min()).matrix()
    assert exact_loss(matrix) < 0.7 * EPSILON


# The sampling judge


def certain_ratio(ones: int, others: int) -> float:
    """A lower bound of ln(p/q) from two counts out of DRAWS, wrong with probability below α."""
    p_low = beta.ppf(ALPHA / 2, ones, DRAWS - ones + 1) if ones else 0.0
    q_high = beta.ppf(1 - ALPHA / 2, others + 1, DRAWS - others) if others < DRAWS else 1.0
    return math.log(p_low / q_high) if p_low > 0 else -math.inf


def mechanism(**changes) -> Semantic:
    wanted = {"epsilon": EPSILON, "per": "query", "domain": "contact_sport", "criterion": "nsqc"}
    return Semantic(**(wanted | {"max_queries": DRAWS} | changes))


def published(release: Callable[[QueryLog], list[str]], text: str) -> list[str]:
    return release(QueryLog.of([("ann", text)] * DRAWS))


def judged(release: Callable[[QueryLog], list[str]]) -> float:
    """The largest certain loss between a boxing query and one that is not mapped, over a few events."""
    one, other = published(release, "cheap boxing"), published(release, "dear zxqv")
    events: list[Callable[[str], bool]] = [
        lambda text: text == "boxing",
        lambda text: text == "other",
        lambda text: "cheap" in text,
        lambda text: text == "",
    ]
    found = [(sum(map(event, one)), sum(map(event, other))) for event in events]
    missing = (DRAWS - len(one), DRAWS - len(other))
    return max(certain_ratio(*pair) for a, b in [*found, missing] for pair in ((a, b), (b, a)))


def safe(log: QueryLog) -> list[str]:
    return mechanism().protect(log, Noise.seeded(1)).log.queries()


def paper(log: QueryLog) -> list[str]:
    return mechanism(mode="paper").protect(log, Noise.seeded(1)).log.queries()


def with_twice_the_epsilon(log: QueryLog) -> list[str]:
    return mechanism(epsilon=2 * EPSILON).protect(log, Noise.seeded(1)).log.queries()


def dropping_what_is_not_mapped(log: QueryLog) -> list[str]:
    outside = mechanism().public_domain.outside
    kept = log.frame.filter(mechanism().reader.concepts(log.queries()) != outside)
    return mechanism().protect(QueryLog(kept), Noise.seeded(1)).log.queries()


def with_the_words_around_kept(log: QueryLog) -> list[str]:
    texts = safe(log)
    return [f"{query.split()[0]} {text}" for text, query in zip(texts, log.queries(), strict=True)]


def with_one_draw_for_all_equal_queries(log: QueryLog) -> list[str]:
    """Memoising answers is another law: here judged over seeds, since one release holds one draw."""
    noise = Noise.seeded(5)
    law, reader = mechanism().certified.law, mechanism().reader
    (concept,) = reader.concepts(log.queries()[:1])
    drawn = draw(law, np.full(DRAWS, concept, np.int32), noise.stream("x"))
    twice = draw(law, np.full(DRAWS, concept, np.int32), noise.stream("y"))
    labels = mechanism().public_domain.main_labels
    # the adversary sees two answers for one query and the claim is for one: best event "both boxing" has loss 2ε
    return [labels[a] if a == b else "" for a, b in zip(drawn, twice, strict=True)]


def test_the_real_mechanism_passes_the_sampling_judge():
    assert judged(safe) <= EPSILON


@pytest.mark.parametrize(
    "broken",
    [
        with_twice_the_epsilon,
        dropping_what_is_not_mapped,
        with_the_words_around_kept,
        with_one_draw_for_all_equal_queries,
        paper,
    ],
    ids=lambda broken: broken.__name__,
)
def test_the_sampling_judge_rejects(broken):
    assert judged(broken) > EPSILON


def certain_loss_of_clicks(release: Callable[[QueryLog], Release]) -> float:
    """The largest certain loss between two texts of a query with three clicks, over how many records tell the first."""
    counts = []
    for text in ("cheap boxing", "dear zxqv"):
        clicks = QueryLog.of([(f"u{n}", text, datetime(2026, 3, 1), rank) for n in range(DRAWS) for rank in (1, 2, 3)])
        shown = release(clicks)
        owners = pl.Series(shown.owners).filter(pl.Series(shown.log.queries()) == "boxing")
        counts.append(owners.value_counts()["count"].to_numpy())
    found = [[int((count >= most).sum()) for most in (1, 2, 3)] for count in counts]
    return max(certain_ratio(*pair) for pair in zip(*found, strict=True))


def test_a_draw_for_every_click_of_a_query_is_caught_by_clicking():
    """Three draws have the loss 3 for "all boxing"; how many clicks a query had shows besides."""
    given = {"epsilon": EPSILON, "per": "query", "domain": "contact_sport", "criterion": "nsqc", "max_queries": 5}
    judged_as = {
        kind: certain_loss_of_clicks(lambda log, kind=kind: kind(**given).protect(log, Noise.seeded(1)))
        for kind in (Semantic, SemanticDrawingForEveryClick)
    }
    assert judged_as[Semantic] <= EPSILON < judged_as[SemanticDrawingForEveryClick]


class Unpaid(SemanticStream):
    """A stream that counts in memory and debits nobody."""

    def _spend(self, user: str) -> None:
        self._asked[user] = self._asked.get(user, 0) + 1
        if self._asked[user] > self.mechanism.max_queries:
            raise BudgetError("the public maximum")


def answers_over_restarts(kind: type[SemanticStream], ledger: Ledger) -> int:
    """How many answers a user gets who comes back after every restart, up to 4 of them."""
    rules = mechanism(epsilon=1.0, per="user", max_queries=2)
    answers = 0
    for _ in range(4):
        stream = kind(rules, Noise.secure(), ledger)
        for _ in range(3):
            with suppress(BudgetError):
                stream.push("ann", "boxing")
                answers += 1
    return answers


def test_a_stream_that_forgets_who_asked_is_caught_by_restarting_it(tmp_path):
    """ε = 1 in the ledger pays for 2 answers at 1/2 each, however often the stream starts anew."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1.0)
    assert answers_over_restarts(SemanticStream, ledger) == 2
    assert answers_over_restarts(Unpaid, ledger) > 2
