"""Ports that are handed out once."""

import socket
import subprocess
import sys
from pathlib import Path

import free_ports


def test_a_port_that_another_run_of_tests_got_or_that_somebody_listens_on_is_not_handed_out(monkeypatch):
    script = "import sys; sys.path.insert(0, sys.argv[1]); import free_ports; print(free_ports.free_port()); "
    other = subprocess.Popen(
        [sys.executable, "-c", script + "sys.stdout.flush(); sys.stdin.read()", str(Path(free_ports.__file__).parent)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with other, socket.socket() as listener:
        reserved, handed_out = int(other.stdout.readline()), free_ports.free_port()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        refused = [reserved, handed_out, listener.getsockname()[1]]
        offered, draw = iter(refused), free_ports.secrets.randbelow
        monkeypatch.setattr(free_ports.secrets, "randbelow", lambda most: next(offered, 10_000 + draw(most)) - 10_000)
        try:
            assert free_ports.free_port() not in refused
        finally:
            other.stdin.close()
