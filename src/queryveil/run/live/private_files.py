"""Files that only their owner may read: checkpoints, marks and saved states hold what waits, or lie beside the key."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write a file anew; with `durable` it is on the disk when this returns."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())
