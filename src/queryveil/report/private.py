"""Folders for their owner alone, never inside a release that is shared."""

from __future__ import annotations

from pathlib import Path

from queryveil.errors import UsageError
from queryveil.privacy.private_files import refuse_release_folders


def private_folder(folder: Path) -> Path:
    """Make the folder if it is not there, close it to others, and refuse one inside a release."""
    refuse_release_folders(folder / "anything")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is there already and is no folder. Move it away first.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder
