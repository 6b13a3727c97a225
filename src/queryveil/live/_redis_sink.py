"""A Redis stream as a sink: a commit is one script, and a token that nobody can guess tells whose turn it is.

The fence of a shard is a random token, new with every claim and with every commit. A commit names the token it found or
made last, and nothing happens if another is there. A count would not do: a server that lost its last writes (a failover
to a replica that was behind, a crash without `appendfsync always`) counts the same number out a second time. And since
every commit puts a new token, a worker whose own commits were lost cannot commit on top of an older state either: it
opens the shard anew and repeats what is missing.

The script looks first and writes then, because a script that fails in the middle keeps what it wrote: the fence, the
access list (`redis.acl_check_cmd`, Redis 7) and the kinds of all keys. Want of memory, a read-only server and missing
replicas stop it at its first write. The acknowledgement is a hint, and its failure no reason to stop.
"""

from __future__ import annotations

import secrets
from contextlib import suppress

import redis

from queryveil.errors import UsageError
from queryveil.live._redis_server import TOO_OLD, Server, answers, away, not_allowed
from queryveil.live._redis_source import RedisSource
from queryveil.live.connector import (
    SMALL_BATCH,
    Accept,
    AwayError,
    End,
    FencedError,
    OnStep,
    Promise,
    Source,
    Step,
    accept_any,
    place_of,
)

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


class RedisSink:
    """Outputs, dead letters and state on one server."""

    promise = Promise("exactly once", "outputs, state and acknowledgement are one script of the server")
    takes_back = False
    batch = SMALL_BATCH

    def __init__(self, end: End) -> None:
        self.place = place_of(end)
        self._server = Server(end)
        self._routed = end.spread == "all"
        self._run, self._shard = end.run, end.shard
        prefix = f"queryveil:{end.run}:{'router' if self._routed else end.shard}"
        self._state, self._fence, self._lease = (f"{prefix}:{what}" for what in ("state", "fence", "lease"))
        self._dead = f"queryveil:{end.run}:dead"
        shards = [f":{shard}" for shard in range(end.shards)] if self._routed else [""]
        self._streams = [self._server.stream + shard for shard in shards]
        self._lease_time = round(1000 * self._server.number("lease", 10))
        self._backlog = self._server.number("backlog", float("inf"))
        self._me = f"{secrets.token_hex(8)}:{self._lease_time}"
        self._token = ""
        self._on_step: OnStep = end.on_step

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

    def load(self, accept: Accept = accept_any) -> bytes | None:
        """The state of the last commit."""
        with away():
            state: bytes | None = self._server.client.get(self._state)
        accept(state, None)
        return state

    def forgets(self) -> str | None:
        """As the server's settings say; one that does not tell them is trusted."""
        with away():
            try:
                told = self._server.client.config_get(*KEEPS_ALL)
            except redis.ResponseError:
                return None
        return None if KEEPS_ALL.items() <= told.items() else f"Set {', '.join(map(' '.join, KEEPS_ALL.items()))}."

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

    def commit(self, step: Step, source: Source) -> None:
        """One script, which does all of it if the token still stands where we put it, and else nothing."""
        here = source if isinstance(source, RedisSource) and source.place == self._server.place else None
        acknowledged = here.acknowledgement(step.positions) if here and step.positions else ("", "", "", 0)
        lines = self._by_stream(step)
        token = secrets.token_hex(16)
        told: list[bytes | str | int] = [self._token, token, step.state, *acknowledged]
        told += [len(step.dead), *map(len, lines.values())]
        for letter in step.dead:
            told += [letter.place, letter.reason]
        for part in lines.values():
            told += part
        keys = [self._fence, self._state, self._dead, *lines]
        self._on_step("mid publish")
        with away():
            answer = self._server.client.eval(COMMIT, len(keys), *keys, *told).decode()
        self._token = self._made(answer, token)
        self._on_step("state safe")
        if here is None:
            source.acknowledge(step.positions)

    def _made(self, answer: str, token: str) -> str:
        if answer == "fenced":
            raise self._fenced()
        if answer == "denied":
            raise not_allowed()
        if answer == "old":
            raise UsageError(TOO_OLD)
        if answer != "made":
            raise _in_use(answer)
        return token

    def _by_stream(self, step: Step) -> dict[str, list[bytes]]:
        if step.routes is None:
            return {self._server.stream: step.outputs}
        lines: dict[str, list[bytes]] = {}
        for line, shard in zip(step.outputs, step.routes, strict=True):
            lines.setdefault(self._streams[shard], []).append(line)
        return lines

    def _fenced(self) -> FencedError:
        return FencedError(
            f"another worker took shard {self._shard} of run {self._run} over, or the redis server was set back."
        )

    def close(self) -> None:
        """Let the next one in without waiting."""
        with suppress(redis.RedisError):  # otherwise the lease runs out by itself
            self._server.client.eval(RELEASE, 1, self._lease, self._me)
        self._server.client.close()


def _in_use(name: str) -> UsageError:
    return UsageError(f"the key {name} of the server is in use for something else.")
