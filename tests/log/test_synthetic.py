"""Synthetic logs: exact counts, the same everywhere, shaped like a real log, about nobody."""

import gzip
import hashlib
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from hostile_values import NOT_A_NUMBER
from properties import examples
from queryveil.errors import ParameterError
from queryveil.log import QueryLog, read, write
from queryveil.log import _vocabulary as vocabulary
from queryveil.log._synthetic_text import SITES_PER_TOPIC, compose, result_sites, site_names
from queryveil.log.identifying import EMAIL, LONG_NUMBER
from queryveil.log.query_log import COLUMNS, METADATA
from queryveil.log.shown import SHOWN
from queryveil.log.statistics import describe
from queryveil.log.synthetic import DAYS, MOST_RECORDS, PAUSE, START, planted, synth
from queryveil.packaged import packaged


@pytest.fixture(scope="module")
def log() -> QueryLog:
    return synth(users=500, records=30_000, seed=11)


def digest(log: QueryLog) -> str:
    lines = ("\x1f".join(str(value) for value in row) for row in log.frame.iter_rows())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@settings(max_examples=examples(40), deadline=None)
@given(users=st.integers(1, 60), more=st.integers(0, 400), seed=st.integers(0, 2**64 - 1))
def test_a_log_has_exactly_the_users_and_records_asked_for(users, more, seed):
    log = synth(users=users, records=users + more, seed=seed)
    assert (log.user_count(), len(log)) == (users, users + more)
    assert log.used_columns[:3] == ["user", "query", "time"]
    assert log.frame["session"].null_count() == 0


def test_the_defaults_are_a_thousand_users_and_fifty_thousand_records():
    log = synth()
    assert (log.user_count(), len(log)) == (1000, 50_000)
    assert log == synth(users=1000, records=50_000, seed=1)


def test_a_seed_gives_this_very_log_on_every_machine():
    assert (
        digest(synth(users=12, records=300, seed=1))
        == "0fd30a71d1be5683d19ac8ffbc9a16e0706da86d2d501429cb66f3f38fba1ce0"
    )


def test_another_seed_gives_another_log_with_other_people():
    ours, theirs = (synth(users=20, records=400, seed=seed).frame for seed in (5, 6))
    assert len(set(ours["query"]) & set(theirs["query"])) < 0.3 * ours["query"].n_unique()


def test_numpy_whole_numbers_are_whole_numbers():
    assert synth(users=np.int64(5), records=np.uint32(50), seed=np.int8(1)) == synth(users=5, records=50, seed=1)


@pytest.mark.parametrize("value", [*NOT_A_NUMBER, 0, 1.5, 10**30, MOST_RECORDS + 1, np.float64(10), "ten"])
@pytest.mark.parametrize("name", ["users", "records"])
def test_hostile_sizes_are_refused(name, value):
    with pytest.raises(ParameterError, match=f"^{name} must be a whole number >= 1 and <= 100000000; got"):
        synth(**{"users": 1, "records": 1000, name: value})


@pytest.mark.parametrize("value", [*NOT_A_NUMBER, 0.5, 2**64, 10**30, np.float64(1), "one"])
def test_a_hostile_seed_is_refused(value):
    with pytest.raises(ParameterError, match=r"^seed must be a whole number >= 0"):
        synth(users=1, records=10, seed=value)


def test_all_hostile_parameters_are_told_at_once():
    with pytest.raises(ParameterError) as refused:
        synth(users=0, records=-5, seed=None)
    assert len(refused.value.problems) == 3


def test_fewer_records_than_users_are_refused_since_everyone_has_one():
    with pytest.raises(ParameterError, match=r"records must be a whole number >= 10; got 9. Try 500."):
        synth(users=10, records=9)


def test_records_come_in_time_order_within_the_span(log):
    time = log.frame["time"]
    assert time.is_sorted()
    assert time.min() >= START
    assert time.max() < START + timedelta(days=DAYS)


