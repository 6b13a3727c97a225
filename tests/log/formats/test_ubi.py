"""UBI: the join of queries and events, and no way out for the fields that repeat the query text."""

from __future__ import annotations

import datetime as dt
import gzip
import json

import msgspec
import pytest

from queryveil.errors import FormatError
from queryveil.log import QueryLog, read, read_with_report, write

NINE = dt.datetime(2026, 3, 1, 9)
QUERIES = [
    {"query_id": "q1", "client_id": "ann", "user_query": "tulips", "timestamp": "2026-03-01T09:00:00Z"},
    {"query_id": "q2", "client_id": "bob", "user_query": "roses", "timestamp": "2026-03-01T10:00:00+01:00"},
    {"query_id": "q3", "client_id": "joe", "user_query": "bulbs"},
    {"client_id": "eve", "user_query": "no id", "timestamp": 1772355600000},
]
EVENTS = [
    {
        "action_name": "view",
        "query_id": "q2",
        "client_id": "bob",
        "timestamp": "2026-03-01T09:00:01Z",
        "session_id": "s2",
    },
    {
        "action_name": "product_click",
        "query_id": "q1",
        "client_id": "ann",
        "timestamp": "2026-03-01T09:01:00Z",
        "session_id": "s1",
        "event_attributes": {"object": {"object_id": "item 1"}, "position": {"ordinal": 3}},
    },
    {
        "action_name": "CLICK",
        "query_id": "q1",
        "client_id": "ann",
        "timestamp": "2026-03-01T09:02:00Z",
        "event_attributes": {"object": {"object_id": 77}, "position": {"xy": {"x": 1, "y": 2}}},
    },
    {"action_name": "click", "query_id": "q3", "client_id": "joe", "timestamp": "2026-03-01T09:00:00Z"},
]
EXPECTED = QueryLog.of(
    [
        ("ann", "tulips", NINE, 3, "item 1", "s1"),
        ("ann", "tulips", NINE, None, "77", "s1"),
        ("bob", "roses", NINE, None, None, "s2"),
        ("joe", "bulbs", NINE, None, None, None),
        ("eve", "no id", NINE, None, None, None),
    ]
)


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_mixed_file_joins_events_to_queries_whatever_the_order(tmp_path):
    path = tmp_path / "log.ubi.jsonl"
    path.write_text(lines(EVENTS[:2] + QUERIES + EVENTS[2:]))
    log, report = read_with_report(path)
    assert log == EXPECTED
    assert (report.format, report.lines, report.notes) == ("ubi", 8, ("events other than clicks: 1",))


def test_a_folder_is_read_with_all_its_parts(tmp_path):
    (tmp_path / "ubi_queries-1.jsonl").write_text(lines(QUERIES[:2]))
    (tmp_path / "ubi_queries-2.jsonl.gz").write_bytes(gzip.compress(lines(QUERIES[2:]).encode()))
    (tmp_path / "ubi_events.jsonl").write_text(lines(EVENTS))
    (tmp_path / "notes.txt").write_text("not a log")
    assert read(tmp_path) == EXPECTED


@pytest.mark.parametrize("given", ["ubi_queries.jsonl", "ubi_events.jsonl"])
def test_one_of_a_pair_of_files_finds_the_other(given, tmp_path):
    (tmp_path / "ubi_queries.jsonl").write_text(lines(QUERIES))
    (tmp_path / "ubi_events.jsonl").write_text(lines(EVENTS))
    assert read(tmp_path / given) == EXPECTED


def event(query, **ids):
    return {"action_name": "click", "query_id": query, "timestamp": "2026-03-01T09:00:00Z", **ids}


def asked(*queries):
    return [{"query_id": f"q{n}", "user_query": "my illness", **ids} for n, ids in enumerate(queries, 1)]


def rows_of(tmp_path, rows, **options):
    (tmp_path / "log.ubi.jsonl").write_text(lines(rows))
    log, report = read_with_report(tmp_path / "log.ubi.jsonl", on_error="skip", **options)
    return log.frame.select("user", "url").rows(), [(problem.line, problem.reason) for problem in report.problems]


def test_a_click_counts_for_the_query_of_its_own_client_alone(tmp_path):
    rows = [*asked({"client_id": "c1"}, {"client_id": "c2"})]
    rows += [event("q1", client_id="c2"), event("q1", user_id="c1"), event("q2", client_id="c2")]
    assert rows_of(tmp_path, rows) == (
        [("c1", None), ("c2", None)],
        [(3, "a click on a query that its user did not ask here"), (4, "no client_id")],
    )


