"""`queryveil serve`: prints one address, answers there, stops when told to, leaves nothing running."""

import http.client
import os
import signal
import subprocess
import sys
from urllib.parse import urlsplit

from waiting import LONG

COMMAND = [sys.executable, "-c", "from queryveil.cli.main import main; main()", "serve"]


def test_it_prints_an_address_that_lets_in_and_stops_on_ctrl_c(tmp_path):
    command = [*COMMAND, "--port", "0", "--folder", str(tmp_path / "page")]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = urlsplit(server.stderr.readline().split("Open ")[1].strip())
        assert address.hostname == "127.0.0.1"
        connection = http.client.HTTPConnection(address.netloc, timeout=LONG)
        connection.request("GET", f"{address.path}?{address.query}")
        answer = connection.getresponse()
        assert answer.status == 200
        assert "queryveil=" in answer.headers["set-cookie"]
        assert "server" not in answer.headers
        connection.close()
    finally:
        server.send_signal(signal.SIGINT)
        told, messages = server.communicate(timeout=LONG)
    assert told == ""
    assert messages.count("Open ") == 1  # the next address, for another browser
    assert (tmp_path / "page").stat().st_mode & 0o077 == 0


def test_a_password_of_nothing_is_none_and_the_page_asks_for_its_token(run, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("queryveil.web.server.serve", lambda settings, say: seen.append(settings.password))
    monkeypatch.setenv("QUERYVEIL_WEB_PASSWORD", "")
    assert run("serve", "--folder", tmp_path)[0] == 0
    monkeypatch.setenv("QUERYVEIL_WEB_PASSWORD", "guess me")
    assert run("serve", "--folder", tmp_path)[0] == 2
    assert seen == [None]


def test_a_port_in_use_and_an_open_address_are_refused_in_words(run, tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, told = run("serve", "--port", taken.getsockname()[1], "--folder", tmp_path)
    assert (code, "Try --port" in told) == (2, True)
    os.environ.pop("QUERYVEIL_WEB_PASSWORD", None)
    code, _, told = run("serve", "--host", "192.0.2.7", "--folder", tmp_path)
    assert (code, "QUERYVEIL_WEB_PASSWORD" in told) == (2, True)
