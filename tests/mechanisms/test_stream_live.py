"""Batches, snapshots and names: where a stream is cut and stopped makes no difference, and nothing is lost."""

import hashlib
import itertools

import numpy as np
import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.stream_oracle import GateOracle, Oracle, from_words
from queryveil.errors import DataError, ParameterError, RefusedError
from queryveil.log import QueryLog
from queryveil.mechanisms.stream import StreamMixing, live
from queryveil.mechanisms.stream._held_rows import HeldRows
from queryveil.mechanisms.stream._names import CategoryNumbers, Key, Numbers, bytes_of, fingerprints, pseudonyms
from queryveil.privacy import Noise, keys

KEY = Key(np.uint64(0x0706050403020100), np.uint64(0x0F0E0D0C0B0A0908))


def log_of(stream):
    """Records (user, text, path) as a log with a category column."""
    users, texts, paths = zip(*stream, strict=True) if stream else ((), (), ())
    return QueryLog(
        pl.DataFrame(
            {"user": users, "query": texts, "topic": [": ".join(path) for path in paths]},
            schema={"user": pl.String, "query": pl.String, "topic": pl.String},
        )
    )


def mechanism(mode, **given):
    return StreamMixing(**{"k": 2, "depth": 3, "mode": mode, "category_column": "topic", "time": "drop"} | given)


def outputs(batches):
    return [row for batch in batches for row in batch.frame.select("user", "query", "category").rows()]


users = st.sampled_from(["ann", "bob", "cem", "dan", "eve", "fay", "gül"])
texts = st.sampled_from(["weather", "news", "chess", "🌷", "own 1", "own 2"])
paths = st.lists(st.sampled_from(["x", "y", "ü z"]), min_size=1, max_size=4).map(tuple)
streams = st.lists(st.tuples(users, texts, paths), max_size=90)
modes = st.sampled_from(
    [
        {"mode": "paper"},
        {"mode": "paper", "base": True},
        {"mode": "safe", "k_text": 2, "window": 40, "epoch": 70, "cap": 2, "mix": 13},
        {"mode": "safe", "k_text": 2, "window": 7, "epoch": 33, "cap": 1, "mix": 1, "pseudonym": "record"},
        {"mode": "safe", "k_text": 3, "window": 50, "epoch": 1000, "cap": 3, "strict": True},
    ]
)


@settings(max_examples=80, deadline=None)
@given(kind=modes, stream=streams, cuts=st.lists(st.integers(0, 90), max_size=5), stop=st.integers(0, 90))
def test_cutting_into_batches_and_stopping_at_any_record_changes_nothing(kind, stream, cuts, stop):
    made = mechanism(**kind)
    whole = made.open(Noise.seeded(3), for_science=True)
    expected = outputs([whole.push(log_of(stream))])
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    stop = min(stop, len(stream))
    running, told = made.open(Noise.seeded(3), for_science=True), []
    for start, end in itertools.pairwise(sorted({*bounds, stop})):
        if start == stop:
            content = running.snapshot()
            running = made.open(Noise.seeded(3), for_science=True)
            running.restore(content)
        told += outputs([running.push(log_of(stream[start:end]))])
    assert told == expected
    assert (running.pending, running.released, running.suppressed) == (whole.pending, whole.released, whole.suppressed)
    assert whole.released + whole.pending + whole.suppressed == len(stream)
    left = whole.pending - whole.mixing
    before = whole.suppressed
    assert outputs([whole.finish()]) == outputs([running.finish()])
    assert whole.suppressed == before + left
    assert whole.released + whole.suppressed == len(stream)


