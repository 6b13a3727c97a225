"""A log in parts is the log that its parts make together."""

import datetime as dt

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.log import COLUMNS, QueryLog, read, write
from queryveil.log.formats import FORMATS

HIDDEN = {"__owner": pl.String(), "__order": pl.Int64()}
SCHEMA = {**COLUMNS, **HIDDEN}
WRITTEN = [name for name, known in FORMATS.items() if not known.read_only]
LEFT_OUT = {"orcas": ("time",)} | dict.fromkeys(("slowlog", "slowlog-text", "solr"), ("rank", "url"))
"""What a format has no place for."""
IN_PARTS = [name for name, known in FORMATS.items() if known.header_lines is not None or name == "parquet"]

texts = st.text(st.characters(codec="utf-8", exclude_characters="\t\r\n\0"), min_size=1, max_size=8).filter(str.strip)
records = st.lists(st.tuples(st.integers(0, 3), texts, st.none() | st.integers(1, 9)), max_size=12)


def in_files(paths, schema):
    """A log whose parts lie in Parquet files."""
    return QueryLog([pl.scan_parquet(path, glob=False) for path in paths] or [pl.LazyFrame(schema=schema)])


def parted(rows, folder, format_name="csv"):
    """The rows as a log in parts, one for each user, and the same log whole."""
    time = dt.datetime(2006, 3, 1) if FORMATS[format_name].needs_time else None
    frame = pl.DataFrame(
        [(f"u{user:02}", query, time, rank, None if rank is None else "a.example", None, "ann", place)
         for place, (user, query, rank) in enumerate(rows)],
        schema=SCHEMA,
        orient="row",
    ).sort("user", "__order").drop(LEFT_OUT.get(format_name, ()))  # fmt: skip
    paths = []
    for number, part in enumerate(frame.partition_by("user", maintain_order=True)):
        paths.append(folder / f"[{number}].parquet")  # brackets must not be taken for a pattern
        part.write_parquet(paths[-1])
    return in_files(paths, frame.schema), QueryLog(frame.drop(HIDDEN))


@settings(max_examples=examples(25), deadline=None)
@given(records)
@pytest.mark.parametrize("format_name", IN_PARTS)
def test_a_log_in_parts_is_written_like_a_whole_one(tmp_path_factory, format_name, rows):
    folder = tmp_path_factory.mktemp("parts")
    in_parts, whole = parted(rows, folder, format_name)
    suffix = FORMATS[format_name].suffix
    write(in_parts, folder / f"parts{suffix}", format=format_name)
    write(whole, folder / f"whole{suffix}", format=format_name)
    one, other = folder / f"parts{suffix}", folder / f"whole{suffix}"
    assert one.read_bytes() == other.read_bytes()
    assert read(one, format=format_name) == read(other, format=format_name)


def cut(frame, folder, parts):
    """The same rows in so many files, none of which shares a user with another."""
    users = frame["user"].unique().sort()
    firsts = [users[len(users) * number // parts] for number in range(parts)]
    paths = []
    for number, first in enumerate(firsts):
        rows = frame.filter(pl.col("user") >= first, *(pl.col("user") < last for last in firsts[number + 1 :]))
        paths.append(folder / f"{parts}-{number}.parquet")
        rows.write_parquet(paths[-1])
    return in_files(paths, frame.schema)


def many_rows(format_name):
    """More than a row group of Parquet, and more than a compressor takes in at once."""
    number = pl.int_range(200_000 if format_name == "parquet" else 20_000)
    return QueryLog(
        pl.select(
            user="u" + (number // 4).cast(pl.String).str.zfill(8),
            query="q" + (number * 7919 % 997).cast(pl.String),
            time=pl.datetime(2006, 3, 1) + pl.duration(seconds=number),
        )
    ).frame.drop(LEFT_OUT.get(format_name, ()))


def written(log, folder, format_name, packed):
    write(log, folder / f"log{packed}", format=format_name)
    return (folder / f"log{packed}").read_bytes()


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
@pytest.mark.parametrize("format_name", WRITTEN)
def test_the_bytes_of_a_file_do_not_tell_in_how_many_parts_its_rows_came(tmp_path, format_name, packed):
    rows = many_rows(format_name)
    whole = written(QueryLog(rows), tmp_path, format_name, packed)
    for parts in (1, 2, 3, 7):
        assert written(cut(rows, tmp_path, parts), tmp_path, format_name, packed) == whole


@pytest.mark.parametrize("format_name", WRITTEN)
def test_the_bytes_of_a_file_do_not_tell_how_its_rows_lie_in_memory(tmp_path, format_name):
    rows = many_rows(format_name)
    whole = written(QueryLog(rows), tmp_path, format_name, ".gz")
    in_chunks = pl.concat([rows[:1000], rows[1000:7000], rows[7000:]], rechunk=False)
    left_over = pl.concat([rows, rows.with_columns(pl.col("query") + "x" * 300)]).filter(
        pl.col("query").str.len_bytes() < 9
    )
    for frame in (in_chunks, left_over):
        assert written(QueryLog(frame), tmp_path, format_name, ".gz") == whole


@settings(max_examples=examples(25), deadline=None)
@given(records)
def test_a_log_in_parts_counts_and_shows_what_the_whole_does(tmp_path_factory, rows):
    in_parts, whole = parted(rows, tmp_path_factory.mktemp("parts"))
    assert len(in_parts) == len(whole)
    assert in_parts.user_count() == whole.user_count()
    assert in_parts.used_columns == whole.used_columns
    assert in_parts == whole
    assert QueryLog(pl.concat([part.frame for part in in_parts.parts()])) == whole


def test_hidden_columns_are_the_holders_alone(tmp_path):
    in_parts, _ = parted([(1, "tulips", None), (2, "tea", 3)], tmp_path)
    assert not set(HIDDEN) & set(in_parts.frame.columns)
    assert in_parts.hidden().collect().columns == ["user", *HIDDEN]
    write(in_parts, tmp_path / "out.parquet")
    assert not set(HIDDEN) & set(pl.read_parquet_schema(tmp_path / "out.parquet"))
