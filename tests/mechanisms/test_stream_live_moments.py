"""What the moment of a release, its time and its pseudonym tell: nothing of its owner."""

import numpy as np
import polars as pl

from mechanisms.stream_toys import crowd, log_of, mechanism, outputs, timed
from queryveil.log import QueryLog
from queryveil.privacy import Noise


def test_safe_batches_hold_no_user_no_exact_time_no_click_and_a_category_cut_to_the_pool():
    frame = log_of(crowd()).frame.with_columns(
        pl.datetime(2026, 3, 1, 12, 34, 56).cast(pl.Datetime("us")).alias("time"),
        pl.lit("site.example").alias("url"), pl.lit(1, pl.UInt32).alias("rank"),
    )  # fmt: skip
    out = mechanism("safe", k_text=2, time="hour").open(Noise.seeded(1), for_science=True).push(QueryLog(frame)).frame
    assert not set(out["user"]) & set(frame["user"])
    assert out["time"].unique().to_list() == [frame["time"].dt.truncate("1h")[0]]
    assert out["url"].null_count() == out["rank"].null_count() == out.height > 3000
    assert set(out["category"]) <= {"top", *(f"top: topic {i}" for i in range(4))}


def test_pseudonyms_live_as_long_as_told():
    stream = crowd(2000, people=20)
    lives = {}
    for kind in ("record", "session", "epoch"):
        made = mechanism("safe", k_text=2, epoch=1000, pseudonym=kind, time="day")
        frame = log_of(stream).frame.with_columns(
            (pl.datetime(2026, 3, 1) + pl.duration(days=pl.int_range(pl.len()) // 250)).alias("time")
        )
        out = made.open(Noise.seeded(1), for_science=True).push(QueryLog(frame)).frame
        lives[kind] = out["user"].n_unique(), out.height
    assert lives["record"][0] == lives["record"][1]
    assert lives["epoch"][0] <= 40
    assert 40 < lives["session"][0] <= 20 * 8 * 2


def test_a_repeated_text_gets_a_fresh_receiver_every_time():
    """Chance of the same receiver throughout, for one of nine owners with about 100 releases: below 1e-40."""
    stream = [(f"person {i % 9}", "weather", ("top",)) for i in range(900)]
    (part,) = mechanism("safe", k_text=2).open(Noise.seeded(1)).push_with_owners(log_of(stream))
    for owner in set(part.owners.tolist()):
        assert len(set(part.receivers[part.owners == owner].tolist())) > 4


def test_the_released_time_is_that_of_the_release_whoever_owns_the_record():
    """Over 60 seeds each of three owners is drawn (chance to miss one below 1e-9); the time is always the third's."""
    stream = [(user, "weather", ("top",)) for user in ("ann", "bob", "cem")]
    owners, times = set(), set()
    for seed in range(60):
        made = mechanism("safe", k_text=2, time="day")
        (part,) = [part for part in made.observe(timed(stream), Noise.seeded(seed)) if len(part)]
        owners |= set(part.rows["user"])
        times |= set(part.rows["time"])
        assert set(made.protect(timed(stream), Noise.seeded(seed)).log.frame["time"]) == set(part.rows["time"])
    assert owners == {"ann", "bob", "cem"}
    assert times == {timed(stream).frame["time"][2]}


def test_a_session_lasts_as_long_as_a_released_time_not_as_the_owners():
    stream = [(user, "weather", ("top",)) for user in ("ann", "bob", "cem")] * 2
    made = mechanism("safe", k_text=2, time="day", pseudonym="session")
    for seed in range(20):
        for part in made.observe(timed(stream), Noise.seeded(seed)):
            names = set(zip(part.receivers.tolist(), part.rows["time"] if len(part) else [], strict=True))
            assert part.pseudonyms.n_unique() == len(names)
            assert all(day >= timed(stream).frame["time"][2] for _, day in names)  # nothing leaves before the third


def test_nothing_comes_out_before_its_window_of_arrivals_is_over_and_then_in_random_order():
    stream, mix = crowd(3000), 250
    running = mechanism("safe", k_text=2, mix=mix).open(Noise.seeded(1), for_science=True)
    handed_out = []
    for place, record in enumerate(stream[:500], start=1):
        count = len(running.push(log_of([record])))
        assert (count > 0) == (place % mix == 0)
        assert running.released + running.pending + running.suppressed == place
        handed_out.append(count)
    assert running.mixing == 0
    parts = running.push_with_owners(log_of(stream[500:]))
    serials = np.concatenate([part.serials for part in parts]) - sum(handed_out)
    assert sorted(serials.tolist()) == list(range(len(serials)))
    # Spearman's ρ of order out against order in, within a window of some 250: |ρ| < 0.35 but with chance 1e-7.
    for start in range(0, len(serials) - mix, mix):
        window = serials[start : start + 200]
        assert abs(np.corrcoef(np.arange(200), window.argsort().argsort())[0, 1]) < 0.35


def test_a_mix_that_is_cut_short_by_a_snapshot_loses_nothing():
    made = mechanism("safe", k_text=2, mix=1000, epoch=1700)
    running = made.open(Noise.seeded(1), for_science=True)
    first = running.push(log_of(crowd(1500)))
    assert running.mixing > 300
    again = made.open(Noise.seeded(1), for_science=True)
    again.restore(running.snapshot())
    assert again.mixing == running.mixing
    rest = [again.push(log_of(crowd(2000)[1500:])), again.finish()]
    whole = made.open(Noise.seeded(1), for_science=True)
    assert outputs([first, *rest]) == outputs([whole.push(log_of(crowd(2000))), whole.finish()])
    assert again.mixing == 0
    assert again.released + again.suppressed == 2000


def test_what_is_in_the_mix_when_an_epoch_ends_is_suppressed_for_its_window_would_be_shorter():
    """With 201 arrivals to an epoch its last window would hold one, and what came out would be that person's text."""
    made = mechanism("safe", k_text=2, mix=200, epoch=201)
    live = made.open(Noise.seeded(1), for_science=True)
    handed_out = [live.push(log_of([record])) for record in crowd(603)]
    assert [place % 201 for place, out in enumerate(handed_out, start=1) if len(out)] == [200] * 3
    assert live.pending == 0
    assert live.released + live.suppressed == 603
    live.push(log_of(crowd(150)))
    assert live.mixing > 100
    assert len(live.finish()) == live.mixing == live.pending == 0
    assert live.released + live.suppressed == 753
    whole = made.open(Noise.seeded(1), for_science=True, all_at_once=True)
    assert len(whole.push(log_of(crowd(603)))) + len(whole.finish()) == whole.released > sum(map(len, handed_out))


def test_a_text_in_the_mix_is_not_handed_out_at_the_arrival_that_set_it_free():
    """What a live watcher saw before: the text comes out exactly when its k_text-th asker arrives."""
    common = [(f"person {i}", "news", ("top",)) for i in range(6)]
    rare = [(f"person {i}", "rare text", ("top",)) for i in range(6)]
    running = mechanism("safe", k_text=3, mix=12).open(Noise.seeded(1), for_science=True)
    came = [running.push(log_of([record])).queries() for record in common + rare]
    assert [len(texts) > 0 for texts in came] == [False] * 11 + [True]
    immediate = mechanism("safe", k_text=3, mix=1).open(Noise.seeded(1), for_science=True)
    came = [immediate.push(log_of([record])).queries() for record in common + rare]
    assert next(i for i, texts in enumerate(came) if "rare text" in texts) in (8, 9)
