"""A release of a log that waits on disk is, byte for byte, the one that is made in memory."""

import json
from dataclasses import replace

import polars as pl
import pytest

from queryveil.errors import FormatError
from queryveil.log import QueryLog, query_log, spill, write
from queryveil.log.reading import text_size
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.release import pipeline
from queryveil.release.pipeline import ThisMachine

LITTLE = 256 << 10
"""Stretches of four kilobytes: every step needs several groups."""
MECHANISMS = {
    "distill": {"epsilon": 8.0, "users": 30},
    "suppress": {"k_text": 2},
    "sanitize": {"epsilon": 30.0},
    "semantic": {"epsilon": 8.0, "per": "user", "domain": "disease"},
    "semantic, ball": {"epsilon": 4.0, "per": "query", "domain": "disease", "criterion": "ball"},
}


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A log in a file, with people to leave out, bad lines and ids that are written differently."""
    monkeypatch.setattr(query_log, "RECORDS_PER_BLOCK", 100)
    monkeypatch.setattr("queryveil.log.source.BLOCK_SIZE", 4096)
    monkeypatch.setattr("queryveil.mechanisms.distill.synthesis.USERS_AT_ONCE", 8)
    log = synth(users=60, records=600, seed=3)
    upper = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.col("user").str.to_uppercase()).otherwise("user")
    write(QueryLog(log.frame.with_columns(upper.alias("user"))), tmp_path / "log.csv")
    with (tmp_path / "log.csv").open("a") as file:
        file.write("zanzibar,\n")
    (tmp_path / "gone.txt").write_text("\n".join([*log.users()[:3], "nobody"]))
    return pipeline.Source(path=tmp_path / "log.csv", exclude_users=tmp_path / "gone.txt")


def released(mechanism, source, folder, engine, ledger=None):
    target = pipeline.Target(folder=folder, ledger=ledger)
    outcome = pipeline.release(mechanism, source, target, Noise.seeded(4), engine=engine)
    files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    told = json.loads(files.pop(next(name for name in files if name.name == "manifest.json")))
    files = {name: content for name, content in files.items() if name.name != "manifest.sig"}
    return files, {k: v for k, v in told.items() if k not in ("created", "ledger")}, outcome


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_release_is_the_same(name, source, tmp_path, monkeypatch):
    mechanism = make(name.split(",")[0], **MECHANISMS[name])
    here = released(mechanism, source, tmp_path / "here", None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with ThisMachine(LITTLE) as disk:
        there = released(mechanism, source, tmp_path / "there", disk)
        assert list(tmp_path.glob("queryveil-spill-*")), "the log was worked on in memory"
        assert len(list(there[2].release.log.parts())) > 1 or name not in ("distill", "suppress")
    assert not list(tmp_path.glob("queryveil-spill-*"))
    assert there[:2] == here[:2]
    one, other = here[2], there[2]
    assert (one.report, one.kept, one.unknown_users) == (other.report, other.kept, other.unknown_users)
    assert other.unknown_users == 1 and other.report.problem_count == 1


def test_a_small_log_and_a_mechanism_that_needs_it_whole_stay_in_memory(source, tmp_path, monkeypatch):
    monkeypatch.setattr(spill, "Scratch", lambda kind: pytest.fail("went to disk"))
    with ThisMachine() as disk:
        disk.refuse(make("suppress", k_text=2))
        assert len(disk.read(source)[0]) < 600
    with ThisMachine(LITTLE) as disk:
        disk.refuse(object())
        assert len(disk.read(source)[0]) < 600


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet", "csv.gz", "csv.zst"])
def test_every_format_is_read_in_pieces_as_it_is_read_whole(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr("queryveil.log.source.BLOCK_SIZE", 2048)
    monkeypatch.setattr("queryveil.log.formats.parquet.ROWS_AT_ONCE", 100)
    path = tmp_path / f"log.{suffix}"
    write(synth(users=20, records=700, seed=1).keeping(["user", "query", "time", "rank", "url"]), path)
    source = pipeline.Source(path=path)
    whole, report, _ = pipeline.read_source(source)
    with ThisMachine(LITTLE) as disk:
        disk.refuse(make("suppress", k_text=2))
        log, told, _ = disk.read(source)
        assert type(log) is not type(whole) and told == report
        assert log.frame.sort(pl.all()).equals(whole.frame.sort(pl.all()))


def test_who_spent_their_budget_is_left_out_on_disk_too(source, tmp_path):
    from queryveil.privacy import Ledger

    made = {}
    for name, engine in (("here", None), ("there", ThisMachine(LITTLE))):
        ledger = tmp_path / f"{name}.ledger"
        Ledger.create(ledger, epsilon=10.0, delta=1e-5)
        first = replace(source, exclude_users=None)
        with engine or ThisMachine() as place:
            mechanism = make("semantic", epsilon=8.0, per="user", domain="disease")
            released(mechanism, source, tmp_path / f"{name}-1", place, ledger)
            made[name] = released(mechanism, first, tmp_path / f"{name}-2", place, ledger)
    assert made["here"][:2] == made["there"][:2]
    assert made["here"][2].left_out == made["there"][2].left_out == 57


def test_a_file_that_is_of_no_format_is_refused_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "log.jsonl"
    path.write_text("no json\n" * 4000)
    with pytest.raises(FormatError), ThisMachine(LITTLE) as disk:
        disk.refuse(make("suppress", k_text=2))
        disk.read(pipeline.Source(path=path))
    assert [left.name for left in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_packed_file_counts_as_what_it_holds(tmp_path):
    for name in ("log.csv", "log.csv.gz"):
        (tmp_path / name).write_bytes(b"x" * 100)
    assert text_size(tmp_path / "log.csv") == 100 < text_size(tmp_path / "log.csv.gz")
    assert text_size(tmp_path) > 100 and text_size(tmp_path / "missing") == 0
