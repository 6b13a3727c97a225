"""Slow logs: which text is the typed one, who asked, and what cannot pass for either."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from queryveil.errors import UsageError
from queryveil.log import read, read_with_report
from queryveil.log.formats.slow_log import CONDITIONS, OF_FIELDS, OF_TERMS, WHOLE

WHEN = "2026-03-01T08:17:12,255+01:00"
TEXT = "[2026-03-01T07:17:12,255][WARN ][i.s.s.query] [node] [shop][0] took[9s], stats[], source[%s], %s\n"


def line(query, user="ann", **more):
    return json.dumps(
        {"type": "index_search_slowlog", "timestamp": WHEN, "id": user, "source": {"query": query}, **more}
    )


def written(tmp_path, *lines, name="shop_index_search_slowlog.json"):
    path = tmp_path / name
    path.write_text("".join(f"{each}\n" for each in lines))
    return path


@pytest.mark.parametrize(
    ("query", "typed"),
    [
        *(({name: {"title": "tulips"}}, "tulips") for name in OF_FIELDS),
        *(({name: {"title": {"boost": 1, "query": "tulips"}}}, "tulips") for name in OF_FIELDS),
        *(({name: {"fields": ["a", "b^2"], "query": "tulips"}}, "tulips") for name in WHOLE),
        ({"term": {"title": {"value": "tulips", "boost": 1.0}}}, "tulips"),
        ({"bool": {"should": [{"term": {"tag": "x"}}, {"match": {"title": "tulips"}}]}}, "tulips"),
        *(
            ({"bool": {name: [{"match": {"tag": "x"}}], "must": {"multi_match": {"query": "tulips"}}}}, "tulips")
            for name in CONDITIONS
        ),
        ({"prefix": {"title": "tul"}}, None),
        ({"match_all": {}}, None),
        ({"bool": {"filter": {"match": {"title": "x"}}}}, None),
    ],
)
def test_the_typed_text_is_the_first_of_the_usual_clauses_outside_of_conditions(query, typed, tmp_path):
    log, report = read_with_report(written(tmp_path, line(query), line({"match": {"a": "b"}})))
    assert log.queries() == [*([typed] if typed else []), "b"]
    assert log.frame["time"].unique().to_list() == [dt.datetime(2026, 3, 1, 7, 17, 12, 255000)]
    assert bool(report.notes) == (typed is None)


def test_a_declared_clause_or_field_is_the_only_one(tmp_path):
    both = {
        "bool": {
            "must": [{"match": {"title": "roses"}}, {"match": {"body": {"query": "tulips"}}}, {"prefix": {"a": "x"}}]
        }
    }
    path = written(tmp_path, line(both), line({"match": {"title": "only"}}))
    assert read(path, columns={"query": "match.body"}).queries() == ["tulips"]
    assert read(path, columns={"query": "prefix"}).queries() == ["x"]
    for wrong in ("title", "multi_match.a", "match."):
        with pytest.raises(UsageError, match="The clauses are: combined_fields, fuzzy"):
            read(path, columns={"query": wrong})
    assert set(OF_TERMS) & {"prefix"}


def test_a_source_may_be_text_and_keys_may_be_those_of_version_8(tmp_path):
    source = json.dumps({"query": {"match": {"title": 'tulips "red"\n'}}})
    ecs = {"@timestamp": "2026-03-01T07:17:12.255Z", "elasticsearch.slowlog.id": "ann", "trace.id": "t1"}
    path = written(tmp_path, json.dumps({**ecs, "elasticsearch.slowlog.source": source}))
    assert read(path).frame.select("user", "query").rows() == [("ann", 'tulips "red"\n')]
    assert read(path, columns={"user": "trace.id"}).users().to_list() == ["t1"]


def test_lines_without_a_user_or_with_a_key_twice_are_bad(tmp_path):
    tulips = {"match": {"a": "tulips"}}
    twice = line(tulips)[:-1] + ',"id":"bob"}'
    path = written(
        tmp_path,
        line(tulips, user=None),
        line(tulips, user="null"),
        line(tulips, user=7),
        twice,
        line(tulips, source="{"),
    )
    log, report = read_with_report(path)
    assert log.frame.select("user", "query").rows() == [("7", "tulips")]
    assert [(problem.line, problem.column) for problem in report.problems] == [
        (1, "user"),
        (2, "user"),
        (4, None),
        (5, None),
    ]


@pytest.mark.parametrize("typed", ["tulips", "], id[bob], ", "x], id[bob", '"]}}}], id[bob], '])
def test_nothing_that_is_typed_passes_for_an_id_in_plain_text(typed, tmp_path):
    source = json.dumps({"query": {"match": {"title": {"query": typed}}}})
    path = tmp_path / "shop_index_search_slowlog.log"
    path.write_text(TEXT % (source, "id[ann], ") + TEXT % (source, "") + TEXT % (source, "id[], "))
    log, report = read_with_report(path)
    assert log.frame.select("user", "query").rows() == [("ann", typed)]
    assert report.problem_count == 2
