"""Long blocks are read by compiled kernels: the same records, problems and notes as short ones, whatever the lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostile import HOSTILE_TEXTS, any_text
from properties import examples
from queryveil.errors import FormatError, UsageError
from queryveil.log import source
from queryveil.log.formats.column_names import MOST_COLUMNS
from queryveil.log.reading import read_with_report

quick = settings(max_examples=examples(200), deadline=None)


def outcome(path, least, **options):
    """What reading makes of a file whose blocks are compiled from so many bytes on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "COMPILED_FROM", least)
        try:
            log, report = read_with_report(path, most_problems=1000, **options)
        except FormatError as error:
            return str(error)
    return log.frame.rows(), log.frame.schema, report


def assert_alike(folder, lines, **options):
    path = folder / "log"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines))
    slow, fast = outcome(path, 1 << 60, **options), outcome(path, 0, **options)
    assert fast == slow


NUMBERS = st.sampled_from(
    [
        *(
            "0",
            "-0",
            "7",
            "-7",
            "1.5",
            "1e5",
            "1e999",
            "-1e999",
            "00",
            "true",
            "false",
            "null",
            "4294967295",
            "4294967296",
        ),
        *("1142500000000", "253402300800000", "999999999999999999", "1234567890123456789012345"),
        *("[]", "[1]", '["a","b"]', '["a", "b"]', '["\\u0061"]', '["a",1]', "{}", '{"k":1e999}', '["a",]', '["a"'),
    ]
)
TIMES = st.sampled_from(
    [
        *("2006-03-01T07:17:12", "2006-03-01 07:17:12.5+01:00", "2006-03-01", "2016-12-31T23:59:60Z"),
        *("2006-02-30T00:00:00Z", "2006-03-01T10:00:60", "2016-12-31T23:59:60"),
    ]
)
texts = st.sampled_from(
    [*HOSTILE_TEXTS, "ann", "bob", "tulips", "", "12", "0000000012", "click", "Click here", "clic\u212a"]
)
values = st.builds(json.dumps, texts | TIMES | any_text, ensure_ascii=st.booleans()) | NUMBERS
LETTERS = '{}[]",:\\u0aé1.-e tn\x01\r'
damage = st.lists(st.tuples(st.integers(0, 120), st.sampled_from(list(LETTERS)) | st.just("")), max_size=2)


def damaged(text, faults):
    for at, letter in faults:
        at = min(at, len(text))
        text = text[:at] + letter + text[at + 1 :]
    return text


def objects(keys, inner=values):
    """Objects of some of these keys, some twice or escaped, as text."""
    key = st.sampled_from(keys)
    named = st.builds(lambda name, escaped: f'"\\u{ord(name[0]):04x}{name[1:]}"' if escaped else f'"{name}"', key,
                      st.sampled_from([False] * 9 + [True]))  # fmt: skip
    pairs = st.lists(st.builds("{}{}:{}".format, named, st.sampled_from(["", " "]), inner), max_size=6)
    return st.builds(lambda members, blank: "{" + f",{blank}".join(members) + "}", pairs, st.sampled_from(["", " "]))


KEYS = ["user", "query", "AnonID", "time", "rank", "url", "session", "topic", "shown", "other"]
good = '{"user":"ann","query":"x"}'
broken = st.sampled_from([b"\xff", b"\0", b"  ", b"\r", b"", b"\x0b", b'{"user":"a","query":"b"}\r', good * 2, "[1]"])
jsonl = st.lists(st.builds(damaged, objects(KEYS), damage) | broken | st.just(good), min_size=1, max_size=8)


@quick
@given(jsonl)
@example(['{"user":1e999,"query":"x"}', '{"user":-0,"query":"x","user":1}', good])
@example(['{"user":7,"query":"a\\nb","rank":"\\u0031"}', good, '{"AnonID":{},"user":"a","query":"x"}'])
def test_json_lines(tmp_path_factory, lines):
    assert_alike(tmp_path_factory.mktemp("logs"), lines, format="jsonl", extras=["topic", "shown"])


DETAILS = objects(["object", "position", "x"], values | objects(["object_id", "ordinal", "y"]))
UBI = ["client_id", "action_name", "query_id", "session_id", "timestamp", "user_query", "query_response_hit_ids"]
plain_id = st.sampled_from(['"1"', '"2"', "1", '"ann"', '"click"', '"2006-03-01T07:17:12Z"', "1142500000000"])
events = st.builds(
    lambda one, details: one[:-1] + (", " if len(one) > 2 else "") + f'"event_attributes":{details}}}',
    objects(UBI, values | plain_id),
    DETAILS | values,
)
asked = '{"query_id":"1","client_id":"ann","user_query":"x"}'
clicked = '{"action_name":"click","query_id":"1","client_id":"ann","session_id":"s","timestamp":"2006-03-01"}'
ubi = st.lists(
    st.builds(damaged, objects(UBI, values | plain_id) | events, damage) | broken | st.sampled_from([asked, clicked]),
    min_size=1,
    max_size=8,
)


@quick
@given(ubi)
@example([asked, clicked[:-1] + ',"event_attributes":{"object":{"object_id":"u"},"object":{},"z":1e999}}'])
@example([asked, clicked[:-1] + ',"event_attributes":{"object":{"object_id":7},"position":{"ordinal":1e999}}}'])
def test_ubi(tmp_path_factory, lines):
    assert_alike(tmp_path_factory.mktemp("logs"), lines, format="ubi", extras=["shown"])


