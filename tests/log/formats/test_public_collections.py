"""ORCAS, Sogou's, Yandex's and TREC's logs, and Matomo's visits: their layouts, and where nobody is named."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from queryveil.errors import FormatError, RefusedError, UsageError
from queryveil.log import QueryLog, read, read_with_report, write
from queryveil.log.reading import sniff
from queryveil.mechanisms import Obfuscate, Stream
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Noise
from queryveil.release.pipeline import Source, Target, dry_run, release
from read_only_formats import WRITERS

YANDEX = "1\t0\tQ\t7\t1\t11\t12\t13\n1\t5\tC\t12\n1\t6\tQ\t8\t1\t21\n1\t7\tC\t13\n1\t8\tC\t99\n2\t0\tQ\t7\t1\t11\n"
PERSONAL = (
    "1\tM\t3\t900\n1\t0\tQ\t0\t7\t4,5\t11,1\t12,2\n1\t5\tC\t0\t12\n1\t9\tT\t1\t8\t6\t31,1\n2\t0\tQ\t0\t7\t4\t11,1\n"
)
ORCAS = "7\ttulip bulbs\tD55\thttp://tulips.example\n8\troses\tD56\thttps://roses.example\n"
SOGOU = "20111230000005\tu1\t[tulips]\t2\t1\thttp://tulips.example\n"
SOGOU_2008 = "00:00:01\t2982\t[郁金香]\t8 3\ttulips.example\n00:00:02\t2983\t[a b]\t1\t2\tx.example\n"
TREC = """<?xml version="1.0"?>
<sessiontrack2014>
<session num="1" userid="ann">
 <interaction num="1" starttime="09:54:27.674484"><query>tulip &amp; bulbs</query>
  <results><result rank="1"><url>http://a.example</url><title>t &amp;</title><snippet>s</snippet></result>
   <result rank="2"><url>http://b.example</url></result></results>
  <clicked><click num="1" starttime="09:54:42.6"><rank>2</rank></click><click num="2"><rank>9</rank></click></clicked>
 </interaction>
 <interaction num="2" starttime="70.5"><query>roses</query></interaction>
 <currentquery><query>not read</query></currentquery>
