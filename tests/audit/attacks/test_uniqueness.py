"""Acquaintances find people in a raw log and hardly anybody in a safe release."""

from collections import defaultdict
from datetime import datetime
from itertools import combinations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.audit.attacks.known_items import LOTS, Memory, in_words, published_columns
from queryveil.audit.attacks.uniqueness import Acquaintances, Uniqueness
from queryveil.audit.auditing import secrets_of
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Finding, Success
from queryveil.errors import ParameterError
from queryveil.log import QueryLog, read
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.release.secrets import Secrets

LOG = synth(users=300, records=15_000, seed=3)


def attacked(release, known, everything=False, original=LOG, **told):
    attack = Acquaintances(original, release.log, owners=release.owners, receivers=release.receivers, **told)
    return attack.attack(known, Noise.seeded(1), by=attack.by_everything() if everything else None)


def test_two_queries_single_nearly_everybody_out_in_the_raw_log_and_nobody_in_a_shared_one():
    raw = Acquaintances(LOG, LOG, owners=LOG.frame["user"]).attack(2, Noise.seeded(1))
    assert raw.raw == raw.singled_out == raw.found
    assert raw.raw.at_least > 0.95
    release = make("microaggregate", k=3, k_text=3).protect(LOG, Noise.seeded(1))
    for everything in (False, True):
        shared = attacked(release, 5, everything)
        assert shared.raw.at_least > 0.95
        assert (shared.singled_out.right, shared.found.right) == (0, 0)
        assert shared.found.tried > 100
        assert shared.singled_out.at_most < 0.03


def test_the_day_of_a_common_query_finds_people_whom_the_query_alone_does_not():
    release = make("suppress", k_text=5).protect(LOG, Noise.seeded(1))
    alone, dated = attacked(release, 1), attacked(release, 1, everything=True)
    assert alone.found.share < 0.05
    assert dated.found.at_least > 3 * alone.found.at_most
    without = make("suppress", k_text=5, time="drop").protect(LOG, Noise.seeded(1))
    assert published_columns(without.log.frame) == ["rank", "url"]


def test_who_is_singled_out_in_a_mixed_stream_is_somebody_else():
    release = make("stream", k=3, k_text=2, mode="paper").protect(LOG, Noise.seeded(1))
    found = attacked(release, 1)
    assert found.singled_out.at_least > 0.1
    assert found.found.right == 0  # in paper mode a record never carries its owner's name


def test_shares_are_over_released_people_and_what_was_withheld_is_not_drawn():
    raw = QueryLog.of([("ann", "tulips"), ("ann", "gone"), ("bob", "gone"), ("cleo", "chess")])
    released = QueryLog.of([("u1", "tulips"), ("u2", "chess")])
    attack = Acquaintances(raw, released, owners=pl.Series(["ann", "cleo"]))
    found = attack.attack(1, Noise.seeded(1))
    assert (found.found, found.singled_out) == (Success(2, 2), Success(2, 2))
    assert not attack.attack(2, Noise.seeded(1)).found.measured
    blind = Acquaintances(raw, released).attack(1, Noise.seeded(1))
    assert (blind.singled_out, blind.raw.tried, blind.found) == (Success(2, 2), 3, None)


def days(rows):
    """A log of rows (user, text, day, url)."""
    frame = pl.DataFrame(rows, schema=["user", "query", "day", "url"], orient="row")
    at = pl.lit(datetime(2026, 3, 1)).cast(pl.Datetime("us")) + pl.duration(days="day")
    return QueryLog(frame.select("user", "query", at.alias("time"), "url"))


@given(st.integers(1, 3), st.integers(1, 5), st.data())
@settings(deadline=None, max_examples=examples(60))
def test_known_records_agree_with_plain_sets(m, people, data):
    """Everybody has exactly m distinct records, so that there is one draw only."""
    record = st.tuples(st.sampled_from("uvw"), st.integers(0, 2), st.sampled_from(["a.example", None]))
    held = [data.draw(st.sets(record, min_size=m, max_size=m)) for _ in range(people)]
    log = days([(f"person {i}", *row) for i, rows in enumerate(held) for row in sorted(rows, key=str)])
    attack = Acquaintances(log, log, owners=log.frame["user"])
    expected = sum(sum(rows <= others for others in held) == 1 for rows in held)
    found = attack.attack(m, Noise.seeded(1), by=attack.by_everything())
    assert found.raw == found.singled_out == found.found == Success(expected, people)


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz")), min_size=1, max_size=40),
    st.lists(st.tuples(st.sampled_from("pqrst"), st.sampled_from("uvwxyz")), min_size=1, max_size=40),
    st.integers(1, 4),
)
@settings(deadline=None)
def test_candidates_agree_with_plain_sets(raw_rows, shown_rows, m):
    raw, shown = QueryLog.of(raw_rows), QueryLog.of(shown_rows)
    attack = Acquaintances(raw, shown)
    texts = sorted({text for _, text in raw_rows} | {text for _, text in shown_rows})
    holders = defaultdict(set)
    for name, text in shown_rows:
        holders[text].add(name)
    choices = list(combinations(range(len(texts)), min(m, len(texts))))
    counts, only = attack.by_texts().crowd.candidates(np.array([(-1, *choice) for choice in choices], np.int64))
    names = attack.names.to_list()
    for choice, count, one in zip(choices, counts.tolist(), only.tolist(), strict=True):
        sets = [holders[texts[place]] for place in choice if holders[texts[place]]]
        expected = set.intersection(*sets) if sets else set()
        assert count == min(len(expected), 2)
        assert count != 1 or {names[one]} == expected


