"""Bytes to blocks: compression, encodings, broken lines, and limits on memory."""

from __future__ import annotations

import gzip

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queryveil.log import read, source
from queryveil.log.source import LogFile

TEXT = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n7\tseñal 😀\t2006-03-01 07:17:12\t1\thttp://x\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(("pack", "suffix"), [(bytes, ""), (gzip.compress, ".gz"), (zstandard.compress, ".zst")])
def test_all_encodings_read_alike_packed_or_not(encoding, pack, suffix, tmp_path):
    path = tmp_path / f"log.tsv{suffix}"
    path.write_bytes(pack(TEXT.encode(encoding)))
    told = encoding if encoding.startswith("utf-16-") else None
    assert read(path, encoding=told).frame.select("user", "query", "url").row(0) == ("7", "señal 😀", "http://x")


@pytest.mark.parametrize("start", [b"\xff\xfe", b"\xff\xfe\0\0", b"\x1f\x8b\x08", b"PAR1", b"BZh91AY&SY"])
def test_the_bytes_of_a_first_record_choose_neither_encoding_nor_compression(start, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(start + b'\n{"user": "ann", "query": "tulips"}\n')
    assert read(path).queries() == ["tulips"]


def test_latin_1_is_read_only_when_told(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_bytes(TEXT.replace(" 😀", "").encode("latin-1"))
    assert read(path, encoding="latin-1").queries() == ["señal"]


def test_windows_line_ends_are_no_part_of_a_value(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_bytes(TEXT.replace("\n", "\r\n").encode())
    assert read(path).frame["url"].to_list() == ["http://x"]


def test_gzip_members_and_zstd_frames_put_together_are_one_file(tmp_path):
    for name, pack in (("log.tsv.gz", gzip.compress), ("log.tsv.zst", zstandard.compress)):
        path = tmp_path / name
        path.write_bytes(pack(TEXT.encode()) + pack(TEXT.encode()))
        assert len(read(path)) == 2  # the second header is known for one


lines = st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=12)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(lines=lines, size=st.integers(4, 40), ends=st.booleans())
def test_blocks_hold_all_lines_under_their_numbers_and_name_the_broken_ones(lines, size, ends, tmp_path, monkeypatch):
    content = b"no mark and no magic\n" + b"\n".join(lines) + b"\n" * ends
    path = tmp_path / "text"
    path.write_bytes(content)
    monkeypatch.setattr(source, "BLOCK_SIZE", size)
    expected = content.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    seen: dict[int, str] = {}
    broken: set[int] = set()
    for block in LogFile(path).blocks():
        for number, text in block.lines().iter_rows():
            assert number not in seen
            seen[number] = text
        broken |= set(block.broken)
    assert sorted(seen) == list(range(1, len(expected) + 1))
    for number, line in enumerate(expected, start=1):
        try:
            valid = b"\0" not in line and line.decode() is not None
        except UnicodeDecodeError:
            valid = False
        assert (number in broken) is not valid
        assert not valid or seen[number] == line.decode().removesuffix("\r")


def test_an_endless_line_does_not_fill_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "BLOCK_SIZE", 100)
    monkeypatch.setattr(source, "LONGEST_LINE", 1000)
    path = tmp_path / "log.tsv"
    path.write_bytes(b"a\n" + b"x" * 50_000 + b"\nb\n")
    blocks = list(LogFile(path).blocks())
    assert max(len(block.data) for block in blocks) < 1300
    assert [number for block in blocks for number in block.broken] == [2]
    assert blocks[-1].lines().row(-1) == (3, "b")


def test_text_that_starts_like_bzip2_is_text(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("BZh,user,query\n1,ann,tulips\n")
    assert read(path).extra_columns == ["BZh"]
