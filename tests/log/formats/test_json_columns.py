"""The compiled reader of JSON beside Python's own, and times beside the slow way to read them."""

from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostile import any_text
from queryveil.errors import FormatError
from queryveil.log.formats._json_columns import Pieces, elements_of, find
from queryveil.log.formats._json_kernel import GOOD, KEY_TWICE, MOST_DEPTH, NO_OBJECT
from queryveil.log.formats.format import iso_time
from queryveil.log.source import Block

PATHS = {"a": ("a",), "b": ("b",), "deep": ("a", "b")}
quick = settings(max_examples=300, deadline=None)
keys = st.sampled_from(["a", "b", "é", "", "a\\b", "x" * 300])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
documents = st.builds(
    lambda value, ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=" " if indent else None),
    st.dictionaries(keys, values, max_size=4) | values,
    st.booleans(),
    st.just(False),
)
damage = st.lists(
    st.tuples(st.integers(0, 200), st.sampled_from(list('{}[]",:\\u0aé1.-e tn\x01')) | st.just("")), max_size=3
)


def damaged(text, faults):
    for at, letter in faults:
        at = min(at, len(text))
        text = text[:at] + letter + text[at + 1 :]
    return text.replace("\n", " ")


def expected(line):
    """What the standard library says of a line: its state, and the values at the paths."""

    def refuse(_):
        raise ValueError

    try:
        value = json.loads(line, object_pairs_hook=tuple, parse_constant=refuse)
        str(value).encode()
        repr_of_all(value).encode()
    except (ValueError, RecursionError):
        return NO_OBJECT, {}
    if not is_object(value) or not line.lstrip(" \t\r").startswith("{"):
        return NO_OBJECT, {}
    found, twice = {}, False
    for name, path in PATHS.items():
        reached = at_path(value, path)
        twice |= len(reached) > 1
        if reached:
            found[name] = reached[0]
    return (KEY_TWICE, {}) if twice else (GOOD, found)


def repr_of_all(value):
    """All texts of a value, so that half a surrogate pair cannot be encoded."""
    return (
        "".join(map(repr_of_all, value))
        if isinstance(value, (tuple, list))
        else value
        if isinstance(value, str)
        else ""
    )


def is_object(value):
    return isinstance(value, tuple)


def at_path(value, path):
    if not path:
        return [value]
    if not is_object(value):
        return []
    return [each for key, inner in value if key == path[0] for each in at_path(inner, path[1:])]


@quick
@given(st.lists(st.builds(damaged, documents, damage), min_size=1, max_size=5))
@example(['{"a":"\\ud800"}', '{"a":"\\ud83d\\ude00","\\u0062":1}', '{"a":1,"\\u0061":2}', '{"a":truE}', '{"a":true }'])
@example(
    ['{"a":01}', '{"a":-0}', '{"a":1.}', '{"a":1e}', '{"a":1e+5}', '{"a":-}', '{"a":nullx}', '{"a":1}}', "{}", " {} "]
)
def test_values_and_states_are_those_of_the_standard_library(lines):
    lines = [line for line in lines if line.strip("\r")]
    pieces, numbers = Pieces.lines_of(Block(3, "\n".join(lines).encode(), {}))
    assert numbers.tolist() == list(range(3, 3 + len(lines)))
    found = find(pieces, PATHS)
    for row, line in enumerate(lines):
        state, values_of = expected(line)
        assert found.states[row] == state, line
        for name in PATHS:
            value = values_of.get(name)
            text = found[name].texts(numbers=True)[row]
            wanted = value if isinstance(value, str) else str(value) if type(value) is int else None
            assert text == wanted or (text == "-0" and value == 0), line


@quick
@given(st.lists(values, max_size=5), st.booleans())
def test_elements_of_arrays_are_those_of_the_standard_library(listed, blanks):
    texts = [json.dumps({"a": listed}, separators=(", ", ": ") if blanks else (",", ":"))]
    pieces, _ = Pieces.lines_of(Block(1, "\n".join(texts).encode(), {}))
    elements, owners = elements_of(find(pieces, {"a": ("a",)})["a"])
    spans = zip(elements.starts, elements.stops, strict=True)
    assert [json.loads(elements.data[start:stop].tobytes()) for start, stop in spans] == listed
    assert owners.tolist() == [0] * len(listed)


@pytest.mark.parametrize("text", ['["a]', "[}]", "[{}}]"])
def test_brackets_that_are_not_balanced_are_no_array(text):
    pieces, _ = Pieces.lines_of(Block(1, text.encode(), {}))
    pieces.kinds[:] = 8
    with pytest.raises(FormatError, match="not balanced"):
        elements_of(pieces)


def test_deep_nesting_is_refused_and_does_no_harm():
    lines = [b'{"a":' * depth + b"1" + b"}" * depth for depth in (MOST_DEPTH, MOST_DEPTH + 1, 100_000)]
    pieces, _ = Pieces.lines_of(Block(1, b"\n".join(lines), {}))
    assert find(pieces, PATHS).states.tolist() == [GOOD, NO_OBJECT, NO_OBJECT]


times = st.builds(
    "{}-{:02}-{:02}{}{:02}:{:02}:{:02}{}{}".format,
    st.sampled_from(["0001", "1969", "2000", "2024", "2100", "9999", "24", "x024"]),
    st.integers(0, 13), st.integers(0, 32), st.sampled_from("T t_"), st.integers(0, 25), st.integers(0, 61),
    st.integers(0, 61), st.sampled_from(["", ".5", ",123456", ".123456789", ".", ".1234567890"]),
    st.sampled_from(["", "Z", "z", "+01:00", "-0730", "+1:00", " UTC", " +02:00", "+99:99"]),
)  # fmt: skip


@quick
@given(st.lists(times | any_text.filter(lambda text: "\n" not in text and text.strip("\r")), min_size=1, max_size=6))
def test_times_are_those_of_the_slow_way(texts):
    texts = [json.dumps({"a": text}) for text in texts]
    pieces, _ = Pieces.lines_of(Block(1, "\n".join(texts).encode(), {}))
    value = find(pieces, {"a": ("a",)})["a"]
    frame = pl.DataFrame({"time": value.texts()})
    assert value.times().to_list() == frame.select(iso_time("time"))["time"].to_list()
