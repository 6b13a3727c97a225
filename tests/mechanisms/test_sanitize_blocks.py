"""Sanitize block by block: the law does not depend on the cut, nor the release on where rows lie or how they come."""

from collections import Counter
from functools import partial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mechanisms.block_checks import ScatteredLog
from properties import examples
from queryveil.log import QueryLog, query_log
from queryveil.log.query_log import LocalTable
from queryveil.mechanisms.sanitize import Sanitize, blocks, laplace_step, safe, synthetic_users, weighted
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.sanitization import shared_counts
from queryveil.mechanisms.sanitize.selection import Selection
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStream

ALPHA = 1e-6
CUTS = (1, 8)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(query_log, "RECORDS_PER_BLOCK", 64)


def crowd(users: int = 400, seed: int = 1) -> QueryLog:
    """Users with 1 to 8 clicks on 12 pairs of 6 queries, some twice, some records without a click."""
    random = np.random.default_rng(seed)
    rows = [
        (f"user {k}", f"query {j // 2}", None, None, f"site{j}.example" if random.random() < 0.9 else None)
        for k in range(users)
        for j in np.floor(12 * random.random(random.integers(1, 9)) ** 2).astype(int)
    ]
    return QueryLog.of(rows)


MECHANISMS = [
    Sanitize(epsilon=4.0, contribution=3, selection="capped"),
    Sanitize(epsilon=4.0, contribution=1, objective="diversity", selection="capped"),
    Sanitize(mode="paper", objective="frequent", epsilon=3.0, delta=0.9, support=0.01),
    Sanitize(mode="paper", objective="diversity", epsilon=1.0, delta=0.5),
]
WEIGHTED = [Sanitize(epsilon=4.0, contribution=3), Sanitize(epsilon=4.0, contribution=2, objective="diversity")]
SIZE = Sanitize(mode="paper", epsilon=3.0, delta=0.9)
LAPLACE = Sanitize(mode="paper", epsilon=3.0, delta=0.9, laplace_d=1.4, laplace_epsilon=1.0)


def same(one, other) -> bool:
    return one.log == other.log and one.people().collect().equals(other.people().collect(), null_equal=True)


# --- the release does not depend on where the rows lie


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *WEIGHTED], ids=repr)
def test_a_shuffled_log_gives_the_same_release(mechanism, small_blocks):
    log = crowd()
    assert log.table().blocks >= 16
    release = mechanism.protect(log, Noise.seeded(3))
    shuffled = QueryLog(log.frame.sample(fraction=1.0, shuffle=True, seed=5))
    assert len(release.log) > 3
    assert same(release, mechanism.protect(shuffled, Noise.seeded(3)))


@pytest.mark.parametrize("mechanism", [*MECHANISMS, *WEIGHTED, SIZE, LAPLACE], ids=repr)
def test_pickled_work_on_scattered_rows_gives_the_same_release(mechanism, small_blocks):
    log = crowd(60) if mechanism in (SIZE, LAPLACE) else crowd()
    assert mechanism.on_cluster
    scattered = mechanism.protect(ScatteredLog(log.frame), Noise.seeded(3))
    assert len(scattered.log) > 3
    assert same(scattered, mechanism.protect(log, Noise.seeded(3)))


def test_a_log_without_clicks_is_nowhere_to_be_seen(small_blocks):
    assert len(Sanitize().protect(ScatteredLog(QueryLog.empty().frame), Noise.seeded(1)).log) == 0


