"""Files and pipes as sources: whole lines, so many bytes at a time, from a file that nobody changed."""

import gzip
import sys

import pytest

from live.checks import checked, lines_of
from live.scenes import some_records
from queryveil.errors import RefusedError, UsageError
from queryveil.live.config import settings_from
from queryveil.live.file_source import FileSource, Lines
from queryveil.live.files import StdinSource
from queryveil.live.worker import Worker


@pytest.mark.parametrize("kind", ["file", "stdin"])
def test_a_batch_is_over_after_so_many_bytes_however_few_records_that_are(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("queryveil.live.file_source.READ_BYTES", 1 << 21)
    path = tmp_path / "log"
    path.write_bytes((b"x" * 100_000 + b"\n") * 80)
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        source = FileSource(path, follow=False, longest=1 << 20) if kind == "file" else StdinSource(longest=1 << 20)
        source.seek({})
        batches = [source.read(20_000, 1)]
        while not batches[-1].ended:
            batches.append(source.read(20_000, 1))
        source.close()
    assert sum(map(len, batches)) == 80
    assert max(sum(map(len, batch.lines)) for batch in batches) <= (1 << 21) + (1 << 20)


def test_lines_are_counted_in_bytes_however_they_are_cut():
    content = b"one\r\n" + b"x" * 50 + b"\n\nlast\n"
    for size in (1, 2, 7, 100):
        lines = Lines(longest=20)
        for start in range(0, len(content), size):
            lines.add(content[start : start + size])
        assert not lines.unfinished
        batch = lines.batch(10, ended=True)
        assert batch.lines == [b"one", None, b"", b"last"]
        assert batch.after == {"byte": len(content), "line": 4}


def test_a_last_line_without_its_end_is_left_unread_and_taken_when_it_is_whole(file_scene):
    """A worker that ran while the line was being written must not take its first half, nor its second one later."""
    records = some_records(200)
    lines = lines_of(records)
    path = file_scene.folder / "in.jsonl"
    path.write_bytes(b"\n".join(lines[:101])[:-7])
    worker = Worker(settings_from(file_scene.settings()))
    worker.run()
    assert len(worker.unread) == 1
    assert "the last line of in.jsonl has no line end" in worker.unread[0]
    assert not checked(file_scene, records[:100])
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    worker = Worker(settings_from(file_scene.settings()))
    worker.run()
    assert not worker.unread
    assert not checked(file_scene, records)


def test_a_compressed_file_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(b'{"user": "a", "query": "b"}\n'))
    with pytest.raises(UsageError, match=r"compressed with gzip, which is not read live.*zcat FILE"):
        FileSource(tmp_path / "log.jsonl.gz", follow=False, longest=100)


def test_a_followed_file_hands_out_whole_lines_only(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    source = FileSource(path, follow=True, longest=100)
    source.seek({})
    assert source.read(10, 0.01).lines == [b"one"]
    assert not len(source.read(10, 0.01))
    with path.open("ab") as file:
        file.write(b"o\n")
    assert source.read(10, 0.01).lines == [b"two"]
    source.close()


@pytest.mark.parametrize("how", ["cut", "cut and grown again", "changed", "another file of the name"])
def test_a_followed_file_that_is_rotated_or_changed_is_refused(tmp_path, how):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nth")
    source = FileSource(path, follow=True, longest=100)
    source.seek({})
    assert source.read(10, 0.01).lines == [b"one", b"two"]
    if how == "another file of the name":
        path.rename(tmp_path / "log.1")
        with (tmp_path / "log.1").open("ab") as file:
            file.write(b"ree\n")
        path.write_bytes(b"new one\n")
        assert source.read(10, 0.01).lines == [b"three"]  # what is left of the old one
    else:
        path.write_bytes({"cut": b"", "cut and grown again": b"new one\nnew two\n", "changed": b"one\nTwo\nth"}[how])
    with pytest.raises(RefusedError, match="replaced or changed"):
        source.read(10, 0.2)
    source.close()
