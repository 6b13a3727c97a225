"""The sink of `nats.py`, which says how it works."""

from __future__ import annotations

import json
import secrets
import time
from contextlib import suppress
from dataclasses import asdict

import msgspec
from nats.js import api
from nats.js.errors import APIError

from queryveil.errors import DataError, Remedy, UsageError
from queryveil.live._nats_connection import EXPECTED, PATIENCE, NatsConnection
from queryveil.live._nats_outputs import Outputs
from queryveil.live.connector import Accept, AwayError, Endpoint, FencedError, RecordSource, Sink, Step, new_run_needed
from queryveil.privacy.keys import Kind, Seal

MARGIN = 4096
"""What headers may take of a message."""
MOST_IN_A_BATCH = 1000
LOOK_AGAIN_AFTER = 5.0
"""Seconds after which the last message on our subject may have been removed for its age, in a stream of many."""
FROM_VERSION = (2, 12)


class Kept(msgspec.Struct, array_like=True):
    """What one commit keeps: the state, and the outputs until they are out."""

    state: bytes | None = None
    outputs: list[bytes] = []
    routes: list[int] | None = None
    first: int = 1
    """The number of the first of these outputs, among all of the run and shard."""
    before: dict[int, int] = {}
    """For each place that outputs go to, the last sequence number of its stream before these."""
    limit: int = 0
    """Outputs longer than this are not published."""
    made: dict[int, str] = {}
    """For each place, when its stream was made."""


class Head(msgspec.Struct):
    """The message that makes a commit true. A content that fits stands behind it, a larger one in chunks."""

    commit: int = 0
    chunks: int = 0


KEPT = Kind(
    b"QVNATSCP",
    1,
    "what the server keeps",
    "a commit of a nats sink",
    "Point QUERYVEIL_KEYS to the folder with the run's key, or begin a run under another name.",
)
"""Sealed as a whole, so that nobody who may write the stream can put an output in."""


