"""What a recipient receives is told as what it is: labels, replacements and made-up records never pass for texts."""

import polars as pl
import pytest

from queryveil.audit.auditing import described, secrets_of
from queryveil.audit.both_logs import both_logs
from queryveil.audit.context import AuditContext
from queryveil.audit.measures.contents import Contents, WhatIsReceived, contents
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.testing.twins import telltale_log

LOG = QueryLog.of([("ann", "tulips"), ("ann", "weather"), ("bob", "my rash"), ("bob", "weather")])


def test_each_record_counts_once():
    shown = QueryLog.of([("u1", "tulips"), ("u1", "rain"), ("u2", "[illness]"), ("u2", "weather"), ("u3", "weather")])
    owners = pl.Series(["ann", "ann", "bob", "bob", None])
    found = contents(both_logs(LOG, shown, owners), labels=pl.Series(["[illness]"]), synthetic=True)
    assert found == Contents(typed=0.4, label=0.2, replaced=0.2, synthetic=0.2)


def test_a_replacement_that_somebody_else_asked_is_not_as_typed():
    shown = QueryLog.of([("u1", "my rash"), ("u2", "weather")])
    owners = pl.Series(["ann", "bob"])
    assert contents(both_logs(LOG, shown, owners), replaced=True).typed == 0.5
    assert contents(both_logs(LOG, shown), replaced=True).typed == 0
    assert contents(both_logs(LOG, shown)).typed == 1  # by another tool: every text is somebody's


def test_an_empty_release_holds_nothing():
    assert contents(both_logs(LOG, QueryLog(LOG.frame.clear()))) == Contents(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "given", "most"),
    [
        ("suppress", {}, {"typed"}),
        ("microaggregate", {"k_text": 5}, {"typed", "label"}),
        ("semantic", {"epsilon": 1.0, "per": "query", "domain": "contact_sport"}, {"label"}),
        ("sanitize", {"epsilon": 4.0}, {"synthetic"}),
    ],
)
def test_mechanisms_are_told_by_what_they_declare(name, given, most):
    log = telltale_log()
    release = make(name, **given).protect(log, Noise.seeded(1))
    context = AuditContext(original=log, released=release.log, manifest=described(release), secrets=secrets_of(release))
    found = {item.key.removeprefix("contents-"): item.value for item in WhatIsReceived().run(context)}
    assert 0 <= found.pop("kept") <= len(release.log) / len(log)
    assert {kind for kind, share in found.items() if share} == most
    assert sum(found.values()) == pytest.approx(1)
