"""One stream for each top-level category: blocks, order, noise of its own, promise."""

import pickle
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from mechanisms.block_checks import depends_on_the_order_of_rows, released, sent, whole
from queryveil.errors import DataError, KnowledgeError, ParameterError
from queryveil.knowledge.odp import import_directory
from queryveil.log import QueryLog
from queryveil.mechanisms.stream import Stream, by_category
from queryveil.mechanisms.stream.live import LiveStream
from queryveil.privacy import Noise
from queryveil.testing import check_mechanism

START = datetime(2006, 3, 1)


def made(**changes) -> Stream:
    given = {"k": 3, "k_text": 2, "depth": 2, "mix": 20, "by_category": True}
    return Stream(**given | {"category_column": "topic", "category_separator": "/"} | changes)


def crowd(records=2000, tops=6, seed=1, people=40) -> QueryLog:
    """People and texts of several categories; three records a minute, so that times tie, and some without a time."""
    draws = np.random.default_rng(seed)
    top, text, who = draws.integers(0, tops, records), draws.integers(0, 7, records), draws.integers(0, people, records)
    rows = [
        (f"person {who[i]}", f"text {top[i]} {text[i]}", None if i % 11 == 0 else START + timedelta(minutes=i // 3))
        for i in range(records)
    ]
    topics = pl.Series("topic", [f"top {t}/sub {x % 3}" for t, x in zip(top, text, strict=True)])
    return QueryLog(QueryLog.of(rows).frame.with_columns(topics))


# The cut and the order of records


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"pseudonym": "record"},
        {"pseudonym": "session", "time": "hour"},
        {"strict": True, "epoch": 90},
        {"time": "drop"},
    ],
)
def test_the_order_of_records_leaves_no_trace(changes, monkeypatch):
    assert not depends_on_the_order_of_rows(made(**changes), crowd(), monkeypatch)


def test_streams_that_do_not_sort_their_records_are_caught(monkeypatch):
    monkeypatch.setattr(by_category, "in_canonical_order", lambda rows: rows)
    assert depends_on_the_order_of_rows(made(), crowd(), monkeypatch)


def test_the_release_does_not_depend_on_the_cut_at_all(monkeypatch):
    one, eight = (whole(released(made(), crowd(), monkeypatch, blocks=count)) for count in (1, 8))
    assert one.equals(eight)
    assert 1200 < one.height < 2000


def test_a_category_comes_out_as_if_it_were_alone():
    log = crowd()
    first = pl.col("topic").str.starts_with("top 0/")
    together, alone = (
        whole(made().protect(each, Noise.seeded(1)))
        for each in (log, QueryLog(log.frame.filter(first)))
    )  # fmt: skip
    mine = together.filter(pl.col("query").str.starts_with("text 0 "))
    assert alone.height > 100
    assert mine.equals(alone)


def test_each_category_is_one_live_stream_over_its_records_by_time():
    log = QueryLog(crowd().frame.filter(pl.col("time").is_not_null()).unique("time"))  # no two of one time
    mechanism = made()
    release = mechanism.protect(log, Noise.seeded(1))
    parts = Noise.seeded(1).parts("stream: categories")
    expected = []
    for number in range(6):
        mine = log.frame.filter(pl.col("topic").str.starts_with(f"top {number}/")).sort("time")
        live = LiveStream(
            mechanism.settings(), parts.of(f"top {number}"), lambda batch: batch.frame["topic"],
            for_science=True, all_at_once=True,
        )  # fmt: skip
        expected += [live.push(QueryLog(mine)).frame, live.finish().frame]
    columns = ["user", "query", "time"]
    made_by_hand = pl.concat([part.select(columns) for part in expected if part.height]).sort(columns)
    assert made_by_hand.height > 100
    assert release.log.frame.select(columns).sort(columns).equals(made_by_hand)


def test_records_of_one_time_come_in_an_order_of_their_own_noise():
    """Who of the people of one moment is first must not follow from their names."""
    log = QueryLog(crowd().frame.with_columns(time=pl.lit(START)))
    firsts = set()

    class Watching(LiveStream):
        def push_with_owners(self, batch):
            firsts.add(batch.frame["user"][0])
            return super().push_with_owners(batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_category, "LiveStream", Watching)
        for seed in range(5):
            made().protect(log, Noise.seeded(seed))
    assert len(firsts) > 10


# Workers


def test_a_worker_does_what_the_driver_would_and_does_not_get_the_key():
    noise = Noise.seeded(1)
    work = by_category.Streaming(made(), noise.parts("stream: categories"))
    assert noise._key not in pickle.dumps(work)
    categorise = by_category.Categorising.of(made())
    rows = categorise(crowd().frame)
    assert sent(categorise)(crowd().frame).equals(rows)
    assert work(0, rows).height > 1000
    assert sent(work)(0, rows).equals(work(5, rows.reverse()))


def test_a_worker_with_another_classifier_refuses_and_finds_an_index_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "source").write_text("Top/Sports/Soccer\t2\nTop/Sports/NBA\t3\n")
    import_directory([tmp_path / "source"], tmp_path / "index.odp")
    monkeypatch.chdir(tmp_path)
    log = QueryLog.of([(f"user {i % 6}", "nba") for i in range(40)])
    mechanism = Stream(k=2, k_text=2, classifier="index.odp", by_category=True)
    release = mechanism.protect(log, Noise.seeded(1))
    assert len(release.log) > 20
    assert (release.parameters["classifier"], len(release.parameters["classifier_digest"])) == ("odp", 64)
    work = by_category.Categorising.of(mechanism)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert sent(work)(log.frame).height == 40
    with pytest.raises(KnowledgeError, match="not the one the work was planned with"):
        replace(work, knowledge="another")(log.frame)