@settings(max_examples=60, deadline=None)
@given(kind=modes, stream=streams)
def test_the_whole_stream_agrees_with_the_plain_one_from_strings_to_strings(kind, stream):
    made = mechanism(**kind)
    running = made.open(Noise.seeded(4), for_science=True)
    came_out = [
        part for part in (*running.push_with_owners(log_of(stream)), *running.finish_with_owners()) if len(part)
    ]
    words = iter(Noise.seeded(4).stream("stream: draws", 0).words(20_000).tolist())
    rules, draw = running.settings.rules, from_words(words)
    safe = made.mode == "safe"
    names = {
        name: int(print_) for name, print_ in zip(USERS, fingerprints(pl.Series(USERS), running._user_key), strict=True)
    }
    expected, epoch = [], made.epoch if safe else len(stream) + 1
    for start in range(0, len(stream), epoch):
        oracle = Oracle(
            rules.k, draw, rules.branches, rules.exclude_owner, rules.distinct, rules.cap, rules.strict, rules.most
        )
        gate = GateOracle(made.k_text, made.window)
        for place in range(start, min(start + epoch, len(stream))):
            user, text, _ = stream[place]
            for owner, record in gate.push(user, text, place) if safe else [(user, place)]:
                oracle.push(owner, record, stream[record][2][: made.depth])
        for emission in oracle.out:
            text = stream[emission.record][1]
            expected.append((emission.owner, text, names[emission.receiver], len(emission.category)))
    told = {
        serial: row
        for part in came_out
        for serial, *row in zip(
            part.serials.tolist(), part.rows["user"], part.rows["query"], part.receivers.tolist(),
            part.depths.tolist(), strict=True,
        )
    }  # fmt: skip
    assert [tuple(told[serial]) for serial in range(len(told))] == expected
    if not safe:
        assert list(told) == sorted(told)


USERS = ["ann", "bob", "cem", "dan", "eve", "fay", "gül"]


def crowd(records=4000, people=60):
    """A stream in which everybody asks everything, in four categories."""
    return [(f"person {i * 7 % people}", f"text {i * i % 11}", ("top", f"topic {i % 4}")) for i in range(records)]


def test_memory_follows_what_waits_and_not_what_was_seen(monkeypatch):
    monkeypatch.setattr(live, "SPARE_NAMES", 50)
    monkeypatch.setattr("queryveil.mechanisms.stream._held_rows.SPARE", 100)
    running = mechanism("paper").open(Noise.seeded(1), for_science=True)
    for start in range(20):
        fresh = [(f"{user} {start}", text, (*path, f"sub {start}")) for user, text, path in crowd(500)]
        running.push(log_of(fresh))
    assert running.pending < 100
    assert len(running._held) < 2 * running.pending + 700
    assert running._users.count < 500
    assert running._categories.count < 300
    assert running.released + running.pending == 10_000


def test_forgetting_names_and_rows_changes_no_draw(monkeypatch):
    made = mechanism("safe", k_text=2, window=300, epoch=2500)
    whole = made.open(Noise.seeded(1), for_science=True)
    expected = outputs([whole.push(log_of(crowd())), whole.finish()])
    monkeypatch.setattr(live, "SPARE_NAMES", 0)
    monkeypatch.setattr(live, "SLICE", 97)
    monkeypatch.setattr("queryveil.mechanisms.stream._held_rows.SPARE", 0)
    running = made.open(Noise.seeded(1), for_science=True)
    assert outputs([running.push(log_of(crowd())), running.finish()]) == expected
    assert len(expected) > 3000


def test_a_snapshot_that_is_torn_altered_foreign_or_for_another_key_is_refused():
    running = mechanism("safe", k_text=2).open(Noise.seeded(1), for_science=True)
    running.push(log_of(crowd(300)))
    content = running.snapshot()
    other = mechanism("safe", k_text=2).open(Noise.seeded(2), for_science=True)
    for broken, message in [
        (content[:-1], "torn"),
        (content[:60] + b"x" + content[61:], "torn"),
        (b"not a snapshot", "not a snapshot"),
        (content[:8] + b"\0\0\0\7" + content[12:], "another format"),
    ]:
        with pytest.raises(DataError, match=message):
            mechanism("safe", k_text=2).open(Noise.seeded(1)).restore(broken)
    with pytest.raises(DataError, match="another key"):
        other.restore(content)
    with pytest.raises(DataError, match="other settings: k_text"):
        mechanism("safe", k_text=3).open(Noise.seeded(1), for_science=True).restore(content)


