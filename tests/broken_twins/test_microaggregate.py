"""Deliberately wrong microaggregations, each rejected by a check that the real one passes."""

import dataclasses
from collections import Counter
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

from queryveil.audit.attacks.intersection import intersect
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms.microaggregate import Microaggregate, aggregation, partition, publishable
from queryveil.mechanisms.microaggregate.publishable import COUNT, Judging
from queryveil.mechanisms.microaggregate.state import FrozenGroups
from queryveil.privacy import Noise

K, K_TEXT = 3, 3


@pytest.fixture(scope="module")
def log():
    heavy = pl.DataFrame({"user": ["heavy"] * 2000, "query": ["weather", "chess"] * 1000})
    return QueryLog(pl.concat([synth(users=60, records=4000, seed=9).frame.select("user", "query"), heavy]))


def real(**changes):
    return Microaggregate(k=K, k_text=K_TEXT, **changes)


def every_log_is_shared_by_k(release):
    logs = release.log.frame.group_by("user").agg("query")["query"].to_list()
    return min(Counter(map(tuple, logs)).values()) >= K


def nobody_supplies_more_than_one_kth(release):
    logs = release.log.frame.with_columns(owner=release.owners).group_by("user").agg("owner")["owner"].to_list()
    return all(max(Counter(owners).values()) * K <= len(owners) for owners in logs)


def no_rare_text(release, log):
    askers = log.frame.group_by("query").agg(pl.col("user").n_unique().alias("n"))
    rare = set(askers.filter(pl.col("n") < K_TEXT)["query"])
    return not rare & set(release.log.queries())


def no_rare_label(release, mechanism_log):
    """Each label replaces rare texts of K_TEXT users in a world where every rare text has its user in it."""
    users = Counter()
    for label in {text for text in release.log.queries() if text.startswith("[")}:
        term = label.strip("[]")
        users[label] = mechanism_log.frame.filter(pl.col("query").str.contains(f"my {term}"))["user"].n_unique()
    return all(count >= K_TEXT for count in users.values())


def nobody_repeats_what_they_did_not(release, log):
    asked = log.frame.group_by("user", "query").len("asked")
    one_each = release.members.group_by("group").agg(pl.col("pseudonym").first())["pseudonym"].implode()
    logs = release.log.frame.with_columns(owner=release.owners).filter(pl.col("user").is_in(one_each))
    supplied = logs.group_by("owner", "query").len("supplied").rename({"owner": "user"})
    return supplied.join(asked, on=["user", "query"]).filter(pl.col("supplied") > pl.col("asked")).is_empty()


def no_identifying_text(release):
    return not any("@" in text for text in release.log.queries())


def ties_tell_nothing(mechanism):
    """Over 40 seeds six equal users are paired in more than one way (always the same way by chance: below 1e-9)."""
    log = QueryLog.of([(f"u{u}", "puppies") for u in range(6)])
    pairs = set()
    for seed in range(40):
        members = mechanism.protect(log, Noise.seeded(seed)).members.group_by("group").agg(pl.col("user").sort())
        pairs.add(tuple(sorted(map(tuple, members["user"].to_list()))))
    return len(pairs) > 1


def releases_do_not_intersect_below_k(mechanism, log):
    seen = []
    for turn in range(3):
        present = QueryLog(log.frame.filter(pl.col("user").hash(turn) % 10 > 0))
        seen.append(mechanism.protect(present, Noise.seeded(turn)).members)  # handed out is released
    return intersect(*seen).smallest >= K


def test_the_real_one_passes_every_check(log, tmp_path):
    release = real().protect(log, Noise.seeded(1))
    assert every_log_is_shared_by_k(release)
    assert nobody_supplies_more_than_one_kth(release)
    assert no_rare_text(release, log)
    assert no_identifying_text(release)
    assert nobody_repeats_what_they_did_not(release, log)
    assert ties_tell_nothing(dataclasses.replace(real(), k=2))
    assert releases_do_not_intersect_below_k(real(state=str(tmp_path / "groups.json")), log)


def test_groups_of_one_fewer_are_rejected(log, monkeypatch):
    exact = partition.greedy
    monkeypatch.setattr(partition, "greedy", lambda profiles, k: exact(profiles, k - 1))
    assert not every_log_is_shared_by_k(real().protect(log, Noise.seeded(1)))


def test_shuffling_each_members_copy_is_rejected(log):
    release = real().protect(log, Noise.seeded(1))
    order = Noise.seeded(2).stream("shuffle").permutation(len(release.log))
    frame = release.log.frame[order].sort("user", maintain_order=True)
    assert not every_log_is_shared_by_k(dataclasses.replace(release, log=QueryLog(frame)))