</session>
%s
</sessiontrack2014>
"""


def file(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_click_of_yandex_counts_for_the_last_query_of_its_session_that_showed_it(tmp_path):
    log, report = read_with_report(file(tmp_path, "log.yandex.tsv", YANDEX))
    rows = [("1", "7", 2, "12"), ("1", "7", 3, "13"), ("1", "8", None, None), ("2", "7", None, None)]
    assert log.frame.select("user", "query", "rank", "url").rows() == rows
    assert [str(problem) for problem in report.problems] == ["line 5: a click on what its session was not shown"]


def test_sessions_of_yandex_have_the_user_of_their_line_and_queries_may_be_terms(tmp_path):
    path = file(tmp_path, "log.yandex-personal.tsv", PERSONAL)
    log, report = read_with_report(path)
    assert log.frame.select("user", "query", "rank", "url", "session").rows() == [
        ("900", "7", 2, "12", "1"),
        ("900", "8", None, None, "1"),
    ]
    assert [problem.line for problem in report.problems] == [5]
    assert read(path, columns={"query": "terms"}).queries() == ["4 5", "6"]
    with pytest.raises(UsageError, match="only say that query is terms"):
        read(path, columns={"query": "urls"})
    with pytest.raises(UsageError, match="columns names only query"):
        read(path, columns={"time": "passed"})


def test_both_layouts_of_sogou_are_read_line_by_line(tmp_path):
    path = file(
        tmp_path,
        "log.sogou.tsv",
        (SOGOU_2008 + SOGOU).encode("gb18030") + b"00:00:03\t1\t[\x81\x30\t1 1\tx\n" + SOGOU.encode(),
    )
    log, report = read_with_report(path, encoding="gb18030")
    first = dt.datetime(1970, 1, 1)
    new = ("u1", "[tulips]", dt.datetime(2011, 12, 30, 0, 0, 5), 2, "http://tulips.example")
    assert log.frame.select("user", "query", "time", "rank", "url").rows() == [
        ("2982", "郁金香", first.replace(second=1), 8, "tulips.example"),
        ("2983", "a b", first.replace(second=2), 1, "x.example"),
        new,
        new,
    ]
    assert [problem.line for problem in report.problems] == [4]
    assert report.notes == ("times of day without a date were put on 1 January 1970",)


def test_sessions_of_trec_stand_for_users_unless_an_attribute_names_them(tmp_path):
    path = file(tmp_path, "log.trec.xml", TREC % "")
    of_day = dt.datetime(1970, 1, 1, 9, 54, 42, 600000)
    rows = [
        ("tulip & bulbs", of_day, 2, "http://b.example"),
        ("tulip & bulbs", dt.datetime(1970, 1, 1, 9, 54, 27, 674484), 9, None),
    ]
    rows += [("roses", dt.datetime(1970, 1, 1, 0, 1, 10, 500000), None, None)]
    assert read(path).frame.select("query", "time", "rank", "url").rows() == rows
    assert read(path).users().to_list() == ["1"]
    assert set(read(path, columns={"user": "userid"}).frame.select("user", "session").rows()) == {("ann", "1")}


LAUGHS = '<!DOCTYPE s [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    "odd",
    [
        '<session num="2"><interaction><query>&b;</query></interaction></session>',
        f'<session num="2">{LAUGHS}<interaction><query>&b;</query></interaction></session>',
        '<session num="2"><interaction><query>a & b</query></interaction></session>',
        '<session num="2"><interaction><query>a</interaction></session>',
        '<session num="2"><interaction>',
        '<session num="2"><interaction><query>a\0</query></interaction></session>',
        '<session num="2"><interaction><query></query></interaction></session>',
    ],
)
def test_a_session_that_is_no_xml_costs_no_other_and_no_entity_is_expanded(odd, tmp_path):
    good = '<session num="3"><interaction><query>x</query></interaction></session>'
    hidden = (
        '<session num="4"><interaction><query><![CDATA[</session><session num="3">]]></query></interaction></session>'
    )
    path = file(
        tmp_path,
        "log.trec.xml",
        TREC.replace("<sessiontrack", LAUGHS + "\n<sessiontrack", 1) % f"{odd}\n{good}{hidden}",
    )
    log, report = read_with_report(path)
    assert log.frame.select("user", "query").rows()[3:] == [("3", "x"), ("4", '</session><session num="3">')]
    assert [problem.line for problem in report.problems] == [13]


def test_a_file_without_sessions_is_refused(tmp_path):
    with pytest.raises(FormatError, match="no sessions"):
        read(file(tmp_path, "log.trec.xml", "<html></html>"))


VISITS = [
    {"idVisit": 5, "visitorId": "ab", "userId": "ann", "actionDetails": [
        {"type": "action", "url": "http://shop.example"},
        {"type": "search", "siteSearchKeyword": "tulips\n", "timestamp": 1772349432},
        {"type": "search", "siteSearchKeyword": "roses"}]},
    {"idVisit": "6", "visitorId": "c", "userId": None, "actionDetails": [
        {"type": "search", "siteSearchKeyword": "x", "timestamp": "soon"}]},
    {"idVisit": 7, "visitorId": "d", "actionDetails": []},
    {"idVisit": 8, "visitorId": "d"},
]  # fmt: skip


@pytest.mark.parametrize(
    "content", [json.dumps(VISITS, indent=1), json.dumps(VISITS), "\n".join(map(json.dumps, VISITS))]
)
def test_searches_of_matomos_visits_are_records_whether_in_an_array_or_in_lines(content, tmp_path):
    path = file(tmp_path, "log.matomo.json", content)
    log, report = read_with_report(path)
    noon = dt.datetime(2026, 3, 1, 7, 17, 12)
    assert log.frame.select("user", "query", "time", "session").rows() == [
        ("ab", "tulips\n", noon, "5"),
        ("ab", "roses", None, "5"),
    ]
    assert [problem.line for problem in report.problems] == [4, 2] or [problem.line for problem in report.problems] == [
        2,
        4,
    ]
    assert report.notes == ("visits without a search: 1",)
    assert read(path, columns={"user": "userId"}).users().to_list() == ["ann"]


def test_an_array_of_visits_that_is_cut_off_is_refused(tmp_path):
    with pytest.raises(FormatError, match="cut off"):
        read(file(tmp_path, "log.matomo.json", json.dumps(VISITS)[:-1]))


NAMED = {"orcas.tsv": ORCAS, "a.yandex.tsv": YANDEX, "a.trec.xml": TREC % ""}


@pytest.mark.parametrize("mechanism", [Suppress(k_text=2), Stream()], ids=lambda mechanism: mechanism.name)
@pytest.mark.parametrize("name", NAMED)
def test_a_log_that_names_nobody_carries_no_promise_to_a_person(name, mechanism, tmp_path):
    source = Source(path=file(tmp_path, name, NAMED[name]))
    for run in (
        lambda: release(mechanism, source, Target(folder=tmp_path / "out"), Noise.seeded(1)),
        lambda: dry_run(mechanism, source, Noise.seeded(1)),
    ):
        with pytest.raises(RefusedError, match="nothing in it says who asked"):
            run()
    assert not (tmp_path / "out").exists()
    assert any("promised to a person" in note for note in read_with_report(source.path)[1].notes)


def test_each_query_by_itself_may_be_protected_in_it(tmp_path):
    source = Source(path=file(tmp_path, "orcas.tsv", ORCAS))
    assert dry_run(Obfuscate(epsilon=10.0), source, Noise.seeded(1)).report.records == 2


def test_a_declared_attribute_of_users_lifts_that(tmp_path):
    source = Source(path=file(tmp_path, "a.trec.xml", TREC % ""), columns={"user": "userid"})
    assert dry_run(Suppress(k_text=2), source, Noise.seeded(1)).report.records == 3


def test_what_is_only_read_is_released_as_csv_and_refused_before_anything_is_spent(tmp_path):
    source = Source(path=file(tmp_path, "a.yandex-personal.tsv", PERSONAL))
    made = release(Suppress(k_text=2), source, Target(folder=tmp_path / "out"), Noise.seeded(1))
    assert (made.folder / "log.csv").exists()
    with pytest.raises(UsageError, match="read and not written"):
        release(Suppress(k_text=2), source, Target(folder=tmp_path / "b", format="yandex"), Noise.seeded(1))
    with pytest.raises(FormatError, match="read and not written"):
        write(QueryLog.of([("ann", "tulips")]), tmp_path / "x.yandex.tsv")


CONTENT = {
    "yandex": YANDEX,
    "yandex-personal": PERSONAL,
    "orcas": ORCAS,
    "sogou": SOGOU,
    "trec-session": TREC % "",
    "matomo": json.dumps(VISITS),
}


@pytest.mark.parametrize("name", CONTENT)
def test_a_file_of_no_telling_name_is_told_by_its_first_line(name, tmp_path):
    assert sniff(file(tmp_path, "log", CONTENT[name])) == name


def test_writers_of_tests_write_what_is_read(tmp_path):
    log = QueryLog.of([("7", "8", None, 2, "99"), ("7", "9")])
    for name, writer in WRITERS.items():
        read_back = read(file(tmp_path, f"log.{name}.tsv", writer(log)))
        assert read_back.keeping(("user", "query", "rank", "url")) == log
