"""Rows on their way to Spark: cut by rows and by bytes, and none lost."""

import polars as pl
import pytest

pytest.importorskip("pyspark", reason="no Spark: install queryveil[spark]")

from queryveil.engines.spark import arrow

SCHEMA = {"user": pl.String(), "n": pl.Int64(), "words": pl.List(pl.String())}


def rows(count):
    return pl.DataFrame(
        {
            "user": [None if i % 7 == 0 else "é" * (i % 50) for i in range(count)],
            "n": list(range(count)),
            "words": [None if i % 5 == 0 else ["word"] * (i % 4) for i in range(count)],
        },
        schema=SCHEMA,
    )


@pytest.mark.parametrize(("rows_at_once", "bytes_at_once"), [(1 << 16, 1 << 28), (10, 1 << 28), (64, 100), (64, 1)])
def test_pieces_hold_all_rows_in_order_and_few_bytes_each(monkeypatch, rows_at_once, bytes_at_once):
    monkeypatch.setattr(arrow, "ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(arrow, "BYTES_AT_ONCE", bytes_at_once)
    made = arrow.arrow_batches(rows(500), SCHEMA)
    again = pl.concat([arrow.polars_rows(batch, SCHEMA) for batch in made])
    assert again.equals(rows(500), null_equal=True)
    assert all(batch.num_rows <= rows_at_once for batch in made)
    largest = 98 + 12
    for batch in made:
        held = sum(len(text.encode()) for text in batch["user"].to_pylist() if text)
        held += sum(len(word) for words in batch["words"].to_pylist() for word in words or ())
        assert held < bytes_at_once + largest


def test_no_rows_make_no_pieces():
    assert sum(batch.num_rows for batch in arrow.arrow_batches(rows(0), SCHEMA)) == 0


@pytest.mark.soak
def test_texts_of_more_than_32_bits_together_are_cut():
    """2,100 texts of a MiB, which one Arrow batch cannot hold."""
    schema = {"query": pl.String()}
    long = pl.DataFrame({"query": pl.repeat("q" * ((1 << 20) - 1), 2100, eager=True)})
    made = arrow.arrow_batches(long, schema)
    assert sum(batch.num_rows for batch in made) == 2100
    assert len(made) > 1
