"""Files that only their owner may read, written so that a crash or a power cut leaves the old one or the new one whole.

Every such file begins as a draft beside its place: a new file with a random name, so that nobody can put a link or a
file of theirs there beforehand, and mode 0600 from its first byte. Its content is synced, it gets its name in one step,
and the folder is synced too: without that the name may be lost although the content is safe. `replacing` takes the
place of what was there, `placing` never overwrites. A draft is removed when its writer fails; one who is killed leaves
it, and who alone may write the file removes it with `remove_drafts`.

A private file that a person names never lies in a release folder: who takes its path calls `refuse_release_folders`.
What is meant for others (a release's folder, a log, compiled public knowledge) is not written here.

>>> import tempfile
>>> place = Path(tempfile.mkdtemp()) / "tally.json"
>>> replace_private(place, "1")
>>> replace_private(place, "22")
>>> place.read_text(), oct(place.stat().st_mode & 0o777), len(list(place.parent.iterdir()))
('22', '0o600', 1)
"""

from __future__ import annotations

import fcntl
import glob
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from queryveil.errors import RefusedError, UsageError

TOKEN_BYTES = 8
MANIFEST = "manifest.json"
"""What makes a folder a release."""


def refuse_release_folders(path: Path) -> None:
    """Nothing private into a folder that was released earlier, however deep: it would be shared with the release."""
    if any((parent / MANIFEST).exists() for parent in path.resolve().parents):
        raise RefusedError(
            f"{path} is for you alone and would lie inside a release folder, shared with it. Choose another place."
        )


def open_new(path: Path) -> IO[bytes]:
    """A new file for its owner alone, open for writing; refuses where there is anything already."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Write what appears whole, in place of an earlier file, when the block ends well; else the earlier one stays.

    With `durable` content and name are on the disk by then. Without, a power cut may bring the earlier file back.
    """
    with _draft(path) as (draft, file):
        yield file
        _finish(file, durable=durable)
        draft.replace(path)
        if durable:
            sync_folder(path.parent)


@contextmanager
def placing(path: Path) -> Iterator[IO[bytes]]:
    """Write what appears whole and on the disk when the block ends well; `FileExistsError` where another was first."""
    with _draft(path) as (draft, file):
        yield file
        _finish(file, durable=True)
        os.link(draft, path)  # unlike a renaming, it fails where there is something
        draft.unlink()
        sync_folder(path.parent)


def replace_private(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Put this content in place of an earlier file, as `replacing` does; text that is no UTF-8 becomes "?"."""
    with replacing(path, durable=durable) as file:
        file.write(content.encode(errors="replace") if isinstance(content, str) else content)


def remove_drafts(path: Path) -> None:
    """Remove what writers of this file left when they were killed; only for one who alone may write it now."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 2 * TOKEN_BYTES}.draft"):
        left.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk when this returns: a renamed file is safe only then."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """One process at a time with a folder, or with a file that is never replaced; waits for its turn."""
    opened = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


@contextmanager
def _draft(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(TOKEN_BYTES)}.draft")
    try:
        with open_new(draft) as file:
            yield draft, file
    finally:
        draft.unlink(missing_ok=True)


def _finish(file: IO[bytes], *, durable: bool) -> None:
    file.flush()
    if durable:
        os.fsync(file.fileno())


def private_folder(folder: Path) -> Path:
    """Make the folder if it is not there, close it to others, and refuse one inside a release."""
    refuse_release_folders(folder / "anything")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is there already and is no folder. Move it away first.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder
