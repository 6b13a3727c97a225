"""Guessing authors works where records keep their owners, and at most once in k where they do not."""

import polars as pl

from queryveil.audit.attacks.record_linkage import by_activity, by_name
from queryveil.audit.finding import Success
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.testing.twins import telltale_log

LOG = telltale_log()


def test_where_users_are_only_renamed_the_name_is_the_author():
    release = make("suppress", k_text=3).protect(LOG, Noise.seeded(1))
    assert by_name(release.owners, release.receivers).share == 1.0


def test_in_a_safe_stream_the_name_is_the_author_of_no_more_than_one_in_k():
    release = make("stream", k=10, depth=1).protect(LOG, Noise.seeded(1))
    found = by_name(release.owners, release.receivers)
    assert found.tried > 5000
    assert found.share > 0.02
    assert found.at_most < 1 / 10


def test_the_busiest_of_a_group_wrote_most_in_paper_mode_and_one_in_k_in_safe_mode():
    figures = {}
    for mode in ("paper", "safe"):
        release = make("microaggregate", k=3, k_text=3, mode=mode).protect(LOG, Noise.seeded(1))
        figures[mode] = by_activity(LOG, release.log, release.owners, release.receivers)
    assert figures["paper"].at_least > 0.4
    assert figures["safe"].share <= 1 / 3


def test_the_busiest_is_found_by_hand():
    raw = QueryLog.of([("a", "x")] * 3 + [("b", "x")] * 5 + [("c", "y")])
    released = QueryLog.of([("u1", "x"), ("u1", "x"), ("u2", "x"), ("u2", "x"), ("u3", "y")])
    owners, receivers = pl.Series(["a", "b", "a", "b", "c"]), pl.Series(["a", "a", "b", "b", "c"])
    assert by_activity(raw, released, owners, receivers) == Success(3, 5)  # b for the shared log, c for the other


def test_receivers_of_every_mechanism_belong_to_their_pseudonyms():
    log = synth(users=60, records=4000, seed=2)
    for name, given in (
        ("suppress", {"k_text": 2}),
        ("microaggregate", {"k_text": 2}),
        ("semantic", {"epsilon": 1.0, "per": "query", "domain": "contact_sport", "criterion": "nsqc"}),
        ("stream", {"k": 2, "k_text": 2, "depth": 1}),
    ):
        release = make(name, **given).protect(log, Noise.seeded(1))
        pairs = pl.DataFrame([release.log.frame["user"], release.receivers.alias("person")]).unique()
        assert pairs.height == pairs["user"].n_unique() == pairs["person"].n_unique()
        assert set(pairs["person"]) <= set(log.users())