def test_a_snapshot_holds_no_key_and_no_text_that_has_left():
    noise = Noise.seeded(1)
    running = mechanism("paper").open(noise, for_science=True)
    running.push(log_of([(f"u{i}", "first secret", ("a",)) for i in range(50)]))
    running.push(log_of([(f"u{i}", f"later {i}", ("a",)) for i in range(50)]))
    plain = zstandard.ZstdDecompressor().decompress(running.snapshot()[52:])
    assert noise._key not in plain
    waiting = running._held.take(np.arange(len(running._held), dtype=np.int32))
    assert waiting.height == running.pending


def test_the_same_noise_cannot_run_two_streams():
    noise = Noise.seeded(1)
    mechanism("paper").open(noise)
    with pytest.raises(RefusedError):
        mechanism("paper").open(noise)


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


# What the moment tells


def timed(stream):
    """Records a day apart."""
    days = (pl.datetime(2026, 3, 1) + pl.duration(days=pl.int_range(pl.len()))).cast(pl.Datetime("us"))
    return QueryLog(log_of(stream).frame.with_columns(days.alias("time")))


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
    for place, record in enumerate(stream[:1000], start=1):
        count = len(running.push(log_of([record])))
        assert (count > 0) == (place % mix == 0)
        assert running.released + running.pending + running.suppressed == place
        handed_out.append(count)
    assert running.mixing == 0
    parts = running.push_with_owners(log_of(stream[1000:]))
    serials = np.concatenate([part.serials for part in parts]) - sum(handed_out)
    assert sorted(serials.tolist()) == list(range(len(serials)))
    # Spearman's ρ of order out against order in, within a window of some 250: |ρ| < 0.35 but with chance 1e-7.
    for start in range(0, len(serials) - mix, mix):
        window = serials[start : start + 200]
        assert abs(np.corrcoef(np.arange(200), window.argsort().argsort())[0, 1]) < 0.35


def test_a_mix_that_is_cut_short_by_a_snapshot_or_the_end_loses_nothing():
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


# The key of a run, and what may be published


def test_a_secure_run_goes_on_in_another_process_through_its_kept_key():
    made = mechanism("safe", k_text=2, mix=50)
    running = made.start("web-1")
    running.push(log_of(crowd(700)))
    content = running.snapshot()
    later = made.resume("web-1", content)
    assert running.publishable
    assert later.publishable
    assert outputs([later.push(log_of(crowd(1400)[700:]))]) == outputs([running.push(log_of(crowd(1400)[700:]))])
    key = keys.kept("stream-web-1.key")
    assert len(key) == 32
    assert key not in content
    assert key not in zstandard.ZstdDecompressor().decompress(content[52:])


def test_a_run_is_started_once_and_resumed_only_with_its_key():
    made = mechanism("safe", k_text=2)
    content = made.start("one").snapshot()
    with pytest.raises(RefusedError, match="kept already"):
        made.start("one")
    made.start("two")
    with pytest.raises(DataError, match="another key"):
        made.resume("two", content)
    with pytest.raises(DataError, match="is missing"):
        made.resume("three", content)
    with pytest.raises(ParameterError, match="run must be"):
        made.start("../elsewhere")
    keys.keep("stream-short.key", b"short")
    with pytest.raises(DataError, match="32 bytes"):
        made.resume("short", content)


def test_a_snapshot_is_taken_only_with_the_keys_own_code():
    """Anybody could make a plain checksum right again after a change; not the code under the run's key."""
    content = mechanism("safe", k_text=2).open(Noise.seeded(1)).snapshot()
    body = content.index(b"\x28\xb5\x2f\xfd")  # where the Zstandard frame begins
    start, packed = content[: body - 32], content[body:]
    for unkeyed in (
        hashlib.sha256(packed).digest(),
        hashlib.sha256(start + packed).digest(),
        hashlib.blake2b(packed, digest_size=32, person=b"stream snapshot").digest(),
    ):
        with pytest.raises(DataError, match="altered"):
            mechanism("safe", k_text=2).open(Noise.seeded(1)).restore(start + unkeyed + packed)


