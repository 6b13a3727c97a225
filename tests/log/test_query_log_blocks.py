"""Blocks of a table: numbered by CRC-32 as `zlib` computes it, every row in one block, in the order it came."""

import zlib

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.log import _crc_kernel, query_log
from queryveil.log.query_log import ByBlock, LocalTable, block_numbers


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=40)), max_size=60), st.integers(1, 1 << 16))
def test_blocks_are_numbered_by_the_checksums_of_zlib(texts, blocks):
    found = block_numbers(pl.Series(texts, dtype=pl.String), blocks)
    assert found.tolist() == [zlib.crc32((text or "").encode()) % blocks for text in texts]


def test_numbers_count_as_their_texts_and_pieces_leave_no_trace(monkeypatch):
    numbers = pl.Series([0, 1, -1, 10**12, None] * 100)
    whole = block_numbers(numbers, 64)
    monkeypatch.setattr(query_log, "ROWS_AT_ONCE", 7)
    assert np.array_equal(block_numbers(numbers, 64), whole)
    assert whole[:4].tolist() == [zlib.crc32(str(n).encode()) % 64 for n in (0, 1, -1, 10**12)]


def test_no_piece_is_longer_than_a_text_may_be_however_long_the_texts_are(monkeypatch):
    texts = ["x" * 90, "", "y" * 250, *["z" * 30] * 20, None, "\0é"]
    pieces = []
    checksums = _crc_kernel.checksums

    def counted(data, lengths, *others):
        pieces.append((len(data), len(lengths)))
        checksums(data, lengths, *others)

    monkeypatch.setattr(_crc_kernel, "checksums", counted)
    monkeypatch.setattr(query_log, "BYTES_AT_ONCE", 100)
    found = block_numbers(pl.Series(texts), 997)
    assert found.tolist() == [zlib.crc32((text or "").encode()) % 997 for text in texts]
    assert all(length <= 100 or rows == 1 for length, rows in pieces)
    assert sum(rows for _, rows in pieces) == len(texts)


@pytest.mark.parametrize("blocks", [2, 64, 1 << 16])
def test_every_row_is_in_the_block_of_its_value_in_the_order_it_came(blocks):
    frame = pl.DataFrame({"user": [f"u{n % 50}" for n in range(500)], "place": np.arange(500)})
    schema = {"user": pl.String(), "place": pl.Int64(), "block": pl.Int64()}
    work = LocalTable(frame, blocks).map_blocks(
        "user", lambda block, rows: rows.with_columns(block=pl.lit(block)), schema
    )
    made = work.collect()
    assert sorted(made["place"].to_list()) == list(range(500))
    assert made["block"].to_list() == block_numbers(made["user"], blocks).tolist()
    assert made.select(pl.col("place").diff().over("user").drop_nulls().min()).item() > 0
    assert made["block"].is_sorted()


@pytest.mark.parametrize("blocks", [1, 8])
@pytest.mark.parametrize("key", ["user", "group"])
def test_rows_that_travel_are_found_in_the_blocks_that_the_table_has_them_in(key, blocks):
    rows = pl.DataFrame({"user": [f"u{i}" for i in range(300)], "group": [i // 3 for i in range(300)]})
    mine = ByBlock(rows, key, blocks)
    seen = LocalTable(rows, blocks).map_blocks(
        key, lambda block, part: part.join(mine[block], on=["user", "group"], how="semi"), rows.schema
    )
    assert seen.collect().sort("user").equals(rows.sort("user"))
    assert sum(mine[block].height for block in range(blocks)) == rows.height