@pytest.mark.parametrize("twin", ["contributions and topics", "people of pairs", "sampling"])
def test_work_that_does_not_sort_its_rows_is_caught_by_the_shuffle(twin, small_blocks, monkeypatch):
    """Each twin draws for the rows as they come."""

    def in_the_order_they_come(streams, selection, block, rows):
        pairs = rows.group_by("query", "url", maintain_order=True).agg(pl.col("people").sum())
        kept, noisy = selection.apply(pairs["people"].to_numpy(), streams[block])
        return pairs.filter(pl.Series(kept)).with_columns(pl.Series("people", noisy))

    def first_come(streams, wanted, block, rows):
        held = rows.join(wanted, on=["query", "url"], maintain_order="left")
        return held[streams[block].choice(held["count"].to_numpy(), int(held["x"].sum()))].select(
            "user", "query", "url"
        )

    mechanism = MECHANISMS[0]
    if twin == "contributions and topics":
        monkeypatch.setattr(blocks, "in_canonical_order", lambda rows: rows)
    elif twin == "people of pairs":
        monkeypatch.setattr(blocks, "_select", in_the_order_they_come)
    else:
        mechanism = MECHANISMS[2]
        monkeypatch.setattr(blocks, "_sample", first_come)
    log = crowd()
    shuffled = QueryLog(log.frame.sample(fraction=1.0, shuffle=True, seed=5))
    assert not all(  # one draw may come out alike by chance
        same(mechanism.protect(log, Noise.seeded(seed)), mechanism.protect(shuffled, Noise.seeded(seed)))
        for seed in range(8)
    )


def test_safe_mode_brings_no_user_to_this_machine_and_only_published_pairs(small_blocks):
    log = ScatteredLog(crowd().frame)
    release = MECHANISMS[0].protect(log, Noise.seeded(3))
    pairs, sums = log.collected
    assert pairs.columns == ["query", "url", "people"]
    assert set(pairs.select("query", "url").rows()) == set(release.log.frame.select("query", "url").rows())
    assert sums.columns == ["cell", "users"]


def test_weighted_selection_brings_published_texts_and_sums_to_this_machine_and_no_user(small_blocks):
    log = ScatteredLog(crowd().frame)
    release = WEIGHTED[0].protect(log, Noise.seeded(3))
    queries, clicks, sums = log.collected
    assert queries.columns == ["query", "weight"]
    assert set(queries["query"]) == set(release.log.frame["query"])
    assert clicks.columns == ["asked", "url", "weight"]
    assert set(clicks["url"]) == set(release.log.frame["url"].drop_nulls())
    assert sums.columns == ["cell", "weight"] and sums["cell"].is_unique().all()


def in_the_order_they_come(streams, union, rule, block, rows):
    """The twin of `weighted._select` that draws for the keys as they come."""
    names = [name for name in rows.columns if name != "weight"]
    keys = rows.group_by(names, maintain_order=True).agg(pl.col("weight").sum())
    noise = streams[block].discrete_gaussian(rule.sigmas[union], keys.height)
    return keys.with_columns(pl.col("weight") + pl.Series(noise)).filter(pl.col("weight") > rule.thresholds[union])


def test_weighted_work_that_does_not_sort_its_rows_is_caught_by_scattered_ones(small_blocks, monkeypatch):
    monkeypatch.setattr(weighted, "_select", in_the_order_they_come)
    with pytest.raises(AssertionError, match="leaves a trace"):
        for seed in range(8):
            WEIGHTED[0].protect(ScatteredLog(crowd().frame, blocks=2), Noise.seeded(seed))


def test_paper_mode_brings_entries_of_shared_pairs_only(small_blocks):
    alone = [(f"user {k}", "query 1", None, None, f"own{k}.example") for k in range(50)]
    log = ScatteredLog(QueryLog.of([*crowd().frame.iter_rows(), *alone]).frame)
    MECHANISMS[2].protect(log, Noise.seeded(3))
    (entries,) = log.collected
    assert entries.group_by("query", "url").agg(pl.col("user").n_unique())["user"].min() >= 2
    assert not entries["url"].str.starts_with("own").any()


def test_nobody_whom_the_laplace_step_deleted_is_drawn(small_blocks):
    log = crowd(60)
    constraints = Constraints.of(shared_counts(log), LAPLACE.limit)
    far = laplace_step.far_neighbours(constraints, LAPLACE._without(constraints), d=LAPLACE.laplace_d)
    deleted = set(constraints.counts.user_names.filter(pl.Series(far)))
    assert 10 < len(deleted) < 50
    for seed in range(5):
        assert not deleted & set(LAPLACE.protect(log, Noise.seeded(seed)).owners)
    assert deleted & set(SIZE.protect(log, Noise.seeded(1)).owners)  # without the step they are


