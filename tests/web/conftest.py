"""What the tests of the page share: a small application, somebody who was let in, a server that a browser can reach."""

import socket
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn
from starlette.testclient import TestClient

from queryveil.web import service as web_service
from queryveil.web.app import create
from queryveil.web.connections import ImpatientProtocol
from queryveil.web.settings import Listening, WebSettings
from waiting import LONG, wait_until
from web.forked_workers import Workers

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(autouse=True)
def a_small_sample(monkeypatch):
    """The sample log of the tests: enough people to protect, few enough to be quick."""
    monkeypatch.setattr(web_service, "SAMPLE_USERS", 40)
    monkeypatch.setattr(web_service, "SAMPLE_RECORDS", 600)


@pytest.fixture(scope="session")
def worker_zygote():
    made = Workers()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def forked_workers(request, monkeypatch):
    """Workers start in a moment, but where the tests are about how they start and end."""
    if request.module.__name__.endswith("test_jobs"):
        return
    popen = subprocess.Popen

    def start(command, *given, **named):
        if command[1:3] == ["-m", "queryveil.web.worker"]:
            return request.getfixturevalue("worker_zygote").start(command[3:], named["pass_fds"])
        return popen(command, *given, **named)

    monkeypatch.setattr("queryveil.web.job_runner.subprocess.Popen", start)


@pytest.fixture
def comparison_may_go_on(worker_zygote, monkeypatch, tmp_path):
    """Comparisons try few settings here, and only the first of them before this is called (paced_worker.py)."""
    gate, popen = tmp_path / "may go on", subprocess.Popen

    def start(command, *given, **named):
        if command[1:3] == ["-m", "queryveil.web.worker"]:
            return worker_zygote.start(command[3:], named["pass_fds"], str(gate))
        return popen(command, *given, **named)

    monkeypatch.setattr("queryveil.web.job_runner.subprocess.Popen", start)
    return gate.touch


@dataclass
class Visitor:
    """A client of the application; `enter` lets it in."""

    http: TestClient
    settings: WebSettings
    tokens: list[str]
    headers: dict[str, str] = field(default_factory=dict)

    def enter(self):
        answer = self.http.post("/api/session", json={"secret": self.tokens[-1]})
        assert answer.status_code == 200
        self.headers = {"x-csrf-token": answer.json()["csrf"]}
        return self

    def get(self, path, **given):
        return self.http.get(path, **given)

    def post(self, path, json=None, **given):
        headers = self.headers | given.pop("headers", {})
        return self.http.post(path, json=json, headers=headers, **given)

    def put(self, path, json):
        return self.http.put(path, json=json, headers=self.headers)

    def delete(self, path):
        return self.http.delete(path, headers=self.headers)

    def upload(self, name, content):
        return self.post("/api/logs", params={"name": name}, content=content)

    def finished(self, answer):
        """The job of an answer, once it has ended."""
        assert answer.status_code in (200, 202), answer.text
        return self.until(answer.json()["id"], lambda job: job["state"] not in ("waiting", "running"))

    def until(self, job, wanted):
        found = None

        def there():
            nonlocal found
            found = self.get(f"/api/jobs/{job}").json()
            return wanted(found)

        wait_until(there, "the job gets there")
        return found

    def sample(self):
        """A log that was read and counted."""
        log = self.post("/api/logs/sample").json()["id"]
        job = self.finished(self.put(f"/api/logs/{log}/reading", {}))
        assert job["state"] == "done", job["error"]
        return log


def small(place):
    """Settings with small limits."""
    return WebSettings(folder=place / "page", largest_upload=1 << 20, largest_unpacked=8 << 20)


@pytest.fixture
def settings(tmp_path):
    return small(tmp_path)


@pytest.fixture
def stranger(settings):
    """Somebody who was not let in, before a fresh application."""
    tokens = []
    with TestClient(create(settings, tokens.append), base_url=settings.address, follow_redirects=False) as http:
        yield Visitor(http, settings, tokens)


@pytest.fixture
def visitor(stranger):
    """Somebody who was let in."""
    return stranger.enter()


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    """Somebody who was let in before an application that a module shares: for what is refused and changes nothing."""
    settings = small(tmp_path_factory.mktemp("shared"))
    tokens = []
    with TestClient(create(settings, tokens.append), base_url=settings.address, follow_redirects=False) as http:
        yield Visitor(http, settings, tokens).enter()


@dataclass
class Running:
    """A server on a real socket."""

    settings: Listening
    tokens: list[str]

    @property
    def address(self):
        return self.settings.address

    @property
    def entrance(self):
        return f"{self.address}/enter?token={self.tokens[-1]}"


@contextmanager
def answering(application):
    """What `application(port)` makes, on a free port of loopback."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        application(listener.getsockname()[1]),
        access_log=False,
        log_config=None,
        lifespan="on",
        http=ImpatientProtocol,
        timeout_keep_alive=2 * LONG,  # so that nothing but our own limits ends a connection
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    wait_until(lambda: running.started or not thread.is_alive(), "the server answers")
    assert running.started
    try:
        yield
    finally:
        running.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def serving(folder, patience):
    """The application on a free port of loopback, with small limits."""
    made = []

    def application(port):
        limits = {"largest_upload": 16 << 20, "largest_unpacked": 32 << 20, "patience": patience}
        made.append(Running(WebSettings(folder=folder, port=port, **limits), []))
        return create(made[0].settings, made[0].tokens.append)

    with answering(application):
        yield made[0]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that a module shares; it waits for a browser that the machine keeps waiting."""
    with serving(tmp_path_factory.mktemp("server") / "page", patience=LONG) as running:
        yield running


@pytest.fixture(scope="module")
def impatient_server(tmp_path_factory):
    """A server that a module shares; it waits a second for who stays silent while sending."""
    with serving(tmp_path_factory.mktemp("server") / "page", patience=1.0) as running:
        yield running


@pytest.fixture
def page(browser, server):
    """A page of a visitor who was let in; fails on any message in the console and on any request to elsewhere."""
    with visiting(browser, server) as page:
        yield page


@contextmanager
def visiting(browser, server):
    heard, elsewhere = [], []
    with browser.new_context(viewport={"width": 1280, "height": 900}) as visit:
        page = visit.new_page()
        page.set_default_timeout(LONG * 1000)
        page.on("console", lambda message: heard.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: elsewhere.append(request.url) if server.address not in request.url else None)
        page.goto(server.entrance)
        page.wait_for_url(f"{server.address}/")
        yield page
    assert heard == []
    assert elsewhere == []
