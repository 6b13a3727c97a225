"""What a live stream must know of its mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from queryveil.mechanisms.stream._tree import Rules
from queryveil.release.mechanism import TimeTreatment


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The public parameters, checked and worked out by the mechanism."""

    rules: Rules
    depth: int
    separator: str
    safe: bool
    k_text: int
    window: int
    epoch: int
    mix: int
    pseudonym: Literal["record", "session", "epoch"]
    time: TimeTreatment
    most_pending: int | None = None
    """How many records may wait before the epoch ends early."""
