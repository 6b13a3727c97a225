"""Redis Streams (and Valkey): `redis://host:6379/0?stream=NAME`.

A commit is one MULTI: outputs (XADD), dead letters, the state (SET) and the acknowledgement, under WATCH of the shard's
fence. Whoever claims a shard counts the fence up, so the EXEC of a worker that lost it fails and nothing of it is seen.

Why not XREADGROUP: it deals single entries out to whoever asks, and a worker that lost its shard could still take
entries that its successor then never sees. A shard must be read by one worker in the order of the stream. So entries
are read with XREAD from the position in the committed state, which nobody else can move, and the consumer group is
where the rest of the world sees how far we are: the acknowledgement sets the group's last delivered id (XGROUP SETID,
as Kafka commits an offset), so XINFO GROUPS tells the lag and a trimmer knows what may go.

A worker holds a lease on its shard that runs out by the server's clock; a successor waits for that. Clocks of workers
are never asked. Workers register in a sorted set and share the shards out by their order in it.

URL parameters: `stream` (needed), `lease` in seconds (10), `backlog`: how many outputs may wait unread in the stream
before the worker pauses (no limit). An entry is a record in the field `record`, or has the record's fields as its
own. Keys of the run are named `queryveil:RUN:…`. How durable a commit is, is the server's business: with `appendonly
yes` and `appendfsync always` a commit survives the server's crash; otherwise outputs, state and positions are set
back together, and come again the same.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import msgspec
import redis
from redis.backoff import NoBackoff
from redis.exceptions import ExecAbortError
from redis.retry import Retry

from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.run.live.connector import (
    READ_BYTES,
    SMALL_BATCH,
    Accept,
    AwayError,
    Batch,
    End,
    FencedError,
    OnStep,
    Positions,
    Promise,
    Source,
    Step,
    accept_any,
    place_of,
)
from queryveil.run.live.lines import Messages

RECORD = b"record"
BEGINNING = "0-0"
FEWEST_AT_ONCE, MOST_AT_ONCE = 16, 10_000
PATIENCE = 5.0
EXACTLY_ONCE = Promise("exactly once", "outputs, state and acknowledgement are one transaction of the server")
TRANSIENT = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.BusyLoadingError,
    redis.OutOfMemoryError,
    ExecAbortError,
    redis.ReadOnlyError,
)
ADDED_AT_ONCE = 2000
ADD = "for i = 1, #ARGV do redis.call('xadd', KEYS[1], '*', 'record', ARGV[i]) end"
"""One command for many entries: the client takes longer to write and answer a command than the server to do it."""
RENEW = """
local holder = redis.call('get', KEYS[1])
if holder == ARGV[1] or (not holder and redis.call('get', KEYS[2]) == ARGV[3]) then
    redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1
