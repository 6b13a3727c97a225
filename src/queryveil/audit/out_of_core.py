"""Audits of logs that outgrow the memory: both logs wait on disk, and what can be counted in blocks is counted.

`LogsToAudit` reads the raw log, the release and who is behind its records. Where both logs are small beside the memory
they are read whole, and the audit is a full one. Else their records wait in private files (`queryveil.log.spill`), and
`audit` runs the parts that declare `counts_in_blocks`, with the figures that they have in memory. All others are left
out, and an attack that was left out is a required one: the answer to such an audit is "no" or "not decided", never
"yes", and no report is made of it.

>>> import tempfile
>>> import queryveil as qv
>>> with tempfile.TemporaryDirectory() as folder:
...     log = Path(folder) / "log.parquet"
...     qv.write(qv.synth(users=60, records=1500, seed=1), log)
...     with LogsToAudit(Source(path=log), log, memory=1 << 16) as logs:
...         found = qv.audit(**logs.given)
>>> found.context["in_blocks"], any(missing.required for missing in found.left_out)
(True, True)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from queryveil.audit.both_logs import OWNER, RECEIVER
from queryveil.errors import DataError
from queryveil.log import QueryLog, ReadReport
from queryveil.log.reading import Reading, text_size
from queryveil.log.spilled_log import SpilledLog
from queryveil.release import secrets as secrets_file
from queryveil.release.copies import open_release
from queryveil.release.pipeline import Source, ThisMachine, read_source
from queryveil.release.secrets import METADATA_KEY

NEEDS_WHOLE_LOG: Final = "needs the whole log in memory, and the memory that was allowed is too small for it"
OF_ANOTHER: Final = "the secrets file belongs to another release: its pseudonyms are not those of the log."
HIDDEN: Final = (OWNER, RECEIVER)
"""Columns of a release on disk that are the holder's own and none of the release's."""
ROWS_AT_ONCE: Final = 1 << 20


class Fingerprint:
    """Tells the users and texts of one log from those of another, whatever file they lie in; of its pieces in order."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def add(self, piece: pl.DataFrame) -> None:
        """Take in the next records."""
        for rows in piece.select("user", "query").iter_slices(ROWS_AT_ONCE):
            self._digest.update(rows.write_csv(include_header=False).encode())

    def value(self) -> str:
        """Of all so far."""
        return self._digest.hexdigest()


class ReleaseOnDisk(SpilledLog):
    """A released log on disk. Hidden columns tell who is behind each record, where the holder knows that."""

    fingerprint: str
    """As of the log in memory; on disk its records lie in another order."""
    original: Mapping[str, Any] | None
    """What the secrets file tells of the raw log; None where there is no such file."""
    receivers_known: bool

    @property
    def extra_columns(self) -> list[str]:
        """As of the log in memory."""
        return [name for name in super().extra_columns if name not in HIDDEN]


class LogsToAudit:
    """The two logs of an audit, read whole or to disk. A context manager: what lies on disk is deleted at the end.

    `given` are arguments of `audit`; `released` is a release folder, or a log of another tool with its `format`.
    """

    def __init__(
        self,
        source: Source,
        released: Path,
        *,
        secrets: Path | None = None,
        memory: float = math.inf,
        format: str | None = None,  # noqa: A002 -- as where logs are read
    ) -> None:
        self._source, self._released, self._secrets, self._format = source, released, secrets, format
        self._machine = ThisMachine(memory)
        size = 0 if source.address else text_size(source.path) + text_size(released)
        self.in_blocks = not self._machine.holds(size)
        self.given: dict[str, Any] = {}
        self.reports: list[tuple[str, ReadReport]] = []
        """What was found in files that no manifest describes, with their names."""

    def __enter__(self) -> LogsToAudit:
        try:
            self._read()
        except BaseException:
            self._machine.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._machine.__exit__()

    def _read(self) -> None:
        manifest: dict[str, Any] | None = None
        if self._released.is_dir():
            reading, manifest = open_release(self._released)
        else:
            reading = Reading(self._released, format=self._format)
        column = (manifest or {}).get("parameters", {}).get("category_column")
        source = replace(self._source, extras=(*self._source.extras, column)) if column else self._source
        owners, released = None, QueryLog.empty()
        if self.in_blocks:
            people = _People(self._secrets) if self._secrets else None
            original, report, _ = self._machine.read_to_disk(source)
            released = self._release_to_disk(reading, people)
        else:
            owners = secrets_file.read(self._secrets) if self._secrets else None
            original, report, _ = read_source(source)
            released = QueryLog(reading.whole())
        self.reports.append((source.path.name, report))
        if manifest is None:
            self.reports.append((self._released.name, reading.report(len(released), released.users())))
        self.given = {"original": original, "released": released, "manifest": manifest, "secrets": owners}

    def _release_to_disk(self, reading: Reading, people: _People | None) -> ReleaseOnDisk:
        fingerprint = Fingerprint()

        def pieces() -> Iterator[QueryLog]:
            for piece in reading.pieces():
                fingerprint.add(piece.frame)
                shown = piece.frame.drop(HIDDEN, strict=False)  # a file of another tool may have such columns, too
                yield QueryLog(shown if people is None else shown.with_columns(people.behind(shown)))

        spill = self._machine.spill
        log = ReleaseOnDisk.from_pieces(spill, pieces(), spill.groups_for(text_size(self._released)))
        if people is not None:
            people.check_end()
        log.fingerprint = fingerprint.value()
        log.original = None if people is None else people.original
        log.receivers_known = people is not None and people.receivers_known
        return log


class _People:
    """Who is behind each record of a release: the secrets file, read beside it."""

    def __init__(self, path: Path) -> None:
        self._path, self._rows, self.receivers_known = path, 0, False
        with self._damage_told():
            self.original: dict[str, Any] = dict(json.loads(pl.read_parquet_metadata(path)[METADATA_KEY]))
            columns = {"pseudonym": "pseudonym", OWNER: "user", RECEIVER: "receiver"}
            self._file = pl.scan_parquet(path, glob=False).select(
                pl.col(of).cast(pl.String).alias(name) for name, of in columns.items()
            )
            self._count = self._file.select(pl.len()).collect().item()

    @contextmanager
    def _damage_told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError):
            raise DataError(f"{self._path} is not a QueryVeil secrets file.") from None

    def behind(self, piece: pl.DataFrame) -> list[pl.Series]:
        """The hidden columns of the next records."""
        with self._damage_told():
            rows = self._file.slice(self._rows, piece.height).collect()
        self._rows += piece.height
        if not rows["pseudonym"].equals(piece["user"]):
            raise DataError(OF_ANOTHER)
        self.receivers_known |= rows[RECEIVER].null_count() < rows.height
        return [rows[name] for name in HIDDEN]

    def check_end(self) -> None:
        """No more people than records."""
        if self._rows != self._count:
            raise DataError(OF_ANOTHER)
