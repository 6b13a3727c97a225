"""The stream as a mechanism: parameters, promise, release."""

import math

import polars as pl
import pytest

from queryveil import mechanisms
from queryveil.errors import ParameterError, RefusedError
from queryveil.knowledge.odp import import_directory
from queryveil.log import QueryLog
from queryveil.mechanisms.stream import Stream
from queryveil.privacy import Noise
from queryveil.testing import check_mechanism


@pytest.mark.parametrize(
    "mechanism",
    [
        Stream(),
        Stream(k=2, k_text=2, depth=1),
        Stream(k=2, k_text=2, depth=1, pseudonym="record"),
        Stream(k=2, k_text=2, depth=1, pseudonym="session", time="hour"),
        Stream(k=2, k_text=2, depth=2, strict=True, epoch=40, window=30, time="drop"),
        Stream(k=2, mode="paper"),
        Stream(k=2, mode="paper", base=True, time="keep"),
    ],
    ids=repr,
)
def test_the_stream_conforms_to_the_protocol(mechanism):
    check_mechanism(mechanism, batch=False)  # a stream depends on the order of its records


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 0}, "k must be a whole number >= 2"),
        ({"k": 1}, "k must be a whole number >= 2"),
        ({"k": math.nan}, "k must be a whole number"),
        ({"k": True}, "k must be a whole number"),
        ({"depth": 0}, "depth must be a whole number >= 1"),
        ({"depth": 1001}, "depth must be"),
        ({"k_text": 1}, "k_text must be"),
        ({"window": 0}, "window must be"),
        ({"epoch": 0}, "epoch must be"),
        ({"cap": 0}, "cap must be"),
        ({"mix": 0}, "mix must be"),
        ({"pseudonym": "forever"}, "pseudonym must be one of"),
        ({"base": True}, "no safe form"),
        ({"strict": True, "mode": "paper"}, "strict belongs to mode=safe"),
        ({"pseudonym": "session", "time": "drop"}, "time=day or time=hour"),
        ({"category_separator": ""}, "category_separator must be"),
        ({"category_column": 3}, "category_column must be"),
    ],
)
def test_bad_parameters_are_refused_in_words(given, message):
    with pytest.raises(ParameterError, match=message):
        Stream(**given)


def test_all_bad_parameters_are_told_at_once():
    with pytest.raises(ParameterError) as told:
        Stream(k=0, depth=0, cap=0)
    assert len(told.value.problems) == 3


def test_exact_times_are_refused_in_safe_mode():
    with pytest.raises(RefusedError, match="exact times"):
        Stream(time="keep")


def test_the_promise_is_one_over_k_plus_one_per_record_and_none_in_paper_mode():
    safe = Stream(k=9, k_text=4).guarantee()
    assert (safe.model, safe.k) == ("probabilistic-k-anonymity", 9)
    assert "above 1/10" in safe.statement()
    assert "fewer than 4 users" in safe.statement()
    assert "3 accounts" in safe.statement()
    assert "sees the record taken alone" in safe.statement()
    assert "when and how many records come out, for somebody who watches arrivals" in safe.not_protected
    assert safe.evidence == "proved"
    paper = Stream(mode="paper").guarantee()
    assert paper.model == "none"
    assert "only when every user in the pool has exactly one waiting record" in paper.statement()


def test_it_is_found_by_its_name():
    assert mechanisms.load("stream") is Stream
    assert mechanisms.make("stream", k=4).k == 4


def crowd(records=3000):
    rows = [(f"person {i * 7 % 40}", f"text {i * i % 11}") for i in range(records)]
    return QueryLog(QueryLog.of(rows).frame.with_columns(topic=pl.format("top/t{}", pl.int_range(records) % 4)))


def test_protect_is_a_push_over_the_whole_log_and_suppresses_what_is_left():
    log = crowd()
    made = Stream(k=3, k_text=2, depth=2, category_column="topic", category_separator="/")
    release = made.protect(log, Noise.seeded(1))
    live = made.open(Noise.seeded(1), for_science=True, all_at_once=True)
    assert sorted(release.log.queries()) == sorted(live.push(log).queries() + live.finish().queries())
    assert 2500 < len(release.log) < 3000
    assert release.owners is not None
    assert set(release.owners) <= set(log.users())
    assert release.log.frame["user"].is_sorted()


def test_in_paper_mode_no_record_keeps_its_owner_and_the_order_is_that_of_emission():
    log = crowd()
    made = Stream(k=3, depth=2, mode="paper", category_column="topic", category_separator="/")
    parts = made.observe(log, Noise.seeded(1))
    assert all((part.owners != part.receivers).all() for part in parts)
    assert made.protect(log, Noise.seeded(1)).log.queries() == [q for part in parts for q in part.rows["query"]]


def test_identifying_texts_never_leave_a_safe_stream():
    rows = [(f"u{i % 9}", "mail me at ann@example.org" if i % 2 else "weather") for i in range(400)]
    log = QueryLog(QueryLog.of(rows).frame.with_columns(topic=pl.lit("t")))
    made = Stream(k=2, k_text=2, depth=1, category_column="topic")
    assert set(made.protect(log, Noise.seeded(1)).log.queries()) == {"weather"}


def test_categories_come_from_the_classifier_without_a_column():
    found = Stream().categories(QueryLog.of([("a", "golden retriever puppies"), ("b", "xqzzt")]))
    assert found.to_list() == ["animal: young: young mammal: pup: puppy", None]


def test_one_user_only_gets_nothing_out():
    log = QueryLog(QueryLog.of([("a", "weather")] * 50).frame.with_columns(topic=pl.lit("t")))
    assert len(Stream(category_column="topic", mode="paper").protect(log, Noise.seeded(1)).log) == 0


def test_the_manifest_names_an_index_file_by_content_not_by_its_path(tmp_path):
    source = tmp_path / "source"
    source.write_text("Top/Sports/Soccer\t2\nTop/Sports/NBA\t3\n")
    log = QueryLog.of([(f"user {i % 6}", "nba", None) for i in range(40)])
    index = tmp_path / "index.odp"
    import_directory([source], index)
    told = Stream(k=2, k_text=2, classifier=str(index)).protect(log, Noise.secure())
    assert (told.parameters["classifier"], len(told.parameters["classifier_digest"])) == ("odp", 64)
    unused = Stream(k=2, k_text=2, classifier=str(index), category_column="c")
    assert unused._classifier_by_content() == {"classifier": None}
    told.write(tmp_path / "release")
    assert str(tmp_path) not in (tmp_path / "release" / "manifest.json").read_text()
