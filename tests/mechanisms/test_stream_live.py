"""Batches, snapshots and forgetting: where a stream is cut and stopped makes no difference, and nothing is lost."""

import itertools

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.stream_oracle import GateOracle, Oracle, from_words
from mechanisms.stream_toys import crowd, log_of, mechanism, outputs
from properties import examples
from queryveil.mechanisms.stream import running as stream_state
from queryveil.mechanisms.stream._names import fingerprints
from queryveil.privacy import Noise

USERS = ["ann", "bob", "cem", "dan", "eve", "fay", "gül"]


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


@settings(max_examples=examples(80), deadline=None)
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
    left = whole.pending
    before = whole.suppressed
    assert outputs([whole.finish()]) == outputs([running.finish()])
    assert whole.suppressed == before + left
    assert whole.released + whole.suppressed == len(stream)


@settings(max_examples=examples(60), deadline=None)
@given(kind=modes, stream=streams)
def test_the_whole_stream_agrees_with_the_plain_one_from_strings_to_strings(kind, stream):
    made = mechanism(**kind)
    running = made.open(Noise.seeded(4), for_science=True, all_at_once=True)
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


def test_memory_follows_what_waits_and_not_what_was_seen(monkeypatch):
    monkeypatch.setattr(stream_state, "SPARE_NAMES", 50)
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
    monkeypatch.setattr(stream_state, "SPARE_NAMES", 0)
    monkeypatch.setattr(stream_state, "SLICE", 97)
    monkeypatch.setattr("queryveil.mechanisms.stream._held_rows.SPARE", 0)
    running = made.open(Noise.seeded(1), for_science=True)
    assert outputs([running.push(log_of(crowd())), running.finish()]) == expected
    assert len(expected) > 2900
