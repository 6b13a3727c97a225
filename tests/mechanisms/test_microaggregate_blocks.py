"""Microaggregation block by block: neither the cut, nor the order of rows, nor the place of the work leaves a trace."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.block_checks import ScatteredLog, ScatteredTable
from mechanisms.microaggregate_oracle import TOY_READING, frame_of, toy_log
from properties import examples
from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Lists
from queryveil.knowledge.categories import load_classifier
from queryveil.log import QueryLog
from queryveil.log.query_log import ByBlock, LocalTable
from queryveil.log.synthetic import synth
from queryveil.mechanisms.microaggregate import Microaggregate, aggregation, grouping, partition, profiles
from queryveil.mechanisms.microaggregate.aggregation import QUOTA, Picking
from queryveil.mechanisms.microaggregate.grouping import GROUP, SIZE, TOTAL
from queryveil.mechanisms.microaggregate.profiles import COUNT, Profiles, Remembering, TextReading
from queryveil.mechanisms.microaggregate.publishable import ITEMS, ITSELF, LABEL, PAIRS, Holders, Judging, Labels
from queryveil.privacy import Noise
from vectors.microaggregate import DIRECTORY


class CutLog(QueryLog):
    """A log that is cut into a chosen number of blocks."""

    def __init__(self, frame, blocks):
        super().__init__(frame)
        self.blocks = blocks

    def table(self):
        return LocalTable(self.frame, self.blocks)


def everything(release):
    return release.log.frame.with_columns(owner=release.owners, receiver=release.receivers), release.members


def same(one, other):
    return all(a.equals(b) for a, b in zip(everything(one), everything(other), strict=True))


LOG = synth(users=70, records=2500, seed=5).frame


@pytest.fixture(params=["exact", "in blocks"])
def either_search(request, monkeypatch):
    if request.param == "in blocks":
        monkeypatch.setattr(partition, "EXACT_UP_TO", 20)
        monkeypatch.setattr(partition, "USERS_PER_BLOCK", 11)


@pytest.mark.parametrize("mode", ["safe", "paper"])
@pytest.mark.usefixtures("either_search")
def test_a_far_process_and_another_order_of_rows_make_the_same_release(mode):
    mechanism = Microaggregate(k=4, k_text=3, mode=mode)
    here = mechanism.protect(CutLog(LOG, 8), Noise.seeded(2))
    shuffled = mechanism.protect(CutLog(LOG.sample(fraction=1, shuffle=True, seed=1), 8), Noise.seeded(2))
    far = mechanism.protect(ScatteredLog(LOG, 8), Noise.seeded(2))
    assert same(here, shuffled)
    assert same(here, far)
    assert mechanism.on_cluster


@pytest.mark.usefixtures("either_search")
def test_kept_groups_make_the_same_release_near_and_far(tmp_path):
    first, second = LOG.filter(pl.col("user").rank("dense") <= 50), LOG.filter(pl.col("user").rank("dense") > 1)
    releases = []
    for kind, name in ((CutLog, "near"), (ScatteredLog, "far")):
        mechanism = Microaggregate(k=4, k_text=3, state=str(tmp_path / name))
        mechanism.protect(kind(first, 8), Noise.seeded(1))
        releases.append(mechanism.protect(kind(second, 8), Noise.seeded(2)))
    (near, placed), (far, also) = map(everything, releases)
    assert near.equals(far)
    assert placed.drop("group").equals(also.drop("group"))  # groups are numbered by what a random key makes of names
    assert releases[0].members["user"].n_unique() in range(50, 69)  # whom the one who left keeps waiting is not there


@pytest.mark.parametrize("mode", ["safe", "paper"])
def test_rows_that_are_not_sorted_before_a_draw_are_rejected(mode, monkeypatch):
    def as_they_come(cls, pairs):
        users, texts = (pairs[name].unique(maintain_order=True) for name in ("user", "query"))
        coded = pl.DataFrame(
            [profiles._codes(pairs["user"], users), profiles._codes(pairs["query"], texts), pairs[COUNT]]
        ).sort("user", "query")
        return cls(users, texts, *(coded[name].cast(pl.Int32).to_numpy() for name in ("user", "query", COUNT)))

    monkeypatch.setattr(profiles.CountedLog, "of_pairs", classmethod(as_they_come))
    mechanism = Microaggregate(k=4, k_text=3, mode=mode)
    with pytest.raises(AssertionError, match="the order of rows leaves a trace"):
        mechanism.protect(ScatteredLog(LOG, 8), Noise.seeded(2))


@pytest.mark.parametrize("mode", ["safe", "paper"])
@pytest.mark.usefixtures("either_search")
def test_the_groups_do_not_depend_on_the_number_of_blocks(mode):
    mechanism = Microaggregate(k=3, k_text=3, mode=mode)
    one, many = (mechanism.protect(CutLog(LOG, blocks), Noise.seeded(4)) for blocks in (1, 8))
    assert one.members.equals(many.members)
    lengths = (release.log.frame["user"].value_counts().sort("user") for release in (one, many))
    assert mode == "paper" or next(lengths).equals(next(lengths))  # safe logs are as long as the quotas say


def test_many_small_blocks_keep_every_promise(monkeypatch):
    monkeypatch.setattr("queryveil.log.query_log.RECORDS_PER_BLOCK", 16)
    log = toy_log(25)
    assert log.table().blocks > 8
    release = Microaggregate(k=3, k_text=3).protect(log, Noise.seeded(1))
    frame = release.log.frame.with_columns(owner=release.owners)
    assert frame.select("user", "query").equals(frame.select("user", "query").sort("user", "query"))
    logs = frame.group_by("user").agg("query", pl.col("owner").value_counts())
    assert logs.group_by("query").len()["len"].min() >= 3
    for counts in logs["owner"].to_list():
        assert 3 * max(c["count"] for c in counts) <= sum(c["count"] for c in counts)


def test_blocks_in_which_nobody_may_be_published_are_no_trouble():
    rows = [(f"u{u}", "weather") for u in range(4)] + [(f"x{u}", f"qqq {u}") for u in range(20)]
    release = Microaggregate(k=2, k_text=2).protect(CutLog(QueryLog.of(rows).frame, 64), Noise.seeded(1))
    assert set(release.members["user"]) == {"u0", "u1", "u2", "u3"}


# What may be published


def slow_items(queries, k_text):
    """What each user may publish, with sets: `(user, text)` and how often."""
    askers = {text: {u for u in queries if text in queries[u]} for asked in queries.values() for text in asked}
    label = {}
    for text, users in askers.items():
        if "@" in text:
            continue
        last = next((term for term in reversed(text.split()) if DIRECTORY.get(term)), None)
        if len(users) >= k_text:
            label[text] = (text,)
        elif last:
            label[text] = tuple(DIRECTORY[last][0].split(":"))
    for depth in (2, 1):
        rare = {text: path for text, path in label.items() if len(askers[text]) < k_text and len(path) == depth}
        for path in set(rare.values()):
            alike = [text for text in rare if rare[text] == path]
            if len(set.union(*(askers[text] for text in alike))) < k_text:
                label.update((text, path[:-1]) for text in alike)
    shown = {}
    for user, asked in queries.items():
        for text in asked:
            if label.get(text):
                item = text if len(askers[text]) >= k_text else f"[{label[text][-1]}]"
                shown[user, item] = shown.get((user, item), 0) + 1
    return shown


WORDS = [*DIRECTORY, "x@y.org"]
asked_texts = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map(" ".join), min_size=1, max_size=6)


@given(st.lists(asked_texts, min_size=2, max_size=9), st.integers(2, 4), st.sampled_from([1, 2, 8]))
@settings(deadline=None, max_examples=examples(100))
def test_few_users_of_each_label_decide_as_all_of_them_would(logs, k_text, blocks):
    queries = {f"u{number}": asked for number, asked in enumerate(logs)}
    pairs = ScatteredTable(frame_of(queries), blocks).map_blocks("query", Judging(TOY_READING, k_text), PAIRS)
    items = Labels.of(pairs, TOY_READING, k_text).items(pairs.collect())
    assert {(user, text): count for user, text, count in items.rows()} == slow_items(queries, k_text)


def test_knowing_one_user_too_few_of_a_label_is_rejected(monkeypatch):
    queries = {f"u{u}": [f"messi {u}"] for u in range(3)}
    pairs = LocalTable(frame_of(queries), 2).map_blocks("query", Judging(TOY_READING, 3), PAIRS)
    assert Labels.of(pairs, TOY_READING, 3).items(pairs.collect()).height == len(slow_items(queries, 3)) == 3
    right = Holders.__call__
    monkeypatch.setattr(Holders, "__call__", lambda self, rows: right(Holders(self.k_text - 1), rows))
    assert Labels.of(pairs, TOY_READING, 3).items(pairs.collect()).is_empty()


# The search


def table_of(found):
    people = {"user": [f"u{u}" for u in range(len(found))], SIZE: found.totals(), TOTAL: found.totals()}
    frame = pl.concat([pl.DataFrame(people), found.frame()], how="horizontal")
    return ScatteredTable(frame.cast(dict(grouping.PROFILED)), 3)


def slow_search(found, k, size):
    """Blocks of like activity one after the other, with all profiles at hand."""
    order = np.lexsort((np.arange(len(found)), -found.totals()))
    groups = np.full(len(found), -1, np.int32)
    for block in [*np.array_split(order, max(1, round(len(order) / size))), None]:
        members = np.flatnonzero(groups < 0) if block is None else np.sort(block)
        inside = partition.greedy(found.take(members), k)
        groups[members] = np.where(inside >= 0, inside + groups.max(initial=-1) + 1, -1)
    return partition.join_leftovers(found, groups)


rows_of_users = st.lists(st.dictionaries(st.integers(0, 7), st.integers(1, 4), max_size=5), min_size=1, max_size=40)


@given(rows_of_users, st.integers(2, 5), st.integers(2, 12))
@settings(deadline=None, max_examples=examples(80))
def test_the_search_over_tables_is_the_search_with_all_profiles_at_hand(rows, k, size):
    cells = Lists.of(sorted(row) for row in rows)
    counts = np.array([row[node] for row in rows for node in sorted(row)], np.int32)
    found = Profiles(cells.offsets, cells.values, counts, 8)
    table, users = table_of(found), pl.Series([f"u{u}" for u in range(len(rows))])
    groups = grouping.search_in_blocks(table, users, found.totals(), k, size, 8)
    joined = grouping._joined(table, users, groups, 8)
    assert joined.tolist() == slow_search(found, k, size).tolist()


# What is picked


def picked_shares(blocks, picks):
    """How often 20,000 users with a quota of 2 pick each of three texts, asked 3, 1 and 1 times, on average."""
    n = 20_000
    rows = [(f"u{u}", text, count, ITSELF) for u in range(n) for text, count in (("x", 3), ("y", 1), ("z", 1))]
    pairs = pl.DataFrame(rows, schema=dict(ITEMS), orient="row")
    members = pl.DataFrame({"user": [f"u{u}" for u in range(n)]}).with_columns(
        pl.lit(0, pl.Int32).alias(GROUP), pl.lit(2, pl.Int64).alias(QUOTA)
    )
    noise = Noise.seeded(6)
    people = ByBlock(members, "user", blocks)
    picking = Picking(Labels(TOY_READING), people, noise.streams("ties", blocks), picks(noise, blocks))
    picked = ScatteredTable(pairs, blocks).map_blocks("user", picking, aggregation.PICKED).collect()
    assert picked[aggregation.COPIES].sum() == 2 * n
    shares = picked.group_by("query").agg(pl.col(aggregation.COPIES).sum() / n)
    return dict(shares.rows())


def drawn_alike(shares):
    """n = 20,000, α = 1e-6 (4.9 standard errors of at most 1/2): tells a mean that is 0.018 off."""
    return all(abs(shares.get(t, 0) - 2 * c / 5) < 4.9 * 0.5 / 20_000**0.5 for t, c in (("x", 3), ("y", 1), ("z", 1)))


@pytest.mark.parametrize("blocks", [1, 8])
def test_the_law_of_what_is_picked_does_not_depend_on_the_cut(blocks):
    assert drawn_alike(picked_shares(blocks, lambda noise, blocks: noise.streams("picks", blocks)))


class Still:
    """In place of streams: always the first start."""

    def __getitem__(self, block):
        return self

    def below(self, limits):
        return np.zeros(len(limits), np.int64)


def test_a_start_that_is_not_drawn_is_rejected():
    assert not drawn_alike(picked_shares(8, lambda noise, blocks: Still()))


# The classifier on other machines


def test_a_machine_with_another_classifier_is_refused():
    with pytest.raises(KnowledgeError, match="not the one the work was planned with"):
        _ = TextReading("wordnet", "another", categories=1, levels=2).classifier


def test_threads_that_share_a_classifier_get_what_one_alone_gets():
    terms = sorted({word for text in LOG["query"].unique() for word in text.split()})
    plain = load_classifier("wordnet").categories(terms, 3)
    shared = Remembering(load_classifier("wordnet"))
    parts = [terms[place::5] + terms[:50] for place in range(5)]
    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(lambda part: shared.categories(part, 3), parts))
    numbers = {term: number for number, term in enumerate(terms)}
    for part, lists in zip(parts, found, strict=True):
        expected = plain.gather(np.array([numbers[term] for term in part]))
        assert lists.offsets.tolist() == expected.offsets.tolist()
        assert lists.values.tolist() == expected.values.tolist()


def test_labels_are_null_for_what_is_withheld():
    judged = Judging(TOY_READING, 2)(0, frame_of({"a": ["x@y.org", "messi"], "b": ["x@y.org", "messi"], "c": ["flu"]}))
    labels = dict(judged.select("query", LABEL).rows())
    flu = TOY_READING.classifier.tree.find(("Health", "Conditions"))
    assert labels == {"x@y.org": None, "messi": ITSELF, "flu": flu}
