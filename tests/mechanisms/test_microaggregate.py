"""The mechanism as a whole: its modes, its promise, its parameters, odd input."""

import json
from collections import Counter

import polars as pl
import pytest

from hostile_values import NOT_A_NUMBER
from mechanisms.microaggregate_oracle import toy_log
from queryveil.errors import KnowledgeError, ParameterError, RefusedError
from queryveil.knowledge.odp import import_directory
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.mechanisms.microaggregate import Microaggregate
from queryveil.mechanisms.microaggregate import mechanism as mechanism_module
from queryveil.privacy import Noise
from queryveil.testing import check_mechanism, sample_log


def logs_by_pseudonym(release):
    return dict(release.log.frame.group_by("user").agg("query").iter_rows())


@pytest.mark.parametrize("mode", ["safe", "paper"])
def test_conforms(mode):
    check_mechanism(Microaggregate(k=2, k_text=3, levels=3, categories="1", mode=mode))


def test_conforms_with_kept_groups(tmp_path):
    check_mechanism(Microaggregate(k=3, state=str(tmp_path / "groups.json")))


@pytest.mark.parametrize("mode", ["safe", "paper"])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_logs_of_a_group_are_the_same_byte_for_byte(mode, k, tmp_path):
    release = Microaggregate(k=k, k_text=2, mode=mode).protect(toy_log(11), Noise.seeded(3))
    folder = release.write(tmp_path / "out")
    files = {}
    for line in (folder / "log.csv").read_bytes().splitlines()[1:]:
        user, _, rest = line.partition(b",")
        files.setdefault(user, []).append(rest)
    same = Counter(tuple(records) for records in files.values())
    assert min(same.values()) >= k
    groups = release.members.group_by("group").agg("pseudonym")
    logs = logs_by_pseudonym(release)
    for members in groups["pseudonym"]:
        assert len({tuple(logs.get(member, ())) for member in members}) == 1
        assert k <= len(members) <= 2 * k - 1


def test_safe_mode_keeps_everybody_and_paper_mode_loses_the_leftovers():
    log = toy_log(11)
    assert Microaggregate(k=3, k_text=2).protect(log, Noise.seeded(1)).log.user_count() == 11
    assert Microaggregate(k=3, mode="paper").protect(log, Noise.seeded(1)).log.user_count() == 9


def test_users_with_like_interests_share_a_log():
    log = toy_log(9)
    for mode in ("safe", "paper"):
        members = Microaggregate(k=3, k_text=2, categories=1, mode=mode).protect(log, Noise.seeded(1)).members
        topics = members.with_columns(topic=pl.col("user").str.slice(1).cast(pl.Int32) % 3)
        assert topics.group_by("group").agg(pl.col("topic").n_unique())["topic"].to_list() == [1, 1, 1]


def test_no_member_supplies_more_than_one_kth_in_safe_mode_but_may_in_paper_mode():
    rows = [("heavy", f"weather {i % 7}") for i in range(700)]
    rows += [(f"u{u}", f"weather {t}") for u in range(5) for t in range(7)]
    largest = {}
    for mode in ("safe", "paper"):
        release = Microaggregate(k=3, k_text=2, mode=mode).protect(QueryLog.of(rows), Noise.seeded(1))
        logs = release.log.frame.with_columns(owner=release.owners).group_by("user").agg(pl.col("owner").value_counts())
        shares = [max(c["count"] for c in one) / sum(c["count"] for c in one) for one in logs["owner"].to_list()]
        largest[mode] = max(shares)
    assert largest["safe"] <= 1 / 3
    assert largest["paper"] > 0.9


def test_times_ranks_urls_and_sessions_are_dropped():
    for mode in ("safe", "paper"):
        release = Microaggregate(k=2, k_text=2, mode=mode).protect(sample_log(), Noise.seeded(1))
        assert release.log.used_columns == ["user", "query"]


def test_the_order_of_rows_and_the_names_of_users_leave_no_trace():
    log = toy_log(9)
    release = Microaggregate(k=3, k_text=2).protect(log, Noise.seeded(1))
    again = Microaggregate(k=3, k_text=2).protect(QueryLog(log.frame.reverse()), Noise.seeded(1))
    assert release.log == again.log
    frame = release.log.frame
    assert frame["user"].is_sorted()
    assert all(frame.filter(pl.col("user") == user)["query"].is_sorted() for user in frame["user"].unique())


def test_ties_are_broken_at_random_in_safe_mode_and_by_number_in_paper_mode():
    log = QueryLog.of([(f"u{u}", "puppies") for u in range(6)])
    for mode, ways in (("safe", 2), ("paper", 1)):
        partners = set()
        for seed in range(20):
            members = Microaggregate(k=2, k_text=2, mode=mode).protect(log, Noise.seeded(seed)).members
            mine = members.filter(pl.col("user") == "u0")["group"][0]
            partners.add(tuple(sorted(members.filter(pl.col("group") == mine)["user"])))
        assert (len(partners) >= ways) if mode == "safe" else partners == {("u0", "u1")}


