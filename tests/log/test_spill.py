"""A log that outgrows the memory is worked on from private files, and nobody can tell from what comes out."""

import os
import signal
import stat
import subprocess
import sys
from datetime import datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.errors import EngineError
from queryveil.log import COLUMNS, QueryLog
from queryveil.log.query_log import LocalTable, in_canonical_order
from queryveil.log.spill import Spill, SpilledTable, range_of_names
from queryveil.log.spilled_log import SpilledLog
from queryveil.log.synthetic import synth

COUNTED = {"block": pl.Int64(), "user": pl.String(), "texts": pl.Int64()}
LITTLE = 64 * 4096
"""So little memory that a few dozen records are a stretch of their own."""


def count_texts(block, rows):
    return rows.group_by("user").agg(pl.col("query").n_unique().alias("texts")).with_columns(block=pl.lit(block))


def pieces_of(log, rows=100):
    return (QueryLog(part) for part in log.frame.iter_slices(rows))


@pytest.fixture
def spill(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Spill(LITTLE) as folder:
        yield folder


people = st.lists(st.tuples(st.sampled_from(["ann", "bob", "eve", "ΑΝΝΑ", " x"]), st.text(min_size=1, max_size=3)))


@settings(max_examples=examples(12), deadline=None)
@given(people, st.sampled_from([1, 2, 8]), st.sampled_from([1, 2, 16]), st.integers(1, 200))
def test_every_block_has_the_rows_that_it_has_in_memory(records, blocks, groups, memory):
    log = QueryLog.of(records)
    whole = LocalTable(log.frame, blocks).map_blocks("user", count_texts, COUNTED).collect()
    texts = LocalTable(log.frame, blocks).map_blocks("query", count_texts, COUNTED).collect()
    with Spill(64 * memory) as spill:
        table = SpilledTable.of(spill, log.frame.iter_slices(3), log.frame.schema, blocks)
        assert in_canonical_order(table.map_blocks("user", count_texts, COUNTED).collect()).equals(
            in_canonical_order(whole)
        )
        spilled = SpilledLog.from_pieces(spill, pieces_of(log, 2), groups)
        assert len(spilled) == len(log) and spilled.users().to_list() == log.users().to_list()
        again = spilled.table()._grouped("query")
        again.blocks = blocks
        assert in_canonical_order(again.map_blocks("query", count_texts, COUNTED).collect()).equals(
            in_canonical_order(texts)
        )


def test_records_stay_in_their_groups_where_a_step_keeps_the_users(spill, monkeypatch):
    log = synth(users=200, records=2000, seed=2)
    asked = {"user": pl.String(), "query": pl.String()}
    table = SpilledLog.from_pieces(spill, pieces_of(log), 16).table()
    table.blocks = 64
    kept, moved = (table.map_rows(lambda rows: rows.select(*asked), asked, keeps) for keeps in (["user"], []))
    there = in_canonical_order(moved.map_blocks("user", count_texts, COUNTED).collect())
    monkeypatch.setattr(SpilledTable, "_grouped", None)  # nothing may be dealt out anew
    assert in_canonical_order(kept.map_blocks("user", count_texts, COUNTED).collect()).equals(there)


def test_results_of_blocks_are_combined():
    log = synth(users=300, records=2000, seed=1)
    schema = {"query": pl.String(), "len": pl.UInt32()}

    def counted(block, rows):
        return rows.group_by("query").len()

    def summed(rows):
        return rows.group_by("query").agg(pl.col("len").sum())

    with Spill(64 << 16) as spill:
        table = SpilledTable.of(spill, log.frame.iter_slices(50), log.frame.schema, 64)
        made, apart = (table.map_blocks("user", counted, schema, combine).collect() for combine in (summed, None))
    assert made.height < apart.height
    assert in_canonical_order(summed(made)).equals(in_canonical_order(log.frame.group_by("query").len()))


def test_a_spilled_log_says_of_itself_what_the_whole_one_says(spill):
    log = synth(users=40, records=900, seed=2)
    extra = QueryLog(log.frame.with_columns(pl.lit("x").alias("shop"), pl.lit("y").alias("*")))
    spilled = SpilledLog.from_pieces(spill, pieces_of(extra), 8)
    assert (len(spilled), spilled.user_count(), spilled.extra_columns) == (900, 40, ["shop", "*"])
    assert spilled.used_columns == extra.used_columns
    assert in_canonical_order(spilled.frame).equals(in_canonical_order(extra.frame))
    assert set(spilled.table("*").schema) == {*COLUMNS, "*"}
    gone = log.users()[:7].to_list()
    left = spilled.without_users(gone)
    assert in_canonical_order(left.frame).equals(in_canonical_order(extra.without_users(gone).frame))
    assert left.user_count() == 33 and len(left) == len(extra.without_users(gone))


def test_a_finished_log_comes_in_the_order_that_it_has_in_memory(spill):
    rows = [(f"u{n * 37 % 256:02x}{n}", f"text {n}", datetime(2026, 1, 1 + n % 3)) for n in range(500)]
    frame = QueryLog.of(rows).frame.with_columns(pl.Series("__order", range(500)), pl.lit("ann").alias("__owner"))
    by = ["user", "time", "__order"]
    spilled = SpilledTable.of(spill, frame.iter_slices(64), frame.schema, 4).in_order(by)
    here = LocalTable(frame, 4).in_order(by)
    assert len(list(spilled.parts())) > 1
    assert spilled.frame.equals(here.frame)
    assert spilled.hidden().collect().equals(here.hidden().collect())


def test_a_user_without_a_random_name_is_refused_unseen(spill):
    with pytest.raises(EngineError) as error:
        range_of_names(pl.Series(["u00ab", "zanzibar"]), 4)
    assert "zanzibar" not in str(error.value)


# What lies on disk


def test_files_and_folder_are_their_owners_alone_and_gone_at_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    old = os.umask(0)
    try:
        with pytest.raises(RuntimeError), Spill(LITTLE) as spill:
            SpilledLog.from_pieces(spill, pieces_of(synth(users=20, records=500, seed=1)), 4)
            (folder,) = tmp_path.iterdir()
            modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
            assert modes == {0o600} and stat.S_IMODE(folder.stat().st_mode) == 0o700
            raise RuntimeError
    finally:
        os.umask(old)
    assert not list(tmp_path.iterdir())


def test_what_no_step_needs_any_more_is_deleted_early(spill, tmp_path):
    log = synth(users=20, records=2000, seed=1)
    (folder,) = tmp_path.iterdir()
    table = SpilledLog.from_pieces(spill, pieces_of(log), 4).table()
    before = len(list(folder.iterdir()))
    made = table.map_blocks("query", count_texts, COUNTED)
    assert len(list(folder.iterdir())) > before
    del made
    assert len(list(folder.iterdir())) == before


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_who_is_asked_to_end_sweeps_first(tmp_path):
    program = (
        "import sys, time, polars as pl\nfrom queryveil.log.spill import Spill\n"
        "with Spill() as spill:\n    spill.write(pl.DataFrame({'user': ['ann']}))\n    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n" and list(tmp_path.iterdir())
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_without_data(spill, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(EngineError, match="TMPDIR"):
        SpilledLog.from_pieces(spill, pieces_of(synth(users=5, records=200, seed=1)), 2)
