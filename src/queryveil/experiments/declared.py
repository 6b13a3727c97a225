"""What somebody declares in a TOML file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from queryveil.errors import UsageError


def read_toml(path: str | Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"cannot read {path}.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is not TOML: {error}.") from None
