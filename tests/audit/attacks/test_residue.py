"""What should not be there is counted where it is, and is not there in a safe release."""

from datetime import datetime

import polars as pl
import pytest

from queryveil.audit.attacks.residue import (
    identifiers,
    rare_clicks,
    rare_texts,
    rewritten_rare_texts,
    smallest_shared_log,
)
from queryveil.audit.both_logs import both_logs
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.testing.twins import telltale_log

LOG = telltale_log()


def test_the_raw_log_holds_rare_texts_rare_clicks_and_identifiers():
    assert rare_texts(both_logs(LOG, LOG), k=5)[0].share > 0.1
    assert rare_clicks(both_logs(LOG, LOG), k=5)[0].share > 0.3
    assert identifiers(both_logs(LOG, LOG), released=True).records == 24
    assert smallest_shared_log(LOG) == 1


@pytest.mark.parametrize(("name", "given"), [("suppress", {}), ("microaggregate", {}), ("stream", {"depth": 1})])
def test_a_safe_release_holds_none(name, given):
    released = make(name, k_text=5, **given).protect(LOG, Noise.seeded(1)).log
    assert len(released) > 3000
    assert rare_texts(both_logs(LOG, released), k=5)[0].records == 0
    assert rare_clicks(both_logs(LOG, released), k=5)[0].records == 0
    assert identifiers(both_logs(LOG, released), released=True).records == 0


def test_rare_is_below_k_users_and_made_up_texts_are_not_rare():
    raw = QueryLog.of([("a", "x"), ("a", "x"), ("b", "y"), ("c", "y")])
    released = QueryLog.of([("u", "x"), ("u", "y"), ("u", "label"), ("v", "x")])
    assert rare_texts(both_logs(raw, released), k=2)[0].records == 2
    assert rare_texts(both_logs(raw, released), k=3)[0].records == 3
    assert rare_texts(both_logs(raw, released), k=3)[0].distinct == 2
    assert rare_texts(both_logs(raw, QueryLog.empty()), k=3)[0].share == 0


def test_a_click_is_rare_by_query_and_url_together():
    raw = QueryLog.of([("a", "x", None, 1, "u"), ("b", "x", None, 1, "v"), ("c", "x", None, 1, "u")])
    assert rare_clicks(both_logs(raw, raw), k=2)[0].records == 1


def test_logs_are_shared_by_those_with_the_same_texts_as_often():
    same = QueryLog.of([("a", "x"), ("a", "y"), ("b", "y"), ("b", "x"), ("c", "x"), ("c", "x"), ("c", "y")])
    assert smallest_shared_log(same) == 1
    assert smallest_shared_log(QueryLog.of([("a", "x"), ("b", "x")])) == 2
    assert smallest_shared_log(QueryLog.empty()) == 0


def test_the_same_texts_with_other_clicks_are_not_the_same_log():
    alike = QueryLog.of([("a", "x", None, 1, "u"), ("b", "x", None, 1, "u")])
    assert smallest_shared_log(alike) == 2
    for other in (("b", "x", None, 1, "v"), ("b", "x", None, 2, "u"), ("b", "x", datetime(2006, 3, 1), 1, "u")):
        assert smallest_shared_log(QueryLog.of([("a", "x", None, 1, "u"), other])) == 1


def test_identifiers_in_clicked_urls_count_once_with_those_in_the_text():
    secret = "https://x.example/?token=1"
    log = QueryLog.of([("a", "x", None, 1, secret), ("a", "a@b.example", None, 1, secret), ("a", "x")])
    found = identifiers(both_logs(log, log), released=True)
    assert (found.records, found.of, found.distinct) == (2, 3, 2)


@pytest.mark.parametrize(
    "text",
    [
        "555!123!4567",
        "ann@localhost",
        "ann at example dot com",
        "five five five one two three four",
        "password: hunter2",
        "https://x.example/reset/abcdefabcdefabcdef12",
        "ann%40localhost",
    ],
)
def test_the_audit_sees_what_the_filter_of_the_mechanisms_misses(text):
    log = QueryLog.of([(f"u{i}", text) for i in range(5)] + [("u0", "rock @ ring"), ("u0", "weather 2026")])
    released = make("suppress", k_text=5).protect(log, Noise.seeded(1)).log
    assert identifiers(both_logs(LOG, released), released=True).records == 5
    assert identifiers(both_logs(LOG, released), released=True).distinct == 1


def test_a_rare_text_in_another_guise_is_found():
    raw = QueryLog.of([("a", "my Rare rash"), *[(f"u{i}", "weather") for i in range(5)], ("a", "Straße 7")])
    released = QueryLog.of([("p", "RASH, my rare"), ("p", "WEATHER!"), ("p", "my Rare rash"), ("p", "STRASSE-7")])
    assert rare_texts(both_logs(raw, released), k=2)[0].records == 1
    assert rewritten_rare_texts(both_logs(raw, released), k=2).records == 2
    assert rewritten_rare_texts(both_logs(raw, raw), k=2).records == 0
    assert rewritten_rare_texts(both_logs(raw, QueryLog.empty()), k=2).share == 0


def test_labels_that_a_mechanism_made_up_are_not_rare_texts_in_another_guise_but_words_in_brackets_are():
    raw = QueryLog.of([("ann", "rose"), ("bob", "my rash"), ("cleo", "tea")])
    shown = QueryLog.of([("u1", "[rose]"), ("u2", "[my rash]")])
    assert rewritten_rare_texts(both_logs(raw, shown), k=2).records == 2
    assert rewritten_rare_texts(both_logs(raw, shown), k=2, labels=pl.Series(["[rose]", "[plant]"])).records == 1


def test_a_grouped_release_has_no_rare_text_in_any_guise():
    mechanism = make("microaggregate", k=3, k_text=5)
    release = mechanism.protect(LOG, Noise.seeded(1))
    texts = release.log.frame["query"]
    made_up = texts.is_in(mechanism.labels().implode())
    assert made_up.any()
    assert (texts.str.starts_with("[") == made_up).all()
    assert rewritten_rare_texts(both_logs(LOG, release.log), k=5, labels=mechanism.labels()).records == 0
