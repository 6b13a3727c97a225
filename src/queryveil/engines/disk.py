"""This machine for logs that outgrow its memory: records wait on disk while a few groups of people are worked on.

A release is the same as in memory, byte for byte with the same noise (`queryveil.log.spill`), so what is read how is
nobody's choice but the memory's: a log whose text is small beside it is read whole, and so is any log for a mechanism
that needs it whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

from queryveil.log import QueryLog, ReadReport
from queryveil.log.identifying import ids_meant
from queryveil.log.query_log import SimilarIds
from queryveil.log.reading import PACKED_SUFFIXES
from queryveil.log.spill import USUAL_MEMORY, Spill
from queryveil.log.spilled_log import DistinctUsers, SpilledLog
from queryveil.release.mechanism import Mechanism
from queryveil.release.pipeline import Source, admitted, excluded_users, merges, open_source, read_source

IN_MEMORY: Final = 8
"""A log is worked on in memory where its text takes at most this part of it."""
UNPACKED: Final = 6
"""How many bytes of text a byte of a compressed file or of Parquet stands for, about."""


class Disk:
    """The engine of one machine with little memory. A context manager: what lies on disk is deleted at the end."""

    def __init__(self, memory: int = USUAL_MEMORY) -> None:
        """`memory`: how many bytes the work may take; see `Spill`."""
        self._memory = memory
        self._spill: Spill | None = None
        self._by_blocks = False

    def __enter__(self) -> Disk:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._spill:
            self._spill.__exit__(kind, error, at)

    def refuse(self, mechanism: Mechanism) -> None:
        """Nothing to refuse; a mechanism that does not work block by block gets the whole log."""
        self._by_blocks = bool(getattr(mechanism, "on_cluster", False))

    def read(self, source: Source) -> tuple[QueryLog, ReadReport, int]:
        """The log to protect; see `queryveil.release.pipeline.read_source`."""
        size = text_size(source.path) if self._by_blocks and not source.address else 0
        if size * IN_MEMORY <= self._memory:
            return read_source(source)
        self._spill = self._spill or Spill(self._memory).__enter__()
        excluded, admit = excluded_users(source), admitted(source)
        reading, records, written = open_source(source), 0, DistinctUsers()

        def pieces() -> Iterator[QueryLog]:
            nonlocal records
            for piece in reading.pieces():
                records += len(piece)
                written.add(piece)
                yield admit(piece)

        similar_ids: SimilarIds = "same" if merges(source) else "different"
        log = SpilledLog.from_pieces(self._spill, pieces(), self._spill.groups_for(size), similar_ids=similar_ids)
        report = reading.report(records, written.found())
        return log, report, ids_meant(written.found(), excluded)[1] if excluded else 0


def text_size(path: Path) -> int:
    """How many bytes of text a log has, about; what is no file is for the reader to refuse."""
    if not path.exists():
        return 0
    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    return sum(file.stat().st_size * (UNPACKED if _packed(file) else 1) for file in files)


def _packed(path: Path) -> bool:
    return path.name.lower().endswith((*PACKED_SUFFIXES, ".parquet"))