TARGETS = st.sampled_from(
    [
        *("/s?q=tulips", "/s?s=1&q=a+b%21", "/?%71=x", "/?q=", "/?q=%ff", "/?q=%e9&s=b", "/?q=%zz%4", "/?a#?q=1"),
        *("/?q=1#s=2", "/?q=\\x22a", '/?q=\\"a', "/?q=é", "/x", "/?query=1&k=2", "/?&&=&q=%0a%0d", "/?q==a=b", "*"),
    ]
)
requests = st.builds(
    "{}{}{}".format,
    st.sampled_from(["GET ", "get ", "G3T ", " ", "", "HEAD  "]),
    TARGETS,
    st.sampled_from([" HTTP/1.1", "", " HTTP/", " HTTP/2 ", " http/1.1"]),
)
CLOCKS = [
    *("01/Mar/2006:07:17:12 +0000", "1/Mar/2006:07:17:12 +0000", "31/Dec/2016:23:59:60 +0000", "", "x"),
    *("30/Feb/2006:07:17:12 +0000", "01/mar/2006:07:17:12 +0130", "01/Mar/2006:07:17:12 -2359"),
    *("01/Mar/2006:07:17:12 +2400", "01/Mar/0001:00:00:00 +0100", "01/Mar/2006:07:17:12 +00:00"),
]
request_lines = st.builds(
    '{} - {} [{}] "{}" {} {}{}'.format,
    st.sampled_from(["1.2.3.4", "é", "::1"]),
    st.sampled_from(["-", "ann", "a]b"]),
    st.sampled_from(CLOCKS),
    requests,
    st.sampled_from(["200", "20", "2000"]),
    st.sampled_from(["0", "-", "12", "", "-1"]),
    st.sampled_from(["", ' "-" "-"', ' "a', " x", "x", "\r"]),
)
access = st.lists(
    st.builds(damaged, request_lines, damage) | st.sampled_from([b"\xff", b"\0", b"\r", b"", "x\\"]),
    min_size=1,
    max_size=8,
)


@quick
@given(access)
@example(['1.2.3.4 - - [01/Mar/2006:07:17:12 +0000] "GET /?q=a\\" 200 1', '1.2.3.4 - - [] "GET /?q=a" 200 -'])
def test_access_logs(tmp_path_factory, lines):
    assert_alike(tmp_path_factory.mktemp("logs"), lines, format="access")


def test_a_long_file_is_read_by_kernels_and_in_order(tmp_path):
    """Odd lines among many go another way and come back to their places."""
    lines = [f'{{"user":"u{number}","query":"q{number}"}}' for number in range(40_000)]
    for number in range(0, 40_000, 1000):
        lines[number] = f'{{"user":"u{number}","query":"q{number}","rank":"\\u0031"}}'
    lines[7] = "{"
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines))
    assert path.stat().st_size > source.COMPILED_FROM
    log, report = read_with_report(path)
    assert log.queries() == [f"q{number}" for number in range(40_000) if number != 7]
    assert log.frame["rank"].sum() == 40
    assert [str(problem) for problem in report.problems] == ["line 8: not valid JSON"]


def test_as_many_keys_as_columns_may_be_cost_no_more_than_their_bytes(tmp_path):
    """Each key is looked up once, whatever their number."""
    names = [f"column {number}" for number in range(MOST_COLUMNS)]
    line = json.dumps({"user": "ann", "query": "x", **dict.fromkeys(names, "y")})
    assert_alike(tmp_path, [line, good, line], format="jsonl", extras=names)
    with pytest.raises(UsageError, match=r"extras names more than 4,096 keys"):
        read_with_report(tmp_path / "log", format="jsonl", extras=[f"column {number}" for number in range(5000)])


@pytest.mark.parametrize(
    "line,options",
    [
        ({"user": "ann", "query": "x", "line": "7", "_time": "z"}, {"extras": ["line", "_time", "_rank"]}),
        ({"uid": 7, "query": "x"}, {"columns": {"url": "uid", "user": "uid"}}),
        ({"user": "ann", "query": "x", "time": "2006-03-01T10:00:60"}, {}),
    ],
    ids=["names of helper columns", "two columns with one key", "a sixtieth second"],
)
def test_odd_wishes_and_values_come_out_alike(tmp_path, line, options):
    assert_alike(tmp_path, [json.dumps(line)], format="jsonl", **options)


@pytest.mark.parametrize("more", ["1" * 5000, "[" * 900 + "]" * 900])
def test_a_key_that_stands_twice_is_seen_beside_what_python_cannot_read(tmp_path, more):
    line = f'{{"user":"ann","user":"bob","query":"x","more":{more}}}'
    assert_alike(tmp_path, [line, good], format="jsonl")
    assert "stands twice" in str(read_with_report(tmp_path / "log", format="jsonl")[1].problems)


def test_a_key_that_stands_twice_is_seen_where_a_slash_is_escaped(tmp_path):
    lines = ['{"a/b":"ann","a\\/b":"bob","query":"x"}', '{"a/b":"ann","query":"x"}']
    assert_alike(tmp_path, lines, format="jsonl", columns={"user": "a/b"})
    assert read_with_report(tmp_path / "log", format="jsonl", columns={"user": "a/b"})[1].problem_count == 1
