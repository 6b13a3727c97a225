"""Lines to records and back: a bad one is told by number and reason, and touches no other."""

import datetime as dt
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.errors import UsageError
from queryveil.live.records import Decoder, Encoder
from queryveil.log import QueryLog

SECRET = "a very private text"
GOOD = b'{"user": "ann", "query": "tulips", "topic": "garden"}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not valid JSON"),
        (b'"text"', "no user or no query, or a field of the wrong type"),
        (b'{"user": "ann"}', "no user or no query, or a field of the wrong type"),
        (b'{"user": "ann", "query": 7}', "no user or no query, or a field of the wrong type"),
        (b'{"user": "", "query": "tulips"}', "the user or the query is empty"),
        (b'{"user": "ann", "query": "tulips", "time": "noon"}', "the time is no ISO 8601 time"),
        (b'{"user": "ann", "query": "\xff\xfe"}', "not valid UTF-8"),
        (b'{"user": "ann",\n"query": "tulips"}', "more than one line"),
        (b'{"user": "ann", "query": "' + b"x" * 10_000_000 + b'"}', "longer than 1,048,576 bytes"),
        (None, "longer than 1,048,576 bytes"),
        (b'{"user": "ann", "more": ' + b"[" * 100_000, "not valid JSON"),
    ],
)
def test_a_bad_json_line_is_told_by_number_and_reason(line, reason):
    found = Decoder("jsonl", {}, category_column="topic")([GOOD, line, GOOD])
    assert found.bad == {1: reason}
    assert found.numbers == [0, 2]
    assert found.frame["query"].to_list() == ["tulips", "tulips"]


@pytest.mark.parametrize(
    "line",
    [b"ann", b"ann\ttulips\tnot a time", b"ann\t\t2006-03-01 07:17:12", b"\xff\xfe\t\xff\t2006-03-01 07:17:12"],
)
def test_a_bad_aol_line_is_told_by_number_and_touches_no_other(line):
    good = b"ann\ttulips\t2006-03-01 07:17:12\t\t"
    found = Decoder("aol", {})([line, good, b"", line, good])
    assert sorted(found.bad) == [0, 3]
    assert found.numbers == [1, 4]
    assert found.idle == 1
    assert found.frame["time"].to_list() == [dt.datetime(2006, 3, 1, 7, 17, 12)] * 2


def test_a_batch_of_bad_lines_only_has_no_records():
    for format_ in ("jsonl", "aol", "excite", "access"):
        found = Decoder(format_, {})([b"\xff\xfe\0\0", b"\x1f\x8b", b"{}", b"nonsense"])
        assert found.frame.height == 0
        assert sorted(found.bad) == [0, 1, 2, 3]


def test_fields_may_have_other_names():
    read = Decoder("jsonl", {"user": "uid", "query": "text", "time": "at"})
    found = read([b'{"uid": 7, "text": "tulips", "at": "2006-03-01T07:17:12+01:00", "more": [1]}'])
    assert found.frame.select("user", "query", "time").rows() == [("7", "tulips", dt.datetime(2006, 3, 1, 6, 17, 12))]


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.sampled_from([GOOD, GOOD + GOOD, GOOD[:20], GOOD[20:], b"", b"{}", b" ", GOOD + b" ", GOOD + b"\n" + GOOD]),
        max_size=6,
    )
)
def test_a_line_is_the_same_record_or_none_in_whatever_batch_it_comes(lines):
    """Otherwise a record read again after a crash, in another batch, could have another fate."""
    read = Decoder("jsonl", {}, category_column="topic")
    together, alone = read(lines), [read([line]) for line in lines]
    assert together.frame.rows() == [row for part in alone for row in part.frame.rows()]
    assert together.bad == {number: part.bad[0] for number, part in enumerate(alone) if part.bad}


def test_csv_is_read_under_the_header_of_its_file():
    found = Decoder("csv", {"user": "uid"}, header=b"uid,query")([b"ann,tulips", b",", b"bob,roses"])
    assert found.frame.select("user", "query").rows() == [("ann", "tulips"), ("bob", "roses")]
    assert list(found.bad) == [1]
    found = Decoder("csv", {}, header=b"user,query")([b'ann,"tu', b'lips"', b'bob,"a ""b"""'])
    assert found.bad == {0: "more than one line", 1: "more than one line"}
    assert found.frame["query"].to_list() == ['a "b"']
    with pytest.raises(UsageError, match="csv needs a header"):
        Decoder("csv", {})


def test_what_the_output_cannot_carry_is_refused_at_the_door():
    lines = [json.dumps({"user": "ann", "query": query}).encode() for query in ("a\tb", "a\nb", "ab")]
    found = Decoder("jsonl", {}, no_tabs=True)(lines)
    assert sorted(found.bad) == [0, 1]
    assert Encoder("aol", with_time=True)(_released("ab")) == [b"u1\tab\t2006-03-01 00:00:00\t\t"]


def test_formats_that_need_a_whole_file_are_refused():
    with pytest.raises(UsageError, match="parquet cannot be read record by record"):
        Decoder("parquet", {})
    with pytest.raises(UsageError, match="csv cannot be written record by record"):
        Encoder("csv", with_time=True)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.binary(max_size=60) | st.sampled_from([GOOD, b"ann\ttulips\t2006-03-01 07:17:12"]), max_size=12))
def test_any_bytes_are_a_record_a_dead_letter_or_idle(lines):
    for format_ in ("jsonl", "aol"):
        found = Decoder(format_, {})(lines)
        assert found.frame.height == len(found.numbers)
        assert len(found.numbers) + len(found.bad) + found.idle == len(lines)
        assert not set(found.numbers) & set(found.bad)


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_a_written_record_can_be_read_again(query):
    (line,) = Encoder("jsonl", with_time=True)(_released(query))
    found = Decoder("jsonl", {}, category_column="category")([line])
    assert found.frame.rows() == [("u1", query, dt.datetime(2006, 3, 1), "garden")]


def _released(query):
    frame = pl.DataFrame({"user": ["u1"], "query": [query], "time": [dt.datetime(2006, 3, 1)], "category": ["garden"]})
    return QueryLog(frame)
