"""Too much, too slow, bombs and what errors tell: attacks by what is sent to the server, each refused."""

import contextlib
import gzip
import io
import logging
import os
import random
import socket
import subprocess
import sys
import time
import zlib
from pathlib import Path

import httpx
import polars as pl
import pytest
import zstandard

from queryveil.errors import FormatError
from queryveil.log import QueryLog
from queryveil.web import connections, middleware
from queryveil.web.parquet_footer import read_footer
from queryveil.web.sessions import BrowserSession, RefusedRequest
from queryveil.web.settings import WebSettings
from queryveil.web.uploads import TooLargeError, guess, refuse_bombs
from waiting import LONG
from web.uploaded import ROWS, SECRET, stored

# Too much, too slow


def test_an_upload_that_says_it_is_too_large_is_refused_before_it_is_sent(guest):
    answer = guest.upload("log.csv", b"x" * (guest.settings.largest_upload + (1 << 20)))
    assert answer.status_code == 413
    assert stored(guest.settings) == []


def test_an_upload_that_turns_out_too_large_leaves_nothing_behind(guest):
    def endless():
        for _ in range(40):
            yield b"ann,weather\n" * 5000

    assert guest.upload("log.csv", endless()).status_code == 413
    assert stored(guest.settings) == []


def test_a_form_may_not_be_large(guest):
    answer = guest.http.post("/logs/x/purpose", data={"csrf": "a" * (300 << 10)})
    assert answer.status_code == 413
    assert guest.post("/api/plan", {"mechanism": "x" * (300 << 10)}).status_code == 413


def test_an_endless_address_is_refused(guest):
    assert guest.get("/api/logs?" + "a" * 5000).status_code == 414


@pytest.mark.parametrize("beat", [None, 0.2])
def test_a_sender_who_dawdles_is_cut_off(impatient_server, beat):
    """Silence is cut off after `patience`; so is a byte now and then, which would hold a connection for ever."""
    with socket.create_connection(("127.0.0.1", impatient_server.settings.port)) as line:
        line.sendall(
            f"POST /api/session HTTP/1.1\r\nHost: 127.0.0.1:{impatient_server.settings.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{".encode()
        )
        line.settimeout(beat or LONG)
        began, answer = time.monotonic(), b""
        while time.monotonic() - began < LONG and not answer:
            try:
                answer = line.recv(1000)
            except TimeoutError:
                line.sendall(b" ")
        assert b"408" in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("head", [b"", b"GET /enter HTTP/1.1\r\nHo", b"GET /enter HTTP/1.1\r\nHost: x\r\n\r\nGET"])
def test_a_connection_that_never_says_what_it_wants_is_ended(impatient_server, head, monkeypatch):
    """Also after a first request that was answered; without a limit each would hold its place for ever."""
    monkeypatch.setattr(connections, "SECONDS_FOR_A_HEAD", 0.3)
    with socket.create_connection(("127.0.0.1", impatient_server.settings.port)) as line:
        line.sendall(head)
        line.settimeout(LONG)
        with contextlib.suppress(ConnectionResetError):
            while line.recv(10_000):
                pass


def test_whoever_opens_many_slow_connections_cuts_their_own_and_keeps_nobody_waiting(impatient_server, monkeypatch):
    """Half-open connections of one address, more than the server would serve at once; none of them ends by itself."""
    monkeypatch.setattr(connections, "SECONDS_FOR_A_HEAD", 10 * LONG)
    place = ("127.0.0.1", impatient_server.settings.port)
    with contextlib.ExitStack() as lines:
        opened = [lines.enter_context(socket.create_connection(place)) for _ in range(100)]
        for line in opened:
            with contextlib.suppress(OSError):  # cut already
                line.sendall(b"GET /enter HTTP/1.1\r\nHost: 127")
        answer = httpx.get(f"{impatient_server.address}/enter", timeout=LONG)
        assert answer.status_code == 200
        ended = []
        for line in opened[: 100 - connections.MOST_OF_AN_ADDRESS - 1]:
            line.settimeout(LONG)
            with contextlib.suppress(ConnectionResetError):
                ended.append(line.recv(100))
        assert not any(ended)


