"""A release as one archive, all of one state of it, although a report may be put into it at the same time."""

from __future__ import annotations

import secrets
import shutil
import time
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

from queryveil.errors import UsageError

TRIES_TO_OPEN: Final = 20


def pack(folder: Path, archive: Path, name: str) -> None:
    """All files of a release in one archive, made anew each time, so that it never lags behind the folder."""
    draft = archive.with_name(f".{secrets.token_hex(16)}.zip")
    try:
        with ExitStack() as stack:
            files = _opened_together(folder, stack)
            out = stack.enter_context(zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED))
            for file_name, file in files.items():
                with out.open(f"{name}/{file_name}", "w", force_zip64=True) as packed:
                    shutil.copyfileobj(file, packed, 1 << 20)
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)


def _opened_together(folder: Path, stack: ExitStack) -> dict[str, BinaryIO]:
    """The files of a release, all of one state of it: a report that is finished now exchanges the folder under us."""
    for _ in range(TRIES_TO_OPEN):
        try:
            before = folder.stat().st_ino
            with ExitStack() as opened:
                files: dict[str, BinaryIO] = {
                    path.name: opened.enter_context(path.open("rb")) for path in sorted(folder.iterdir())
                }
                if folder.stat().st_ino == before:  # a folder is exchanged whole and never changed inside
                    stack.push(opened.pop_all())
                    return files
        except FileNotFoundError:  # between the two renames
            time.sleep(0.05)
    raise UsageError("the release is being changed right now. Try again in a moment.")
