"""NATS JetStream: `nats://host:4222?stream=NAME`, from nats-server 2.12 on.

JetStream writes to one stream atomically, not to two, and outputs and state must not share a stream: who may read the
outputs must not read the state, which holds the records that wait. So a commit has two steps:

1. The state, the dead letters and the outputs to publish (the *outbox*) go to the run's own stream `queryveil-RUN`, as
   one atomic batch that ends with a small message, the *head*. The batch carries the sequence number that the head had
   last; if it moved, the server refuses the batch. This is the commit, and the fence: whoever claims a shard writes the
   head anew.
2. The outputs go to the output stream in order, in atomic batches, each with the sequence number of the last output
   before it. So no output can come twice or out of order, not even from a worker that was frozen for a week in the
   middle of a batch. After a crash `load` asks for the last output on the subject, whose message id holds its number,
   and publishes what comes after it. Message ids are also what the server's de-duplication window goes by, but that
   window ends after minutes and nothing here relies on it.

A source reads through a durable consumer that starts at the position in the committed state and is acknowledged after
a commit, so that `nats consumer info` tells how far we are. Redelivered messages are known by their sequence number.

With shards, shard 3 reads the stream `NAME-3` and publishes on the subject `SUBJECT.3`; a run must be the only writer
of its subjects. Streams that are not there are made. URL parameters: `stream` (needed); `subject` to publish on (the
stream's name); `lease` in seconds (10): after how long a silent worker is taken for gone; `replicas` of the streams
that are made (1); `creds`: a file with credentials. A server that syncs its disk after every write
(`sync_interval: always`) keeps commits through a power cut.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

import msgspec
import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError

from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.run.live.connector import AwayError, Batch, End, FencedError, OnStep, Positions, Promise, Source, Step

T = TypeVar("T")
PATIENCE = 5.0
READ_BYTES = 32 << 20
MARGIN = 4096
MOST_IN_A_BATCH = 1000
ACKNOWLEDGED_WITHIN = 60.0
FROM_VERSION = (2, 12)
WRONG_SEQUENCE, DUPLICATE = (10071, 10164), (10201,)
PARAMETERS = ("stream", "subject", "lease", "replicas", "creds")
ID, EXPECTED = "Nats-Msg-Id", "Nats-Expected-Last-Subject-Sequence"


class Session:
    """A connection behind a synchronous face, and what its URL says. Connects when it is first needed."""

    def __init__(self, end: End) -> None:
        parts = urlsplit(end.url)
        told = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if "stream" not in told or not set(told) <= set(PARAMETERS):
            raise UsageError(f"a nats URL takes {', '.join(PARAMETERS)}, e.g. nats://host:4222?stream=searches.")
        for name in ("stream", "subject"):
            if set(told.get(name, "")) & set(" \t*>/\\") or (name == "stream" and "." in told["stream"]):
                raise UsageError(f"{name} in a nats URL must be a plain name, without *, > or spaces.")
        self.stream = told["stream"]
        self.subject = told.get("subject", self.stream)
        self.lease, self.replicas = (self._number(told, name, usual) for name, usual in (("lease", 10), ("replicas", 1)))
        self._credentials = Path(told["creds"]) if "creds" in told else None
        self._url = urlunsplit(parts._replace(query="", path=""))
        self._loop = asyncio.new_event_loop()
        self._thread: threading.Thread | None = None
        self._client: Client | None = None

    @staticmethod
    def _number(told: dict[str, str], name: str, usual: float) -> float:
        try:
            value = float(told.get(name, usual))
        except ValueError:
            value = -1
        if not value > 0:
            raise UsageError(f"{name} in a nats URL must be a number > 0.")
        return value

    def __call__(self, work: Coroutine[Any, Any, T], patience: float = PATIENCE) -> T:
        """Carry it out in the connection's own thread, which keeps the connection alive while the engine works."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop.run_forever, name="nats", daemon=True)
            self._thread.start()
        with _away():
            future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, patience), self._loop)
            return future.result()

    async def client(self) -> Client:
        """The connection. It never reconnects by itself, which could send what was meant for before."""
        if self._client is None:
            self._client = await nats.connect(
                self._url,
                allow_reconnect=False,
                connect_timeout=PATIENCE,  # type: ignore[arg-type]  # whole numbers are not needed
                error_cb=_quiet,
                user_credentials=str(self._credentials) if self._credentials else None,
            )
        return self._client

    async def jetstream(self) -> JetStreamContext:
        """JetStream on the connection."""
        return (await self.client()).jetstream(timeout=PATIENCE)

    async def need(self, name: str, **config: Any) -> api.StreamInfo:
        """The stream of that name; made with this configuration where there is none."""
        jetstream = await self.jetstream()
        try:
            return await jetstream.stream_info(name)
        except NotFoundError:
            return await jetstream.add_stream(name=name, num_replicas=int(self.replicas), **config)

    async def last(self, stream: str, subject: str) -> api.RawStreamMsg | None:
        """The last message on a subject."""
        try:
            return await (await self.jetstream()).get_last_msg(stream, subject)
        except NotFoundError:
            return None

    async def put(self, messages: list[tuple[str, bytes, dict[str, str]]]) -> int:
        """Publish to one stream, all or nothing; the sequence number of the last one."""
        client = await self.client()
        batch = secrets.token_hex(8)
        for number, (subject, payload, headers) in enumerate(messages[:-1], 1):
            marks = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            await client.publish(subject, payload, headers=headers | marks)
        subject, payload, headers = messages[-1]
        if len(messages) > 1:
            headers = headers | {
                "Nats-Batch-Id": batch,
                "Nats-Batch-Sequence": str(len(messages)),
                "Nats-Batch-Commit": "1",
            }
        answer = json.loads((await client.request(subject, payload, PATIENCE, headers=headers)).data)
        if "error" in answer:
            raise APIError.from_error(answer["error"])
        return int(answer["seq"])

    def close(self) -> None:
        """Close the connection and end its thread."""
        if self._thread is not None:
            with suppress(AwayError):
                self(self._closed())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
            self._thread = None
        self._loop.close()

    async def _closed(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


class NatsSource:
    """One stream, or one for each shard."""

    promise = Promise("exactly once", "a stream can be read again from any message")

    def __init__(self, end: End) -> None:
        self._session = Session(end)
        sharded = end.spread == "mine" and end.shards > 1
        self._stream = f"{self._session.stream}-{end.shard}" if sharded else self._session.stream
        self._consumer = f"queryveil-{end.run}"
        self.name = f"nats stream {self._stream}"
        self._longest = end.longest
        self._last = 0
        self._due = 1
        self._arrived: list[Msg] = []
        self._awaited = 0
        self._done = asyncio.Event()
        self._inbox = self._last_reply = ""

    def seek(self, positions: Positions) -> None:
        """Go on behind a message, with a consumer that starts there."""
        self._last = int(positions.get("sequence", 0))
        self._session(self._begin())

    async def _begin(self) -> None:
        jetstream = await self._session.jetstream()
        try:
            info = await jetstream.stream_info(self._stream)
        except NotFoundError:
            raise AwayError(f"there is no {self.name} on the server yet.") from None
        if info.config.retention != api.RetentionPolicy.LIMITS:
            raise RefusedError(
                f"{self.name} forgets messages once they are acknowledged, so nothing could be read again after a "
                "crash. Read from a stream with retention=limits, which may take it as its source."
            )
        if info.state.last_seq < self._last:
            raise RefusedError(
                f"{self.name} ends at {info.state.last_seq}, before {self._last}, up to where it was read: it is "
                "another stream. Begin a new run under a new --run name."
            )
        if self._last:
            self._refuse_removed(self._last, info)
        with suppress(NotFoundError):
            await jetstream.delete_consumer(self._stream, self._consumer)
        await jetstream.add_consumer(
            self._stream,
            durable_name=self._consumer,
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE if self._last else api.DeliverPolicy.ALL,
            opt_start_seq=self._last + 1 if self._last else None,
            ack_policy=api.AckPolicy.ALL,
            ack_wait=ACKNOWLEDGED_WITHIN,
            max_ack_pending=-1,
        )
        client = await self._session.client()
        self._inbox = client.new_inbox()
        await client.subscribe(self._inbox, cb=self._take, pending_msgs_limit=-1, pending_bytes_limit=-1)

    def _refuse_removed(self, last: int, info: api.StreamInfo) -> None:
        if info.state.first_seq > last + 1:
            raise RefusedError(
                f"{self.name} begins at {info.state.first_seq}, but was read up to {last} only: what lay between was "
                "removed before it was read. Keep messages longer, and begin a new run under a new --run name."
            )

    async def _take(self, message: Msg) -> None:
        if message.reply:
            self._arrived.append(message)
            self._awaited -= 1
        if not message.reply or self._awaited <= 0:  # the server's word that there is no more, or all there were
            self._done.set()

    async def _ask(self, most: int, wait: float) -> None:
        """Up to so many messages; without a time to wait only those that are there now."""
        self._awaited = most
        self._done.clear()
        request: dict[str, int | bool] = {"batch": most, "max_bytes": READ_BYTES}
        request |= {"expires": round(wait * 1e9)} if wait else {"no_wait": True}
        client = await self._session.client()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        await client.publish(subject, json.dumps(request).encode(), reply=self._inbox)
        await asyncio.wait_for(self._done.wait(), wait + PATIENCE)

    def read(self, most: int, wait: float) -> Batch:
        """Messages in the order of the stream, each once, by so many bytes at most."""
        self._session(self._ask(most, 0), 2 * PATIENCE)
        if not self._arrived and wait:
            self._session(self._ask(1, wait), wait + 2 * PATIENCE)
            if most > 1 and self._arrived:
                self._session(self._ask(most - 1, 0), 2 * PATIENCE)
        arrived = self._arrived[:most]
        del self._arrived[: len(arrived)]
        lines: list[bytes | None] = []
        places: list[str] = []
        gap = None
        for message in arrived:
            sequence, delivery = _numbers(message.reply)
            if delivery != self._due:
                raise AwayError(f"messages of {self.name} went missing on the way; reading them again.")
            self._due += 1
            if sequence <= self._last:  # delivered again, since nobody acknowledged it in time
                continue
            if sequence > self._last + 1 and gap is None:
                gap = self._last
            self._last, self._last_reply = sequence, message.reply
            lines.append(message.data if len(message.data) <= self._longest else None)
            places.append(str(sequence))
        if gap:
            self._refuse_removed(gap, self._session(self._info()))
        return Batch(lines, places, {"sequence": self._last} if lines else {})

    async def _info(self) -> api.StreamInfo:
        return await (await self._session.jetstream()).stream_info(self._stream)

    def acknowledge(self, positions: Positions) -> None:
        """Acknowledge everything up to the last message read."""
        if self._last_reply and positions.get("sequence") == self._last:
            self._session(self._acknowledge(self._last_reply))

    async def _acknowledge(self, reply: str) -> None:
        await (await self._session.client()).publish(reply, b"+ACK")

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


class Kept(msgspec.Struct, array_like=True):
    """What one commit keeps: the state, and the outputs until they are out."""

    state: bytes | None = None
    outputs: list[bytes] = []
    routes: list[int] | None = None
    first: int = 1
    """The number of the first of these outputs, among all of the run and shard."""
    before: dict[int, int] = {}
    """For each place that outputs go to, the sequence number of the last message there before these."""


class Head(msgspec.Struct):
    """The message that makes a commit true. A content that fits stands behind it, a larger one in chunks."""

    commit: int = 0
    chunks: int = 0
    digest: str = ""


class NatsSink:
    """Outputs in their stream, state and dead letters in the run's own."""

    promise = Promise("exactly once", "outputs are kept with the state until they are out, and are numbered there")

    def __init__(self, end: End) -> None:
        self._session = Session(end)
        self._what = f"shard {end.shard} of run {end.run}"
        routed = end.spread == "all"
        me = "router" if routed else str(end.shard)
        self._ids = f"{end.run}-{me}-"
        self._state_stream, self._lease_stream = f"queryveil-{end.run}", f"queryveil-{end.run}-leases"
        self._all = f"queryveil.{end.run}"
        self._mine = f"{self._all}.state.{me}"
        self._lease_subject = f"{self._all}.lease.shard.{me}"
        stream, subject = self._session.stream, self._session.subject
        self._places = (
            {shard: (f"{stream}-{shard}", f"{subject}.{shard}") for shard in range(end.shards)}
            if routed
            else {end.shard: (stream, f"{subject}.{end.shard}" if end.shards > 1 else subject)}
        )
        self._wide = not routed and end.shards > 1
        self._home = end.shard
        self._me = secrets.token_hex(8)
        self._renewed = 0.0
        self._fence = self._lease = 0
        self._head, self._kept = Head(), Kept()
        self._ends: dict[int, int] = {}
        self._out: dict[int, int] = {}
        self._on_step: OnStep = end.on_step

    # Holding the shard

    def claim(self) -> None:
        """Wait for the lease of the one before to end, then write the head anew: older workers expect another."""
        self._session(self._prepare(), 4 * PATIENCE)
        try:
            self._lease = self._session(self._session.put([(self._lease_subject, self._me.encode(), {EXPECTED: "0"})]))
        except APIError:
            raise AwayError(f"another worker holds {self._what}.") from None
        self._renewed = time.monotonic()
        last = self._session(self._session.last(self._state_stream, f"{self._mine}.head"))
        content = (last.data or b"") if last else msgspec.json.encode(Head()) + b"\n"
        headers = {EXPECTED: str(last.seq if last else 0)}
        try:
            self._fence = self._session(self._session.put([(f"{self._mine}.head", content, headers)]))
        except APIError:
            raise AwayError(f"another worker claims {self._what}.") from None
        told, _, body = content.partition(b"\n")
        self._head = msgspec.json.decode(told, type=Head)
        if self._head.commit:
            self._kept = self._unpacked(body)

    async def _prepare(self) -> None:
        version = (await self._session.client()).connected_server_version
        if (version.major, version.minor) < FROM_VERSION:
            raise UsageError(f"this needs nats-server {FROM_VERSION[0]}.{FROM_VERSION[1]} or newer.")
        need, all_ = self._session.need, self._all
        await need(self._state_stream, subjects=[f"{all_}.state.>"], max_msgs_per_subject=1, allow_atomic=True)
        await need(
            self._lease_stream,
            subjects=[f"{all_}.lease.>"],
            max_msgs_per_subject=1,
            max_age=self._session.lease,
            duplicate_window=self._session.lease,
        )
        for stream, subject in self._places.values():
            subjects = [f"{self._session.subject}.*"] if self._wide else [subject]
            info = await need(stream, subjects=subjects, allow_atomic=True)
            if not info.config.allow_atomic:
                raise UsageError(f"nats stream {stream} takes no atomic batches: set allow_atomic on it.")

    def _unpacked(self, body: bytes) -> Kept:
        head = self._head
        if head.chunks:
            body = b"".join(self._chunk(f"{self._mine}.{head.commit % 2}.{number}") for number in range(head.chunks))
        if hashlib.sha256(body).hexdigest() != head.digest:
            raise DataError(f"the state of {self._what} is torn or was altered: its checksum does not hold.")
        return msgspec.msgpack.decode(body, type=Kept)

    def _chunk(self, subject: str) -> bytes:
        message = self._session(self._session.last(self._state_stream, subject))
        return (message.data or b"") if message else b""

    def ready(self) -> bool:
        """Renew the lease, now and then. A full output stream refuses outputs, which is told when they come."""
        now = time.monotonic()
        if now - self._renewed > self._session.lease / 3:
            self._lease = self._renew(self._lease)
            self._renewed = now
        return True

    def _renew(self, lease: int) -> int:
        try:
            return self._session(self._session.put([(self._lease_subject, self._me.encode(), {EXPECTED: str(lease)})]))
        except APIError:
            if lease:
                return self._renew(0)  # it ran out; if nobody took it, it is ours again
            raise self._fenced() from None

    # Publishing

    def load(self) -> bytes | None:
        """The state of the last commit, after its outputs are all out."""
        marker = self._session(self._session.last(self._state_stream, f"{self._mine}.done"))
        done = marker is not None and int(marker.data or 0) == self._head.commit
        for place in self._places:
            self._look(place, None if done else self._kept.before.get(place, 0))
        if not done:
            self._publish()
        return self._kept.state

    def _look(self, place: int, before: int | None) -> None:
        """See what the last message on our subject is: how far our outputs are out."""
        stream, subject = self._places[place]
        last = self._session(self._session.last(stream, subject))
        self._ends[place] = int(last.seq or 0) if last else 0
        named = (last.headers or {}).get(ID, "") if last else ""
        if named.startswith(self._ids):
            self._out[place] = int(named.removeprefix(self._ids))
        elif last and before is not None and self._ends[place] != before:
            raise RefusedError(f"somebody else writes on subject {subject}, where only {self._what} may.")
        elif not last and before is not None:
            self._refuse_unknown(stream, before)

    def _refuse_unknown(self, stream: str, before: int) -> None:
        state = self._session(self._session.need(stream)).state
        if state.last_seq > before and state.first_seq > before + 1:
            raise RefusedError(
                f"nats stream {stream} no longer holds what came after {before}, so nobody can tell which of the last "
                "outputs were published before the crash. Begin a new run under a new --run name."
            )

    def commit(self, step: Step, source: Source) -> None:
        """Keep state and outputs, then publish; a crash in between is mended by `load`."""
        first = self._kept.first + len(self._kept.outputs)
        outputs, routes, dead = step.outputs, step.routes, [asdict(letter) for letter in step.dead]
        limit = self._longest()
        for number, line in enumerate(outputs):
            if len(line) > limit:  # told as a dead letter, and its place in the order stays, empty
                dead.append({"place": f"output {first + number}", "reason": f"longer than {limit} bytes"})
        self._kept = Kept(step.state, outputs, routes, first, dict(self._ends))
        body = msgspec.msgpack.encode(self._kept)
        commit = self._head.commit + 1
        chunks = [] if len(body) <= limit else [body[at : at + limit] for at in range(0, len(body), limit)]
        self._head = Head(commit, len(chunks), hashlib.sha256(body).hexdigest())
        head = msgspec.json.encode(self._head) + b"\n" + (b"" if chunks else body)
        letters = [json.dumps(letter).encode() for letter in dead]
        messages: list[tuple[str, bytes, dict[str, str]]] = [
            *((f"{self._mine}.{commit % 2}.{number}", chunk, {}) for number, chunk in enumerate(chunks)),
            *((f"{self._mine}.dead.{commit}.{number}", part, {}) for number, part in enumerate(_packed(letters, limit))),
            (f"{self._mine}.head", head, {EXPECTED: str(self._fence)}),
        ]
        if len(messages) > MOST_IN_A_BATCH:
            raise DataError(
                f"a commit of {len(body):,} bytes is too large for a nats server that takes {limit:,} in a message. "
                "Raise its max_payload, or lower --most-pending."
            )
        self._on_step("mid publish")
        try:
            self._fence = self._session(self._session.put(messages), 12 * PATIENCE)
        except APIError:
            raise self._fenced() from None
        self._on_step("mid publish")
        self._publish()
        source.acknowledge(step.positions)

    def _longest(self) -> int:
        return self._session(self._session.client()).max_payload - MARGIN

    def _publish(self) -> None:
        """Send the outbox, but for what is out already, and mark it as sent."""
        kept, limit = self._kept, self._longest()
        by_place: dict[int, list[tuple[int, bytes]]] = {place: [] for place in self._places}
        for number, line in enumerate(kept.outputs):
            if len(line) <= limit:
                place = kept.routes[number] if kept.routes is not None else self._home
                by_place[place].append((kept.first + number, line))
        for place, numbered in by_place.items():
            missing = [(number, line) for number, line in numbered if number > self._out.get(place, 0)]
            for at in range(0, len(missing), MOST_IN_A_BATCH):
                self._send(place, missing[at : at + MOST_IN_A_BATCH])
                self._on_step("mid publish")
        self._session(self._mark(str(self._head.commit)))

    def _send(self, place: int, numbered: list[tuple[int, bytes]]) -> None:
        subject = self._places[place][1]
        messages = [(subject, line, {ID: f"{self._ids}{number}"}) for number, line in numbered]
        messages[0][2][EXPECTED] = str(self._ends[place])
        try:
            self._ends[place] = self._session(self._session.put(messages), 12 * PATIENCE)
        except APIError:
            raise self._overtaken(subject) from None
        self._out[place] = numbered[-1][0]

    def _overtaken(self, subject: str) -> Exception:
        """Somebody published in our place: a successor, or we ourselves before the server was set back."""
        head = self._session(self._session.last(self._state_stream, f"{self._mine}.head"))
        if head is None or head.seq != self._fence:
            return self._fenced()
        return AwayError(f"subject {subject} holds other messages than expected; looking again.")

    async def _mark(self, commit: str) -> None:
        await (await self._session.client()).publish(f"{self._mine}.done", commit.encode())

    def _fenced(self) -> FencedError:
        return FencedError(f"another worker took {self._what} over.")

    def close(self) -> None:
        """Let the next one in without waiting."""
        with suppress(AwayError, APIError):  # otherwise the lease runs out by itself
            if self._lease:
                self._session(self._release())
        self._session.close()

    async def _release(self) -> None:
        last = await self._session.last(self._lease_stream, self._lease_subject)
        if last is not None and last.seq == self._lease:
            await (await self._session.jetstream()).purge_stream(self._lease_stream, subject=self._lease_subject)


class NatsMembers:
    """The workers of a run: each keeps a message in the stream of leases, which forgets those who stay silent."""

    def __init__(self, end: End) -> None:
        self._session = Session(end)
        self._stream, self._subjects = f"queryveil-{end.run}-leases", f"queryveil.{end.run}.lease.worker"
        self._all = f"queryveil.{end.run}.lease.>"
        self._shards = end.shards
        self._me = f"{self._subjects}.{secrets.token_hex(8)}"

    def wanted(self) -> frozenset[int]:
        """Every n-th shard, for the i-th of n workers."""
        everybody = sorted(self._session(self._workers(), 2 * PATIENCE))
        return frozenset(range(everybody.index(self._me), self._shards, len(everybody)))

    async def _workers(self) -> set[str]:
        lease = self._session.lease
        await self._session.need(
            self._stream, subjects=[self._all], max_msgs_per_subject=1, max_age=lease, duplicate_window=lease
        )
        await self._session.put([(self._me, b"", {})])
        info = await (await self._session.jetstream()).stream_info(self._stream, f"{self._subjects}.*")
        return {self._me, *(info.state.subjects or {})}

    def close(self) -> None:
        """Take the message back."""
        with suppress(AwayError, APIError):  # otherwise the others will see that this one does not come back
            self._session(self._leave())
        self._session.close()

    async def _leave(self) -> None:
        await (await self._session.jetstream()).purge_stream(self._stream, subject=self._me)


def open_source(end: End) -> NatsSource:
    """A stream to read."""
    return NatsSource(end)


def open_sink(end: End) -> NatsSink:
    """A stream to write."""
    return NatsSink(end)


def open_members(end: End) -> NatsMembers:
    """Who shares the shards."""
    return NatsMembers(end)


def _numbers(reply: str) -> tuple[int, int]:
    """Sequence number in the stream and count of deliveries, from the subject to acknowledge on.

    >>> _numbers("$JS.ACK.searches.queryveil-web.1.17.5.1700000000000000000.0")
    (17, 5)
    """
    parts = reply.split(".")
    at = 5 if len(parts) == 9 else 7  # newer servers may name domain and account first
    return int(parts[at]), int(parts[at + 1])


def _packed(lines: list[bytes], limit: int) -> list[bytes]:
    """Lines joined into as few messages as hold them.

    >>> _packed([b"ab", b"cd", b"e"], limit=5)
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


async def _quiet(error: Exception) -> None:
    """Every failure is met where it was asked for; the client's own telling could hold data."""


@contextmanager
def _away() -> Iterator[None]:
    """Whatever stands between us and the server is worth waiting for; its words are not told, they may hold data.

    Only a wrong sequence number or a message id that is there already come through as they are.
    """
    try:
        yield
    except APIError as error:
        if error.err_code in WRONG_SEQUENCE + DUPLICATE:
            raise
        raise AwayError(f"the nats server does not do it now (its error {error.err_code or error.code}).") from None
    except nats.errors.AuthorizationError:
        raise UsageError("the nats server does not take these credentials.") from None
    except (nats.errors.Error, OSError, TimeoutError, asyncio.TimeoutError):
        raise AwayError("the nats server cannot be reached.") from None
