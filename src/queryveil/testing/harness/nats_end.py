"""NATS JetStream for a trial: streams of its own, by names that nobody else has, and no others are ever touched."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Any

import nats
from nats.js.errors import NotFoundError

from queryveil.testing.harness.ends import PATIENCE, BrokerEnd, OwnServer
from queryveil.testing.harness.records import HALF_PUBLISHED, LABELS, small_run


class NatsClient:
    """A plain client behind a synchronous face."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._kept_running, daemon=True)
        self._thread.start()
        self._url = url
        self.reconnect()

    def reconnect(self) -> None:
        """Connect, again where the server was away."""
        self.connection: Any = self.do(nats.connect(self._url, allow_reconnect=False, error_cb=_quiet))
        self.jetstream: Any = self.connection.jetstream()

    def do(self, work: Any, seconds: float = PATIENCE) -> Any:
        """Wait for what a coroutine gives."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def empty(self) -> None:
        """Delete every stream: only on a server of one's own."""
        for stream in self.do(self.jetstream.streams_info()):
            self.do(self.jetstream.delete_stream(stream.config.name))

    def publish(self, subject: str, payloads: list[bytes], ids: list[str] | None = None) -> None:
        """All of them, and wait until the server has them."""

        async def all_of_them() -> None:
            headers: list[Any] = [{"Nats-Msg-Id": name} for name in ids] if ids else [None] * len(payloads)
            sent = [
                await self.jetstream.publish_async(subject, payload, headers=header)
                for payload, header in zip(payloads, headers, strict=True)
            ]
            await asyncio.gather(*sent)

        self.do(all_of_them())

    def messages(self, stream: str, subject: str | None = None, behind: int = 0) -> list[Any]:
        """Everything behind a number."""

        async def all_of_them() -> list[Any]:
            found: list[Any] = []
            number = behind
            while True:
                try:
                    message = await self.jetstream.get_msg(stream, seq=number + 1, subject=subject or ">", next=True)
                except NotFoundError:
                    return found
                found.append(message)
                number = message.seq

        messages: list[Any] = self.do(all_of_them())
        return messages

    def close(self) -> None:
        """Disconnect."""
        self.do(self.connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _kept_running(self) -> None:
        with self._runner:
            self._loop.run_forever()


async def _quiet(error: Exception) -> None:
    """Whoever stops the server knows."""


class NatsEnd(BrokerEnd):
    """From a stream to a stream of one server."""

    labels = (*LABELS, HALF_PUBLISHED)

    def __init__(self, url: str, name: str, server: OwnServer | None = None) -> None:
        super().__init__(server)
        self.run, self._url = name, url.partition("?")[0]
        self._client = NatsClient(self._url)
        self._in, self._out = f"{name}-in", f"{name}-out"
        self._client.do(self._client.jetstream.add_stream(name=self._in, subjects=[self._in]))
        self._seen: list[bytes] = []
        self._upto = 0

    def settings(self) -> dict[str, object]:
        """Of a worker."""
        return small_run(f"{self._url}?stream={self._in}", f"{self._url}?stream={self._out}&lease=0.3", {}, self.run)

    def feed(self, lines: list[bytes]) -> None:
        """More input."""
        self._client.publish(self._in, lines)

    def visible(self) -> list[bytes]:
        """A stream only grows, so a reader goes on where it was."""
        with suppress(NotFoundError):
            found = self._client.messages(self._out, behind=self._upto)
            self._upto = found[-1].seq if found else self._upto
            self._seen += [message.data for message in found]
        return list(self._seen)

    def left(self) -> int:
        """As the run's consumer tells."""
        info = self._client.do(self._client.jetstream.consumer_info(self._in, f"queryveil-{self.run}"))
        return int(info.num_pending + info.num_ack_pending)

    def again(self) -> None:
        """Connect, and read from the beginning."""
        self._client.reconnect()
        self._seen, self._upto = [], 0

    def close(self) -> None:
        """Remove the run's streams."""
        for name in (self._in, self._out, f"queryveil-{self.run}", f"queryveil-{self.run}-leases"):
            with suppress(NotFoundError):
                self._client.do(self._client.jetstream.delete_stream(name))
        self._client.close()