end
return 0
"""
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class Server:
    """A connection and what its URL says of the stream."""

    def __init__(self, end: End, known: tuple[str, ...]) -> None:
        parts = urlsplit(end.url)
        told = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if "stream" not in told or not set(told) <= {"stream", *known}:
            raise UsageError(f"a redis URL takes {', '.join(('stream', *known))}, e.g. redis://host/0?stream=searches.")
        self.stream = told["stream"]
        self.told = told
        try:
            self.place = (parts.hostname, parts.port or 6379, parts.path.strip("/") or "0")
        except ValueError:
            raise UsageError("the port in a redis URL must be a number.") from None
        self.prefix = f"queryveil:{end.run}:{end.shard}"
        self.client: Any = redis.Redis.from_url(
            urlunsplit(parts._replace(query="")),
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 0),  # a repeated MULTI would publish twice
        )

    def number(self, name: str, default: float) -> float:
        """A parameter of the URL."""
        try:
            value = float(self.told.get(name, default))
        except ValueError:
            value = -1
        if not value > 0:
            raise UsageError(f"{name} in a redis URL must be a number > 0.")
        return value


class RedisSource:
    """One stream, or one for each shard."""

    promise = Promise("exactly once", "a stream can be read again from any entry")

    def __init__(self, end: End) -> None:
        self._server = Server(end, ("lease", "backlog"))
        sharded = end.spread == "mine" and end.shards > 1
        self.stream = f"{self._server.stream}:{end.shard}" if sharded else self._server.stream
        self.name = f"redis stream {self.stream}"
        self.place = self._server.place
        self._group, self._longest = f"queryveil-{end.run}", end.longest
        self._last = BEGINNING
        self._count = 0
        """How many entries the stream ever had up to the last one read."""
        self._deleted_before = (0, 0)
        """The newest entry that had been deleted when the run began, which is none of its loss."""
        self._at_once = 128

    def seek(self, positions: Positions) -> None:
        """Go on behind an entry."""
        self._last = str(positions.get("entry", BEGINNING))
        with _away():
            try:
                self._server.client.xgroup_create(self.stream, self._group, id="0", mkstream=True)
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise DataError(f"{self.stream} is no stream of the server.") from None
            info = self._info()
        newest = info["last-generated-id"].decode()
        if _id(newest) < _id(self._last):
            raise RefusedError(
                f"{self.stream} ends at {newest}, before {self._last}, up to where it was read: it is another stream. "
                "Begin a new run under a new --run name."
            )
        self._count = int(positions.get("count", info["entries-added"] - info["length"]))
        self._deleted_before = _id(str(positions.get("deleted", info["max-deleted-entry-id"].decode())))
        self._refuse_removed(self._last, self._count, info)

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = self._server.client.xinfo_stream(self.stream)
        if "entries-added" not in info:
            raise UsageError("this redis server is too old to tell of removed entries: use Redis 7, or Valkey.")
        return info

    def _refuse_removed(self, last: str, count: int, info: dict[str, Any]) -> None:
        """Trimming takes the oldest entries: were more removed than were read, some unread ones were among them.

        Deleting may take any: the server tells the newest that was deleted.
        """
        removed, deleted = info["entries-added"] - info["length"], info["max-deleted-entry-id"].decode()
        if removed > count or _id(deleted) > max(_id(last), self._deleted_before):
            raise RefusedError(
                f"entries of {self.stream} behind {last}, up to where it was read, were removed before they were read. "
                "Trim only what the consumer group has behind it, and begin a new run under a new --run name."
            )

    def read(self, most: int, wait: float) -> Batch:
        """Entries in the order of the stream, by so many bytes at most."""
        taken = Messages(self._longest)
        last, count = self._last, self._count
        deadline = time.monotonic() + wait
        while len(taken) < most and taken.size < READ_BYTES:
            left = max(1, round(1000 * min(deadline - time.monotonic(), PATIENCE / 2)))
            entries = self._entries(min(self._at_once, most - len(taken)), None if len(taken) else left)
            if not entries and (len(taken) or time.monotonic() >= deadline):
                break
            before = taken.size
            for entry, fields in entries:
                taken.add(_line(fields), entry.decode())
            if entries:
                self._last = entries[-1][0].decode()
                fitting = READ_BYTES // 4 * len(entries) // max(1, taken.size - before)
                self._at_once = max(FEWEST_AT_ONCE, min(MOST_AT_ONCE, 2 * self._at_once, fitting))
        if len(taken):
            with _away():
                self._refuse_removed(last, count, self._info())
        self._count += len(taken)
        return taken.batch(
            {"entry": self._last, "count": self._count, "deleted": "{}-{}".format(*self._deleted_before)}
        )

    def _entries(self, count: int, block: int | None) -> list[tuple[bytes, dict[bytes, bytes]]]:
        with _away():
            answer = self._server.client.xread({self.stream: self._last}, count=count, block=block)
        if not answer:
            return []
        entries = next(iter(answer.values()))[0] if isinstance(answer, dict) else answer[0][1]
        return [(entry, fields or {}) for entry, fields in entries]

    def acknowledge_in(self, transaction: Any, positions: Positions) -> None:
        """Add the acknowledgement to a transaction of the same server."""
        if positions:
            # Without the number of entries read, the server could not tell how many are left.
            transaction.xgroup_setid(self.stream, self._group, positions["entry"], positions["count"])

    def acknowledge(self, positions: Positions) -> None:
        """Set the group's last delivered entry."""
        with _away():
            self.acknowledge_in(self._server.client, positions)

    def close(self) -> None:
        """Close the connection."""
        self._server.client.close()


