"""What an audit counts of logs on disk is what it counts of the same logs in memory."""

import contextlib

import polars as pl
import pytest

from queryveil.audit import auditing
from queryveil.audit.attacks.residue import smallest_shared_log
from queryveil.audit.auditing import audit
from queryveil.audit.both_logs import OWNER, both_logs
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


def test_the_answer_is_not_yes_either_where_only_what_counts_in_blocks_was_asked_for(source, tmp_path):
    secrets = released(source, "distill", tmp_path / "distill")
    with LogsToAudit(source, tmp_path / "distill", secrets=secrets, memory=LITTLE) as logs:
        found = audit(**logs.given, only=["contents"])
    assert {finding.key.split("-")[0] for finding in found.findings} == {"contents"}
    assert verdict(found.released, found, max_risk=1.0).answer != "yes"
    assert any(missing.required for missing in found.left_out)


def test_both_logs_lie_in_as_many_groups_as_the_larger_one_needs(source, tmp_path, monkeypatch):
    """The records of a large log are not put into the few groups of a small release."""
    monkeypatch.setattr(query_log, "RECORDS_PER_BLOCK", 10)
    write(QueryLog.of([("u", "weather")]), tmp_path / "other.csv")
    with LogsToAudit(source, tmp_path / "other.csv", memory=LITTLE) as logs:
        original, small = logs.given["original"], logs.given["released"]
        assert len(original._groups) > len(small._groups) == 1
        assert len(both_logs(original, small)._files) == len(both_logs(small, original)._files) > len(original._groups)


def test_columns_of_any_name_are_counted_alike(source, tmp_path, counting_alone):
    """Those that look like patterns, and those that are called what hidden columns are."""
    log = synth(users=50, records=700, seed=9)
    odd = {"*": "a", "^u.*$": "b", OWNER: "somebody", "__topic": "c"}
    extended = QueryLog(log.frame.with_columns(pl.lit(value).alias(name) for name, value in odd.items()))
    write(extended, tmp_path / "other.parquet")
    whole, counted = both_ways(source, tmp_path / "other.parquet", None, 64 << 10)
    assert figures(counted) == figures(whole)
    assert smallest_shared_log(extended) == smallest_shared_log(log)


def test_extra_columns_of_a_log_on_disk_are_those_it_was_read_with(source, tmp_path):
    log = synth(users=50, records=700, seed=9)
    write(QueryLog(log.frame.with_columns(pl.lit("a").alias("__topic"))), tmp_path / "o.csv")
    with pipeline.ThisMachine(memory=LITTLE) as machine:
        read, *_ = machine.read_to_disk(pipeline.Source(path=tmp_path / "o.csv", extras=("__topic",)))
        assert read.extra_columns == ["__topic"]


def test_owners_are_known_where_only_the_raw_log_is_on_disk(source, tmp_path, counting_alone):
    log = pipeline.read_source(source)[0]
    release = make("semantic", **MECHANISMS["semantic"]).protect(log, Noise.seeded(1))
    with pipeline.ThisMachine(memory=LITTLE) as machine:
        on_disk, *_ = machine.read_to_disk(source)
        counted, whole = audit(on_disk, release), audit(log, release)
    assert figures(counted) == figures(whole)


def test_what_is_found_in_both_files_is_told_although_they_have_one_name(source, tmp_path):
    (tmp_path / "d").mkdir()
    write(synth(users=5, records=70, seed=9), tmp_path / "d" / "log.csv")
    with LogsToAudit(source, tmp_path / "d" / "log.csv") as logs:
        assert [name for name, _ in logs.reports] == ["log.csv", "log.csv"]
        assert logs.reports[0][1].records != logs.reports[1][1].records


def test_damaged_secrets_are_told_of_in_one_sentence(source, tmp_path):
    secrets = released(source, "suppress", tmp_path / "one")
    whole = secrets.read_bytes()
    for place in range(4, len(whole) // 2, max(1, len(whole) // 40)):
        secrets.write_bytes(whole[:place] + bytes(64) + whole[place + 64 :])
        with contextlib.suppress(DataError), LogsToAudit(source, tmp_path / "one", secrets=secrets, memory=LITTLE):
            pass


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
