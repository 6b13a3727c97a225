"""Odd input to a live stream: nothing is lost, and nothing of it is told."""

import polars as pl
import pytest

from mechanisms.stream_toys import log_of, mechanism
from queryveil.errors import DataError
from queryveil.log import QueryLog
from queryveil.privacy import Noise


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
    running = made.open(Noise.seeded(1), for_science=True, all_at_once=True)
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
