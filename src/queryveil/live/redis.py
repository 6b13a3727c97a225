"""Redis Streams (and Valkey): `redis://host:6379/0?stream=NAME`.

A commit is one script: outputs (XADD), dead letters, the state (SET) and the acknowledgement, done together if the
shard's fence is still the token that this worker put there, and not at all otherwise (`RedisSink`).

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
and positions are set back together, and come again the same, or the run refuses (`shard`).
"""

from __future__ import annotations

import secrets
import time
from contextlib import suppress

import redis

from queryveil.errors import UsageError
from queryveil.live._redis_server import TOO_OLD, RedisServer, answers, away, not_allowed
from queryveil.live._redis_source import RedisSource
from queryveil.live.connector import Accept, AwayError, Endpoint, FencedError, RecordSource, Sink, Step, share_of_shards

KEEPS_ALL = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}
"""With these settings a server answers only when a write is on its disk."""
COMMIT = """
-- KEYS: fence, state, dead letters, output streams. ARGV: token, next token, state, stream, group, entry and
-- count to acknowledge, number of dead letters, number of lines for each output stream, then dead letters and lines.
if not redis.acl_check_cmd then return 'old' end
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 'fenced' end
for i = 1, 2 do
    if not redis.acl_check_cmd('set', KEYS[i], '') then return 'denied' end
end
for i = 3, #KEYS do
    if not redis.acl_check_cmd('xadd', KEYS[i], '*', 'record', '') then return 'denied' end
    local kind = redis.call('type', KEYS[i]).ok
    if kind ~= 'stream' and kind ~= 'none' then return KEYS[i] end
end
local at = 6 + #KEYS
for i = 1, tonumber(ARGV[8]) do
    redis.call('xadd', KEYS[3], '*', 'place', ARGV[at], 'reason', ARGV[at + 1])
    at = at + 2
end
for i = 4, #KEYS do
    for j = 1, tonumber(ARGV[5 + i]) do
        redis.call('xadd', KEYS[i], '*', 'record', ARGV[at])
        at = at + 1
    end
end
redis.call('set', KEYS[2], ARGV[3])
redis.call('set', KEYS[1], ARGV[2])
if ARGV[4] ~= '' then redis.pcall('xgroup', 'setid', ARGV[4], ARGV[5], ARGV[6], 'ENTRIESREAD', ARGV[7]) end
return 'made'
"""
CLAIM = """
-- A lease that has longer to go than it was ever given was given before the server's clock was set back.
local holder = redis.call('get', KEYS[1])
if holder and holder ~= ARGV[1] then
    local given, left = tonumber(string.match(holder, ':(%d+)$')), redis.call('pttl', KEYS[1])
    if given and (left > given or left < 0) then redis.call('pexpire', KEYS[1], given) end
    return 0
end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('set', KEYS[2], ARGV[3])
return 1
"""
RENEW = """
if redis.call('get', KEYS[2]) ~= ARGV[3] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class RedisSink(Sink):
    """A Redis stream as a sink: a commit is one script, and a token that nobody can guess tells whose turn it is.

    The fence of a shard is a random token, new with every claim and with every commit. A commit names the token it
    found or made last, and nothing happens if another is there. A count would not do: a server that lost its last
    writes (a failover to a replica that was behind, a crash without `appendfsync always`) counts the same number out a
    second time. And since every commit puts a new token, a worker whose own commits were lost cannot commit on top of
    an older state either: it opens the shard anew and repeats what is missing.

    The script looks first and writes then, because a script that fails in the middle keeps what it wrote: the fence,
    the access list (`redis.acl_check_cmd`, Redis 7) and the kinds of all keys. Want of memory, a read-only server and
    missing replicas stop it at its first write. The acknowledgement is a hint, and its failure no reason to stop.
    """

    may_forget = True

    def __init__(self, end: Endpoint) -> None:
        self.place = end.place
        self._server = RedisServer(end)
        self._routed = end.spread == "all"
        self._run, self._shard = end.run, end.shard
        prefix = f"queryveil:{end.run}:{'router' if self._routed else end.shard}"
        self._state, self._fence, self._lease = (f"{prefix}:{what}" for what in ("state", "fence", "lease"))
        self._dead = f"queryveil:{end.run}:dead"
        shards = [f":{shard}" for shard in range(end.shards)] if self._routed else [""]
        self._streams = [self._server.stream + shard for shard in shards]
        self._lease_time = round(1000 * self._server.url.number("lease", 10))
        self._backlog = self._server.url.number("backlog", float("inf"))
        self._me = f"{secrets.token_hex(8)}:{self._lease_time}"
        self._token = ""
        self._on_step = end.on_step

    def claim(self, sealing_key: bytes) -> None:
        """Wait for the lease of the one before to end, then put a token of our own on the fence."""
        token = secrets.token_hex(16)
        with away():
            self._check_kinds()
            mine = self._me, self._lease_time, token
            if not self._server.client.eval(CLAIM, 2, self._lease, self._fence, *mine):
                raise AwayError(f"another worker holds shard {self._shard} of run {self._run}.")
        self._token = token

    def _check_kinds(self) -> None:
        for kind, names in ((b"stream", [self._dead, *self._streams]), (b"string", [self._state, self._fence])):
            for name in names:
                if self._server.client.type(name) not in (kind, b"none"):
                    raise _in_use(name)

    def load(self, accept: Accept) -> bytes | None:
        """The state of the last commit."""
        with away():
            state: bytes | None = self._server.client.get(self._state)
        accept(state, None)
        return state

    def advice(self) -> str | None:
        """As the server's settings say; one that does not show them is trusted."""
        with away():
            try:
                found = self._server.client.config_get(*KEEPS_ALL)
            except redis.ResponseError:
                return None
        return None if KEEPS_ALL.items() <= found.items() else f"Set {', '.join(map(' '.join, KEEPS_ALL.items()))}."

    def ready(self) -> bool:
        """Renew the lease, also one that ran out and nobody wanted; wait while too many outputs are unread."""
        client = self._server.client
        with away():
            mine = self._me, self._lease_time, self._token
            if not client.eval(RENEW, 2, self._lease, self._fence, *mine):
                raise self._fenced()
            if self._backlog == float("inf"):
                return True
            with client.pipeline(transaction=False) as asked:
                for stream in self._streams:
                    asked.xlen(stream)
                return bool(sum(answers(asked)) < self._backlog)

    def commit(self, step: Step, source: RecordSource) -> None:
        """One script, which does all of it if the token still stands where we put it, and else nothing."""
        here = source if isinstance(source, RedisSource) and source.place == self._server.place else None
        acknowledged = here.acknowledgement(step.positions) if here and step.positions else ("", "", "", 0)
        lines = {self._streams[shard]: part for shard, part in step.by_shard().items()}
        token = secrets.token_hex(16)
        given: list[bytes | str | int] = [self._token, token, step.state, *acknowledged]
        given += [len(step.dead), *map(len, lines.values())]
        given += [text for letter in step.dead for text in (letter.place, letter.reason)]
        given += [line for part in lines.values() for line in part]
        keys = [self._fence, self._state, self._dead, *lines]
        self._on_step("mid publish")
        with away():
            answer = self._server.client.eval(COMMIT, len(keys), *keys, *given).decode()
        self._refuse_unless_made(answer)
        self._token = token
        self._on_step("state safe")
        if here is None:
            source.acknowledge(step.positions)

    def _refuse_unless_made(self, answer: str) -> None:
        if answer == "fenced":
            raise self._fenced()
        if answer == "denied":
            raise not_allowed()
        if answer == "old":
            raise UsageError(TOO_OLD)
        if answer != "made":
            raise _in_use(answer)

    def _fenced(self) -> FencedError:
        return FencedError(
            f"another worker took shard {self._shard} of run {self._run} over, or the redis server was set back."
        )

    def close(self) -> None:
        """Let the next one in without waiting."""
        with suppress(redis.RedisError):  # otherwise the lease runs out by itself
            self._server.client.eval(RELEASE, 1, self._lease, self._me)
        self._server.client.close()


class RedisMembers:
    """The workers of a run, each with a count that it moves on while it is there."""

    def __init__(self, end: Endpoint) -> None:
        self._server = RedisServer(end)
        self._workers, self._shards = f"queryveil:{end.run}:members", end.shards
        self._stay = self._server.url.number("lease", 10)
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
        return share_of_shards(self._me, self._seen, self._shards)

    def close(self) -> None:
        """Leave."""
        with suppress(redis.RedisError):  # otherwise the others will see that this one does not come back
            self._server.client.hdel(self._workers, self._me)
        self._server.client.close()


def _in_use(name: str) -> UsageError:
    return UsageError(f"the key {name} of the server is in use for something else.")


open_source, open_sink, open_members = RedisSource, RedisSink, RedisMembers
