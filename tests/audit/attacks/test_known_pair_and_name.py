"""Found by a known pair of queries, or by a family name: exact on toys, at chance where nobody is where they seem."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

from queryveil.audit.attacks.known_items import Holders
from queryveil.audit.attacks.known_name import family_names_of
from queryveil.audit.attacks.known_pair import pairs_in
from queryveil.audit.attacks.tied_pseudonyms import sessions_of
from queryveil.audit.auditing import audit
from queryveil.audit.finding import Success
from queryveil.experiments.policies import make
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.release.secrets import Secrets

START = dt.datetime(2026, 1, 1)
KEYS = ("known-pair", "known-name")


def found(log, released, owners):
    secrets = Secrets(owners, released.frame["user"], owners, {})
    return {one.key: one for one in audit(log, released, secrets=secrets, only=KEYS).findings}


def cut(log):
    """Each session under a name of its own."""
    return QueryLog(log.frame.with_columns(user="name " + pl.col("user") + " " + pl.col("session")))


def toy(people=200):
    """Everybody asks for the weather and something of their own in one session, and for a family name in another."""
    rows = []
    for p in range(people):
        for session, texts in (("s", ("weather", f"thing{p}")), ("t", (f"arb{'acker' if p % 2 else 'andel'} tulips",))):
            rows += [(f"u{p:03}", text, START, None, None, session) for text in texts]
    return QueryLog.of(rows)


def test_a_pair_finds_everybody_and_a_name_that_half_of_all_share_almost_nobody():
    log = toy()
    by = found(log, cut(log), log.frame["user"])
    assert (by["known-pair"].successes, by["known-pair"].trials) == (200, 200)
    assert by["known-pair"].chance == pytest.approx(1 / 200)  # two of 400 names
    assert by["known-name"].trials == 200
    assert by["known-name"].low <= 1 / 100 <= by["known-name"].high  # one of the hundred who share it


def test_a_pair_of_which_half_is_withheld_finds_nobody():
    log = toy()
    frame = cut(log).frame.with_columns(owner=log.frame["user"]).filter(pl.col("query") != "weather")
    assert found(log, QueryLog(frame.drop("owner")), frame["owner"])["known-pair"].value == 0.0


def test_owners_at_random_are_found_by_chance_only():
    """The broken twin's counterpart: 1 of 200 is right by chance; 9 or more come once in 10^5 runs."""
    log = toy()
    names = cut(log).frame["user"]
    shuffled = names.unique().sort()[Noise.seeded(3).stream("anybody").permutation(names.n_unique())]
    people = names.replace_strict(shuffled, names.unique().sort()).str.split(" ").list.get(1)
    for one in found(log, cut(log), people).values():
        assert one.successes < 9 and one.low <= one.chance


def test_guessing_is_what_looking_at_every_name_gives():
    rng = np.random.default_rng(7)
    rows = pl.DataFrame({"query": rng.integers(0, 6, 60), "name": rng.integers(0, 12, 60)}).cast(pl.String)
    rows = rows.with_columns(person="p" + (pl.col("name").cast(pl.Int64) % 5).cast(pl.String))
    known = pl.DataFrame({"one": rng.integers(0, 7, 50), "two": rng.integers(0, 7, 50)}).cast(pl.String)
    people = pl.Series([f"p{n}" for n in rng.integers(0, 5, 50)])
    draws, right = rng.random(50), 0
    texts_of = {name: set(rows.filter(pl.col("name") == name)["query"]) for name in sorted(set(rows["name"]))}
    for (one, two), person, draw in zip(known.rows(), people, draws, strict=True):
        fitting = [name for name, texts in texts_of.items() if {one, two} <= texts]
        right += bool(fitting) and f"p{int(fitting[int(draw * len(fitting))]) % 5}" == person
    assert 0 < right < 50
    assert Holders(rows).guessed(known, people, draws) == Success(right, 50)


def test_a_name_that_two_people_share_is_nobodys():
    rows = pl.DataFrame({"query": ["a", "a"], "name": ["x", "x"], "person": ["ann", "bob"]})
    known, ann = pl.DataFrame({"one": ["a"]}), pl.Series(["ann"])
    assert Holders(rows).guessed(known, ann, np.zeros(1)).right == 0
    assert Holders(rows).chance(ann) == 0.0


def test_pairs_do_not_reach_over_a_pause():
    late = START + dt.timedelta(hours=2)
    log = QueryLog.of([("ann", "a", START), ("ann", "b", START), ("ann", "c", late)])
    assert pairs_in(sessions_of(log.frame)).rows() == [("ann", "a", "b")]


def test_the_family_name_is_the_one_asked_for_most():
    rows = [("ann", "arbacker"), ("ann", "Arbandel house"), ("ann", "arbandel"), ("bob", "carbacker")]
    assert family_names_of(QueryLog.of(rows).frame).rows() == [("ann", "arbandel")]


def test_a_pair_is_found_far_beyond_chance_in_mini_sessions_and_a_family_name_under_lasting_pseudonyms():
    log = synth(users=400, records=12_000, seed=5, details=True)
    rules = {"known-pair": make("commission", people_per_entity=5), "known-name": make("counterproposal")}
    for key, rule in rules.items():
        [one] = audit(log, rule.protect(log, Noise.seeded(1)), only=(key,)).findings
        assert one.low > 10 * one.chance
