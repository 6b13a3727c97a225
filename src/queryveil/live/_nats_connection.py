"""A connection to a NATS server behind a synchronous face, for `nats.py`."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlunsplit

import nats
import nats.errors
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError

from queryveil.errors import UsageError
from queryveil.live.connector import AwayError, Endpoint, UrlParameters

T = TypeVar("T")
PATIENCE = 5.0
WRONG_SEQUENCE, DUPLICATE = (10071, 10164), (10201,)
PARAMETERS = ("stream", "subject", "lease", "replicas", "creds")
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_IN_STREAM = "Nats-Expected-Last-Sequence"


class NatsConnection:
    """A connection behind a synchronous face, and what its URL says. Connects when it is first needed."""

    def __init__(self, end: Endpoint) -> None:
        url = UrlParameters(end, PARAMETERS, "nats://host:4222?stream=searches")
        self._run, self.leases = end.run, f"queryveil-{end.run}-leases"
        self.stream = url.text("stream")
        self.subject = url.text("subject", self.stream)
        for name, value in (("stream", self.stream), ("subject", self.subject)):
            if set(value) & set(" \t*>/\\") or (name == "stream" and "." in value):
                raise UsageError(f"{name} in a nats URL must be a plain name, without *, > or spaces.")
        self.lease, self.replicas = url.number("lease", 10), url.number("replicas", 1)
        self._credentials = url.text("creds") or None
        self._url = urlunsplit(url.parts._replace(query="", path=""))
        self._runner: asyncio.Runner | None = None
        self._thread: threading.Thread | None = None
        self._client: Client | None = None

    def __call__(self, work: Coroutine[Any, Any, T], patience: float = PATIENCE) -> T:
        """Carry it out in the connection's own thread, which keeps the connection alive while the worker works."""
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
            self._runner.get_loop()
            self._thread = threading.Thread(target=_run_loop, args=(self._runner,), name="nats", daemon=True)
            self._thread.start()
        with _away():
            future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, patience), self._runner.get_loop())
            return future.result()

    async def client(self) -> Client:
        """The connection. It never reconnects by itself, which could send what was meant for before."""
        if self._client is None:
            self._client = await nats.connect(
                self._url,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=int(PATIENCE),
                error_cb=_quiet,
                user_credentials=self._credentials,
            )
        return self._client

    async def jetstream(self) -> JetStreamContext:
        """JetStream on the connection."""
        return (await self.client()).jetstream(timeout=PATIENCE)

    async def need(self, name: str, **config: Any) -> api.StreamInfo:
        """The stream of that name; made with this configuration where there is none."""
        jetstream = await self.jetstream()
        try:
            return await jetstream.stream_info(name)
        except NotFoundError:
            return await jetstream.add_stream(name=name, num_replicas=int(self.replicas), **config)

    async def need_leases(self) -> None:
        """The stream in which workers say that they are there; it forgets those who stay silent."""
        subjects, age = [f"queryveil.{self._run}.lease.>"], self.lease
        await self.need(self.leases, subjects=subjects, max_msgs_per_subject=1, max_age=age, duplicate_window=age)

    async def last(self, stream: str, subject: str) -> api.RawStreamMsg | None:
        """The last message on a subject."""
        try:
            return await (await self.jetstream()).get_last_msg(stream, subject)
        except NotFoundError:
            return None

    async def at(self, stream: str, sequence: int) -> api.RawStreamMsg | None:
        """The message of a number, unless it was removed."""
        try:
            return await (await self.jetstream()).get_msg(stream, sequence)
        except NotFoundError:
            return None

    async def put(self, messages: list[tuple[str, bytes, dict[str, str]]]) -> int:
        """Publish to one stream, all or nothing; the sequence number of the last one."""
        client = await self.client()
        batch = secrets.token_hex(8)
        for number, (subject, payload, headers) in enumerate(messages[:-1], 1):
            marks = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            await client.publish(subject, payload, headers=headers | marks)
        subject, payload, headers = messages[-1]
        if len(messages) > 1:
            headers = headers | {
                "Nats-Batch-Id": batch,
                "Nats-Batch-Sequence": str(len(messages)),
                "Nats-Batch-Commit": "1",
            }
        answer = json.loads((await client.request(subject, payload, PATIENCE, headers=headers)).data)
        if "error" in answer:
            raise APIError.from_error(answer["error"])
        if answer.get("duplicate"):  # nothing was published now: in a batch this is an error
            raise APIError(code=400, err_code=DUPLICATE[0])
        return int(answer["seq"])

    def close(self) -> None:
        """Close the connection and end its thread."""
        if self._runner is not None and self._thread is not None:
            with suppress(AwayError):
                self(self._close())
            self._runner.get_loop().call_soon_threadsafe(self._runner.get_loop().stop)
            self._thread.join()
            self._runner = self._thread = None

    async def _close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


async def _quiet(error: Exception) -> None:
    """Every failure is met where it was asked for; the client's own words could hold data."""


def _run_loop(runner: asyncio.Runner) -> None:
    """Runs and closes the loop in one thread: the caller's may have a running loop of its own."""
    with runner:
        runner.get_loop().run_forever()


@contextmanager
def _away() -> Iterator[None]:
    """Whatever stands between us and the server is worth waiting for; its words are not passed on, they may hold data.

    Only a wrong sequence number or a message id that is there already come through as they are.
    """
    try:
        yield
    except APIError as error:
        if error.err_code in WRONG_SEQUENCE + DUPLICATE:
            raise
        raise AwayError(f"the nats server does not do it now (its error {error.err_code or error.code}).") from None
    except nats.errors.AuthorizationError:
        raise UsageError("the nats server does not take these credentials.") from None
    except (nats.errors.Error, OSError, TimeoutError):
        raise AwayError("the nats server cannot be reached.") from None