def test_too_much_at_once_is_told_with_the_time_to_try_again(guest, monkeypatch):
    assert guest.get("/api/releases").status_code == 200
    monkeypatch.setattr(middleware, "MOST_AT_ONCE", 0)
    answer = guest.get("/api/releases")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, str(middleware.TRY_AGAIN_AFTER))
    monkeypatch.undo()
    monkeypatch.setattr(middleware, "MOST_OF_STRANGERS", 0)
    assert guest.http.post("/api/session", json={"secret": "wrong"}).status_code == 503
    assert guest.get("/api/releases").status_code == 200
    monkeypatch.undo()
    paths = guest.get("/api/openapi.json").json()["paths"]
    assert all("503" in asked["responses"] for methods in paths.values() for asked in methods.values())


def test_a_session_sends_one_log_at_a_time(tmp_path):
    guard = middleware.Guard(lambda *given: None, WebSettings(folder=tmp_path), sessions=None)
    first, second = (BrowserSession(csrf="x", seen=0.0) for _ in range(2))
    upload, other = {"method": "POST", "path": "/api/logs"}, {"method": "GET", "path": "/api/logs"}
    with guard._one_upload(upload, first):
        with guard._one_upload(upload, second), guard._one_upload(other, first):
            pass
        with pytest.raises(RefusedRequest, match="send one at a time"), guard._one_upload(upload, first):
            pass
    with guard._one_upload(upload, first):
        pass


def lines():
    return b"ann\tweather\t2006-03-01 07:17:12\t\t\n" * 2_000_000


def zeros():
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return packer.compress(bytes(64 << 20)) + packer.flush()


def parquet(users, queries):
    written = io.BytesIO()
    pl.DataFrame({"user": users, "query": queries}).write_parquet(written, compression="zstd")
    return written.getvalue()


def many_rows():
    ones = pl.repeat("a", 4_000_000, eager=True)
    return parquet(ones, ones)


def long_texts(number):
    return parquet([f"u{n}" for n in range(64)], [number(n) + "a" * (1 << 20) for n in range(64)])


BOMBS = {
    "gzip": ("log.tsv.gz", lambda: gzip.compress(lines(), compresslevel=1)),
    "gzip of zeros": ("log.gz", zeros),
    "zstd": ("log.zst", lambda: zstandard.ZstdCompressor(level=3).compress(lines())),
    "many rows": ("log.parquet", many_rows),
    "one long text repeated": ("log.parquet", lambda: long_texts(lambda n: "")),
    "long texts": ("log.parquet", lambda: long_texts(str)),
}
"""Small files that unpack to 64 MiB, eight times what the server takes: a name and what makes the content."""


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_refused_before_it_is_unpacked(settings, tmp_path, kind):
    name, packed = BOMBS[kind]
    content = packed()
    assert len(content) < settings.largest_upload
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TooLargeError, match="larger than"):
        refuse_bombs(path, at_most=settings.largest_unpacked)


def test_what_a_worker_refuses_is_told_on_the_page_and_not_prepared(visitor):
    name, packed = BOMBS["gzip"]
    log = visitor.upload(name, packed()).json()["id"]
    job = visitor.finished(visitor.put(f"/api/logs/{log}/reading", {}))
    assert (job["state"], "larger than" in job["error"]) == ("failed", True)
    assert not (visitor.settings.folder / "logs" / log / "prepared.parquet").exists()


def test_a_worker_takes_no_more_memory_than_the_machine_has():
    code = "import queryveil.web.worker as w; w.limit_memory(); print(w.resource.getrlimit(w.resource.RLIMIT_DATA)[0])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 0 < int(told) <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def table(**columns):
    written = io.BytesIO()
    pl.DataFrame(columns).write_parquet(written)
    return written.getvalue()


def test_the_footer_of_a_table_names_its_columns_and_sizes(tmp_path):
    path = tmp_path / "log.parquet"
    path.write_bytes(table(user=["a", "b"], more=[{"x": 1, "y": [2]}, {"x": 3, "y": []}], query=["t" * 100, "u" * 100]))
    footer = read_footer(path)
    assert (footer.rows, footer.names) == (2, ("user", "more", "query"))
    assert 200 < footer.unpacked < 2000


def test_a_damaged_table_is_a_polite_refusal_and_never_a_fault(visitor, tmp_path, capfd):
    """A thousand mutants; an earlier decoder panicked over some, with a trace on the server's screen."""
    whole, path, chance = table(user=["a", "b"], query=["x", "y"]), tmp_path / "log.parquet", random.Random(1)
    refused = 0
    for _ in range(1000):
        mutant = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            mutant[chance.randrange(4, len(mutant))] = chance.randrange(256)
        path.write_bytes(mutant)
        guess(path)
        try:
            read_footer(path)
        except FormatError:
            refused += 1
    assert refused > 100
    assert capfd.readouterr().err == ""
    broken = whole[:-40] + bytes(32) + whole[-8:]
    assert visitor.upload("log.parquet", broken).status_code == 201


