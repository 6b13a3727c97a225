"""What must outlast a power cut: a file's content is synced by whoever writes it, its name by `sync_folder`."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk when this returns: a renamed file is safe only then."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
