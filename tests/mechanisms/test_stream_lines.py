"""From bytes to bytes: what comes out is what the stream of rows hands out, byte for byte."""

import datetime as dt
import io
import itertools

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.stream_toys import mechanism
from properties import examples
from queryveil.log import QueryLog
from queryveil.log.formats.format import SECONDS, WRITTEN_TIME
from queryveil.log.identifying import is_identifying
from queryveil.log.spans import Spans
from queryveil.mechanisms.stream.lines import AOL_LINES, JSON_LINES, TABBED, TIMED_JSON_LINES, LineStream
from queryveil.mechanisms.stream.records import StreamRecords, identifying
from queryveil.privacy import Noise

TEXTS = [
    "weather",
    "news",
    'a "b"',
    "tab\there",
    "line\nend",
    "\x01 \x1f\\",
    "🌷 é",
    "call 555 123 4567",
    "ann@x.org",
    "x",
]
rows = st.tuples(
    st.sampled_from(["ann", "bob", "cem", "dan", "eve", "gül"]),
    st.sampled_from(TEXTS),
    st.none()
    | st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
    | st.just(dt.datetime(2006, 3, 1, 7, 0, 0, 5000)),
    st.none() | st.lists(st.sampled_from(["x", "y", "ü z", 'q"q', ""]), min_size=1, max_size=4).map("/".join),
)
kinds = st.sampled_from(
    [
        {"mode": "paper"},
        {"mode": "paper", "time": "keep", "pseudonym": "session"},
        {"mode": "paper", "base": True, "time": "drop"},
        {"mode": "safe", "k_text": 2, "window": 40, "epoch": 70, "cap": 2, "mix": 13, "time": "hour"},
        {"mode": "safe", "k_text": 2, "window": 7, "epoch": 33, "cap": 1, "mix": 1, "pseudonym": "record"},
        {"mode": "safe", "k_text": 2, "window": 50, "mix": 5, "pseudonym": "session", "strict": True},
    ]
)


def frame_of(stream):
    schema = {"user": pl.String, "query": pl.String, "time": pl.Datetime("us"), "category": pl.String}
    return pl.DataFrame(stream, schema=schema, orient="row")


def written(released, form):
    """What Polars writes of released rows."""
    out = io.BytesIO()
    if not released.height:
        return b""
    time = pl.col("time").dt.to_string(SECONDS if form is AOL_LINES else WRITTEN_TIME)
    if form is AOL_LINES:
        no_click = [pl.lit("").alias("rank"), pl.lit("").alias("url")]
        released.select("user", "query", time, *no_click).write_csv(
            out, separator="\t", quote_style="never", include_header=False
        )
    elif form is TABBED:
        released.select("user", "query", time, "category").write_csv(out, separator="\t", include_header=False)
    else:
        times = [time] if form is TIMED_JSON_LINES else []
        released.select("user", "query", *times, "category").write_ndjson(out)
    return out.getvalue()


@settings(max_examples=examples(150), deadline=None)
@given(
    kind=kinds,
    stream=st.lists(rows, max_size=90),
    form=st.sampled_from([JSON_LINES, TIMED_JSON_LINES, TABBED, AOL_LINES]),
    cuts=st.lists(st.integers(0, 90), max_size=4),
    stop=st.integers(0, 90),
)
def test_lines_are_those_of_the_stream_of_rows_wherever_it_is_cut_and_stopped(kind, stream, form, cuts, stop):
    made = mechanism(**{"time": "day"} | kind, category_separator="/", category_column="category")
    frame = frame_of(stream)
    by_rows = made.open(Noise.seeded(3), for_science=True)
    expected = [written(by_rows.push(QueryLog(frame)).frame, form), written(by_rows.finish().frame, form)]
    running, told = LineStream.of(made, Noise.seeded(3), form, for_science=True), b""
    for start, end in itertools.pairwise(sorted({0, len(stream), *(min(cut, len(stream)) for cut in [*cuts, stop])})):
        if start == stop:  # a snapshot is the same for both kinds of stream
            between = made.open(Noise.seeded(3), for_science=True)
            between.restore(running.snapshot())
            running = LineStream.of(made, Noise.seeded(3), form, for_science=True)
            running.restore(between.snapshot())
        parts = running.push(StreamRecords.of(frame[start:end]))
        told += b"".join(part.lines.joined(b"\n") for part in parts)
        assert all(bytes(part.content) == part.lines.joined(b"\n") for part in parts)
    assert told == expected[0]
    assert b"".join(part.lines.joined(b"\n") for part in running.finish()) == expected[1]
    assert (running.released, running.suppressed, running.pending) == (by_rows.released, by_rows.suppressed, 0)


def test_a_path_whose_first_level_has_no_name_is_no_value_when_it_is_cut_there():
    frame = frame_of([(user, "tea", None, "/x") for user in "abcd"])
    made = mechanism("paper", depth=1, k=2, category_separator="/", category_column="category")
    expected = made.open(Noise.seeded(3), for_science=True).push(QueryLog(frame)).frame
    for form, end in ((JSON_LINES, b'"category":null}\n'), (TABBED, b"tea\t\t\n")):
        (part,) = LineStream.of(made, Noise.seeded(3), form, for_science=True).push(StreamRecords.of(frame))
        assert bytes(part.content) == written(expected, form)
        assert bytes(part.content).endswith(end)


texts = st.lists(
    st.text(st.characters(max_codepoint=0x250) | st.sampled_from("@.:-=%&?#([{<0123456789af ")), min_size=1
)


@settings(max_examples=examples(500), deadline=None)
@given(texts | st.lists(st.from_regex(r"[0-9a-f:.\-@ ]{0,30}", fullmatch=True), min_size=1))
def test_identifying_texts_are_those_that_the_patterns_find(found):
    series = pl.Series("q", found, dtype=pl.String)
    assert identifying(Spans.of(series)).tolist() == series.to_frame().select(is_identifying("q"))["q"].to_list()


@pytest.mark.parametrize(
    "text",
    ["ann@x.org", "5551234567", "5 5-5(1)2.3/4", "x.org/?token=1", "0a:1b:2c:3d:4e:5f", "0a-1b-2c-3d-4e-5f",
     "0a1b.2c3d.4e5f", "fe80::1", "ann (at) x (dot) org", "ann%40x.org", "５５５１２３４"],
)  # fmt: skip
def test_every_kind_of_identifying_text_is_looked_at(text):
    assert identifying(Spans.of(pl.Series(["tulips", text]))).tolist() == [False, True]


def test_seeded_noise_and_paper_mode_hand_nothing_out_for_publication():
    from queryveil.errors import RefusedError

    running = LineStream.of(mechanism("paper"), Noise.seeded(1), JSON_LINES)
    with pytest.raises(RefusedError, match="only in safe mode with secure noise"):
        running.push(StreamRecords.of(frame_of([])))
