"""What an audit counts of logs on disk is what it counts of the same logs in memory."""

import polars as pl
import pytest

from queryveil.audit import auditing
from queryveil.audit.auditing import audit
from queryveil.audit.out_of_core import NEEDS_WHOLE_LOG, LogsToAudit
from queryveil.audit.verdict import verdict
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.log import QueryLog, query_log, spill, write
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.release import pipeline
from queryveil.report.page import write_report

LITTLE = 256 << 10
MECHANISMS = {
    "suppress": {"k_text": 3},
    "microaggregate": {"k": 3},
    "semantic": {"epsilon": 8.0, "per": "query", "domain": "disease"},
    "distill": {"epsilon": 8.0, "users": 30},
}


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A log with ids written differently, clicks and an address, in a file that outgrows a little memory."""
    monkeypatch.setattr(query_log, "RECORDS_PER_BLOCK", 100)
    monkeypatch.setattr("queryveil.log.source.BLOCK_SIZE", 4096)
    log = synth(users=60, records=900, seed=3)
    upper = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.col("user").str.to_uppercase()).otherwise("user")
    told = pl.when(pl.int_range(pl.len()) % 90 == 0).then(pl.lit("write to ann@home.example")).otherwise("query")
    write(QueryLog(log.frame.with_columns(upper.alias("user"), told.alias("query"))), tmp_path / "log.csv")
    return pipeline.Source(path=tmp_path / "log.csv")


def released(source, name, folder, seed=4):
    """A release folder, and who is behind its records."""
    secrets = folder.with_suffix(".secrets")
    target = pipeline.Target(folder=folder, secrets=secrets)
    pipeline.release(make(name, **MECHANISMS[name]), source, target, Noise.seeded(seed))
    return secrets


@pytest.fixture
def counting_alone(monkeypatch):
    """Audits run only the parts that count in blocks, also in memory."""
    some = [part for part in auditing.parts() if getattr(part, "counts_in_blocks", False)]
    assert len(some) >= 5
    monkeypatch.setattr(auditing, "parts", lambda: some)


def both_ways(source, folder, secrets, memory=LITTLE):
    """The audit in memory, and the one in blocks."""
    found = []
    for room in (1 << 40, memory):
        with LogsToAudit(source, folder, secrets=secrets, memory=room) as logs:
            assert logs.in_blocks == (room == memory)
            found.append(audit(**logs.given))
    return found


def figures(found):
    return {finding.key: finding for finding in found.findings}


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_figure_that_is_counted_in_blocks_is_the_one_in_memory(name, source, tmp_path, counting_alone):
    secrets = released(source, name, tmp_path / name)
    whole, counted = both_ways(source, tmp_path / name, secrets)
    in_memory, in_blocks = figures(whole), figures(counted)
    assert len(in_blocks) >= 8
    assert in_blocks == in_memory
    assert counted.context["in_blocks"] and "in_blocks" not in whole.context


@pytest.mark.parametrize("memory", [32 << 10, 1 << 20, 2 << 20])
def test_the_size_of_the_blocks_changes_nothing(memory, source, tmp_path, monkeypatch, counting_alone):
    monkeypatch.setattr("queryveil.release.pipeline.IN_MEMORY", 1000)
    secrets = released(source, "suppress", tmp_path / "suppress")
    whole, counted = both_ways(source, tmp_path / "suppress", secrets, memory)
    assert figures(counted).items() <= figures(whole).items()


def test_a_log_of_another_tool_is_counted_without_secrets(source, tmp_path, counting_alone):
    write(synth(users=50, records=700, seed=9), tmp_path / "other.csv")
    whole, counted = both_ways(source, tmp_path / "other.csv", None)
    assert len(figures(counted)) >= 5
    assert figures(counted).items() <= figures(whole).items()


def test_blocks_that_tear_a_text_apart_are_seen(source, tmp_path, monkeypatch, counting_alone):
    """The broken twin: records dealt out by their users, so that no block has all askers of a text."""
    real = spill.SpilledTable.by_key.__func__

    def by_user(cls, place, pieces, schema, blocks, key, groups):
        table = real(cls, place, pieces, schema, blocks, "user", groups)
        table._key = key
        return table

    secrets = released(source, "suppress", tmp_path / "suppress")
    monkeypatch.setattr(spill.SpilledTable, "by_key", classmethod(by_user))
    whole, counted = both_ways(source, tmp_path / "suppress", secrets)
    assert figures(counted)["rare-texts"].value > figures(whole)["rare-texts"].value == 0


def test_the_answer_is_never_yes_no_report_is_made_and_nothing_stays_on_disk(source, tmp_path, monkeypatch):
    secrets = released(source, "distill", tmp_path / "distill")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with LogsToAudit(source, tmp_path / "distill", secrets=secrets, memory=LITTLE) as logs:
        assert list(tmp_path.glob("queryveil-spill-*"))
        found = audit(**logs.given)
        assert verdict(found.released, found, max_risk=1.0).answer != "yes"
        with pytest.raises(RefusedError, match="in blocks"):
            write_report(found, tmp_path / "distill", original=logs.given["original"], released=logs.given["released"])
    assert not list(tmp_path.glob("queryveil-spill-*"))
    assert any(missing.required and missing.reason == NEEDS_WHOLE_LOG for missing in found.left_out)


def test_what_needs_the_whole_log_is_refused_and_so_are_secrets_of_another_release(source, tmp_path):
    released(source, "suppress", tmp_path / "one")
    other = released(source, "suppress", tmp_path / "two", seed=5)
    with LogsToAudit(source, tmp_path / "one", memory=LITTLE) as logs, pytest.raises(UsageError, match="memory"):
        audit(**logs.given, known=synth(users=3, records=30, seed=1))
    with pytest.raises(DataError, match="another release"):
        LogsToAudit(source, tmp_path / "one", secrets=other, memory=LITTLE).__enter__()
    (tmp_path / "no.secrets").write_text("nothing")
    with pytest.raises(DataError, match="not a QueryVeil secrets file"):
        LogsToAudit(source, tmp_path / "one", secrets=tmp_path / "no.secrets", memory=LITTLE).__enter__()