def test_contributions_without_a_cap_are_rejected(log, monkeypatch):
    def uncapped(sizes, k):
        return [size // len(sizes) for size in sizes]

    monkeypatch.setattr(aggregation, "capped_quotas", uncapped)
    assert not nobody_supplies_more_than_one_kth(real().protect(log, Noise.seeded(1)))


def test_paper_mode_is_rejected_as_a_safe_one(log):
    release = real(mode="paper").protect(log, Noise.seeded(1))
    assert every_log_is_shared_by_k(release)  # what the paper promises, it keeps
    assert not nobody_supplies_more_than_one_kth(release)
    assert not no_rare_text(release, log)


def test_an_off_by_one_text_threshold_is_rejected(log, monkeypatch):
    right = Judging.__call__
    monkeypatch.setattr(
        Judging, "__call__", lambda self, *rows: right(dataclasses.replace(self, k_text=self.k_text - 1), *rows)
    )
    assert not no_rare_text(real().protect(log, Noise.seeded(1)), log)


def test_counting_records_instead_of_users_is_rejected(log, monkeypatch):
    monkeypatch.setattr(publishable, "users", lambda column: pl.col(COUNT).sum().alias("users"))
    assert not no_rare_text(real().protect(log, Noise.seeded(1)), log)


def test_letting_identifying_texts_through_is_rejected(monkeypatch):
    rows = [(f"u{u}", text) for u in range(6) for text in ("weather", "help@example.org")]
    assert no_identifying_text(real().protect(QueryLog.of(rows), Noise.seeded(1)))
    monkeypatch.setattr(publishable, "is_identifying", lambda column: pl.col(column).is_null())
    assert not no_identifying_text(real().protect(QueryLog.of(rows), Noise.seeded(1)))


@pytest.fixture
def diaries():
    """Everybody asks "tulip" and "weather"; one keeps a rare text about tulips, four rare ones about puppies."""
    rows = [(f"u{u}", text) for u in range(6) for text in ("tulip", "weather")] + [("u0", "my tulip")]
    return QueryLog.of(rows + [(f"u{u}", f"{u} my puppy") for u in range(2, 6)])


def test_counting_shared_texts_as_cover_for_a_label_is_rejected(diaries, monkeypatch):
    def all_seeds():
        return all(no_rare_label(real().protect(diaries, Noise.seeded(seed)), diaries) for seed in range(10))

    assert all_seeds()
    right = Judging.__call__

    def all_labelled(self, block, rows):
        """The shared texts of a category count as well."""
        judged = right(self, block, rows)
        labels = pl.Series("label", self.reading.vocabulary(judged["query"]).labels())
        shared = judged.with_columns(labels).filter(pl.col("__label") == -1, pl.col("label") >= 0)
        return pl.concat([judged, shared.drop("__label").rename({"label": "__label"}).select(judged.columns)])

    monkeypatch.setattr(Judging, "__call__", all_labelled)
    assert not all_seeds()


def test_labels_of_a_single_user_are_rejected(diaries, monkeypatch):
    right = publishable.climb
    monkeypatch.setattr(publishable, "climb", lambda held, tree, levels, k_text: right(held, tree, levels, 1))
    assert not all(no_rare_label(real().protect(diaries, Noise.seeded(seed)), diaries) for seed in range(10))


def test_repeating_a_short_list_until_the_quota_is_met_is_rejected(monkeypatch):
    log = QueryLog.of([("one", "weather")] + [(f"u{u}", "weather") for u in range(2) for _ in range(9)])
    assert nobody_repeats_what_they_did_not(real().protect(log, Noise.seeded(1)), log)
    monkeypatch.setattr(aggregation, "capped_quotas", lambda sizes, k: [2] * len(sizes))
    assert not nobody_repeats_what_they_did_not(real().protect(log, Noise.seeded(1)), log)


def test_groups_that_are_not_kept_are_rejected(log, tmp_path, monkeypatch):
    monkeypatch.setattr(FrozenGroups, "save", lambda self: None)
    assert not releases_do_not_intersect_below_k(real(state=str(tmp_path / "groups.json")), log)


@dataclass(frozen=True, kw_only=True)
class TiesByUser(Microaggregate):
    def protect(self, log, noise):
        class Ordered(Noise):
            def stream(self, name, block=0):
                found = super().stream(name, block)
                if name == "microaggregate: order of users":
                    found.permutation = np.arange
                return found

        return super().protect(log, Ordered(noise._key, noise.mode))


def test_ties_by_user_id_are_rejected():
    assert not ties_tell_nothing(TiesByUser(k=2, k_text=K_TEXT))


def test_regrouping_for_each_release_is_rejected(log):
    assert not releases_do_not_intersect_below_k(real(), log)


def test_publishing_what_is_left_of_a_group_is_rejected(log, tmp_path, monkeypatch):
    whole = FrozenGroups.place

    def partial(self, users):
        placed, sizes = whole(self, users)
        return placed, np.bincount(placed[placed >= 0], minlength=len(sizes)).astype(np.int32)

    monkeypatch.setattr(FrozenGroups, "place", partial)
    mechanism = real(state=str(tmp_path / "groups.json"))
    assert not releases_do_not_intersect_below_k(mechanism, log)
