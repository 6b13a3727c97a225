"""Redis streams for a trial: keys of its own, by names that nobody else has, and no others are ever touched."""

from __future__ import annotations

from typing import Any

import redis

from queryveil.testing.harness.ends import End
from queryveil.testing.harness.records import LABELS, small_run


class RedisEnd(End):
    """From a stream to a stream of one server."""

    labels = LABELS
    takes_over = sets_back = True

    def __init__(self, url: str, name: str) -> None:
        self.run, self._url = name, url.partition("?")[0]
        self._client: Any = redis.Redis.from_url(self._url)
        self._saved: dict[bytes, tuple[int, bytes]] = {}

    def settings(self) -> dict[str, object]:
        """Of a worker."""
        source, sink = (f"{self._url}?stream={self.run}-{end}" for end in ("in", "out"))
        return small_run(source, f"{sink}&lease=0.3", {}, self.run)

    def feed(self, lines: list[bytes]) -> None:
        """More input."""
        with self._client.pipeline(transaction=False) as pipe:
            for line in lines:
                pipe.xadd(f"{self.run}-in", {"record": line})
            pipe.execute()

    def visible(self) -> list[bytes]:
        """All entries of the output."""
        return [fields[b"record"] for _, fields in self._client.xrange(f"{self.run}-out")]

    def left(self) -> int:
        """As the run's consumer group tells."""
        groups = self._client.xinfo_groups(f"{self.run}-in")
        return sum(group["lag"] or 0 for group in groups)

    def save(self) -> None:
        """What a replica that is behind, or the disk, would have."""
        self._saved = {key: (max(0, self._client.pttl(key)), self._client.dump(key)) for key in self._keys()}

    def lose(self) -> None:
        """As after a failover to that replica, for these keys."""
        self.close()
        for key, (left, content) in self._saved.items():
            self._client.restore(key, left, content)

    def close(self) -> None:
        """Remove the run's keys."""
        if keys := self._keys():
            self._client.delete(*keys)

    def _keys(self) -> list[bytes]:
        patterns = (f"{self.run}-*", f"queryveil:{self.run}:*")
        return [key for pattern in patterns for key in self._client.scan_iter(match=pattern, count=1000)]
