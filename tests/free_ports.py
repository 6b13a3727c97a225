"""Ports for servers that must be told theirs beforehand, and find it free again when they are started anew."""

import contextlib
import fcntl
import os
import secrets
import socket
import tempfile
from pathlib import Path


def free_port() -> int:
    """One that the system gives to nobody by itself, and that no other run of tests gets while this one lasts."""
    places = Path(tempfile.gettempdir()) / "queryveil-test-ports"
    places.mkdir(exist_ok=True)
    while True:
        port = 10_000 + secrets.randbelow(20_000)
        reservation = os.open(places / str(port), os.O_CREAT | os.O_WRONLY)  # held as long as this process lives
        with contextlib.suppress(OSError):
            fcntl.flock(reservation, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", port))
            return port
        os.close(reservation)
