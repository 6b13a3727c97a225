"""Files and pipes by their URLs: a path or `file:log.tsv`, `-` for stdin and stdout."""

from __future__ import annotations

from pathlib import Path

from queryveil.errors import UsageError
from queryveil.live.connector import End
from queryveil.live.file_sink import FileSink
from queryveil.live.file_source import FileSource
from queryveil.live.pipes import StdinSource, StdoutSink


class OneMember:
    """A worker by itself holds the shards it was told to."""

    def __init__(self, shards: frozenset[int]) -> None:
        self._shards = shards

    def wanted(self) -> frozenset[int]:
        """Always the same."""
        return self._shards

    def close(self) -> None:
        """Nobody to tell."""


def open_source(end: End) -> FileSource | StdinSource:
    """`-` or a path, in which `{shard}` stands for the number of the shard."""
    if end.scheme == "-":
        return StdinSource(longest=end.longest)
    return FileSource(_path(end, end.shard), follow=end.follow, longest=end.longest)


def open_sink(end: End) -> FileSink | StdoutSink:
    """`-` or a path, in which `{shard}` stands for the number of the shard."""
    if end.scheme == "-":
        if end.checkpoint is None:
            raise UsageError("stdout keeps no state: say where it goes with --checkpoint FILE.")
        return StdoutSink(end.checkpoint, from_checkpoint=end.from_checkpoint, on_step=end.on_step)
    shards = range(end.shards) if end.spread == "all" else [end.shard]
    paths = [_path(end, shard) for shard in shards]
    return FileSink(
        paths,
        end.checkpoint,
        from_checkpoint=end.from_checkpoint,
        private=end.spread == "all",
        on_step=end.on_step,
    )


def open_members(end: End) -> OneMember:
    """A file knows no other workers: this one holds all shards."""
    return OneMember(frozenset(range(end.shards)))


def _path(end: End, shard: int) -> Path:
    text = end.url.removeprefix("file:").removeprefix("//")
    if end.spread != "none" and end.shards > 1 and "{shard}" not in text:
        raise UsageError("a file for each shard needs {shard} in its name, for example log-{shard}.jsonl.")
    return Path(text.replace("{shard}", str(shard)))
