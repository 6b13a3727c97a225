"""What only the holder may have: who really asked each released record, and the original's counts and digest.

One Parquet file, readable by its owner only, never inside a release folder: column `user` (the true user of each
released record, in the order of the released log), `pseudonym` (the user it was released under), `receiver` (the true
user whom that pseudonym stands for, which is another one where records were moved between users); counts and digest of
the original as metadata. Where users are made up, nobody is behind them and the columns are empty.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from queryveil.errors import DataError, RefusedError, UsageError, file_error
from queryveil.privacy.keys import placing, refuse_release_folders

if TYPE_CHECKING:
    from queryveil.release.release import Release

METADATA_KEY = "queryveil"


@dataclass(frozen=True)
class Secrets:
    """A secrets file that was read: the true owner of each released record, and what is known of the original."""

    owners: pl.Series = field(repr=False)  # people do not show in a notebook or a log
    pseudonyms: pl.Series = field(repr=False)
    receivers: pl.Series = field(repr=False)
    original: dict[str, Any] = field(repr=False)


def check_place(path: Path, release_folder: Path) -> None:
    """Secrets must not travel with the release, and never overwrite anything."""
    resolved, folder = path.resolve(), release_folder.resolve()
    if resolved == folder or folder in resolved.parents:
        raise RefusedError(f"the secrets file {path} would lie inside the release folder and be shared with it.")
    refuse_release_folders(path)
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} is there already; a secrets file is never overwritten.")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist. Make it first.")


def write(release: Release, path: Path, *, original: Mapping[str, Any]) -> Path:
    """Write the secrets of a release; see `Release.write_secrets`."""
    refuse_release_folders(path)
    try:
        with placing(path) as file:
            release.people().sink_parquet(file, metadata={METADATA_KEY: json.dumps(dict(original))})
    except FileExistsError:
        raise UsageError(f"{path} is there already; a secrets file is never overwritten.") from None
    except Exception as error:
        if found := file_error(error, path.name):
            raise found from None
        raise
    return path


def read(path: str | Path) -> Secrets:
    """Read a secrets file."""
    try:
        frame = pl.read_parquet(path)
        original = json.loads(pl.read_parquet_metadata(path)[METADATA_KEY])
        return Secrets(frame["user"], frame["pseudonym"], frame["receiver"], original)
    except (OSError, KeyError, ValueError, pl.exceptions.PolarsError):
        raise DataError(f"{path} is not a QueryVeil secrets file.") from None
