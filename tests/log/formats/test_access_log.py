"""Searches in access logs of Apache and nginx."""

from __future__ import annotations

import datetime as dt

import pytest

from queryveil.log import read, read_with_report
from queryveil.log.formats.access_log import wanted

LINE = '9.8.7.6 - bob [01/Mar/2006:07:17:12 {zone}] "GET {target} HTTP/1.1" 200 123 "http://from" "{agent}"\n'


def log_of(tmp_path, **parts):
    path = tmp_path / "x.access.log"
    path.write_text(LINE.format(**{"zone": "+0000", "target": "/?q=x", "agent": "curl"} | parts))
    return read(path)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("/?q=tulip+bulbs", "tulip bulbs"),
        ("/find?page=2&query=tulip%20bulbs", "tulip bulbs"),
        ("/?s=a", "a"),
        ("/?search=a", "a"),
        ("/?searchword=a", "a"),
        ("/?k=a", "a"),
        ("/?keyword=a", "a"),
        ("/?keyword=last&s=third&query=second&q=first", "first"),
        ("/?q=&search=given", "given"),
        ("/?q=one&q=two", "one"),
        ("/?q=1%2B1%3D2%26", "1+1=2&"),
        ("/?q=a#q=b", "a"),
        ("/?%71=encoded+name", "encoded name"),
        ("/?q=%F0%9F%98%80", "😀"),
        ("/?q=raw😀", "raw😀"),
        ("/?q=%zz", "%zz"),
        ("/?q=%00", "\0"),
        ("/?q=\\x22quoted\\x22", '"quoted"'),
        ('/?q=\\"quoted\\"', '"quoted"'),
        ("/?quality=9", None),
        ("/?q", None),
        ("/?q=", None),
        ("/?q=%F1", ""),
    ],
)
def test_the_query_is_the_first_search_parameter_with_a_value(target, text):
    assert wanted(target, "utf-8") == text


def test_times_become_utc(tmp_path):
    assert log_of(tmp_path, zone="-0730").frame["time"].to_list() == [dt.datetime(2006, 3, 1, 14, 47, 12)]


@pytest.mark.parametrize("agent", ["Mozilla/5.0 (X11)", 'a \\"b\\"', "\\xF1", "-", ""])
def test_the_user_is_the_address_whatever_the_agent(agent, tmp_path):
    assert log_of(tmp_path, agent=agent).frame["user"].to_list() == ["9.8.7.6"]


def test_an_updated_browser_is_no_new_person_and_a_note_says_what_one_is(tmp_path):
    path = tmp_path / "x.access.log"
    agents = [f"Mozilla/5.0 Chrome/{version}.0.0.0" for version in (120, 121, 122)]
    path.write_text("".join(LINE.format(zone="+0000", target="/?q=my+illness", agent=agent) for agent in agents))
    log, report = read_with_report(path)
    assert (len(log), log.user_count()) == (3, 1)
    assert any("each address was taken for one person" in note for note in report.notes)


def test_latin_1_in_urls_is_read_when_told(tmp_path):
    path = tmp_path / "x.access.log"
    path.write_text(LINE.format(zone="+0000", target="/?q=se%F1al", agent="-"))
    assert read(path, encoding="latin-1").queries() == ["señal"]


def test_requests_that_are_no_searches_are_counted_and_are_no_problem(tmp_path):
    path = tmp_path / "x.access.log"
    search = LINE.format(zone="+0000", target="/?q=x", agent="curl")
    page = LINE.format(zone="+0000", target="/about", agent="curl")
    common = search.split(' "http')[0] + "\n"
    junk = page.replace("GET /about HTTP/1.1", "\\x16\\x03\\x01")
    path.write_text(search + page + junk + "\n" + common)
    log, report = read_with_report(path)
    assert log.frame["user"].to_list() == ["9.8.7.6", "9.8.7.6"]
    assert (report.lines, report.problem_count) == (5, 0)
    assert report.notes[1:] == ("requests without a search parameter left out: 2",)
