"""Lines to records and back: a bad one is told by number and reason, and touches no other."""

import datetime as dt
import json

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.errors import UsageError
from queryveil.live.records import Decoder, line_format
from queryveil.log.spans import NO_TIME, Spans
from queryveil.mechanisms.stream import Stream
from queryveil.mechanisms.stream.lines import LineStream
from queryveil.mechanisms.stream.records import StreamRecords
from queryveil.privacy import Noise

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
    assert _released("ab", "aol")[17:] == b"\tab\t2006-03-01 00:00:00\t\t"


def test_formats_that_need_a_whole_file_are_refused():
    with pytest.raises(UsageError, match="parquet cannot be read record by record"):
        Decoder("parquet", {})
    with pytest.raises(UsageError, match="csv cannot be written record by record"):
        line_format("csv", with_time=True)


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
    found = Decoder("jsonl", {}, category_column="category")([_released(query, "jsonl")])
    assert found.frame.rows() == [(found.frame["user"][0], query, dt.datetime(2006, 3, 1), "garden")]


def _released(query, format_):
    """The line of a record that a stream lets out."""
    frame = pl.DataFrame({"user": [*"abcd"], "query": query, "time": dt.datetime(2006, 3, 1, 7), "category": "garden"})
    running = LineStream.of(
        Stream(k=2, mode="paper"), Noise.seeded(1), line_format(format_, with_time=True), for_science=True
    )
    return running.push(StreamRecords.of(frame))[0].lines[0]


VALUES = st.sampled_from(
    ["ann", 'a "quoted" one', "tülips\t🌷", "\u2028", "", 7, 0, -1, 10**17, 10**30, 1.5, None, True, [], {"user": "x"}]
)
TIMES = st.sampled_from(
    [
        *("2006-03-01T07:17:12Z", "2006-03-01 07:17", "2006-03-01T07:17:12.25+01:00", "2006-03-01T10:00:60"),
        *("noon", "", None, 3),
    ]
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={"user": VALUES, "query": VALUES, "time": TIMES, "topic": VALUES, "more": VALUES},
)
ODD_LINES = st.sampled_from(
    [
        b"",
        b"{",
        b"[]",
        b'{"user":"a","user":"b","query":"x"}',
        b'{"user":"\xff","query":"x"}',
        b' {"user":"a","query":"b"} ',
    ]
)
USUAL = st.builds(
    lambda user, query, time, topic: {"user": user, "query": query, "time": time, "topic": topic},
    st.sampled_from(["ann", "bö", 7]),
    st.sampled_from(["tulips", 'a "b"', "x\ny", "é"]),
    st.sampled_from(["2006-03-01T07:17:12Z", "2006-03-01 07:17", None, ""]),
    st.sampled_from(["garden: tulips", None, "", "a", 7]),
)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(USUAL, min_size=1, max_size=6)
    | st.lists(OBJECTS | ODD_LINES, min_size=1, max_size=4).map(lambda lines: [*lines]),
    st.booleans(),
    st.booleans(),
)
def test_lines_read_at_once_say_what_each_says_by_itself(found, ascii_only, no_tabs):
    lines = [line if isinstance(line, bytes) else json.dumps(line, ensure_ascii=ascii_only).encode() for line in found]
    decoder = Decoder("jsonl", {}, category_column="topic", no_tabs=no_tabs)
    one_by_one = decoder(lines)
    at_once = decoder.plain(Spans.of_lines(b"".join(line + b"\n" for line in lines)))
    if at_once is None:
        usual = all(line == json.dumps({"user": "ann", "query": "tulips", "topic": "a"}).encode() for line in lines)
        assert not usual
        return
    assert not one_by_one.bad
    assert one_by_one.idle == 0
    expected = StreamRecords.of(one_by_one.frame, "topic")
    assert (at_once.users, at_once.texts, at_once.paths) == (expected.users, expected.texts, expected.paths)
    assert at_once.times.tolist() == expected.times.tolist()


def test_usual_lines_are_read_at_once():
    """Else the test above would compare nothing."""
    decoder = Decoder("jsonl", {"user": "uid"}, category_column="topic")
    lines = b'{"uid":"ann","query":"a \\"b\\"","topic":"x: y","time":"2006-03-01T00:00:00"}\n'
    lines += b'{"uid":7,"query":"c","more":[1]}\n'
    found = decoder.plain(Spans.of_lines(lines))
    assert found is not None
    assert (found.users, found.texts, found.paths) == ([b"ann", b"7"], [b'a "b"', b"c"], [b"x: y", b""])
    assert found.times.tolist() == [1141171200000000, NO_TIME]
    csv = Decoder("csv", {}, category_column="topic", header=b"query,topic,user")
    found = csv.plain(Spans.of_lines(b"tulips,x,ann\nb,,7\n"))
    assert found is not None
    assert (found.users, found.texts, found.paths) == ([b"ann", b"7"], [b"tulips", b"b"], [b"x", b""])
    assert csv.plain(Spans.of_lines(b"tulips,x,ann\n,,7\n")) is None
    assert csv.plain(Spans.of_lines(b'tulips,x,ann\n"b",,7\n')) is None


@pytest.mark.parametrize(
    "header", [b"user,query,topic", b"\xef\xbb\xbfuser,query,topic", b"\xef\xbb\xbftopic,user,query"]
)
def test_a_header_is_read_at_once_as_it_is_otherwise_and_is_no_record(header):
    """Also one behind a byte order mark; and where files were put together, a second one."""
    decoder = Decoder("csv", {}, category_column="topic", header=header)
    line = b"ann,tulips,x" if header.endswith(b"topic") else b"x,ann,tulips"
    found, slow = decoder.plain(Spans.of_lines(line + b"\n")), decoder([line])
    assert (found.users, found.texts, found.paths) == ([b"ann"], [b"tulips"], [b"x"])
    assert slow.frame.select("user", "query", "topic").rows() == [("ann", "tulips", "x")]
    assert decoder.plain(Spans.of_lines(header + b"\n" + line + b"\n")) is None
    both = decoder([header, line])
    assert (both.numbers, both.bad, both.idle) == ([1], {}, 1)


@pytest.mark.parametrize(
    "header", [b"user,query,topic,\xff", b"user,query,topic,a\0b", b"nothing,here", b'user,query,"t']
)
def test_a_bad_header_is_the_same_refusal_on_every_road(header):
    decoder = Decoder("csv", {}, category_column="topic", header=header)
    assert decoder.plain(Spans.of_lines(b"ann,tulips,x\n")) is None
    assert list(decoder([b"ann,tulips,x"]).bad) == [0]
