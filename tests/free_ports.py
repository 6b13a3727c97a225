"""Ports for servers that must be told theirs beforehand, and find it free again when they are started anew."""

import contextlib
import fcntl
import secrets
import socket
import tempfile
from pathlib import Path
from typing import IO

_reserved: list[IO[bytes]] = []


def free_port() -> int:
    """One that the system gives to nobody by itself, and that no other run of tests gets while this one lasts."""
    places = Path(tempfile.gettempdir()) / "queryveil-test-ports"
    places.mkdir(exist_ok=True)
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        reservation = (places / str(port)).open("ab")
        with contextlib.suppress(OSError):
            fcntl.flock(reservation, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", port))
            _reserved.append(reservation)  # held as long as this process lives
            return port
        reservation.close()
