"""Whatever the bytes: a log or an error of ours, never another exception, and never content in the message."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.errors import QueryVeilError
from queryveil.log import QueryLog, read, write
from queryveil.log.formats import FORMATS
from read_only_formats import WRITERS

CANARY = "zanzibar"
NOON = dt.datetime(2006, 3, 1, 12)
MARKED = [(f"{CANARY}{number}", f'{CANARY} , " {number}', NOON) for number in range(4)]
gentle = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def read_or_refuse(path, name):
    for on_error in ("fail", "skip"):
        try:
            read(path, format=name, on_error=on_error)
        except QueryVeilError as error:
            assert CANARY not in str(error).lower()


@pytest.mark.parametrize("name", FORMATS)
@gentle
@given(content=st.binary(max_size=200) | st.text('{}[]",:\n\t\r\\u0ad8 -1.?=&"GET', max_size=80).map(str.encode))
def test_any_bytes_give_a_log_or_a_refusal(name, content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    read_or_refuse(path, name)


@pytest.mark.parametrize("name", FORMATS)
@gentle
@given(data=st.data())
def test_damaged_files_give_a_log_or_a_refusal_without_content(name, data, tmp_path):
    path = tmp_path / "file"
    log = QueryLog.of(MARKED).keeping(FORMATS[name].columns)
    if name in WRITERS:
        path.write_bytes(WRITERS[name](log))
    else:
        write(log, path, format=name)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        length = data.draw(st.integers(0, 6))
        content[at : at + length] = data.draw(
            st.binary(max_size=6) | st.sampled_from([b'"', b"\n", b"\0", b"\t", b"\xff"])
        )
    path.write_bytes(bytes(content))
    read_or_refuse(path, name)
