"""Attackers who know the past: who is known, what is judged, a planted leak found, noise at chance."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from queryveil.audit.attack import attacks
from queryveil.audit.attacks.past_vectors import VectorsByPast
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Finding, LeftOut
from queryveil.audit.past import Past
from queryveil.errors import DataError, UsageError
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.release.secrets import Secrets

START = datetime(2026, 1, 1)
PEOPLE, EACH = 60, 20
PAST_ATTACKS = ("past-pseudonyms", "past-authors", "past-law", "simattack")


def habits(seed: int = 1, people: int = PEOPLE) -> QueryLog:
    """Everybody asks of a topic of their own, half of it before the middle of the log."""
    draws = Noise.seeded(seed).stream("test: habits").below(6, people * EACH)
    rows = [
        (f"user {i % people}", f"topic{i % people} word{draws[i]}", START + timedelta(hours=i // people))
        for i in range(people * EACH)
    ]
    return QueryLog.of(rows)


def context(log: QueryLog, released: pl.DataFrame, owners: pl.Series, **more: Any) -> AuditContext:
    shown = QueryLog(released)
    secrets = Secrets(owners, shown.frame["user"], more.pop("receivers", owners), {})
    return AuditContext(
        original=log, released=shown, secrets=secrets, digest="test", manifest=more.pop("manifest", {}),
        past=more.pop("past", Past.of(log)), **more,
    )  # fmt: skip


def found(given: AuditContext) -> dict[str, Finding]:
    items = []
    for attack in attacks():
        if attack.key in PAST_ATTACKS:
            given.begin(attack.key)
            items += [item for item in attack.run(given) if isinstance(item, Finding)]
    return {item.key: item for item in items}


def renamed(log: QueryLog) -> pl.DataFrame:
    return log.frame.with_columns(("pseudonym of " + pl.col("user")).alias("user"))


class TestPast:
    def test_the_middle_is_the_start_of_a_day(self) -> None:
        log = QueryLog.of([("a", f"q{i}", START + timedelta(hours=7 * i)) for i in range(20)])
        past = Past.of(log)
        assert past.until is not None and past.until.hour == 0
        assert (past.log.frame["time"] < past.until).all()
        assert len(past.log) + past.later(log).height == len(log)

    def test_a_log_of_one_day_is_cut_within_it(self) -> None:
        log = QueryLog.of([("a", f"q{i}", START + timedelta(minutes=i)) for i in range(20)])
        assert len(Past.of(log).log) == 10

    def test_without_times_it_is_the_first_half_of_the_file(self) -> None:
        log = QueryLog.of([("a", f"q{i}") for i in range(7)])
        past = Past.of(log)
        assert past.log.queries() == ["q0", "q1", "q2"] and past.later(log).height == 4

    def test_only_later_records_are_judged_where_times_tell(self) -> None:
        log = QueryLog.of([("a", f"q{i}", START + timedelta(days=i)) for i in range(4)])
        past = Past.of(log, known_before=START + timedelta(days=3))
        assert past.judged(log).tolist() == [False, False, False, True]
        untimed = QueryLog(log.frame.with_columns(time=pl.lit(None, pl.Datetime("us"))))
        assert past.judged(untimed).all()

    def test_one_way_to_say_what_is_known(self) -> None:
        log = QueryLog.of([("a", "q", START)])
        with pytest.raises(UsageError, match="one of"):
            Past.of(log, known=log, known_before=START)
        with pytest.raises(DataError, match="no times"):
            Past.of(QueryLog.of([("a", "q")]), known_before=START)


def test_people_who_go_on_as_before_are_found_by_every_way() -> None:
    log = habits()
    later = Past.of(log).later(log)
    seen = found(context(log, renamed(QueryLog(later)), later["user"]))
    for key in ("past-pseudonyms-words", "past-pseudonyms-likelihood", "past-authors", "simattack"):
        assert seen[key].value > 0.9, key
        assert seen[key].raw == pytest.approx(seen[key].value, abs=0.05)
        assert seen[key].population and seen[key].successes is not None


def test_a_release_of_noise_stays_at_chance() -> None:
    """Five releases whose texts were dealt out anew; each interval at 1 − 1e-4, so that 45 of them hold."""
    log = habits()
    later = Past.of(log).later(log)
    for seed in range(5):
        mixed = Noise.seeded(seed).stream("test: noise").permutation(later.height)
        released = renamed(QueryLog(later)).with_columns(later["query"][mixed])
        for key, item in found(context(log, released, later["user"])).items():
            assert item.successes is not None and item.trials and item.chance is not None
            by_chance = stats.binomtest(item.successes, item.trials, item.chance).pvalue
            assert by_chance > 1e-4, (key, item.value)


def test_somebody_else_who_is_known_does_not_count() -> None:
    """Whoever has no past cannot be found, and is not among the trials."""
    log = habits()
    past = Past.of(log)
    known = QueryLog(past.log.frame.filter(pl.col("user") == "user 3"))
    later = past.later(log)
    seen = found(context(log, renamed(QueryLog(later)), later["user"], past=Past(known, "a part")))
    assert seen["past-pseudonyms-words"].trials == 1 and seen["past-pseudonyms-words"].too_few


def test_of_a_group_the_right_member_is_picked() -> None:
    log = habits()
    later = QueryLog(Past.of(log).later(log))
    number = later.frame["user"].str.extract(r"(\d+)").cast(pl.Int64)
    frame = later.frame.select("user", "query").with_columns(group=number // 5)
    names = frame.select("group", pseudonym="user").unique()
    shared = frame.join(names, on="group").sort("pseudonym", "query")
    released = shared.select(("p" + pl.col("pseudonym")).alias("user"), "query")
    seen = found(context(log, released, shared["user"], receivers=shared["pseudonym"]))
    assert seen["past-authors-in-group"].chance == pytest.approx(0.2)
    assert seen["past-authors-in-group"].value > 0.9


class TestPools:
    def test_a_pool_has_more_than_k_owners_and_the_owner_among_them(self) -> None:
        log = QueryLog.of([(f"u{i % 11}", f"weather {i % 3}", None) for i in range(400)])
        mechanism = make("stream", k=4, k_text=2, depth=1)
        pools = mechanism.pools(log, Noise.seeded(2))
        assert len(pools.owners) > 200
        for i, owner in enumerate(pools.owners.to_list()):
            members = pools.members[int(pools.starts[i]) : int(pools.starts[i + 1])].to_list()
            assert len(members) == len(set(members)) > 4 and owner in members

    def test_the_owner_is_any_of_the_pool(self) -> None:
        """Place of the owner in the sorted pool: uniform (chi-square at 1e-6; a law of 2:1 would fail with n > 300)."""
        log = QueryLog.of([(f"u{i * 7 % 12:02}", f"weather {i % 3}", None) for i in range(4000)])
        pools = make("stream", k=4, k_text=2, depth=1).pools(log, Noise.seeded(2))
        sizes = np.diff(pools.starts)
        usual = int(np.bincount(sizes).argmax())
        counts = np.zeros(usual, int)
        for i in np.flatnonzero(sizes == usual).tolist():
            members = sorted(pools.members[int(pools.starts[i]) : int(pools.starts[i + 1])].to_list())
            counts[members.index(pools.owners[i])] += 1
        assert counts.sum() > 300
        assert stats.chisquare(counts).pvalue > 1e-6

    def test_who_knows_the_past_finds_the_author_in_the_pool(self) -> None:
        texts = [f"weather {i}" for i in range(12)]
        rows = [(f"u{i % 12}", texts[i % 12 // 2], START + timedelta(minutes=i)) for i in range(2400)]
        log = QueryLog.of(rows)  # two people to a text: the pool has many, the past leaves two
        mechanism = make("stream", k=5, k_text=2, depth=1)
        release = mechanism.protect(log, Noise.seeded(1))
        manifest = {"mechanism": "stream", "mode": "safe", "parameters": dict(release.parameters)}
        given = context(
            log, release.log.frame, release.owners, receivers=release.receivers, manifest=manifest, made_by=mechanism
        )
        seen = found(given)["past-authors-in-pool"]
        assert seen.chance is not None and seen.chance < 0.17
        assert seen.low is not None and seen.low > 0.35


def test_the_law_names_people_whom_words_do_not() -> None:
    """Labels are drawn by a public law; what people asked before tells which labels to expect."""
    topics = ["asthma", "influenza", "diabetes", "measles", "arthritis", "migraine", "cancer", "anemia"]
    rows = [
        (f"user {person}", topics[(person * (turn % 2 + 1) + turn % 2) % 8], START + timedelta(hours=turn))
        for turn in range(48) for person in range(16)
    ]  # fmt: skip
    log = QueryLog.of(rows)
    mechanism = make("semantic", epsilon=6.0, per="query", domain="disease", max_queries=50)
    release = mechanism.protect(log, Noise.seeded(1))
    manifest = {"mechanism": "semantic", "mode": "safe", "parameters": dict(release.parameters)}
    given = context(
        log, release.log.frame, release.owners, receivers=release.receivers, manifest=manifest, made_by=mechanism
    )
    seen = found(given)
    assert seen["past-law"].value >= max(seen["past-pseudonyms-words"].value, 0.25)


class _BagOfWords:
    """An encoder of its own: a dimension for each topic word, so that the test needs no model."""

    def encode(self, texts):
        rows = np.zeros((len(texts), PEOPLE), np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[int(text.split()[0].removeprefix("topic"))] = 1
        return rows


def test_sentence_vectors_name_people_where_an_encoder_is_given() -> None:
    log = habits()
    later = Past.of(log).later(log)
    (without,) = VectorsByPast().run(context(log, renamed(QueryLog(later)), later["user"]))
    assert isinstance(without, LeftOut) and without.by_settings
    (item,) = VectorsByPast().run(context(log, renamed(QueryLog(later)), later["user"], encoder=_BagOfWords()))
    assert isinstance(item, Finding) and item.value == 1.0 and item.trials == PEOPLE