def test_a_person_busier_than_the_span_allows_is_squeezed_into_it():
    time = synth(users=1, records=40_000, seed=2).frame["time"]
    assert time.min() >= START
    assert START + timedelta(days=DAYS - 1) < time.max() < START + timedelta(days=DAYS)


def test_sessions_are_what_a_pause_of_thirty_minutes_cuts(log):
    ordered = log.frame.sort("user", "time", maintain_order=True)
    after_a_pause = ordered.select(
        (pl.col("time").diff().dt.total_seconds() > PAUSE) | (pl.col("user") != pl.col("user").shift())
    ).to_series()
    new_session = ordered.select(pl.col("session") != pl.col("session").shift()).to_series()
    assert after_a_pause[1:].to_list() == new_session[1:].to_list()
    assert log.frame.group_by("session").agg(pl.col("user").n_unique())["user"].max() == 1


def test_sessions_are_numbered_by_when_they_start(log):
    starts = log.frame.group_by("session").agg(pl.col("time").min()).sort("session")
    assert starts["time"].is_sorted()


def test_a_click_has_a_rank_and_a_url_and_no_click_has_neither(log):
    assert log.frame["rank"].is_null().to_list() == log.frame["url"].is_null().to_list()


def test_about_half_of_the_records_have_a_click_and_ranks_fall_off(log):
    # 30,000 records in about 19,000 asks: 53.4 % within six standard deviations (0.03) of the true share.
    assert describe(log).records_with_click == pytest.approx(0.534, abs=0.03)
    ranks = log.frame["rank"].drop_nulls()
    shares = [(ranks == rank).mean() for rank in (1, 2, 3, 5)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx(0.393, abs=0.03)
    assert (ranks.min(), ranks.max() <= 500) == (1, True)


def test_everybody_sees_the_same_result_at_the_same_rank_of_a_query(log):
    results = log.frame.drop_nulls("url").group_by("query", "rank").agg(pl.col("url").n_unique())
    assert results["url"].max() == 1


def test_a_query_has_a_different_result_at_each_rank():
    urls = result_sites(np.full(SITES_PER_TOPIC, 1234), np.arange(1, SITES_PER_TOPIC + 1))
    assert urls.n_unique() == SITES_PER_TOPIC
    assert urls[0] == f"http://www.{site_names()[1234]}.example"


def test_whoever_asks_for_a_site_finds_it_first(log):
    named = log.frame.filter(pl.col("query").is_in(site_names().implode()), pl.col("rank") == 1)
    assert named.height > 50
    assert_frame_equal(named.select("url"), named.select(url="http://www." + pl.col("query") + ".example"))


def test_the_public_sites_are_all_different():
    assert site_names().n_unique() == len(vocabulary.TOPICS) * SITES_PER_TOPIC


def test_a_few_people_ask_most_and_the_same_few_texts_are_asked_by_most(log):
    activity = log.frame.group_by("user").len()["len"].sort(descending=True)
    assert activity[:50].sum() > 0.4 * len(log)
    askers = log.frame.group_by("query").agg(pl.col("user").n_unique())["user"].sort(descending=True)
    assert askers[0] > 2 * askers[4] > 4 * askers[49] > 0


def test_people_have_favourite_topics():
    log = synth(users=50, records=10_000, seed=4).frame
    topics = {word: topic for topic in vocabulary.TOPICS for word in vocabulary.single_words(topic)}
    words = log.select("user", topic=pl.col("query").str.split(" ").list.first().replace_strict(topics, default=None))
    top = (
        words.drop_nulls()
        .group_by("user", "topic")
        .len()
        .group_by("user")
        .agg(pl.col("len").max() / pl.col("len").sum())
    )
    # Were all topics alike, the top one of sixteen would have about a tenth.
    assert top["len"].mean() > 0.3


def test_texts_of_equal_needs_are_equal_in_any_order():
    rng = np.random.default_rng(3)
    person, need = (rng.integers(0, 2**63, 3000, dtype=np.uint64) for _ in range(2))
    order = rng.permutation(3000)
    there, here = compose(person=person[order], need=need[order]), compose(person=person, need=need)
    assert there.text.to_list() == here.text.gather(order).to_list()
    assert there.first_result.tolist() == here.first_result[order].tolist()


def test_some_records_look_sensitive_and_all_of_it_is_invented():
    log = synth(users=1000, records=50_000, seed=1)
    seen = describe(log)
    assert 20 <= seen.records_with_email <= 500
    assert 20 <= seen.records_with_long_number <= 500
    queries = log.frame["query"]
    assert queries.filter(queries.str.contains(EMAIL)).str.ends_with("@example.org").all()
    assert queries.filter(queries.str.contains(LONG_NUMBER)).str.starts_with("000").all()
    assert log.frame["url"].drop_nulls().str.contains(r"^http://www\.[a-z]+\.example$").all()
    ill = pl.Series(vocabulary.ILLNESSES).implode()
    named = queries.filter(queries.str.split(" ").list.last().is_in(ill))
    assert named.str.split(" ").list.get(1).is_in(pl.Series(vocabulary.LAST_NAMES).implode()).all()
    assert len(named) >= 20


def test_what_people_ask_about_themselves_names_one_person(log):
    mail = log.frame.filter(pl.col("query").str.contains(EMAIL))
    assert mail.height > 0
    assert mail.group_by("user").agg(pl.col("query").n_unique())["query"].max() == 1


def test_every_noun_of_the_vocabulary_is_a_noun_of_wordnet():
    index = gzip.decompress(packaged("wordnet/index.noun.gz")).decode()
    known = {line.split(" ", 1)[0] for line in index.splitlines()}
    nouns = [*vocabulary.ASPECTS, *vocabulary.ILLNESSES]
    for topic in vocabulary.TOPICS:
        nouns += [*vocabulary.single_words(topic), *vocabulary.two_words(topic)]
    assert [noun for noun in nouns if noun.replace(" ", "_") not in known] == []
    assert len(nouns) == 16 * 50 + 40 + 24


@pytest.fixture(scope="module")
def sample(shared_data) -> QueryLog:
    raw = pl.read_csv(shared_data / "aol/aol-1017-users.tsv.gz", separator="\t", quote_char=None, infer_schema=False)
    time = pl.col("QueryTime").str.to_datetime("%Y-%m-%d %H:%M:%S")
    return QueryLog(raw.select(user="AnonID", query="Query", time=time, rank=pl.col("ItemRank").cast(pl.UInt32)))


# How far a synthetic log may be from the real sample; docs/synthetic.md shows how far it is.
TOLERANCES = {
    "words_per_query": 0.1,
    "repeat_rate": 0.03,
    "texts_of_one_user": 0.015,
    "records_with_text_of_one_user": 0.04,
    "users_with_text_of_their_own": 0.03,
    "singled_out_by_1": 0.06,
    "singled_out_by_2": 0.03,
    "singled_out_by_3": 0.03,
    "days": 0.1,
    "share of gaps that end a session": 0.02,
    **{f"share of queries of {n} words": 0.025 for n in range(1, 7)},
    **{f"log2 of the {q}% quantile of records per user": 0.5 for q in (5, 10, 25, 50, 75, 90, 95, 99)},
    "log2 of distinct texts": 0.15,
}


def measures(log: QueryLog) -> dict[str, float]:
    seen = describe(log)
    gaps = log.frame.sort("user", "time").select(pl.col("time").diff().over("user").dt.total_seconds()).to_series()
    words = np.bincount(log.frame["query"].str.count_matches(r"\S+").to_numpy(), minlength=7) / len(log)
    per_user = log.frame.group_by("user").len()["len"].to_numpy()
    return {
        **seen.as_dict(),
        "share of gaps that end a session": (gaps > PAUSE).mean(),
        **{f"share of queries of {n} words": words[n] for n in range(1, 7)},
        **{
            f"log2 of the {q}% quantile of records per user": np.log2(np.quantile(per_user, q / 100))
            for q in (5, 10, 25, 50, 75, 90, 95, 99)
        },
        "log2 of distinct texts": np.log2(seen.texts),
    }


def too_far(log: QueryLog, sample: QueryLog) -> list[str]:
    ours, real = measures(log), measures(sample)
    return [name for name, tolerance in TOLERANCES.items() if not abs(ours[name] - real[name]) <= tolerance]


@pytest.mark.data
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_synthetic_log_of_the_size_of_the_real_sample_looks_like_it(seed, sample):
    assert (sample.user_count(), len(sample)) == (1017, 92_856)
    assert too_far(synth(users=1017, records=92_856, seed=seed), sample) == []


@pytest.mark.data
def test_a_log_whose_texts_are_dealt_out_again_does_not_look_like_the_sample(sample):
    log = synth(users=1017, records=92_856)
    dealt_out = QueryLog(log.frame.with_columns(pl.col("query").shuffle(seed=1)))
    assert {"repeat_rate", "texts_of_one_user", "users_with_text_of_their_own"} & set(too_far(dealt_out, sample))


def test_details_add_columns_and_plant_identifiers():
    log, known = synth(users=400, records=12_000, details=True), planted(users=400, records=12_000)
    assert log.extra_columns == [*METADATA, SHOWN]
    assert log.frame.select(METADATA).null_count().row(0) == (0, 0, 0, 0)
    assert set(known["query"]) == set(log.queries())
    assert set(known["kind"]) == {"name", "rare name", "mail", "number", "address", "phone", None}
    assert known.filter(pl.col("kind") == "phone")["query"].str.contains("555").all()
    assert known.filter(pl.col("kind") == "address")["query"].str.contains(r"^\d+ \w+ street ").all()


def test_details_belong_to_people_and_the_device_to_a_session():
    frame = synth(users=400, records=12_000, details=True).frame
    values = frame.group_by("user").agg(pl.col(*METADATA).n_unique())
    assert values.select(pl.col("country", "region", "language").max()).row(0) == (1, 1, 1)
    assert values["device"].max() > 1
    assert frame.group_by("session").agg(pl.col("device").n_unique())["device"].max() == 1
    assert frame["region"].str.head(2).equals(frame["country"].rename("region"))


def test_the_results_shown_hold_the_click_at_its_rank():
    frame = synth(users=100, records=3000, details=True).frame.with_columns(
        results=pl.col(SHOWN).str.json_decode(pl.List(pl.String))
    )
    assert frame["results"].list.len().unique().to_list() == [10]
    seen = frame.filter(pl.col("rank") <= 10)
    assert seen["url"].equals(seen.select(pl.col("results").list.get(pl.col("rank") - 1).alias("url"))["url"])
    assert frame.group_by("query").agg(pl.col(SHOWN).n_unique())[SHOWN].max() == 1


def test_without_details_a_log_is_what_it_always_was():
    # The digest of the log that this seed gave before there were details.
    content = synth(users=300, records=9000, seed=3).frame.write_csv()
    assert hashlib.sha256(content.encode()).hexdigest()[:12] == "ec05687531c4"


def test_details_survive_the_formats_that_take_any_column(tmp_path):
    log = synth(users=20, records=300, details=True)
    for name in ("log.csv", "log.parquet"):
        write(log, tmp_path / name)
        assert read(tmp_path / name) == log
    write(log, tmp_path / "log.jsonl")
    assert read(tmp_path / "log.jsonl", extras=[*METADATA, SHOWN]) == log
    write(bare := log.keeping([*COLUMNS, SHOWN]), tmp_path / "log.ubi.jsonl")
    assert read(tmp_path / "log.ubi.jsonl", extras=[SHOWN]) == bare
    assert read(tmp_path / "log.ubi.jsonl").extra_columns == []