def test_a_safe_stream_keeps_no_click_rank_or_exact_time_in_its_state():
    frame = timed(crowd(300)).frame.with_columns(
        pl.lit("secretsite.example").alias("url"), pl.lit(7, pl.UInt32).alias("rank")
    )
    running = mechanism("safe", k_text=2).open(Noise.seeded(1))
    running.push_with_owners(QueryLog(frame))
    assert running._held.take(np.arange(2, dtype=np.int32)).columns == ["user", "query", "category"]
    assert b"secretsite" not in zstandard.ZstdDecompressor().decompress(running.snapshot()[52:])


@pytest.mark.parametrize(
    ("mode", "noise"), [("safe", Noise.seeded(1)), ("paper", Noise.seeded(1)), ("paper", Noise.secure())]
)
def test_records_that_may_not_be_published_are_handed_out_only_for_science(mode, noise):
    running = mechanism(mode).open(noise)
    assert not running.publishable
    for hand_out in (lambda: running.push(log_of(crowd(9))), running.finish):
        with pytest.raises(RefusedError, match="for_science"):
            hand_out()
    assert running.arrived == 0
    assert mechanism("safe").open(Noise.secure()).publishable


# Bad input


def test_records_without_a_category_are_left_out_and_counted():
    frame = pl.DataFrame({"user": ["a", "b", "c"], "query": ["x", "y", "z"], "topic": [None, "", "t"]})
    running = mechanism("paper").open(Noise.seeded(1), for_science=True)
    running.push(QueryLog(frame))
    assert (running.suppressed, running.pending) == (2, 1)


def test_a_missing_category_column_is_told_without_data():
    with pytest.raises(DataError, match="category_column"):
        mechanism("paper").open(Noise.seeded(1), for_science=True).push(QueryLog.of([("secret person", "secret")]))


def test_names_with_separators_unicode_and_a_megabyte_are_taken_as_they_are():
    odd = [("a: b",), ("a", "b"), ("🌷: ", "x"), ("n" * (1 << 20), "y"), ("",) * 3, (":",)]
    stream = [(f"u{i % 5}", f"q{i}", odd[i % len(odd)]) for i in range(120)]
    running = mechanism("paper", depth=2).open(Noise.seeded(1), for_science=True)
    out = running.push(log_of(stream))
    assert running.released + running.pending == 120
    assert len(out) > 60
    allowed = {": ".join(": ".join(path).split(": ")[:d]) for path in odd for d in (1, 2)}
    assert set(out.frame["category"]) <= allowed | {None}  # "" and null mean the same in a log


@pytest.mark.parametrize("kind", ["paper", "safe"])
@pytest.mark.parametrize("depth", [3, 1000])
def test_odd_names_and_a_path_of_a_thousand_levels_lose_nothing_in_either_mode(kind, depth):
    deep = tuple(f"level {i}" for i in range(1000))
    odd = [("a: b",), ("🌷: ", "x"), ("n" * (1 << 20), "y"), ("",) * 3, deep, (*deep[:-1], "another last one")]
    stream = [(f"u{i % 7}", f"q{i % 2}", odd[i % len(odd)]) for i in range(200)]
    made = mechanism(kind, depth=depth)
    running = made.open(Noise.seeded(1), for_science=True)
    handed_out = len(running.push(log_of(stream)))
    assert running.released + running.pending + running.suppressed == 200
    handed_out += len(running.finish())
    assert handed_out == running.released > 60
    assert running.released + running.suppressed == 200


