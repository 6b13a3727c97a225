"""The exact law of the stream's draws, by running through every one of them: what an observer may conclude."""

import itertools
from collections import Counter
from fractions import Fraction

import pytest

from mechanisms.stream_oracle import Oracle, every_outcome
from queryveil.mechanisms.stream import Stream
from vectors.stream import BUSY_USER, POOLS, SINGLE_OWNER


def law(arrivals, **rules):
    def run(draw):
        oracle = Oracle(draw=draw, tries=0, **rules)  # no tries: straight to the walk, which has the same law
        for place, user in enumerate(arrivals):
            oracle.push(user, place, ("c",))
        return oracle.out

    return every_outcome(run)


def first_emission(arrivals, **rules):
    """P(owner, receiver) of the first emission."""
    table = Counter()
    for probability, out in law(arrivals, most=1, **rules):
        table[out[0].owner, out[0].receiver] += probability
    assert sum(table.values()) == 1
    return table


def posterior(table, owner, receiver):
    return table[owner, receiver] / sum(p for (_, r), p in table.items() if r == receiver)


def best_guess(table):
    receivers = {receiver for _, receiver in table}
    return sum(max(p for (_, r), p in table.items() if r == receiver) for receiver in receivers)


def test_arity_skews_the_papers_posterior_to_ten_elevenths():
    table = first_emission("aaaabc", k=2)
    assert posterior(table, "a", "b") == posterior(table, "a", "c") == Fraction(10, 11)
    assert posterior(table, "b", "a") == Fraction(1, 2)
    assert best_guess(table) == Fraction(4, 5)


def test_without_arity_the_papers_posterior_is_one_half():
    table = first_emission("abc", k=2)
    assert all(posterior(table, o, r) == Fraction(1, 2) for o, r in itertools.permutations("abc", 2))
    assert best_guess(table) == Fraction(1, 2)


def test_safe_draws_bring_every_posterior_to_one_third():
    table = first_emission("aaaabc", k=2, exclude_owner=False, distinct=True, cap=4)
    assert all(posterior(table, o, r) == Fraction(1, 3) for o, r in itertools.product("abc", "abc"))
    assert best_guess(table) == Fraction(1, 3)


def test_who_sees_when_records_come_out_learns_the_owner_which_the_statement_does_not_cover():
    """Arrivals a, b, c, a with k = 2: a second record comes out only if the first was a's.

    Per record the posterior is 1/3; with the moment of releases it is 1. Safe mode does not protect against somebody
    who watches arrivals and releases, and says so.
    """
    first, first_and_more = Counter(), Counter()
    for probability, out in law("abca", k=2, exclude_owner=False, distinct=True, cap=3):
        first[out[0].owner] += probability
        if len(out) > 1:
            assert out[1].arrival == 3
            first_and_more[out[0].owner] += probability
    assert first == dict.fromkeys("abc", Fraction(1, 3))
    assert first_and_more["a"] == sum(first_and_more.values()) == Fraction(1, 9)
    unprotected = Stream(k=2).guarantee().not_protected
    assert "when and how many records come out, for somebody who watches arrivals" in unprotected


@pytest.mark.parametrize(("k", "busy", "success"), BUSY_USER)
def test_a_busy_user_among_k_single_ones_is_guessed_with_the_stated_success(k, busy, success):
    arrivals = ["busy"] * busy + [f"single {i}" for i in range(k)]
    assert float(best_guess(first_emission(arrivals, k=k))) == pytest.approx(success)  # claimed: 1/k
    if busy <= 3:  # every draw of a larger pool takes too long
        safe = first_emission(arrivals, k=k, exclude_owner=False, distinct=True, cap=busy)
        assert best_guess(safe) == Fraction(1, k + 1)


def single_owner_share(**rules):
    share = Fraction(0)
    for probability, out in law(SINGLE_OWNER["arrivals"], k=SINGLE_OWNER["k"], **rules):
        if any(e.owners_of_queries == 1 for e in out):
            share += probability
    return share


def test_one_in_twenty_streams_emits_a_record_with_a_single_possible_owner_in_paper_mode():
    assert single_owner_share() == Fraction(SINGLE_OWNER["share"])


def test_no_stream_emits_a_record_with_a_single_possible_owner_in_safe_mode():
    assert single_owner_share(exclude_owner=False, distinct=True, cap=3) == 0


@pytest.mark.parametrize("pool", POOLS, ids=["one record each", "one with four", "one with four, safe"])
def test_owners_are_guessed_as_often_as_was_computed_apart(pool):
    arrivals = "".join(user * count for user, count in pool["records of each"].items())
    rules = {"exclude_owner": False, "distinct": True, "cap": 4} if pool["safe"] else {}
    table = first_emission(arrivals, k=pool["k"], **rules)
    assert best_guess(table) == Fraction(pool["guess"])
    for receiver, owners in pool["posterior"].items():
        for owner, value in owners.items():
            assert posterior(table, owner, receiver) == Fraction(value)