class NatsSink(Sink):
    """Outputs in their stream, state and dead letters in the run's own.

    Outputs are kept with the state until they are out, and are numbered in their stream.
    """

    def __init__(self, end: Endpoint) -> None:
        self.place = end.place
        self._nats = NatsConnection(end)
        self._what = f"shard {end.shard} of run {end.run}"
        routed = end.spread == "all"
        me = "router" if routed else str(end.shard)
        self._state_stream = f"queryveil-{end.run}"
        self._all = f"queryveil.{end.run}"
        self._mine = f"{self._all}.state.{me}"
        self._lease_subject = f"{self._all}.lease.shard.{me}"
        stream, subject = self._nats.stream, self._nats.subject
        places = (
            {shard: (f"{stream}-{shard}", f"{subject}.{shard}") for shard in range(end.shards)}
            if routed
            else {end.shard: (stream, f"{subject}.{end.shard}" if end.shards > 1 else subject)}
        )
        self._outputs = {
            place: Outputs(self._nats, *names, f"{end.run}-{me}-", self._what) for place, names in places.items()
        }
        self._wide = not routed and end.shards > 1
        self._home = end.shard
        self._me = secrets.token_hex(8)
        self._renewed = 0.0
        self._fence = self._lease = 0
        self._head, self._kept = Head(), Kept()
        self._looked = 0.0
        self._on_step = end.on_step

    # Holding the shard

    def claim(self, sealing_key: bytes) -> None:
        """Wait for the lease of the one before to end, then write the head anew: older workers expect another."""
        self._seal = Seal(KEPT, sealing_key)
        self._nats(self._prepare(), 4 * PATIENCE)
        try:
            self._lease = self._nats(self._nats.put([(self._lease_subject, self._me.encode(), {EXPECTED: "0"})]))
        except APIError:
            raise AwayError(f"another worker holds {self._what}.") from None
        self._renewed = time.monotonic()
        last = self._nats(self._nats.last(self._state_stream, f"{self._mine}.head"))
        content = (last.data or b"") if last else msgspec.json.encode(Head()) + b"\n"
        headers = {EXPECTED: str(last.seq if last else 0)}
        try:
            self._fence = self._nats(self._nats.put([(f"{self._mine}.head", content, headers)]))
        except APIError:
            raise AwayError(f"another worker claims {self._what}.") from None
        head, _, body = content.partition(b"\n")
        self._head = msgspec.json.decode(head, type=Head)
        if self._head.commit:
            self._kept = self._unpack(body)

    async def _prepare(self) -> None:
        version = (await self._nats.client()).connected_server_version
        if (version.major, version.minor) < FROM_VERSION:
            raise UsageError(f"this needs nats-server {FROM_VERSION[0]}.{FROM_VERSION[1]} or newer.")
        need, all_ = self._nats.need, self._all
        state = await need(self._state_stream, subjects=[f"{all_}.state.>"], max_msgs_per_subject=1, allow_atomic=True)
        if state.config.max_age or state.config.retention != api.RetentionPolicy.LIMITS:
            raise UsageError(f"nats stream {self._state_stream} would forget the state: set no max_age or retention.")
        await self._nats.need_leases()
        for place in self._outputs.values():
            subjects = [f"{self._nats.subject}.*"] if self._wide else [place.subject]
            place.check(await need(place.stream, subjects=subjects, allow_atomic=True))

    def _unpack(self, body: bytes) -> Kept:
        head = self._head
        if head.chunks:
            body = b"".join(self._chunk(f"{self._mine}.{head.commit % 2}.{number}") for number in range(head.chunks))
        return msgspec.msgpack.decode(self._seal.open(body, f"the state of {self._what}"), type=Kept)

    def _chunk(self, subject: str) -> bytes:
        message = self._nats(self._nats.last(self._state_stream, subject))
        return (message.data or b"") if message else b""

    def ready(self) -> bool:
        """Renew the lease, now and then. A full output stream refuses outputs when they come."""
        now = time.monotonic()
        if now - self._renewed > self._nats.lease / 3:
            self._lease = self._renew(self._lease)
            self._renewed = now
        return True

    def _renew(self, lease: int) -> int:
        try:
            return self._nats(self._nats.put([(self._lease_subject, self._me.encode(), {EXPECTED: str(lease)})]))
        except APIError:
            if lease:
                return self._renew(0)  # it ran out; if nobody took it, it is ours again
            raise self._fenced() from None

    # Publishing

    def load(self, accept: Accept) -> bytes | None:
        """The state of the last commit, after its outputs are all out."""
        accept(self._kept.state, None)
        marker = self._nats(self._nats.last(self._state_stream, f"{self._mine}.done"))
        done = marker is not None and int(marker.data or 0) == self._head.commit
        for place, outputs in self._outputs.items():
            outputs.made = self._kept.made.get(place, "")
            if self._head.commit and not done:
                self._look_for_kept(place)
            else:
                outputs.look()
        self._looked = time.monotonic()
        if not self._head.commit:  # a new run, or one whose state was lost: go on with the numbers where they are
            self._kept.first = max(outputs.known.out for outputs in self._outputs.values()) + 1
            return self._kept.state
        if max(outputs.known.out for outputs in self._outputs.values()) >= self._kept.first + len(self._kept.outputs):
            self._hold()
            raise new_run_needed(
                f"the output stream holds later outputs than the state of {self._what} knows of: the state is an older "
                "one.",
                "Bring the newest one back",
            )
        if not done:
            self._publish()
        return self._kept.state

    def _look_for_kept(self, place: int) -> None:
        """See which of the kept outputs are out. The shard must be ours after that: if it was not before, another
        worker may have published the rest since, and it may all be taken away."""
        numbers = [number for number, _ in self._numbered()[place]]
        try:
            self._outputs[place].look_for(numbers, self._kept.before.get(place, 0))
        finally:
            self._hold()

    def _hold(self) -> None:
        """See that nobody took the shard over."""
        head = self._nats(self._nats.last(self._state_stream, f"{self._mine}.head"))
        if head is None or head.seq != self._fence:
            raise self._fenced() from None

    def _numbered(self) -> dict[int, list[tuple[int, bytes]]]:
        """The kept outputs with their numbers, by place; but for those that are too long."""
        kept = self._kept
        limit = kept.limit or self._longest()
        by_place: dict[int, list[tuple[int, bytes]]] = {place: [] for place in self._outputs}
        for number, line in enumerate(kept.outputs):
            if len(line) <= limit:
                place = kept.routes[number] if kept.routes is not None else self._home
                by_place[place].append((kept.first + number, line))
        return by_place

    def commit(self, step: Step, source: RecordSource) -> None:
        """Keep state and outputs, then publish; a crash in between is repaired by `load`."""
        if step.outputs and time.monotonic() - self._looked > LOOK_AGAIN_AFTER:
            for outputs in self._outputs.values():
                if not outputs.alone:
                    outputs.look()
        first = self._kept.first + len(self._kept.outputs)
        dead = [asdict(letter) for letter in step.dead]
        limit = self._longest()
        for number, line in enumerate(step.outputs):
            if len(line) > limit:  # a dead letter, and its place in the order stays, empty
                dead.append({"place": f"output {first + number}", "reason": f"longer than {limit} bytes"})
        before = {place: outputs.known.last for place, outputs in self._outputs.items()}
        made = {place: outputs.made for place, outputs in self._outputs.items()}
        self._kept = Kept(step.state, list(step.outputs), step.routes, first, before, limit, made)
        body = self._seal.closed(msgspec.msgpack.encode(self._kept))
        commit = self._head.commit + 1
        chunks = [] if len(body) <= limit else [body[at : at + limit] for at in range(0, len(body), limit)]
        self._head = Head(commit, len(chunks))
        head = msgspec.json.encode(self._head) + b"\n" + (b"" if chunks else body)
        letters = [json.dumps(letter).encode() for letter in dead]
        messages: list[tuple[str, bytes, dict[str, str]]] = [
            *((f"{self._mine}.{commit % 2}.{number}", chunk, {}) for number, chunk in enumerate(chunks)),
            *((f"{self._mine}.dead.{commit}.{number}", part, {}) for number, part in enumerate(_pack(letters, limit))),
            (f"{self._mine}.head", head, {EXPECTED: str(self._fence)}),
        ]
        if len(messages) > MOST_IN_A_BATCH:
            raise DataError(
                f"a commit of {len(body):,} bytes is too large for a nats server that takes {limit:,} in a message. "
                "Raise its max_payload, or let fewer records wait.",
                remedy=Remedy("most_pending", "FEWER"),
            )
        self._on_step("mid publish")
        try:
            self._fence = self._nats(self._nats.put(messages), 12 * PATIENCE)
        except APIError:
            raise self._fenced() from None
        self._on_step("state safe")
        self._publish()
        source.acknowledge(step.positions)

    def _longest(self) -> int:
        return self._nats(self._nats.client()).max_payload - MARGIN

    def _publish(self) -> None:
        """Send the outbox, but for what is out already, and mark it as sent."""
        for place, numbered in self._numbered().items():
            outputs = self._outputs[place]
            while missing := [pair for pair in numbered if pair[0] > outputs.known.out][:MOST_IN_A_BATCH]:
                self._send(place, missing)
                self._on_step("half published")
        self._looked = time.monotonic()
        self._nats(self._mark(str(self._head.commit)))

    def _send(self, place: int, numbered: list[tuple[int, bytes]]) -> None:
        """Send, and where the stream stands elsewhere than we thought, see where."""
        outputs = self._outputs[place]
        before = outputs.known
        try:
            outputs.send(numbered)
        except APIError:
            self._look_for_kept(place)
            if outputs.known == before:
                raise AwayError(f"the nats server refuses what comes on subject {outputs.subject}.") from None

    async def _mark(self, commit: str) -> None:
        await (await self._nats.client()).publish(f"{self._mine}.done", commit.encode())

    def _fenced(self) -> FencedError:
        return FencedError(f"another worker took {self._what} over.")

    def close(self) -> None:
        """Let the next one in without waiting."""
        with suppress(AwayError, APIError):  # otherwise the lease runs out by itself
            if self._lease:
                self._nats(self._release())
        self._nats.close()

    async def _release(self) -> None:
        last = await self._nats.last(self._nats.leases, self._lease_subject)
        if last is not None and last.seq == self._lease:
            await (await self._nats.jetstream()).purge_stream(self._nats.leases, subject=self._lease_subject)


def _pack(lines: list[bytes], limit: int) -> list[bytes]:
    """Lines joined into as few messages as hold them.

    >>> _pack([b"ab", b"cd", b"e"], limit=5)
    [b'ab\\ncd', b'e']
    """
    parts: list[list[bytes]] = []
    size = limit
    for line in lines:
        if size + 1 + len(line) > limit:
            parts.append([])
            size = -1
        parts[-1].append(line)
        size += 1 + len(line)
    return [b"\n".join(part) for part in parts]
