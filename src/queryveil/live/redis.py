"""Redis Streams (and Valkey): `redis://host:6379/0?stream=NAME`.

A commit is one script: outputs (XADD), dead letters, the state (SET) and the acknowledgement, done together if the
shard's fence is still the token that this worker put there, and not at all otherwise (`_redis_sink`).

Why not XREADGROUP: it deals single entries out to whoever asks, and a worker that lost its shard could still take
entries that its successor then never sees. A shard must be read by one worker in the order of the stream. So entries
are read with XREAD from the position in the committed state, which nobody else can move, and the consumer group is
where the rest of the world sees how far we are: the acknowledgement sets the group's last delivered id (XGROUP SETID,
as Kafka commits an offset), so XINFO GROUPS tells the lag and a trimmer knows what may go. How a stream is known again,
and how removed entries are noticed, is in `_redis_source`.

A worker holds a lease on its shard; a successor waits for it to run out by the server's clock, and if that was set
back, for as long as the lease was given. Workers count up in a hash that they are there, and share the shards out by
their order in it; who does not count on for the length of a lease, by the monotonic clock of who looks, is gone.

URL parameters: `stream` (needed), `lease` in seconds (10), `backlog`: how many outputs may lie in the stream, or in
those of all shards together, before the worker pauses (no limit). An entry is a record in the field `record`, or has
the record's fields as its own. Keys of the run are named `queryveil:RUN:…`. How durable a commit is, is the server's
business: with `appendonly yes` and `appendfsync always` a commit survives the server's crash; otherwise outputs, state
and positions are set back together, and come again the same, or the run refuses (`engine`).
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress

import redis

from queryveil.live._redis_server import Server, answers, away
from queryveil.live._redis_sink import RedisSink
from queryveil.live._redis_source import RedisSource
from queryveil.live.connector import End


class RedisMembers:
    """The workers of a run, each with a count that it moves on while it is there."""

    def __init__(self, end: End) -> None:
        self._server = Server(end)
        self._workers, self._shards = f"queryveil:{end.run}:members", end.shards
        self._stay = self._server.number("lease", 10)
        self._me = secrets.token_hex(8)
        self._seen: dict[str, tuple[bytes, float]] = {}
        """Each worker's count, and when we first saw it."""

    def wanted(self) -> frozenset[int]:
        """Every n-th shard, for the i-th of n workers."""
        with away(), self._server.client.pipeline(transaction=False) as asked:
            asked.hincrby(self._workers, self._me, 1)
            asked.hgetall(self._workers)
            counts = {name.decode(): count for name, count in answers(asked)[-1].items()}
            now = time.monotonic()
            fresh = {name: (count, now) for name, count in counts.items()}
            fresh |= {name: self._seen[name] for name in counts if self._seen.get(name, (b"",))[0] == counts[name]}
            gone = [name for name, (_, since) in fresh.items() if now - since >= self._stay]
            if gone:
                self._server.client.hdel(self._workers, *gone)
        self._seen = {name: seen for name, seen in fresh.items() if name not in gone}
        everybody = sorted(self._seen.keys() | {self._me})
        place = everybody.index(self._me)
        return frozenset(range(place, self._shards, len(everybody)))

    def close(self) -> None:
        """Leave."""
        with suppress(redis.RedisError):  # otherwise the others will see that this one does not come back
            self._server.client.hdel(self._workers, self._me)
        self._server.client.close()


def open_source(end: End) -> RedisSource:
    """A stream to read."""
    return RedisSource(end)


def open_sink(end: End) -> RedisSink:
    """A stream to write."""
    return RedisSink(end)


def open_members(end: End) -> RedisMembers:
    """Who shares the shards."""
    return RedisMembers(end)
