"""Names of one person tied together again: found where they are alike, at chance where nothing ties them."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

from queryveil.audit.attacks.interests import counts_of
from queryveil.audit.attacks.tied_pseudonyms import NAME, OWNER, Names, TiedPseudonyms, sessions_of, tied
from queryveil.audit.auditing import audit
from queryveil.experiments.policies import make
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.release.secrets import Secrets
from queryveil.testing.audits import check_attack

KEYS = ["tied-pseudonyms"]
START = dt.datetime(2026, 1, 1)


def found(log, released, owners):
    secrets = Secrets(owners, released.frame["user"], owners, {})
    return {one.key: one for one in audit(log, released, secrets=secrets, only=KEYS).findings}


def cut_toy(people=40, names=3, **columns):
    """Each person's own word, under several names."""
    log = QueryLog.of([(f"u{p}", f"word{p} and", START) for p in range(people) for _ in range(names)])
    log = QueryLog(log.frame.with_columns(**columns))
    released = QueryLog(log.frame.with_columns(user="name " + pl.int_range(pl.len()).cast(pl.String)))
    return log, released


def test_names_with_a_word_of_their_own_are_tied():
    log, released = cut_toy()
    one = found(log, released, log.frame["user"])["tied-by-words"]
    assert (one.successes, one.trials) == (40, 40)
    assert one.chance == pytest.approx(1 / 40)  # two partners among 80, or always the same of 40


def test_owners_at_random_are_found_by_chance_only():
    """The broken twin's counterpart: with 200 people the attack is right about once, and 9 times in 10^6 runs."""
    log, released = cut_toy(people=200)
    order = Noise.seeded(3).stream("anybody").permutation(len(log))
    for one in found(log, released, log.frame["user"].gather(order)).values():
        assert one.low <= one.chance
        assert one.successes < 9


def test_metadata_and_times_tie_where_texts_do_not():
    log = QueryLog.of([(f"u{p}", "weather", START + dt.timedelta(hours=p)) for p in range(50) for _ in range(2)])
    log = QueryLog(log.frame.with_columns(country=pl.lit("fr")))
    released = QueryLog(log.frame.with_columns(user="name " + pl.int_range(pl.len()).cast(pl.String)))
    by = found(log, released, log.frame["user"])
    assert by["tied-by-all"].value == 1.0
    assert by["tied-by-words"].value < 0.2
    timeless = QueryLog(released.frame.with_columns(time=None))
    assert found(log, timeless, log.frame["user"])["tied-by-all"].value < 0.2
    places = QueryLog(timeless.frame.with_columns(region=log.frame["user"]))
    assert found(log, places, log.frame["user"])["tied-by-all"].value == 1.0


def test_one_name_for_each_person_leaves_nothing_to_tie():
    log = synth(users=30, records=600)
    assert found(log, QueryLog(log.frame.with_columns("x" + pl.col("user"))), log.frame["user"]) == {}


def test_a_name_that_two_people_share_is_nobodys():
    log, released = cut_toy(people=12)
    shared = released.frame.with_columns(
        user=pl.when(pl.col("query") == "word0 and").then(pl.lit("s")).otherwise("user")
    )
    owners = pl.Series(["u0", "u1", "u2", *log.frame["user"].to_list()[3:]])
    assert found(log, QueryLog(shared), owners)["tied-by-words"].trials == 11


def test_tied_is_what_comparing_everything_gives():
    rng = np.random.default_rng(5)
    names, terms = rng.integers(0, 30, 300), rng.integers(0, 40, 300)
    table = counts_of(names, terms, 30, 40)
    owners, tried = rng.integers(0, 8, 30), np.arange(0, 30, 4)
    candidates = [n for n in range(30) if n not in tried]
    dense = table.toarray()[candidates]
    everybody = (dense.sum(axis=0) + 1) / (dense.sum(axis=0) + 1).sum()
    odds = dense / np.maximum(dense.sum(axis=1, keepdims=True), 1) / everybody
    scores = table.toarray()[tried] @ np.log1p(odds).T
    expected = owners[np.array(candidates)[scores.argmax(axis=1)]] == owners[tried]
    assert tied(table, owners, tried, rng.random(len(tried))).tolist() == expected.tolist()


def test_people_are_drawn_where_there_are_too_many_names():
    log, released = cut_toy(people=100)
    rows = released.frame.with_columns(log.frame["user"].alias(OWNER), pl.col("user").alias(NAME))
    some = Names.of(rows, Noise.seeded(1).stream("some"), most=30)
    assert (len(some.owners), len(some.tried), some.candidates) == (30, 10, 20)


def test_sessions_of_the_raw_log_end_with_a_pause_or_where_the_log_says():
    minutes = (0, 5, 50, 51)
    rows = [("ann", "a", START + dt.timedelta(minutes=m), None, None, "s") for m in minutes]
    named = sessions_of(QueryLog.of([*rows, ("ann", "b", START + dt.timedelta(minutes=52), None, None, "t")]).frame)
    assert named.group_by(NAME).len().sort(NAME)["len"].to_list() == [2, 2, 1]


def test_mini_sessions_of_commission_are_tied_far_beyond_chance():
    log = synth(users=600, records=20_000, seed=5, details=True)
    rule = make("commission", people_per_entity=10)
    by = {one.key: one for one in audit(log, rule.protect(log, Noise.seeded(1)), only=KEYS).findings}
    assert by["tied-by-all"].low > 10 * by["tied-by-all"].chance


def test_it_keeps_to_the_contract():
    check_attack(TiedPseudonyms())
