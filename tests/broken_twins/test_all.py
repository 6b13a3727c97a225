"""The audit rejects every broken twin by the finding that is meant for it, and accepts every real mechanism."""

import re
from pathlib import Path

import pytest

from queryveil import mechanisms
from queryveil.audit.auditing import audit
from queryveil.privacy import Noise
from queryveil.testing.twins import TWINS, telltale_log

DOCS = Path(__file__).parents[2] / "docs" / "audit.md"


@pytest.fixture(scope="module")
def log():
    return telltale_log()


def audited(mechanism, log):
    return audit(log, mechanism.protect(log, Noise.seeded(1)), mechanism=mechanism)


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.kind.__name__)
def test_the_audit_rejects(twin, log):
    assert twin.caught_by in [finding.key for finding in audited(twin.create(), log).broken()]


REAL = {str((twin.mechanism, sorted(twin.parameters.items()))): twin for twin in TWINS}


@pytest.mark.parametrize("twin", REAL.values(), ids=lambda twin: f"{twin.mechanism}-{len(twin.parameters)}")
def test_the_audit_accepts_the_real_mechanism_and_looks_where_its_twins_fail(twin, log):
    found = audited(twin.real(), log)
    assert found.broken() == ()
    looked_at = {finding.key for finding in found.findings if finding.bound is not None}
    same = [other for other in TWINS if (other.mechanism, other.parameters) == (twin.mechanism, twin.parameters)]
    allowed = {"rare-clicks"}  # the real one publishes no rare click, and may publish none at all
    assert {other.caught_by for other in same} <= looked_at | allowed


def test_every_mechanism_with_a_release_of_its_own_has_three_twins_and_there_are_fifteen():
    counts = {name: sum(twin.mechanism == name for twin in TWINS) for name in mechanisms.names()}
    for name in ("suppress", "microaggregate", "sanitize", "distill", "semantic", "stream"):
        assert counts[name] >= 3
    assert len(TWINS) >= 15


def test_the_table_in_the_docs_names_every_twin_its_fault_and_what_catches_it():
    page = DOCS.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| (.+?) \| `([\w-]+)` \|$", page, re.MULTILINE)
    assert rows == [(twin.mechanism, twin.kind.__name__, twin.fault, twin.caught_by) for twin in TWINS]