class RedisSink:
    """Outputs, dead letters and state on one server."""

    promise = EXACTLY_ONCE
    takes_back = False
    batch = SMALL_BATCH

    def __init__(self, end: End) -> None:
        self.place = place_of(end)
        self._server = Server(end, ("lease", "backlog"))
        self._routed = end.spread == "all"
        self._run, self._shard, self._shards = end.run, end.shard, end.shards
        prefix = f"queryveil:{end.run}:router" if self._routed else self._server.prefix
        self._state, self._fence, self._lease = (f"{prefix}:{what}" for what in ("state", "fence", "lease"))
        self._dead = f"queryveil:{end.run}:dead"
        self._lease_time = round(1000 * self._server.number("lease", 10))
        self._backlog = int(self._server.number("backlog", 2**62))
        self._me = secrets.token_hex(8)
        self._token = 0
        self._on_step: OnStep = end.on_step

    def claim(self, sealing_key: bytes) -> None:
        """Wait for the lease of the one before to end, then count the fence up."""
        client = self._server.client
        with _away():
            self._check_kinds()
            if not client.set(self._lease, self._me, nx=True, px=self._lease_time):
                raise AwayError(f"another worker holds shard {self._shard} of run {self._run}.")
            self._token = int(client.incr(self._fence))

    def _check_kinds(self) -> None:
        """A command that fails inside a transaction would leave the others done: see that none can."""
        shards = [f":{shard}" for shard in range(self._shards)] if self._routed else [""]
        streams = [self._dead, *(self._server.stream + shard for shard in shards)]
        for kind, names in ((b"stream", streams), (b"string", [self._state, self._fence, self._lease])):
            for name in names:
                if self._server.client.type(name) not in (kind, b"none"):
                    raise UsageError(f"the key {name} of the server is in use for something else.")

    def load(self, accept: Accept = accept_any) -> bytes | None:
        """The state of the last commit."""
        with _away():
            state: bytes | None = self._server.client.get(self._state)
        accept(state, None)
        return state

    def ready(self) -> bool:
        """Renew the lease, also one that ran out and nobody wanted; wait while too many outputs are unread."""
        with _away():
            mine = self._me, self._lease_time, self._token
            if not self._server.client.eval(RENEW, 2, self._lease, self._fence, *mine):
                raise self._fenced()
            return int(self._server.client.xlen(self._server.stream)) < self._backlog

    def commit(self, step: Step, source: Source) -> None:
        """One MULTI, which the server carries out if the fence still stands where we put it."""
        here = source if isinstance(source, RedisSource) and source.place == self._server.place else None
        with _away(), self._server.client.pipeline(transaction=True) as transaction:
            transaction.watch(self._fence)
            if int(transaction.get(self._fence) or 0) != self._token:
                raise self._fenced()
            transaction.multi()
            for stream, lines in self._by_stream(step).items():
                for start in range(0, len(lines), ADDED_AT_ONCE):
                    transaction.eval(ADD, 1, stream, *lines[start : start + ADDED_AT_ONCE])
            for letter in step.dead:
                transaction.xadd(self._dead, {"place": letter.place, "reason": letter.reason})
            transaction.set(self._state, step.state)
            if here is not None:
                here.acknowledge_in(transaction, step.positions)
            self._on_step("mid publish")
            try:
                transaction.execute()
            except redis.WatchError:  # somebody claimed the shard, or the connection broke
                if int(self._server.client.get(self._fence) or 0) == self._token:
                    raise AwayError("the connection to the redis server broke.") from None
                raise self._fenced() from None
        self._on_step("state safe")
        if here is None:
            source.acknowledge(step.positions)

    def _by_stream(self, step: Step) -> dict[str, list[bytes]]:
        if step.routes is None:
            return {self._server.stream: step.outputs}
        lines: dict[str, list[bytes]] = {}
        for line, shard in zip(step.outputs, step.routes, strict=True):
            lines.setdefault(f"{self._server.stream}:{shard}", []).append(line)
        return lines

    def _fenced(self) -> FencedError:
        return FencedError(f"another worker took shard {self._shard} of run {self._run} over.")

    def close(self) -> None:
        """Let the next one in without waiting."""
        with suppress(redis.RedisError):  # otherwise the lease runs out by itself
            self._server.client.eval(RELEASE, 1, self._lease, self._me)
        self._server.client.close()


class RedisMembers:
    """The workers of a run, in a sorted set with the time at which each is taken for gone."""

    def __init__(self, end: End) -> None:
        self._server = Server(end, ("lease", "backlog"))
        self._workers, self._shards = f"queryveil:{end.run}:workers", end.shards
        self._stay = self._server.number("lease", 10)
        self._me = secrets.token_hex(8)

    def wanted(self) -> frozenset[int]:
        """Every n-th shard, for the i-th of n workers."""
        client = self._server.client
        with _away():
            seconds, micros = client.time()
            now = seconds + micros / 1e6
            with client.pipeline(transaction=True) as transaction:
                transaction.zadd(self._workers, {self._me: now + self._stay})
                transaction.zremrangebyscore(self._workers, "-inf", now)
                transaction.zrange(self._workers, 0, -1)
                everybody = sorted(name.decode() for name in transaction.execute()[-1])
        place = everybody.index(self._me)
        return frozenset(range(place, self._shards, len(everybody)))

    def close(self) -> None:
        """Leave the set."""
        with suppress(redis.RedisError):  # otherwise the others will see that this one does not come back
            self._server.client.zrem(self._workers, self._me)
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


def _line(fields: dict[bytes, bytes]) -> bytes:
    if RECORD in fields:
        return fields[RECORD]
    try:
        return msgspec.json.encode({name.decode(): value.decode() for name, value in fields.items()})
    except UnicodeDecodeError:
        return b"\xff"  # what the decoder tells as not valid UTF-8


def _id(entry: str) -> tuple[int, int]:
    first, _, second = entry.partition("-")
    return int(first), int(second or 0)


@contextmanager
def _away() -> Iterator[None]:
    """Whatever stands between us and the server is worth waiting for; its words are not told, they may hold data."""
    try:
        yield
    except redis.AuthenticationError:
        raise UsageError("the redis server refuses the user or password in the URL.") from None
    except TRANSIENT:
        raise AwayError("the redis server cannot be reached, or takes no writes now.") from None
    except redis.ResponseError:
        raise DataError("the redis server refused a command; its own log says why.") from None
