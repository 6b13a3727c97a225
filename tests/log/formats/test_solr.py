"""Solr's log: the parameters beside a slow reading of them, and which lines are searches."""

from __future__ import annotations

import datetime as dt
from urllib.parse import unquote_plus

from hypothesis import given, settings
from hypothesis import strategies as st

from queryveil.log import read, read_with_report

LINE = "2026-03-01 07:17:12.255 INFO  (qtp1-11) [ x:shop] o.a.s.c.S.Request webapp=/solr path=/select params={%s} %s\n"
END = "hits=12 status=0 QTime=3"


def written(folder, *parameters, ends=END):
    path = folder / "solr.log"
    path.write_text("".join(LINE % (each, ends) for each in parameters))
    return path


def test_users_and_queries_are_decoded_parameters_and_can_be_declared(tmp_path):
    path = written(tmp_path, "q={!edismax+v%3D$t}&t=50+%25+off%26&uid=ann&user=bob&uid=eve&xq=no")
    log = read(path)
    assert log.frame.select("user", "query").rows() == [("bob", "{!edismax v=$t}")]
    assert log.frame["time"].to_list() == [dt.datetime(2026, 3, 1, 7, 17, 12, 255000)]
    declared = read(path, columns={"user": "uid", "query": "t"}, extras=["hits", "status"])
    assert declared.frame.select("user", "query", "hits", "status").rows() == [("ann", "50 % off&", "12", "0")]


def test_what_is_no_search_is_counted_and_what_has_no_user_is_bad(tmp_path):
    path = written(
        tmp_path,
        "q=a&user=u",
        "q=a&user=u&isShard=true",
        "rows=5&user=u",
        "q=&user=u",
        "q=a",
        "q=%zz&user=u",
        "q=%ff&user=u",
    )
    with path.open("a") as more:
        more.write("2026-03-01 07:17:12.255 INFO  (x) o.a.s.c.CoreContainer ready\nat java.lang.Thread\n")
        more.write(
            "INFO  - 2026-03-01 07:17:12.255; o.a.s.c.SolrCore; [x]  webapp=/solr path=/select params={q=old&user=u} "
            + END
        )
    log, report = read_with_report(path)
    assert log.queries() == ["a", "old"]
    assert [problem.line for problem in report.problems] == [5, 6, 7]
    assert sorted(note.rpartition(" ")[2] for note in report.notes) == ["1", "2", "2"]


encoded = st.text(st.sampled_from("ab=+}{% é%41%C3%A9%00%0A"), max_size=12).map(lambda text: text.replace(" ", "+"))


@settings(max_examples=200, deadline=None)
@given(parameters=st.lists(st.tuples(st.sampled_from(["q", "user", "x", "qq"]), encoded), max_size=5))
def test_parameters_are_those_of_a_slow_reading(parameters, tmp_path_factory):
    content = "&".join(f"{name}={value}" for name, value in parameters)
    log = read(written(tmp_path_factory.mktemp("solr"), content, "q=good&user=good"))
    first = {}
    for name, value in (pair.partition("=")[::2] for pair in content.split("&")):
        first.setdefault(name, value)
    expected = []
    if first.get("q") and first.get("user"):
        try:
            texts = [strictly_decoded(first[name]) for name in ("user", "q")]
            expected = [tuple(texts)]
        except ValueError:
            pass
    assert log.frame.select("user", "query").rows() == [*expected, ("good", "good")]


def strictly_decoded(value):
    parts = value.split("%")[1:]
    if any(len(part) < 2 or not set(part[:2]) <= set("0123456789abcdefABCDEF") for part in parts):
        raise ValueError
    return unquote_plus(value, errors="strict")
