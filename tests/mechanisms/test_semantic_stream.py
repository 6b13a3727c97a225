"""Semantic queries one at a time: what a stream debits, refuses and says."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from mechanisms.semantic_toys import semantic
from queryveil.errors import BudgetError, ParameterError, RefusedError
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.mechanisms.obfuscate import own_noise
from queryveil.mechanisms.semantic import SemanticStream
from queryveil.privacy import Ledger, Noise


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger.db", epsilon=2.5, delta=1e-6)


def test_a_stream_debits_the_whole_charge_at_a_users_first_query_and_refuses_one_beyond_the_maximum(ledger):
    stream = SemanticStream(semantic(epsilon=1.0, per="user", max_queries=10), Noise.secure(), ledger)
    assert stream.spent("ann") == 0
    for _ in range(10):
        assert stream.push("ann", "asthma")
        assert stream.spent("ann") == 1
    assert ledger.entries().select("mechanism", "model", "scope", "epsilon", "people").rows() == [
        ("semantic", "pure-dp", "people", 1.0, 1)
    ]
    with pytest.raises(BudgetError, match="public maximum"):
        stream.push("ann", "asthma")
    assert stream.push("bob", "nothing that is a disease")


def test_a_restart_of_a_stream_is_paid_for_again_until_nothing_is_left(ledger):
    """A budget of 2.5 pays for two runs of ε = 1; in the third the user gets no answer, and somebody new does."""
    rules = semantic(epsilon=1.0, per="user", max_queries=3)
    for _ in range(2):
        assert SemanticStream(rules, Noise.secure(), ledger).push("ann", "asthma")
    third = SemanticStream(rules, Noise.secure(), ledger)
    for _ in range(2):
        with pytest.raises(BudgetError, match="left in the ledger"):
            third.push("ann", "asthma")
    assert third.spent("ann") == 0
    assert third.push("bob", "asthma")
    assert ledger.entries()["people"].to_list() == [1, 1, 0, 1]


def test_a_stream_debits_delta_too(ledger):
    rules = semantic(domain="contact_sport", epsilon=1.0, per="user", max_queries=10, delta=1e-6, criterion="nsqc")
    SemanticStream(rules, Noise.secure(), ledger).push("ann", "boxing")
    assert ledger.entries().select("epsilon", "delta", "model").rows() == [(1.0, 1e-6, "approx-dp")]
    with pytest.raises(BudgetError, match="left in the ledger"):
        SemanticStream(rules, Noise.secure(), ledger).push("ann", "boxing")


def test_threads_together_get_no_more_answers_than_the_maximum(ledger):
    stream = SemanticStream(semantic(epsilon=1.0, per="user", max_queries=20), Noise.secure(), ledger)

    def ask(_: int) -> bool:
        try:
            return bool(stream.push("ann", "asthma"))
        except BudgetError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(60))) == 20
    assert len(ledger.entries()) == 1


def test_a_kept_noise_makes_no_stream_and_no_release(ledger):
    """Another process may have drawn from it: two releases with the same noise could be subtracted."""
    Noise.create("run")
    with pytest.raises(RefusedError, match="may have been drawn before"):
        SemanticStream(semantic(), Noise.load("run"), ledger)
    with pytest.raises(RefusedError, match="may have been drawn before"):
        make("suppress").protect(synth(users=20, records=100, seed=1), own_noise())


def test_a_stream_takes_seeded_noise_for_science_only_and_says_so(ledger):
    with pytest.raises(RefusedError, match="seeded noise"):
        SemanticStream(semantic(), Noise.seeded(1), ledger)
    assert SemanticStream(semantic(), Noise.seeded(1), ledger, science=True).statement().startswith("NOT FOR PUBLIC")
    assert "NOT FOR PUBLIC" not in SemanticStream(semantic(), Noise.secure(), ledger).statement()


def test_a_stream_says_that_order_and_time_of_answers_are_not_protected(ledger):
    promised = SemanticStream(semantic(max_queries=7), Noise.secure(), ledger).guarantee()
    assert "the order and the time of answers" in promised.not_protected
    assert promised.relation.endswith("asked in the same order at the same times")
    assert "Every text pushed is a query of its own" in promised.statement()
    assert any("pushed several times" in gap for gap in promised.not_protected)
    assert "without a time" not in promised.statement()
    assert "At most 7 queries of a user are answered in a run" in promised.statement()


def test_a_stream_draws_anew_for_each_query(ledger):
    stream = SemanticStream(semantic(epsilon=0.01, max_queries=200), Noise.seeded(4), ledger, science=True)
    assert len({stream.push("ann", "asthma") for _ in range(100)}) > 10


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "paper"}, {"criterion": "hbdp"}, {"counts": "padded"}, {"time": "day"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_stream_is_refused_where_it_makes_no_sense(wrong, ledger):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        SemanticStream(semantic(**wrong), Noise.secure(), ledger)


def test_a_stream_needs_a_ledger_and_texts(ledger):
    with pytest.raises(ParameterError, match="ledger"):
        SemanticStream(semantic(), Noise.secure(), None)
    with pytest.raises(ParameterError, match="texts"):
        SemanticStream(semantic(), Noise.secure(), ledger).push("ann", None)
    assert len(ledger.entries()) == 0