def test_queries_are_told_apart_by_client_and_id(tmp_path):
    rows = [{"query_id": "q", "client_id": client, "user_query": "x"} for client in ("mal", "ann", "bob", "mal")]
    found, problems = rows_of(tmp_path, rows)
    assert [user for user, _ in found] == ["mal", "ann", "bob"]
    assert problems == [(4, "a query_id that an earlier query of the same user has")]


def test_who_it_was_is_said_by_the_declared_field_whatever_other_lines_hold(tmp_path):
    rows = [*asked({"user_id": "ann"}, {"user_id": "bob", "client_id": "c1"}, {"client_id": "c2"})]
    rows += [event("q1", user_id="ann"), event("q2", client_id="c1")]
    assert [user for user, _ in rows_of(tmp_path, rows, user_field="user_id")[0]] == ["ann", "bob"]
    assert [user for user, _ in rows_of(tmp_path, rows)[0]] == ["c1", "c2"]


def test_problems_in_several_files_are_told_by_file(tmp_path):
    (tmp_path / "ubi_queries.jsonl").write_text(lines(QUERIES) + "{broken\n")
    (tmp_path / "ubi_events.jsonl").write_text(
        lines(EVENTS) + lines([{"action_name": "click", "query_id": "q9", "client_id": "ann"}])
    )
    with pytest.raises(FormatError) as caught:
        read(tmp_path, on_error="fail")
    assert str(caught.value).splitlines()[1:3] == [
        "  ubi_queries.jsonl, line 5: not valid JSON",
        "  ubi_events.jsonl, line 5: a click on a query that its user did not ask here",
    ]


def test_fields_that_repeat_the_query_text_never_reach_a_written_file(tmp_path):
    canary = "canary in the coal mine"
    (tmp_path / "in.ubi.jsonl").write_text(
        lines(
            [
                QUERIES[0]
                | {
                    "application": canary,
                    "object_id_field": canary,
                    "query_response_id": canary,
                    "query_response_hit_ids": [canary],
                    "query_attributes": {"raw": canary, canary: 1},
                    canary: canary,
                },
                EVENTS[1]
                | {
                    "application": canary,
                    "message": canary,
                    "message_type": canary,
                    "user_query": canary,
                    "trail": canary,
                    "user_id": canary,
                    "event_attributes": {
                        "object": {"object_id": "item 1", "description": canary, "object_detail": {"x": canary}},
                        "position": {"ordinal": 3, "trail": canary, "xy": {"x": 1, "y": 2}},
                        "trail": canary,
                        "data": {"user_query": canary},
                        canary: canary,
                    },
                },
                EVENTS[0]
                | {"query_id": "q1", "client_id": "ann", "action_name": "canary in the coal mine", "message": canary},
            ]
        )
    )
    log = read(tmp_path / "in.ubi.jsonl")
    assert log == QueryLog(EXPECTED.frame[:1])
    for name in ("out.ubi.jsonl", "out.jsonl", "out.csv"):
        write(log, tmp_path / name)
        assert b"canary" not in (tmp_path / name).read_bytes()


def test_what_is_written_is_ubi_with_ids_that_tell_nothing(tmp_path):
    write(EXPECTED, tmp_path / "out.ubi.jsonl")
    rows = [msgspec.json.decode(line) for line in (tmp_path / "out.ubi.jsonl").read_bytes().splitlines()]
    queries = [row for row in rows if "user_query" in row]
    events = [row for row in rows if "action_name" in row]
    assert [row["query_id"] for row in queries] == ["1", "2", "3", "4", "5"]
    assert [(row["query_id"], row["action_name"]) for row in events] == [
        ("1", "click"),
        ("2", "click"),
        ("3", "search"),
    ]
    assert set().union(*queries) == {"query_id", "client_id", "user_query", "timestamp"}
    assert set().union(*events) == {
        "action_name",
        "query_id",
        "client_id",
        "timestamp",
        "session_id",
        "event_attributes",
    }
    assert events[0]["event_attributes"] == {"object": {"object_id": "item 1"}, "position": {"ordinal": 3}}


def test_results_shown_are_read_where_they_are_asked_for_and_bad_lists_are_reported(tmp_path):
    lists = [["item 1", 7], [], "item 1", [["item 1"]], None]
    lines = [
        {"query_id": str(n), "client_id": "ann", "user_query": "q", "query_response_hit_ids": hits}
        for n, hits in enumerate(lists)
    ]
    (tmp_path / "in.ubi.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, lines)))
    log, report = read_with_report(tmp_path / "in.ubi.jsonl", extras=["shown"])
    assert log.frame["shown"].to_list() == ['["item 1","7"]', "[]", None]
    assert [problem.line for problem in report.problems] == [3, 4]
    assert read(tmp_path / "in.ubi.jsonl").extra_columns == []
