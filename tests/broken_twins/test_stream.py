"""Deliberately wrong stream mechanisms, each rejected by the check that is meant for it, which the real one passes."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from linked_repeats import linked_repeats, watched
from mechanisms.stream_oracle import Oracle, every_outcome
from ordinary_log import standard_stream
from queryveil.audit.attacks.neighbours import repeated_texts, window_plurality
from queryveil.audit.attacks.released_stream import ReleasedStream
from queryveil.audit.attacks.rematching import repair
from queryveil.mechanisms.stream import LiveStream, Stream
from queryveil.mechanisms.stream._tree import Rules
from queryveil.privacy import Noise

SAFE = {"exclude_owner": False, "distinct": True, "cap": 3}


class LetsTheOwnerKeepNothing(Oracle):
    """Safe draws, but Restriction 1 is still on."""

    exclude_owner = True


class CountsUsersOnly(Oracle):
    """Forgets the gate on owners."""

    def _enough_here(self, category):
        return self.own_users(category) > self.k


class OffByOne(Oracle):
    """k instead of more than k."""

    def _enough_here(self, category):
        return self.own_users(category) >= self.k and self.own_owners(category) >= self.k


class DrawsEntries(Oracle):
    """Owners drawn by their number of records."""

    def _query_place_of_an_owner(self, category):
        return self.draw(len(self.queries[category]))


class FavoursTheNewest(Oracle):
    """The record that has just come leaves with twice the chance."""

    def _query_place_of_an_owner(self, category):
        listed = self.queries[category]
        return min(self.draw(len(listed) + 1), len(listed) - 1)


def worst_posterior(twin, arrivals="aabcb", k=2):
    """The largest chance, over all first emissions, that a pool member is the owner, given the receiver."""
    table = Counter()
    rules = SAFE | ({"exclude_owner": True} if twin is LetsTheOwnerKeepNothing else {})

    def run(draw):
        oracle = twin(k=k, draw=draw, tries=0, most=1, **rules)
        for place, user in enumerate(arrivals):
            oracle.push(user, place, ("c",))
            if oracle.out:
                return oracle.out[0]
        raise AssertionError

    for probability, emission in every_outcome(run):
        table[emission.owner, emission.receiver] += probability
    return max(p / sum(q for (_, r), q in table.items() if r == receiver) for (_, receiver), p in table.items())


def test_the_real_draws_bound_every_posterior_by_one_in_k_plus_one():
    assert worst_posterior(Oracle) == Fraction(1, 3)


@pytest.mark.parametrize("twin", [LetsTheOwnerKeepNothing, OffByOne, DrawsEntries, FavoursTheNewest])
def test_a_twin_with_wrong_draws_exceeds_the_bound(twin):
    assert worst_posterior(twin) > Fraction(1, 3)


def test_a_twin_without_the_gate_on_owners_emits_from_a_single_owner():
    def single(twin):
        def run(draw):
            oracle = twin(k=2, draw=draw, tries=0, **SAFE)
            for place, user in enumerate("cccbacccc"):
                oracle.push(user, place, ("c",))
            return any(e.owners_of_queries == 1 for e in oracle.out)

        return sum(p for p, hit in every_outcome(run) if hit)

    assert single(Oracle) == 0
    assert single(CountsUsersOnly) > 0


STREAM = standard_stream(records=30_000, users=300)


def attacked(k=10, owner_excluded=False, **settings):
    """The best of A0 and A1, and A2's eligible texts, on a live stream whose settings were changed."""
    made = Stream(k=k, depth=1, k_text=3, window=20_000, category_column="category")
    running = made.open(Noise.seeded(1), for_science=True)
    if settings:
        changed = replace(running.settings, **settings)
        running = LiveStream(changed, Noise.seeded(1), made.categories)
    stream = ReleasedStream.of([*running.push_with_owners(STREAM), *running.finish_with_owners()])
    found = [*window_plurality(stream, depth=1, owner_excluded=owner_excluded).values()]
    found.append(repair(stream, k=k, depth=1, noise=Noise.seeded(2), owner_excluded=owner_excluded))
    return max(success.share for success in found), repeated_texts(stream, depth=1).eligible


def test_attacks_accept_the_real_stream_and_reject_twins_with_a_smaller_pool_or_a_leaking_window():
    best, eligible = attacked()
    assert best <= 1 / 10
    assert eligible == 0
    best, _ = attacked(rules=Rules.safe(3, 3))
    assert best > 1 / 10
    _, eligible = attacked(k_text=1)
    assert eligible > 0
    best, _ = attacked(rules=Rules.paper(10), k_text=1, owner_excluded=True)
    assert best > 1 / 10


def with_sticky_receivers(stream):
    """A twin: a text that an owner repeats keeps its first receiver, and with it its pseudonym."""
    first = {}
    pairs = zip(stream.owners.tolist(), stream.texts.tolist(), stream.pseudonyms.tolist(), strict=True)
    names = [first.setdefault((owner, text), name) for owner, text, name in pairs]
    return replace(stream, pseudonyms=np.array(names, np.int32))


def test_linking_repeats_rejects_sticky_receivers_and_accepts_fresh_ones():
    """Of the pairs (pseudonym, text) with one common pool member, how many are that member's; 1/(k+1) is allowed."""
    k = 3
    made = Stream(k=k, depth=1, k_text=3, window=20_000, category_column="category")
    stream, pools = watched(made, STREAM, Noise.seeded(1))
    assert min(map(len, pools)) > k
    real = linked_repeats(stream, pools)
    assert real.tried >= 100
    assert real.at_most <= 1 / (k + 1)
    twin = linked_repeats(with_sticky_receivers(stream), pools)
    assert twin.tried >= 100
    assert twin.at_least > 1 / (k + 1)


def test_a_restored_stream_that_draws_anew_gives_records_a_second_draw():
    """The breach a checkpoint must not make: same records, other words."""
    made = Stream(k=3, depth=1, k_text=2, mode="paper", category_column="category")

    def second_half(words_lost):
        running = made.open(Noise.seeded(1), for_science=True)
        log = standard_stream(records=2000, users=50)
        running.push(type(log)(log.frame[:1000]))
        again = made.open(Noise.seeded(1), for_science=True)
        again.restore(running.snapshot())
        if words_lost:
            again._draws(0, 1)
            again._draws(1, 1)
        return again.push(type(log)(log.frame[1000:])).frame

    assert second_half(False).equals(second_half(False), null_equal=True)
    assert not second_half(True).equals(second_half(False), null_equal=True)