def test_one_user_only_gets_nothing_out_of_a_safe_stream():
    running = mechanism("safe").open(Noise.seeded(1), for_science=True)
    assert len(running.push(log_of([("u", f"q{i % 3}", ("t",)) for i in range(90)]))) == 0
    assert len(running.finish()) == 0
    assert running.suppressed == 90


# Names


def test_fingerprints_are_sip_hash():
    """Vectors of the reference implementation: key 00…0f, messages of 0, 1, 8 and 15 bytes 00, 01, 02, …"""
    messages = [bytes(range(n)).decode() for n in (0, 1, 8, 15)]
    assert [hex(x) for x in fingerprints(pl.Series(messages), KEY).tolist()] == [
        "0x726fdb47dd0e0e31", "0x74f839c593dc67fd", "0x93f5f5799a932462", "0xa129ca6149be45e5",
    ]  # fmt: skip


def test_bytes_of_texts_lie_one_behind_the_other():
    data, ends = bytes_of(pl.Series(["ab", "", "ü"]))
    assert (data.tobytes().decode(), ends.tolist()) == ("abü", [2, 2, 4])
    assert len(bytes_of(pl.Series([], dtype=pl.String))[1]) == 0


@settings(max_examples=60, deadline=None)
@given(
    paths=st.lists(st.lists(st.sampled_from(["a", "b", "", "é:"]), min_size=1, max_size=5), max_size=40),
    depth=st.integers(1, 4),
)
def test_paths_are_numbered_as_a_dictionary_would(paths, depth):
    numbers = CategoryNumbers("/", depth, KEY)
    texts = ["/".join(path) for path in paths]
    found, parents, depths = numbers.of_paths(pl.Series(texts, dtype=pl.String))
    known = {(): 0}
    expected_parents, expected = [], []
    for text in texts:
        path = tuple(text.split("/"))[:depth]
        for length in range(1, len(path) + 1):
            if path[:length] not in known:
                expected_parents.append((known[path[: length - 1]], length))
                known[path[:length]] = len(known)
        expected.append(known[path])
    assert found.tolist() == expected
    assert list(zip(parents.tolist(), depths.tolist(), strict=True)) == expected_parents
    paths = pl.Series("path", texts, dtype=pl.String)
    levels = np.array([min(len(t.split("/")), 2) for t in texts], np.int32)
    cut = paths.to_frame().select(numbers.cut(paths, levels)).to_series()
    assert cut.to_list() == ["/".join(text.split("/")[:2]) for text in texts]


def test_numbers_grow_and_forget():
    numbers = Numbers()
    wanted = np.arange(1, 5001, dtype=np.uint64) * np.uint64(2654435761)
    assert numbers.of(wanted).tolist() == list(range(5000))
    assert numbers.of(wanted[::-1]).tolist() == list(range(4999, -1, -1))
    used = np.zeros(5000, bool)
    used[[3, 77]] = True
    new = numbers.keep_only(used)
    assert (new[3], new[77], new[4]) == (0, 1, -1)
    assert numbers.of(wanted[[77, 5, 3]]).tolist() == [1, 2, 0]


def test_pseudonyms_are_written_like_all_others():
    assert pseudonyms(np.array([0, 2**64 - 1, 255], np.uint64)).to_list() == [
        "u0000000000000000", "uffffffffffffffff", "u00000000000000ff",
    ]  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), max_size=12), data=st.data())
def test_held_rows_come_back_by_handle_in_the_order_asked(sizes, data):
    held, rows = HeldRows(), []
    for size in sizes:
        frame = pl.DataFrame({"query": [f"q{len(rows) + i}" for i in range(size)]}, schema={"query": pl.String})
        held.add(frame, len(rows))
        rows += frame["query"].to_list()
    if rows:
        wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20))
        assert held.take(np.array(wanted, np.int32)).to_series().to_list() == [rows[i] for i in wanted]
        kept = sorted(set(wanted))
        numbers = held.keep_only(np.array(kept, np.int32))
        assert held.take(numbers[np.array(kept, np.int32)]).rows() == [(rows[i],) for i in kept]
