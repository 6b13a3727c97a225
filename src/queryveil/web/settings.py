"""What a server is told when it starts: where it keeps things, whom it answers, what it accepts and for how long.

>>> WebSettings(folder=Path("somewhere")).address
'http://127.0.0.1:8642'
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path

from queryveil.checks import real_number, require, whole_number
from queryveil.errors import UsageError

SHORTEST_PASSWORD = 12
SHARE_OF_A_JOB = 0.75
"""Of the machine's memory."""


def usual_memory() -> int:
    """How many bytes a job may hold unless somebody says otherwise: the rest is for the server and its neighbours."""
    return int(SHARE_OF_A_JOB * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a server answers, whom, and how patient it is, checked."""

    host: str = "127.0.0.1"
    port: int = 8642
    password: str | None = field(default=None, repr=False)
    patience: float = 15.0
    """Seconds a client may stay silent while it sends something."""
    largest_upload: int = 0

    def problems(self) -> list[str | None]:
        """By each rule what is wrong, if anything."""
        return [
            whole_number("port", self.port, at_least=0, at_most=65_535, suggest=8642),
            real_number("patience", self.patience, above=0),
        ]

    def __post_init__(self) -> None:
        require(*self.problems())
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            raise UsageError("host must be one numeric address, such as 127.0.0.1; names can be redirected.") from None
        if address.is_unspecified:
            raise UsageError(
                "host must be one address of this machine: a server that answers under every address cannot tell "
                "a request meant for it from one that a hostile page redirected to it."
            )
        if self.password is not None and len(self.password) < SHORTEST_PASSWORD:
            raise UsageError(
                f"the password in QUERYVEIL_WEB_PASSWORD must have {SHORTEST_PASSWORD} characters or more. "
                "Unset it to enter with a printed address instead."
            )
        if not address.is_loopback and self.password is None:
            raise UsageError(
                f"host {self.host} can be reached from other machines, and whoever reaches the page can read the "
                f"logs on it. So it needs a password of {SHORTEST_PASSWORD} characters or more, in the environment "
                "variable QUERYVEIL_WEB_PASSWORD. The connection itself is not encrypted: put a TLS proxy in front."
            )

    @property
    def address(self) -> str:
        """The origin that browsers see."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True, kw_only=True)
class WebSettings(Listening):
    """Everything the page's server needs to know, checked."""

    folder: Path
    ledger: Path | None = None
    keep_hours: float = 24.0
    """Uploaded logs, and everything exact about them, are deleted after so many hours."""
    largest_upload: int = 4 << 30
    largest_unpacked: int = 16 << 30
    longest_job: float = 4 * 3600.0
    """Seconds that a job may take before it is ended, so that the next one has its turn."""
    longest_reading: float = 1800.0
    """The same for reading and counting a log, before anybody knows what it holds."""
    most_memory: int = field(default_factory=usual_memory)
    """Bytes that a job may hold before it is ended."""

    def problems(self) -> list[str | None]:
        """By each rule what is wrong, if anything."""
        return [
            *super().problems(),
            real_number("keep_hours", self.keep_hours, above=0, at_most=24 * 365, suggest=24.0),
            whole_number("largest_upload", self.largest_upload, at_least=1),
            whole_number("largest_unpacked", self.largest_unpacked, at_least=1),
            real_number("longest_job", self.longest_job, above=0),
            real_number("longest_reading", self.longest_reading, above=0),
            whole_number("most_memory", self.most_memory, at_least=1 << 28, suggest=4 << 30),
        ]

    @property
    def ledger_file(self) -> Path:
        """The ledger that pays for every release made here."""
        return self.ledger or self.folder / "ledger.db"
