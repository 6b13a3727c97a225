"""A log and its release side by side."""

import re
from datetime import datetime, timedelta

from queryveil.log import QueryLog
from queryveil.report.beside import QUERIES, Beside, words_plot, write_beside

START = datetime(2026, 3, 1)


def log_of(texts, users=40):
    return QueryLog.of([(f"u{n % users}", text, START + timedelta(hours=n)) for n, text in enumerate(texts)])


def test_words_are_those_at_doubling_ranks_whatever_the_release_holds():
    texts = [f"w{rank}" for rank in range(20) for _ in range(40 - rank)]
    shown = Beside.of(log_of(texts), log_of(["w0", "w3", "other"]))
    assert [word.word for word in shown.words] == ["w0", "w1", "w3", "w7", "w15"]
    assert [round(word.raw * len(texts)) for word in shown.words] == [40, 39, 37, 33, 25]
    assert [word.released for word in shown.words] == [1 / 3, 0, 1 / 3, 0, 0]


def test_hours_are_shares_of_the_day_and_left_out_without_times():
    shown = Beside.of(log_of(["a"] * 48), log_of(["a"] * 24))
    assert shown.hours is not None
    assert all(abs(share - 1 / 24) < 1e-12 for hours in shown.hours for share in hours)
    assert Beside.of(log_of(["a"]), QueryLog.of([("u", "a")])).hours is None


def test_a_person_with_few_queries_is_shown_by_the_first_of_them():
    rows = [("busy", f"b{n}") for n in range(100)] + [("usual", f"q{n}") for n in range(9)] + [("rare", "r")]
    shown = Beside.of(QueryLog.of(rows), QueryLog.empty())
    assert shown.person == tuple(f"q{n}" for n in range(QUERIES))
    assert shown.other_person == ()


def test_a_hostile_query_stays_a_text_and_the_page_is_for_the_holder(tmp_path):
    hostile = "<script>alert(1)</script> \u202eevil"
    log = QueryLog.of([("u1", hostile), ("u2", "weather")])
    page = write_beside(log, log, tmp_path / "page.html", name="suppress", promise="nothing").read_text()
    assert "<script" not in page and "⟨U+202E⟩" in page
    assert (tmp_path / "page.html").stat().st_mode & 0o077 == 0


def test_equal_shares_have_bars_of_equal_length():
    shown = Beside.of(log_of(["a b", "b"]), log_of(["b", "b a"]))
    widths = re.findall(r'width="([\d.]+)" height="14"', str(words_plot(shown.words, "x")))
    assert len(widths) == 4 and len(set(widths)) == 1