def test_a_panic_below_is_told_like_any_other_fault_of_ours(guest, monkeypatch, caplog):
    def panics(self):
        raise pl.exceptions.PanicException(SECRET)

    monkeypatch.setattr("queryveil.web.service.Service.logs", panics)
    answer = guest.get("/api/logs")
    assert (answer.status_code, answer.json().keys()) == (500, {"error"})
    assert SECRET not in answer.text + caplog.text


def test_a_zip_is_never_unpacked(visitor):
    log = visitor.upload("log.zip", b"PK\x03\x04" + bytes(100)).json()
    assert "zip" in log["guess"]["problem"]


# Getting data out of errors and logs


def test_errors_never_quote_what_was_sent(guest):
    for path, body in (
        ("/api/plan", {"mechanism": SECRET, "parameters": {}}),
        ("/api/plan", {"mechanism": "suppress", "parameters": {SECRET: 1}}),
        ("/api/plan", {"mechanism": "suppress", SECRET: 1}),
        ("/api/ledger", {"epsilon": SECRET}),
        ("/api/try", {"query": SECRET * 100}),
        (f"/api/logs/{SECRET}/preview", {"mechanism": "suppress"}),
    ):
        answer = guest.post(path, body)
        assert answer.status_code in (404, 422)
        assert SECRET not in answer.text
    assert SECRET not in guest.post("/api/plan", content=f'{{"{SECRET}').text


@pytest.mark.parametrize(("on_error", "state"), [("fail", "failed"), ("skip", "done")])
def test_a_line_that_cannot_be_read_is_told_by_number_and_never_by_content(visitor, on_error, state):
    rows = f"user,query,time\nann,{SECRET},{SECRET}\nbob,weather,2006-03-01\n".encode()
    log = visitor.upload("log.csv", rows).json()["id"]
    job = visitor.finished(visitor.put(f"/api/logs/{log}/reading", {"on_error": on_error}))
    assert job["state"] == state
    page = visitor.get(f"/logs/{log}").text
    assert "line 2, column time" in page
    assert SECRET not in page + str(job)


def test_a_fault_of_ours_tells_its_kind_and_place_and_nothing_else(guest, monkeypatch, caplog):
    def broken(self):
        raise ValueError(SECRET)

    monkeypatch.setattr("queryveil.web.service.Service.logs", broken)
    with caplog.at_level(logging.DEBUG):
        for path in ("/api/logs", "/"):
            answer = guest.get(path)
            assert answer.status_code == 500
            assert SECRET not in answer.text
    assert SECRET not in caplog.text
    assert f"ValueError in {Path(__file__).name}" in caplog.text


def test_nothing_of_a_log_reaches_the_servers_messages(visitor, caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        log = visitor.upload(f"{SECRET}.csv", ROWS).json()["id"]
        visitor.finished(visitor.put(f"/api/logs/{log}/reading", {}))
        visitor.get(f"/logs/{log}")
    told = caplog.text + "".join(capfd.readouterr())
    ours = [line for line in told.splitlines() if "httpx" not in line and "HTTP Request" not in line]
    assert not any(SECRET in line for line in ours)


def test_markup_in_a_log_stays_text(visitor):
    text = """<script>alert(1)</script>"><img src=x onerror=alert(1)>{{7*7}}"""
    frame = QueryLog.of([(f"u{n}", text) for n in range(9)]).frame
    content = frame.select("user", pl.col("query").alias(text)).write_csv().encode()
    log = visitor.upload(f"{text}.csv", content).json()["id"]
    columns = {"user": "user", "query": text}
    assert visitor.finished(visitor.put(f"/api/logs/{log}/reading", {"columns": columns}))["state"] == "done"
    wish = {"mechanism": "suppress", "parameters": {"k_text": 2}}
    assert visitor.finished(visitor.post(f"/api/logs/{log}/preview", wish))["state"] == "done"
    for path in (f"/logs/{log}", f"/logs/{log}/release?mechanism=suppress&k_text=2", "/"):
        page = visitor.get(path).text
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "alert(1)&gt;49" not in page