def test_only_streams_by_category_run_on_a_cluster():
    assert made().on_cluster
    assert not Stream().on_cluster
    assert not Stream(mode="paper").on_cluster


# Categories


def test_records_without_a_category_are_left_out_and_paths_are_cut_at_every_separator():
    paths = ["a/b", "a", "", None, "/b", "a/b/c", "b/"]
    rows = QueryLog.of([(f"u{i}", "text") for i in range(len(paths))]).frame.with_columns(topic=pl.Series(paths))
    found = by_category.Categorising.of(made())(rows)
    assert found.select("user", by_category.TOP).rows() == [
        ("u0", "a"), ("u1", "a"), ("u4", ""), ("u5", "a"), ("u6", "b")
    ]  # fmt: skip


def test_a_log_without_the_column_is_refused_before_the_work():
    with pytest.raises(DataError, match="category_column"):
        made().protect(QueryLog.of([("a", "weather")]), Noise.seeded(1))


@pytest.mark.parametrize("column", ["*", "^t.*$", "__top", "url", "session"])
def test_any_name_of_the_column_is_read(column):
    frame = crowd().frame.rename({"topic": "kept"}).drop("url", "session")
    log = QueryLog(frame.with_columns(frame["kept"].alias(column)))
    release = made(category_column=column).protect(log, Noise.seeded(1))
    assert len(release.log) > 1000
    assert set(release.log.frame.columns) == {"user", "query", "time", "rank", "url", "session"}
    assert release.log.frame["url"].is_null().all()


def test_people_of_several_categories_never_make_a_pool_together():
    """k = 3 wants four people: three in each of two categories are nobody's pool, in one stream as in many."""
    rows = [(f"u{top}{i % 3}", f"text {top}") for i in range(60) for top in range(2)]
    topics = pl.Series("topic", [f"top {text[-1]}/sub" for _, text in rows])
    log = QueryLog(QueryLog.of(rows).frame.with_columns(topics))
    for each in (made(), made(by_category=False)):
        assert len(each.protect(log, Noise.seeded(1)).log) == 0


def test_every_name_belongs_to_one_category_and_every_receiver_is_of_it():
    log = crowd(people=12)
    frame = whole(made().protect(log, Noise.seeded(1))).with_columns(top=pl.col("query").str.slice(0, 6))
    assert frame.group_by("user").agg(pl.col("top").n_unique())["top"].max() == 1
    assert frame.group_by("__receiver").agg(pl.col("user").n_unique())["user"].max() > 3
    members = set(log.frame.select("user", pl.col("query").str.slice(0, 6)).iter_rows())
    assert set(frame.select("__receiver", "top").iter_rows()) <= members
    assert set(frame.select("__owner", "top").iter_rows()) <= members


def test_a_text_in_two_categories_is_counted_in_each_by_itself():
    """Three people a category ask one text: six in all, but k_text = 5 is reached in neither."""
    rows = [(f"u{top}{i % 9}", "shared" if i % 9 < 3 else f"often {top}") for i in range(180) for top in range(2)]
    topics = pl.Series("topic", [f"top {user[1]}" for user, _ in rows])
    log = QueryLog(QueryLog.of(rows).frame.with_columns(topics))
    together = made(k_text=5, by_category=False).protect(log, Noise.seeded(1)).log.queries()
    apart = made(k_text=5).protect(log, Noise.seeded(1)).log.queries()
    assert "shared" in together
    assert set(apart) == {"often 0", "often 1"}


# The promise


def test_the_promise_is_that_of_one_stream_and_says_what_is_counted():
    promise, plain = made(k=9).guarantee(), made(k=9, by_category=False).guarantee()
    assert (promise.model, promise.k, promise.unit, promise.relation) == (
        plain.model, plain.k, plain.unit, plain.relation
    )  # fmt: skip
    said = promise.statement()
    assert "within 100,000 records of the category are withheld" in said
    assert "Pseudonyms change every 1,000,000 records of the category." in said
    assert "nobody has one pseudonym in two categories" in said
    assert "counted in each by itself" in said
    assert "counted in each by itself" not in made(category_column=None).guarantee().statement()
    assert "nobody has one pseudonym" not in made(pseudonym="record").guarantee().statement()
    assert "category are withheld" not in plain.statement()
    assert set(plain.assumptions) == set(promise.assumptions)


def test_what_has_one_order_only_is_refused():
    with pytest.raises(ParameterError, match="by_category belongs to mode=safe"):
        Stream(by_category=True, mode="paper")
    with pytest.raises(ParameterError, match="by_category must be"):
        Stream(by_category="yes")
    with pytest.raises(ParameterError, match="for a whole log"):
        made().open(Noise.seeded(1))
    with pytest.raises(ParameterError, match="for a whole log"):
        made().observe(crowd(), Noise.seeded(1))


@pytest.mark.parametrize("changes", [{}, {"pseudonym": "session", "time": "hour"}, {"strict": True, "time": "drop"}])
def test_it_conforms(changes):
    given = {"k": 2, "k_text": 2, "category_column": None, "category_separator": ": ", "depth": 1}
    check_mechanism(made(**given | changes), batch=False)  # the order of rows has an exact test above
