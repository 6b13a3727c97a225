"""A Redis stream as a source: read in its order, known again, and watched for entries that were removed.

A stream that was deleted and made anew, or one of the same name in another database, must not be taken for the one the
run began with: its records would be drawn a second time. So when a run first opens a stream it leaves a random name in
it, as a consumer of its consumer group, which goes with the stream to replicas, through restarts and copies, and is
gone with it. In the name stands how many entries had been removed by then, and the newest that had been deleted, so
that also what is removed before the first record was read is noticed. The position holds that name, and a digest of
the last entry read: if the server was set back, and has gone on with other entries, that entry is not there any more.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any, TypeAlias

import msgspec
import redis

from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.live._redis_server import PATIENCE, TOO_OLD, RedisServer, answers, away, code
from queryveil.live.connector import READ_BYTES, Batch, Endpoint, Messages, Positions, RecordSource, new_run_needed

RECORD = b"record"
BEGINNING = "0-0"
FEWEST_AT_ONCE, MOST_AT_ONCE = 16, 10_000
Fields: TypeAlias = dict[bytes, bytes]
BEGUN = "queryveil"
"""How the name that is left in a stream begins: `queryveil:TOKEN:REMOVED:DELETED`."""


class RedisSource(RecordSource):
    """One stream, or one for each shard."""

    def __init__(self, end: Endpoint) -> None:
        self._server = RedisServer(end)
        sharded = end.spread == "mine" and end.shards > 1
        self.stream = f"{self._server.stream}:{end.shard}" if sharded else self._server.stream
        self.name = f"redis stream {self.stream}"
        self.place = self._server.place
        self._group, self._longest = f"queryveil-{end.run}", end.longest
        self._begun = ""
        self._last, self._digest = BEGINNING, ""
        self._removed_before, self._deleted_before = 0, (0, 0)
        """Entries that had been removed when the run began, and the newest that had been deleted: none of its loss."""
        self._count = 0
        """How many entries the stream ever had up to the last one read."""
        self._at_once = 128

    def seek(self, positions: Positions) -> Positions:
        """Go on behind an entry, if it is still the same stream."""
        self._last, self._digest = str(positions.get("entry", BEGINNING)), str(positions.get("digest", ""))
        with away():
            self._begun = str(positions["stream"]) if "stream" in positions else self._begin()
        _, _, removed, deleted = self._begun.split(":")
        self._removed_before, self._deleted_before = int(removed), _id(deleted)
        self._count = int(positions.get("count", removed))
        self._check(self._last, self._count, self._digest)
        return self._positions()

    def _positions(self) -> Positions:
        return {"stream": self._begun, "entry": self._last, "count": self._count, "digest": self._digest}

    def _begin(self) -> str:
        """Leave a name in the stream, unless a worker before us did and then read nothing."""
        try:
            self._server.client.xgroup_create(self.stream, self._group, id="0", mkstream=True)
        except redis.ResponseError as error:
            if code(error) == "WRONGTYPE":
                raise DataError(f"{self.stream} is no stream of the server.") from None
            if code(error) != "BUSYGROUP":
                raise
        ours = [name for name in self._look("0-0")[1] if name.startswith(f"{BEGUN}:")]
        if ours:
            return min(ours)
        removed, deleted = _removed(self._server.client.xinfo_stream(self.stream))
        begun = f"{BEGUN}:{secrets.token_hex(16)}:{removed}:{deleted}"
        self._server.client.xgroup_createconsumer(self.stream, self._group, begun)
        return begun

    def _another(self, reason: str) -> RefusedError:
        return new_run_needed(
            f"{self.stream} was read up to {self._last}, {reason}: it is another stream, or was set back. A new run "
            "must have records that were never taken in.",
            "Bring the old one back",
        )

    def _look(self, entry: str) -> tuple[dict[str, Any], list[str], Fields | None]:
        """What the stream tells of itself, the names in its group, and one of its entries, if it is there."""
        with away(), self._server.client.pipeline(transaction=False) as asked:
            asked.xinfo_stream(self.stream)
            asked.xinfo_consumers(self.stream, self._group)
            asked.xrange(self.stream, entry, entry)
            try:
                info, consumers, entries = answers(asked)
            except redis.ResponseError as error:
                if code(error) == "NOGROUP" or "no such key" in str(error):
                    raise self._another("and is gone, or its consumer group is") from None
                raise
        return info, [found["name"].decode() for found in consumers], entries[0][1] if entries else None

    def _check(self, last: str, count: int, digest: str) -> None:
        """Trimming takes the oldest entries: were more removed than were read, some unread ones were among them.

        Deleting may take any: the server tells the newest that was deleted. What was read may go, and then the last
        entry read is gone with all before it, or was deleted; if it is gone without that, it never was in this stream.
        """
        info, names, there = self._look(last)
        if self._begun not in names:
            raise self._another("and the name that the run left in its consumer group is not there")
        newest = info["last-generated-id"].decode()
        if _id(newest) < _id(last):
            raise self._another(f"and ends at {newest}")
        removed, deleted = _removed(info)
        if removed > count or _id(deleted) > max(_id(last), self._deleted_before):
            raise new_run_needed(
                f"entries of {self.stream} behind {last}, up to where it was read, were removed before they were read. "
                "Trim only what the consumer group has behind it."
            )
        if there is not None and digest and _digest(last, there) != digest:
            raise self._another("and has another entry there")
        may_be_gone = removed >= count or (removed > self._removed_before and _id(deleted) >= _id(last))
        if there is None and last != BEGINNING and not may_be_gone:
            raise self._another("and does not have that entry")

    def read(self, most: int, wait: float) -> Batch:
        """Entries in the order of the stream, by so many bytes at most."""
        taken = Messages(self._longest)
        before_it = self._last, self._count, self._digest
        deadline = time.monotonic() + wait
        entries: list[tuple[bytes, Fields]] = []
        while len(taken) < most and taken.size < READ_BYTES:
            left = max(1, round(1000 * min(deadline - time.monotonic(), PATIENCE / 2)))
            more = self._entries(min(self._at_once, most - len(taken)), None if len(taken) else left)
            if not more and (len(taken) or time.monotonic() >= deadline):
                break
            before = taken.size
            for entry, fields in more:
                taken.add(_line(fields), entry.decode())
            if more:
                entries = more
                self._last = entries[-1][0].decode()
                fitting = READ_BYTES // 4 * len(entries) // max(1, taken.size - before)
                self._at_once = max(FEWEST_AT_ONCE, min(MOST_AT_ONCE, 2 * self._at_once, fitting))
        if entries:
            self._check(*before_it)
            self._digest = _digest(self._last, entries[-1][1])
        self._count += len(taken)
        return taken.batch(self._positions())

    def _entries(self, count: int, block: int | None) -> list[tuple[bytes, Fields]]:
        with away():
            answer = self._server.client.xread({self.stream: self._last}, count=count, block=block)
        if not answer:
            return []
        entries = next(iter(answer.values()))[0] if isinstance(answer, dict) else answer[0][1]
        return [(entry, fields or {}) for entry, fields in entries]

    def acknowledgement(self, positions: Positions) -> tuple[str, str, str, int]:
        """What tells the world how far we are: stream, group, the last entry it has behind it, and how many these are.

        Without that number the server could not tell how many are left.
        """
        return self.stream, self._group, str(positions["entry"]), int(positions["count"])

    def acknowledge(self, positions: Positions) -> None:
        """Set the group's last delivered entry."""
        with away():
            if positions:
                self._server.client.xgroup_setid(*self.acknowledgement(positions))

    def close(self) -> None:
        """Close the connection."""
        self._server.client.close()


def _removed(info: dict[str, Any]) -> tuple[int, str]:
    """How many entries were ever removed, and the newest that was deleted."""
    if "entries-added" not in info:
        raise UsageError(TOO_OLD)
    return info["entries-added"] - info["length"], info["max-deleted-entry-id"].decode()


def _line(fields: Fields) -> bytes:
    if RECORD in fields:
        return fields[RECORD]
    try:
        return msgspec.json.encode({name.decode(): value.decode() for name, value in fields.items()})
    except UnicodeDecodeError:
        return b"\xff"  # which the decoder refuses as not valid UTF-8


def _id(entry: str) -> tuple[int, int]:
    first, _, second = entry.partition("-")
    return int(first), int(second or 0)


def _digest(entry: str, fields: Fields) -> str:
    """Of an entry with all its fields. It is kept in the state alone, which is as sensitive as the entry."""
    parts = [entry.encode(), *(part for field in fields.items() for part in field)]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()