def test_an_open_directory_index_is_a_classifier(tmp_path):
    table = tmp_path / "categories.tsv"
    table.write_text("Pets/Puppies\t5\nGames/Chess\t5\nHealth/Aspirin\t3\n")
    import_directory([table], tmp_path / "toy.odp")
    mechanism = Microaggregate(k=3, k_text=2, classifier=str(tmp_path / "toy.odp"), categories="all")
    releases = [mechanism.protect(toy_log(9), Noise.seeded(seed)) for seed in range(8)]
    assert {"[Puppies]", "[Chess]", "[Aspirin]"} <= {text for one in releases for text in one.log.queries()}
    release = releases[0]
    assert release.parameters["classifier"] == "odp"
    assert len(release.parameters["classifier_digest"]) == 64
    assert str(tmp_path) not in json.dumps(dict(release.parameters))


def test_a_missing_index_is_a_clear_error(tmp_path):
    with pytest.raises(KnowledgeError):
        Microaggregate(classifier=str(tmp_path / "nothing.odp")).protect(toy_log(), Noise.seeded(1))


# Odd input


def test_fewer_than_k_users_are_refused():
    with pytest.raises(RefusedError, match="fewer than k = 3 users"):
        Microaggregate(k=3, k_text=2).protect(toy_log(2), Noise.seeded(1))
    with pytest.raises(RefusedError, match="fewer than k = 3 users"):
        Microaggregate(k=3, mode="paper").protect(toy_log(2), Noise.seeded(1))


def test_users_without_a_classifiable_query_are_grouped_as_well():
    rows = [(f"u{u}", "puppies") for u in range(3)] + [(f"x{u}", "zqzq wxyz") for u in range(3)]
    release = Microaggregate(k=3, k_text=2).protect(QueryLog.of(rows), Noise.seeded(1))
    groups = release.members.with_columns(kind=pl.col("user").str.slice(0, 1)).group_by("group").agg("kind")
    assert sorted(map(sorted, groups["kind"].to_list())) == [["u"] * 3, ["x"] * 3]
    assert Counter(release.log.queries()) == {"puppies": 9, "zqzq wxyz": 9}


def test_users_with_nothing_to_publish_are_left_out_and_the_rest_is_released():
    rows = [(f"u{u}", "weather") for u in range(4)] + [("alone", "qqq www"), ("alone", "alone@example.org")]
    release = Microaggregate(k=2, k_text=2).protect(QueryLog.of(rows), Noise.seeded(1))
    assert set(release.members["user"]) == {"u0", "u1", "u2", "u3"}


def test_one_user_with_half_the_log_changes_nothing_for_the_others():
    log = toy_log(9)
    heavy = pl.DataFrame({"user": ["heavy"] * len(log), "query": ["weather"] * len(log)})
    both = QueryLog(pl.concat([log.frame.select("user", "query"), heavy]))
    release = Microaggregate(k=3, k_text=2).protect(both, Noise.seeded(1))
    assert release.log.user_count() == 10
    shares = (
        release.log.frame.with_columns(owner=release.owners)
        .group_by("user")
        .agg((pl.col("owner") == "heavy").mean().alias("share"))
    )
    assert shares["share"].max() <= 1 / 3


def test_more_users_than_the_exact_search_takes_are_searched_in_blocks(monkeypatch):
    monkeypatch.setattr(mechanism_module.partition, "EXACT_UP_TO", 5)
    monkeypatch.setattr(mechanism_module.partition, "USERS_PER_BLOCK", 4)
    release = Microaggregate(k=3, k_text=2).protect(toy_log(14), Noise.seeded(1))
    sizes = Counter(release.members["group"].to_list()).values()
    assert sum(sizes) == 14
    assert all(3 <= size <= 5 for size in sizes)


# Parameters and promise


@pytest.mark.parametrize("name", ["k", "levels", "k_text"])
@pytest.mark.parametrize("value", [*NOT_A_NUMBER, 0, -1, 2.0, 10**10])
def test_hostile_numbers_are_refused(name, value):
    with pytest.raises(ParameterError, match=f"{name} must be a whole number"):
        Microaggregate(**{name: value})


@pytest.mark.parametrize("value", ["", "0", "51", "-1", "five", "ALL", "1.0", "٣", "9" * 400, None, True, 0, 51, 2.0])
def test_hostile_categories_are_refused(value):
    with pytest.raises(ParameterError, match="categories must be"):
        Microaggregate(categories=value)


@pytest.mark.parametrize("name", ["classifier", "state"])
@pytest.mark.parametrize("value", ["", " ", 5, True, "a\0b"])
def test_hostile_paths_are_refused(name, value):
    with pytest.raises(ParameterError, match=f"{name} must be"):
        Microaggregate(**{name: value})


def test_categories_may_be_a_number_or_all():
    assert Microaggregate(categories=3) == Microaggregate(categories="3")
    assert make("microaggregate", categories="all").categories == "all"


def test_the_statement_says_what_is_and_is_not_promised():
    safe = Microaggregate(k=4, k_text=7).guarantee()
    assert safe.model == "k-anonymity"
    assert "at most 1/4" in safe.statement()
    assert "fewer than 7 users: withheld" in safe.statement()
    assert "does not bound who wrote a given query" in safe.statement()
    paper = Microaggregate(k=4, mode="paper").guarantee().statement()
    assert "nearly all" in paper
    assert "published." in paper
    assert "without this state" in Microaggregate(state="groups.json").guarantee().statement()
    assert Microaggregate().charge().scope == "nothing"
