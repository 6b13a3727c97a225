"""Planted accounts and a watcher at the line: labelled, never counted, and they find what is there to find."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl

from queryveil.audit.attacks.sybils import Sybils, planted
from queryveil.audit.attacks.watcher import Watcher, by_repeats
from queryveil.audit.auditing import audit, described, secrets_of
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Finding
from queryveil.audit.past import Past
from queryveil.audit.worst_case import comparable
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise

START = datetime(2026, 1, 1)


def context(name: str, log: QueryLog, **parameters: object) -> AuditContext:
    mechanism = make(name, **parameters)
    release = mechanism.protect(log, Noise.seeded(1))
    return AuditContext(
        original=log, released=release.log, manifest=described(release), secrets=secrets_of(release),
        past=Past.of(log), made_by=mechanism, digest="test",
    )  # fmt: skip


def test_accounts_are_planted_beside_their_victims_only() -> None:
    log = QueryLog.of([(f"u{i % 40}", f"q{i}", START + timedelta(hours=i)) for i in range(800)])
    together, victims = planted(log.frame, 3, Noise.seeded(1).stream("test"))
    sybils = together.frame.filter(pl.col("user").str.contains(" and sybil "))
    assert len(victims) == 13
    assert set(sybils["user"].str.replace(r" and sybil \d+$", "").unique()) == set(victims)
    theirs = together.frame.filter(pl.col("user").is_in(victims.implode()))
    assert 0.35 < sybils.height / (3 * theirs.height) < 0.65  # half of each victim's queries
    copied = sybils.join(theirs, on=["query", "time"], how="anti")
    assert copied.is_empty()


def test_a_group_of_planted_accounts_is_a_crowd_of_one() -> None:
    """Everybody has interests of their own, so the nearest to a victim are the accounts that copy it."""
    words = ("asthma", "tennis", "pasta", "guitar", "dog", "tax", "car", "rose", "moon", "ship", "gold", "bank")
    rows = [(f"u{i % 12}", words[i % 12]) for i in range(12 * 20)]
    (found,) = [
        item for item in Sybils().run(context("microaggregate", QueryLog.of(rows), k=3, k_text=2))
        if isinstance(item, Finding)
    ]  # fmt: skip
    assert found.scenario and not found.counts_toward_risk
    assert found.trials == 4 and found.too_few
    assert found.value >= 0.75


def test_a_pool_of_planted_accounts_is_seen() -> None:
    """Nobody shares a category but the accounts that copy somebody: whatever comes out, they are all of the pool."""
    rows = [(f"u{i % 30}", f"word {i % 30}", START + timedelta(minutes=i)) for i in range(900)]
    frame = QueryLog.of(rows).frame
    log = QueryLog(frame.with_columns(topic=pl.col("user").str.replace("u", "topic ")))
    parameters = {"k": 3, "k_text": 2, "depth": 1, "category_column": "topic"}
    (found,) = Sybils().run(context("stream", log, **parameters))
    assert isinstance(found, Finding) and found.population == "victims' records"
    assert found.value == 1 and found.trials is not None and found.trials > 20


def test_the_watcher_names_who_is_in_every_pool_of_a_text() -> None:
    """Ann's text comes out of ten pools of changing people, who each write texts of their own."""
    pools = [["ann", f"b{i}", f"c{i}"] for i in range(10)] + [["eve", f"b{i}", f"c{i}"] for i in range(10)]
    owners = ["ann"] * 10 + [f"b{i}" for i in range(10)]
    texts = ["rash"] * 10 + [f"t{i}" for i in range(10)]
    members = pl.Series([person for pool in pools for person in pool])
    starts = np.arange(0, 61, 3)
    found = by_repeats(pl.Series(owners), pl.Series(texts), starts, members, np.linspace(0, 0.99, 60))
    assert found.right >= 10 and found.tried == 20


def test_scenarios_stand_beside_and_decide_nothing() -> None:
    log = synth(users=80, records=2400, seed=3)
    release = make("stream", k=3, k_text=2, depth=1).protect(log, Noise.seeded(1))
    found = audit(log, release)
    scenarios = [item for item in found.risks() if item.scenario]
    assert any(item.key == "watcher" for item in scenarios)
    assert not set(scenarios) & set(comparable(found))
    without = audit(log, release, scenarios=False)
    assert not any(item.scenario for item in without.risks())
    assert {f.key: f.value for f in without.findings}.items() <= {f.key: f.value for f in found.findings}.items()
    assert Watcher.is_scenario and Sybils.is_scenario
