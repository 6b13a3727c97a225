"""Wide headers, keys that stand twice, seconds that never were, and UTF-16 without a mark."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import queryveil as qv
from queryveil.errors import FormatError
from queryveil.live.records import Decoder
from queryveil.log.formats.column_names import MOST_COLUMNS
from queryveil.log.formats.json_keys import TWICE
from queryveil.log.reading import read_with_report
from waiting import SLOWNESS


def problems(path, content, **options):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    log, report = read_with_report(path, **options)
    return log, {problem.line: problem.reason for problem in report.problems}


# Columns


def test_short_lines_below_a_wide_header_cost_no_more_than_their_bytes(tmp_path):
    """Cutting each of them into as many cells as the header has took 36 seconds for 39 KB."""
    width = 4000
    header = ",".join(["user", "query", *(f"c{number}" for number in range(width - 2))])
    whole = ",".join(["ann", "tulips"] * (width // 2))
    content = "\n".join([header, *["a"] * 4000, '"b', '"c"d', whole, '"x" y,z', ""])
    started = time.process_time()
    log, told = problems(tmp_path / "log.csv", content, most_problems=10_000)
    assert time.process_time() - started < 30 * SLOWNESS  # 25 million cells would take longer and 2 GB
    assert len(log) == 1
    assert len(told) == 4003
    assert told[2] == told[4001] == f"not {width} columns, as the header has"


@pytest.mark.parametrize("chosen", ["csv", "csv-multiline"])
def test_a_line_of_another_width_is_told_by_its_first_fault(tmp_path, chosen):
    content = b'user,query\nann,tulips\nbob\nann,a,b\n"cleo","x"y,z\nann,"a, b"\n\xff\nann\0\n'
    log, told = problems(tmp_path / "log.csv", content, format=chosen)
    assert log.frame["query"].to_list() == ["tulips", "a, b"]
    assert told[3] == told[4] == "not 2 columns, as the header has"
    assert "quotes" in told[5]
    assert told[7] == "not valid UTF-8"
    assert told[8].startswith("a NUL byte")


def test_more_columns_than_are_read_are_refused(tmp_path):
    header = ",".join(["user", "query", *(f"c{number}" for number in range(MOST_COLUMNS - 1))])
    with pytest.raises(FormatError, match=r"the file has 4,097 columns; at most 4,096 are read"):
        problems(tmp_path / "log.csv", header + "\n")


# Keys


KEYS = ["user", "query", "AnonID", "time", "other"]
values = st.sampled_from(["ann", "user", 'say "user": x', "a : b", "é", None, {"user": "x", "y": 1}])


def key_text(key, escaped):
    return f'"{key[0]}\\u{ord(key[1]):04x}{key[2:]}"' if escaped else json.dumps(key)


@st.composite
def objects(draw):
    pairs = draw(
        st.lists(st.tuples(st.sampled_from(KEYS), values, st.booleans(), st.sampled_from(["", " ", "\t"])), max_size=5)
    )
    members = [f"{key_text(key, escaped)}{space}: {json.dumps(value)}" for key, value, escaped, space in pairs]
    names = [key for key, *_ in pairs if key != "other"]
    return "{" + ", ".join(['"query": "tulips"', *members]) + "}", len(set(names) | {"query"}) <= len(names)


@given(st.lists(objects(), min_size=1, max_size=8))
def test_exactly_the_lines_with_a_key_twice_are_left_out_for_it(tmp_path_factory, drawn):
    """Whatever stands in the other lines; a key that is not read may stand there as often as it likes."""
    path = tmp_path_factory.mktemp("logs") / "log.jsonl"
    good = '{"user": "ann", "query": "tulips"}\n'
    _, told = problems(path, "".join(text + "\n" for text, _ in drawn) + good, format="jsonl")
    assert [told.get(number) == TWICE for number in range(1, len(drawn) + 1)] == [twice for _, twice in drawn]


def test_an_escaped_key_elsewhere_does_not_make_up_for_one_that_stands_twice(tmp_path):
    lines = ['{"query": "tulips", "u\\u0073er": "ann"}', '{"query": "tulips", "user": "ann", "user": "bob"}']
    content = "\n".join([*lines, '{"user": "ann", "query": "x"}', ""])
    _, told = problems(tmp_path / "log.jsonl", content, format="jsonl")
    assert told == {2: TWICE}


def test_a_live_record_with_a_key_twice_is_a_dead_letter_and_touches_no_other():
    good = b'{"user": "ann", "query": "user", "topic": "user", "meta": {"user": 1, "query": 2}}'
    twice = b'{"user": "ann", "query": "x", "us\\u0065r": "bob"}'
    spaced = b'{"user": "ann", "query": "x", "user" : "bob"}'
    read = Decoder("jsonl", {}, category_column="topic")
    for lines in ([good] * 3, [good, twice, good], [spaced, good], [good, None, twice]):
        found = read(lines)
        expected = {number: TWICE for number, line in enumerate(lines) if line in (twice, spaced)}
        assert {number: reason for number, reason in found.bad.items() if lines[number] is not None} == expected
        assert found.frame["user"].to_list() == ["ann"] * lines.count(good)


# Times


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("2016-12-31T23:59:60Z", True),
        ("2017-01-01T08:59:60+09:00", True),
        ("2012-06-30 23:59:60.5", True),
        ("2016-12-31T12:30:60Z", False),
        ("2016-12-30T23:59:60Z", False),
        ("2016-12-31T23:59:60+01:00", False),
        ("2016-12-31T23:59:61Z", False),
    ],
)
def test_a_second_60_is_one_only_where_leap_seconds_are_put(tmp_path, text, is_one):
    log, told = problems(tmp_path / "log.csv", f"user,query,time\nann,tulips,{text}\nann,tulips,\n")
    assert (len(log), bool(told)) == ((2, False) if is_one else (1, True))
    found = Decoder("jsonl", {})([json.dumps({"user": "ann", "query": "x", "time": text}).encode()])
    assert bool(found.bad) is not is_one


def test_other_formats_know_leap_seconds_too(tmp_path):
    aol = "ann\ttulips\t2016-12-31 23:59:60\t\t\nann\ttulips\t2016-12-31 12:30:60\t\t\n"
    excite = "ann\t161231235960\ttulips\nann\t161231123060\ttulips\n"
    line = '1.2.3.4 - - [31/Dec/2016:{}:60 +0000] "GET /search?q=tulips HTTP/1.1" 200 5 "-" "-"\n'
    access = line.format("23:59") + line.format("12:30")
    for chosen, content in (("aol", aol), ("excite", excite), ("access", access)):
        log, told = problems(tmp_path / chosen, content, format=chosen)
        assert (len(log), list(told)) == (1, [2])


# Encodings


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_told_how_to_be_read(tmp_path, encoding):
    text = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\nann\ttulips\t2006-03-01 07:17:12\t\t\n"
    with pytest.raises(FormatError, match=f"without a mark needs encoding .*{encoding}"):
        problems(tmp_path / "log.tsv", text.encode(encoding), format="aol")
    log, told = problems(tmp_path / "log.tsv", text.encode(encoding), format="aol", encoding=encoding)
    assert (len(log), told) == (1, {})


def test_the_public_reader_says_the_same(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"user": "ann", "query": "x", "user": "bob"}\n{"user": "ann", "query": "y"}\n')
    assert qv.read(path).frame["query"].to_list() == ["y"]
