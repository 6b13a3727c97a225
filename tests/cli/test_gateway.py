"""`queryveil gateway`: refuses wrong settings before it opens anything, prints one address, stops when told to."""

import http.client
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from waiting import LONG

URL = "http://127.0.0.1:9/?q={query}"
COMMAND = [sys.executable, "-c", "from queryveil.cli.main import main; main()", "gateway"]


def test_it_prints_an_address_that_lets_in_and_stops_on_ctrl_c(tmp_path):
    command = [
        *COMMAND,
        "--engine-url",
        URL,
        "--epsilon",
        "50",
        "--port",
        "0",
        "--session",
        str(tmp_path / "tally.json"),
    ]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = urlsplit(server.stderr.readline().split("Open ")[1].strip())
        assert address.hostname == "127.0.0.1"
        connection = http.client.HTTPConnection(address.netloc, timeout=LONG)
        connection.request("GET", f"{address.path}?{address.query}")
        answer = connection.getresponse()
        assert answer.status == 200
        assert "queryveil-gateway=" in answer.headers["set-cookie"]  # another than the page's, on the same host
        connection.close()
    finally:
        server.send_signal(signal.SIGINT)
        told, _ = server.communicate(timeout=LONG)
    assert told == ""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--engine-url", "http://127.0.0.1:9/?key=sesame", "--epsilon", "5"], "{query}"),
        (["--engine-url", URL, "--epsilon", "5", "--limit", "0"], "limit"),
        (["--engine-url", URL, "--epsilon", "5", "--timeout", "-1"], "timeout"),
        (["--engine-url", URL, "--epsilon", "5", "--port", "70000"], "port"),
        (["--engine-url", URL], "epsilon"),
        (["--epsilon", "5"], "--engine-url"),
    ],
)
def test_wrong_settings_open_nothing(run, monkeypatch, arguments, told):
    monkeypatch.setattr("queryveil.web.server.serve", lambda *given: pytest.fail("opened"))
    code, _, err = run("gateway", *arguments)
    assert code == 2
    assert told in err
    assert "sesame" not in err
