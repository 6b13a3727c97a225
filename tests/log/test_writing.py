"""A file appears whole or not at all, in the format its name says."""

from __future__ import annotations

import datetime as dt
import gzip
import os

import polars as pl
import pytest
import zstandard

from queryveil.errors import DiskError, FormatError, ParameterError, UsageError
from queryveil.log import QueryLog, read, sniff, write
from queryveil.log.formats import FORMATS
from queryveil.log.formats.format import Rule, refuse_what_is_lost

LOG = QueryLog.of([("ann", "tulips"), ("bob", "roses")])
WRITTEN = [name for name, known in FORMATS.items() if not known.read_only]
TIMED = QueryLog.of([("ann", "tulips", dt.datetime(2006, 3, 1, 7)), ("bob", "roses", dt.datetime(2006, 3, 2))])


def written_by(name):
    """A log that the format can carry: ORCAS has no times."""
    return LOG if name == "orcas" else TIMED


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_every_format_reads_back_what_it_wrote_packed_or_not(name, packed, tmp_path):
    path = tmp_path / f"log{FORMATS[name].suffix}{packed}"
    log = written_by(name)
    write(log, path)
    start = path.read_bytes()[:4]
    assert start.startswith(b"\x1f\x8b") is (packed == ".gz")
    assert (start == b"\x28\xb5\x2f\xfd") is (packed == ".zst")
    assert read(path) == log


@pytest.mark.parametrize(
    "name", sorted({*WRITTEN} - {"csv-multiline", "orcas"})
)  # declared, and known by numbers as ids
def test_every_format_is_known_by_its_content_alone(name, tmp_path):
    write(TIMED, tmp_path / "unnamed", format=name)
    assert sniff(tmp_path / "unnamed") == name
    assert read(tmp_path / "unnamed") == TIMED


def test_equal_logs_give_equal_packed_files(tmp_path):
    for name in ("one.csv.gz", "two.csv.gz"):
        write(LOG, tmp_path / name)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()
    assert b"one" not in gzip.decompress((tmp_path / "one.csv.gz").read_bytes())


def test_a_refused_log_leaves_the_old_file_as_it_was(tmp_path):
    path = tmp_path / "log.tsv"
    write(LOG, path)
    before = path.read_bytes()
    with pytest.raises(FormatError, match=r"row 1, column query: a tab"):
        write(QueryLog.of([("ann", "a\tb")]), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_in_the_middle_leaves_no_file(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match="no room left on the disk"):
        write(LOG, tmp_path / "log.csv")
    assert not list(tmp_path.iterdir())


def test_the_file_is_not_there_before_it_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    seen: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.append(path.exists()))
    write(LOG, path)
    assert seen == [False]
    assert path.exists()


def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    write(LOG, tmp_path / "log.csv")
    (tmp_path / "other").touch()
    assert (tmp_path / "log.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("log.xyz", "stands for no format"),
        ("folder.csv", "is a folder"),
        ("no/such/log.csv", "no such file"),
        ("a\0.csv", "NUL"),
    ],
)
def test_a_path_that_cannot_be_written_is_wrong_usage(name, says, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError, match=says):
        write(LOG, tmp_path / name)


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="format must be one of"):
        write(LOG, tmp_path / "log.csv", format="xml")


def test_a_refusal_names_formats_that_can_carry_the_log_and_shows_no_value(tmp_path):
    log = QueryLog.of([("canary", "canary\tcanary", None, 1, "canary\ncanary", "canary")] * 9)
    for name in ("aol", "excite", "access"):
        with pytest.raises(FormatError) as caught:
            write(log, tmp_path / "log", format=name)
        assert "Write it as csv, jsonl or parquet instead" in str(caught.value)
        assert "it has no place for column session" in str(caught.value)
        assert "canary" not in str(caught.value)
    with pytest.raises(FormatError, match=r"rows 1, 2, 3, 4, 5, …, column time: missing.*\(9 such rows\)"):
        write(log, tmp_path / "log", format="ubi")


def test_a_value_longer_than_the_limit_is_refused_by_every_format(tmp_path):
    for name in WRITTEN:
        log = QueryLog.of([("ann", "x" * (2**20 + 1), None if name == "orcas" else TIMED.frame["time"][0])])
        with pytest.raises(FormatError, match="longer than 1,048,576 bytes"):
            write(log, tmp_path / "log", format=name)


def test_zstd_output_carries_a_checksum(tmp_path):
    write(LOG, tmp_path / "log.csv.zst")
    assert zstandard.get_frame_parameters((tmp_path / "log.csv.zst").read_bytes()).has_checksum


def test_rows_that_a_format_cannot_carry_are_counted_through_all_parts_of_a_log():
    """Each part is looked at by itself, since all of them may outgrow the memory."""
    good, bad = ("ann", "tulips"), ("ann", "a\ttab")
    parts = [QueryLog.of(rows).frame.lazy() for rows in ([good, bad], [good], [bad] * 7)]
    rule = Rule("query", "a tab", pl.col("query").str.contains("\t", literal=True))
    with pytest.raises(FormatError, match=r"rows 2, 4, 5, 6, 7, …, column query: a tab \(8 such rows\)"):
        refuse_what_is_lost(QueryLog(parts), "x", columns=["user", "query"], instead=None, rules=[rule])