def test_draws_are_items_of_the_person_without_repetition_and_each_is_as_likely():
    """n = 30,000 draws of 2 of 4 items: each of the 6 pairs has 1/6, within 5 standard errors (α < 1e-6)."""
    held = Memory(np.array([0, 0, 0, 0, 0, 1]), np.array([3, 2, 1, 0, 0, 0]), 3)
    lots = Noise.seeded(1).stream("lots").below(LOTS, 60_000).reshape(30_000, 2)
    drawn = held.drawn(np.zeros(30_000, np.int64), lots)
    pairs, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(pairs) == 6
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert np.abs(counts / 30_000 - 1 / 6).max() < 5 * np.sqrt(5 / 36 / 30_000)
    assert held.drawn(np.ones(3, np.int64), lots[:3]).tolist() == [[0, 0]] * 3
    assert held.drawn(np.full(2, 2), lots[:2]).tolist() == [[-1, -1]] * 2


def test_where_texts_are_replaced_the_other_columns_tell_and_the_text_only_where_it_went_out_unchanged():
    raw = days([("ann", "tulips", 0, None), ("bob", "chess", 0, None), ("cleo", "opera", 1, None),
                ("dan", "piano", 2, None), ("eve", "jazz", 2, None)])  # fmt: skip
    shown = days([("u1", "flower", 0, None), ("u2", "game", 0, None), ("u3", "music", 1, None),
                  ("u4", "piano", 2, None), ("u5", "piano lesson", 2, None)])  # fmt: skip
    attack = Acquaintances(raw, shown, owners=raw.frame["user"], replaced=True)
    found = attack.attack(1, Noise.seeded(1), by=attack.by_everything())
    assert found.found == Success(2, 5)  # cleo, alone on her day, and dan, whose text went out; raw texts are all alone
    assert found.raw == Success(5, 5)
    assert attack.attack(1, Noise.seeded(1)).found == Success(1, 5)  # by texts alone dan


def test_a_label_that_its_owner_asked_on_another_day_only_is_not_known():
    raw = days([("ann", "tulips", 0, None), ("ann", "chess", 1, None), ("bob", "opera", 1, None)])
    shown = days([("u1", "chess", 0, None), ("u1", "tulips", 1, None), ("u2", "game", 1, None)])
    attack = Acquaintances(raw, shown, owners=raw.frame["user"], replaced=True)
    assert attack._how_known().tolist() == [2, 2, 2]
    assert Acquaintances(raw, shown, owners=raw.frame["user"])._how_known().tolist() == [0, 0, 2]


def test_titles_name_what_is_published_and_the_population():
    log = days([(f"person {i}", f"text {i % 4}", i % 3, "a.example") for i in range(12)])
    owners = log.frame["user"]
    context = AuditContext(original=log, released=log, manifest={}, secrets=Secrets(owners, owners, owners, {}))
    found = {item.key: item for item in Uniqueness().run(context) if isinstance(item, Finding)}
    assert found["found-all-1"].title == "Found by 1 known query and its day and click"
    assert found["found-all-1"].population == "released people"
    assert found["found-all-1"].successes == 12  # twelve different pairs of text and day
    assert found["found-1"].successes == 0
    assert "found-2" not in found  # nobody has two
    exact = log.frame.with_columns(pl.col("time") + pl.duration(minutes=7))
    assert in_words(exact, ["time", "url", "rank"]) == "time, click and rank"
    assert in_words(exact.with_columns(pl.col("time").dt.offset_by("53m")), ["time"]) == "hour"


def test_a_sample_is_as_large_as_asked_and_parameters_are_checked():
    attack = Acquaintances(LOG, LOG)
    assert attack.attack(1, Noise.seeded(1), people=40).raw.tried == 40
    with pytest.raises(ParameterError, match="known must be"):
        attack.attack(0, Noise.seeded(1))


def test_capitals_marks_and_the_order_of_words_hide_nobody():
    raw = synth(users=80, records=2000, seed=1)
    shouted = QueryLog(raw.frame.with_columns(pl.col("query").str.to_uppercase() + " !"))
    owners = raw.frame["user"]
    for known in (1, 3):
        as_typed = Acquaintances(raw, raw, owners=owners).attack(known, Noise.seeded(1))
        loud = Acquaintances(raw, shouted, owners=owners).attack(known, Noise.seeded(1))
        assert loud.found.share > as_typed.found.share - 0.05
        assert loud.found.share > 0.3


def test_one_unknown_owner_does_not_end_the_attack():
    raw = synth(users=80, records=2000, seed=1)
    behind = raw.frame["user"]
    holes = behind.to_frame().with_row_index().select(pl.when(pl.col("index") % 5 > 0).then("user"))["user"]
    full, known = (
        Acquaintances(raw, raw, owners=people).attack(3, Noise.seeded(1)).found for people in (behind, holes)
    )
    assert known.right >= full.right - 4 > 0  # who has few records may have none left
    nobody_knows = pl.select(pl.when(behind != behind[0]).then(behind))["user"]
    some = Acquaintances(raw, raw, owners=nobody_knows).attack(3, Noise.seeded(1)).found
    assert full.tried - 1 == some.tried


@pytest.mark.data
def test_one_known_query_and_its_day_single_out_half_of_the_released_people_of_a_real_log(shared_data):
    log = read(shared_data / "aol/aol-1017-users.tsv.gz")
    release = make("suppress").protect(log, Noise.seeded(1))
    context = AuditContext(original=log, released=release.log, manifest={}, secrets=secrets_of(release), digest="d")
    found = {item.key: item for item in Uniqueness().run(context) if isinstance(item, Finding)}
    assert found["found-all-1"].value >= 0.45
    assert found["found-all-2"].value >= 0.88
    assert found["found-all-2"].high >= 0.9
    assert found["found-1"].value == 0
