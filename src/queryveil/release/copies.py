"""Copies of a finished release's log in a database.

The folder stays the certificate and the only way out: a copy is made from a folder that was verified, as its last step,
and can be made again. Where a copy is asked for together with a release, the manifest holds the digest of its rows, so
that who has the table and the manifest alone can tell whether the one belongs to the other.

>>> from queryveil.log import QueryLog
>>> ann, bob = ("ann", "tulips"), ("bob", "roses")
>>> rows_digest(QueryLog.of([ann, bob])) == rows_digest(QueryLog.of([bob, ann])) != rows_digest(QueryLog.of([ann, ann]))
True
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from queryveil.errors import RefusedError, UsageError, VerificationError
from queryveil.log import COLUMNS, QueryLog, read
from queryveil.log.databases import Database, database
from queryveil.log.databases.database import in_order
from queryveil.log.query_log import exactly
from queryveil.log.reading import Reading
from queryveil.release.decision import is_refused
from queryveil.release.manifest import ROWS, verify
from queryveil.release.mechanism import DROPPED

_ROW_BYTES = 32


def rows_digest(log: QueryLog) -> str:
    """SHA-256 over the sorted SHA-256 digests of the rows, after that of the names of the columns.

    A row is a JSON list of texts and nulls: the canonical columns, then the others by name; times in UTC with six
    decimals. So it depends on neither the order of the rows, nor on types, nor on how a log is kept.
    """
    extras = sorted(log.extra_columns)
    encode = msgspec.json.Encoder().encode
    moments = pl.col("time").dt.strftime("%Y-%m-%dT%H:%M:%S%.6f")
    digests = b"".join(
        hashlib.sha256(encode(row)).digest()
        for part in log.parts()
        for row in part.frame.select(*COLUMNS, *map(exactly, extras)).with_columns(moments).cast(pl.String).iter_rows()
    )
    in_sequence = np.sort(np.frombuffer(digests, f"S{_ROW_BYTES}"))
    whole = hashlib.sha256(hashlib.sha256(encode([*COLUMNS, *extras])).digest())
    whole.update(in_sequence.tobytes())
    return whole.hexdigest()


def database_for_copy(address: str) -> Database:
    """The database of an address, or `UsageError` where it is none."""
    found = database(address)
    if found is None:
        raise UsageError("a copy goes to a database: an address such as duckdb:out.db?table=released.")
    return found


def read_release(folder: str | Path) -> tuple[QueryLog, dict[str, Any]]:
    """The log and the manifest of a release folder, after its files, hash and signature were verified."""
    reading, manifest = open_release(folder)
    return QueryLog(reading.whole()), manifest


def open_release(folder: str | Path) -> tuple[Reading, dict[str, Any]]:
    """The same, with the log about to be read, whole or in pieces."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a release folder.")
    manifest = verify(folder).manifest
    output = manifest["output"]
    extras = released_extras(manifest)
    return Reading(folder / output["file"], format=output.get("format"), extras=extras, on_error="fail"), manifest


def released_extras(manifest: dict[str, Any]) -> list[str]:
    """The columns beyond the canonical ones that a release has."""
    return [name for name, fate in manifest["columns"].items() if name not in COLUMNS and fate != DROPPED]


def copy(folder: str | Path, address: str) -> None:
    """Write the log of a release where nothing lies yet: all of it or nothing, wherever the work is cut off."""
    target = database_for_copy(address)
    log, manifest = read_release(folder)
    if is_refused(manifest):
        raise RefusedError("whoever decided on this release has refused it; it is not copied.")
    target.refuse_what_is_lost(log)
    target.check_free()
    target.write(QueryLog(in_order(log.frame)))


def verify_copy(folder: str | Path, address: str) -> None:
    """Check that a database holds the rows and columns of a release and no others, or raise `VerificationError`."""
    target = database_for_copy(address)
    log, manifest = read_release(folder)
    own = rows_digest(log)
    if manifest["output"].get(ROWS, own) != own:
        raise VerificationError("the rows of the log are not those the manifest was made for.")
    if not {*target.columns()} <= {*COLUMNS, *released_extras(manifest)}:
        raise VerificationError(f"{target.title} has columns that this release does not have.")
    if rows_digest(read(address, extras=released_extras(manifest), on_error="fail")) != own:
        raise VerificationError(f"{target.title} does not hold the rows of this release.")
