"""The key of a run, its snapshots, and what may be published."""

import hashlib

import numpy as np
import polars as pl
import pytest
import zstandard

from mechanisms.stream_toys import crowd, log_of, mechanism, outputs, timed
from queryveil.errors import DataError, ParameterError, RefusedError
from queryveil.log import QueryLog
from queryveil.privacy import Noise, keys


def test_a_secure_run_goes_on_in_another_process_through_its_kept_key():
    made = mechanism("safe", k_text=2, mix=50)
    running = made.start("web-1")
    running.push(log_of(crowd(700)))
    content = running.snapshot()
    later = made.resume("web-1", content)
    assert running.publishable
    assert later.publishable
    assert outputs([later.push(log_of(crowd(1400)[700:]))]) == outputs([running.push(log_of(crowd(1400)[700:]))])
    key = keys.load("stream-web-1.key")
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


def test_the_same_noise_cannot_run_two_streams():
    noise = Noise.seeded(1)
    mechanism("paper").open(noise)
    with pytest.raises(RefusedError):
        mechanism("paper").open(noise)


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
