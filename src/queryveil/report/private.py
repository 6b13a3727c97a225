"""Files and folders for their owner alone, never inside a release that is shared."""

from __future__ import annotations

import os
from pathlib import Path

from queryveil.errors import UsageError
from queryveil.mechanisms.secrets_file import refuse_release_folders


def private_folder(folder: Path) -> Path:
    """Make the folder if it is not there, close it to others, and refuse one inside a release."""
    refuse_release_folders(folder / "anything")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is there already and is no folder. Move it away first.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file that appears whole, in place of an earlier one."""
    draft = path.with_name(f".{path.name}.unfinished")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content.encode(errors="replace") if isinstance(content, str) else content)
    draft.replace(path)