# --- the counts are what they were


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("qr"), st.sampled_from(["u", "v", None])), min_size=1),
    st.sampled_from(CUTS),
)
def test_shared_entries_equal_the_counts_of_the_whole_click_table(rows, cut):
    log = QueryLog.of([(user, query, None, None, url) for user, query, url in rows])
    clicks = Counter(row for row in rows if row[2] is not None)
    holders = Counter((query, url) for _, query, url in clicks)
    expected = {(*key, n) for key, n in clicks.items() if holders[key[1:]] >= 2}
    made = blocks.shared_entries(LocalTable(log.frame, cut)).collect()
    assert len(made) == len(expected)
    assert set(made.rows()) == expected


def test_shared_counts_number_users_and_pairs_as_before(small_blocks):
    log = crowd()
    whole, made = ClickCounts.of(log.clicks()).without_unique_pairs(), shared_counts(log)
    assert made.user_names.equals(whole.user_names)
    assert made.pair_names.equals(whole.pair_names)
    for name in ("user", "pair", "count"):
        assert np.array_equal(getattr(made, name), getattr(whole, name))


@pytest.mark.parametrize("cut", CUTS)
def test_lengths_and_meetings_count_every_user_once(cut):
    """By hand from the log: nobody has more pairs than allowed, and three pairs of one query are not published."""
    log = crowd()
    entries = blocks.contributions(LocalTable(log.frame, cut), Noise.seeded(1), 12)
    pairs = log.clicks().filter(pl.col("query") != "query 0").select("query", "url").unique().sort("query", "url")
    topic = np.arange(pairs.height) % 3
    lengths, meetings = blocks.lengths_and_meetings(entries, pairs, topic, Noise.seeded(2), 12)
    having = Counter(user for user, query, *_ in log.clicks().rows() if query != "query 0")
    expected = Counter(having.values())
    assert lengths.tolist() == [expected[n] for n in range(1, 13)]
    assert meetings.sum() == sum(n >= 2 for n in having.values())
    assert meetings[3:].sum() == meetings[:, 3:].sum() == 0


# --- the law does not depend on the cut


def clicks_of(user: np.ndarray, pair: np.ndarray) -> pl.DataFrame:
    texts = pl.DataFrame({"user": user, "query": pair, "url": pair}).cast(pl.String)
    return texts.with_columns(pl.format("q{}", "query").alias("query"), pl.format("s{}", "url").alias("url"))


@pytest.mark.parametrize("cut", CUTS)
def test_contributions_are_uniform_in_every_cut(cut):
    """40,000 users with 3 pairs of which 1 is kept, α = 1e-6: a share of 1/3 off by 0.02 is rejected."""
    table = LocalTable(clicks_of(np.repeat(np.arange(40_000), 3), np.tile(np.arange(3), 40_000)), cut)
    kept = blocks.contributions(table, Noise.seeded(4), 1).collect()
    assert kept["user"].n_unique() == kept.height == 40_000
    seen = np.sort(kept["query"].value_counts()["count"].to_numpy())
    assert stats.chisquare(seen).pvalue > ALPHA
    assert stats.chisquare(seen, [12_533, 13_333, 14_134]).pvalue < ALPHA


@pytest.mark.parametrize("cut", CUTS)
def test_every_pair_gets_the_noise_of_the_law_in_every_cut(cut):
    """4,000 pairs of 200 people, far above the threshold, α = 1e-6: discrete Laplace; half the scale is rejected."""
    people = pl.DataFrame({"query": [f"q{j // 2}" for j in range(4000)], "url": [f"s{j % 2}" for j in range(4000)]})
    selection = Selection.laplace(epsilon=1.0, delta=1e-6, contribution=2)
    selected = partial(blocks._select, Noise.seeded(6).streams("people", cut), selection)
    rows = people.with_columns(pl.lit(200, pl.Int64).alias("people"))
    noisy = LocalTable(rows, cut).map_blocks("query", selected, blocks.PEOPLE).collect()
    assert noisy.height == 4000

    def fit(scale):
        edges = np.arange(-6, 7)
        law = stats.dlaplace(1 / scale)
        cells = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]]))
        seen = np.histogram(noisy["people"].to_numpy() - 200, np.concatenate([[-1e9], edges + 0.5, [1e9]]))[0]
        return stats.chisquare(seen, cells * 4000).pvalue

    assert fit(float(selection.scale)) > ALPHA
    assert fit(float(selection.scale) / 2) < ALPHA


def test_no_two_blocks_share_their_noise():
    """The same 300 counts in two blocks: noise that repeats would give the same; the twin hands one stream to both."""
    rows = pl.DataFrame({"query": "q", "url": [f"s{j}" for j in range(300)], "people": 200})
    selection = Selection.laplace(epsilon=1.0, delta=1e-6, contribution=2)

    def made(streams):
        return [blocks._select(streams, selection, block, rows)["people"].to_list() for block in (0, 1)]

    one, other = made(Noise.seeded(1).streams("people", 2))
    assert one != other
    one, other = made([NoiseStream(bytes(32)), NoiseStream(bytes(32))])
    assert one == other


@pytest.mark.parametrize("cut", CUTS)
def test_the_two_pairs_of_a_user_meet_in_either_order_alike(cut):
    """30,000 users with a pair of topic 0 and one of topic 1, α = 1e-6: 1/2 off by 0.02 is rejected; and with a third
    pair of topic 2, each of the six ordered couples is met alike."""
    for topics in (2, 3):
        table = LocalTable(clicks_of(np.repeat(np.arange(30_000), topics), np.tile(np.arange(topics), 30_000)), cut)
        pairs = pl.DataFrame({"query": [f"q{j}" for j in range(topics)], "url": [f"s{j}" for j in range(topics)]})
        _, meetings = blocks.lengths_and_meetings(table, pairs, np.arange(topics), Noise.seeded(8), topics)
        couples = meetings[~np.eye(synthetic_users.TOPICS, dtype=bool) & (meetings > 0)]
        assert couples.sum() == meetings.sum() == 30_000
        assert len(couples) == topics * (topics - 1)
        assert stats.chisquare(couples).pvalue > ALPHA
    assert stats.chisquare([15_600, 14_400]).pvalue < ALPHA


@pytest.mark.parametrize("cut", CUTS)
def test_users_are_sampled_by_the_binomial_law_in_every_cut(cut):
    """20,000 pairs with 2 and 5 clicks and x = 4, α = 1e-6: the law of the first user's count; a share of 0.286 off by
    0.02 is rejected. Sampled totals equal x for every pair."""
    pair = np.repeat(np.arange(20_000), 2)
    count = pl.Series("count", np.tile([2, 5], 20_000))
    entries = LocalTable(clicks_of(np.tile([0, 1], 20_000), pair).with_columns(count), cut)
    pairs = clicks_of(pair[::2], pair[::2]).select("query", "url")
    drawn = blocks.sampled(entries, pairs, np.full(20_000, 4), Noise.seeded(3)).collect()
    first = drawn.group_by("query").agg((pl.col("__owner") == "0").sum().alias("first"), pl.len())
    assert first.height == 20_000
    assert (first["len"] == 4).all()
    seen = np.bincount(first["first"].to_numpy(), minlength=5)
    assert stats.chisquare(seen, stats.binom.pmf(np.arange(5), 4, 2 / 7) * 20_000).pvalue > ALPHA
    assert stats.chisquare(seen, stats.binom.pmf(np.arange(5), 4, 0.306) * 20_000).pvalue < ALPHA


def test_as_many_pairs_are_published_in_eight_blocks_as_in_one():
    """500 pairs of 1 to twice half_kept people, 30 seeds each, α = 1e-6 (Welch): means 5 % apart are rejected."""
    selection = safe.rule(epsilon=2.0, delta=1e-7, contribution=1, objective="size")
    people = np.random.default_rng(1).integers(1, 2 * selection.half_kept, 500)
    clicks = clicks_of(np.arange(people.sum()), np.repeat(np.arange(500), people))

    def published(cut):
        table = LocalTable(clicks, cut)
        return [
            safe.publish(table, Noise.seeded(s), epsilon=2.0, contribution=1, selection=selection).pairs.height
            for s in range(30)
        ]

    one, eight = (np.array(published(cut)) for cut in CUTS)
    assert stats.ttest_ind(one, eight, equal_var=False).pvalue > ALPHA
    assert stats.ttest_ind(one, eight * 1.05, equal_var=False).pvalue < ALPHA
