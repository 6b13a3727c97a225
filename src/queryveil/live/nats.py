"""NATS JetStream: `nats://host:4222?stream=NAME`, from nats-server 2.12 on.

JetStream writes to one stream atomically, not to two, and outputs and state must not share a stream: who may read the
outputs must not read the state, which holds the records that wait. So a commit has two steps:

1. The state, the dead letters and the outputs to publish (the *outbox*) go to the run's own stream `queryveil-RUN`, as
   one atomic batch that ends with a small message, the *head*. The batch carries the sequence number that the head had
   last; if it moved, the server refuses the batch. This is the commit, and the fence: whoever claims a shard writes the
   head anew.
2. The outputs go to the output stream in order, in atomic batches, each with a sequence number that the stream, or the
   subject, must still have as its last. So no output can come twice or out of order, not even from a worker that was
   frozen for a week in the middle of a batch, and not where readers took the outputs away meanwhile. After a crash
   `load` sees how many are out and publishes the rest (`_nats_outputs` says how both work, and in which streams).
   Message ids are also what the server's de-duplication window goes by, but that window ends after minutes and nothing
   here relies on it.

A source reads through a durable consumer that starts at the position in the committed state and is acknowledged after
a commit, so that `nats consumer info` shows how far we are. Redelivered messages are known by their sequence number,
and so are removed ones: a number that is passed over was in the stream once. Only what was gone before the run began is
no loss; how many messages there were then is in the positions until they are read. The time at which the stream was
made is there too: another stream of the same name is refused.

With shards, shard 3 reads the stream `NAME-3` and publishes on the subject `SUBJECT.3`; a run must be the only writer
of its subjects. Streams that are not there are made. URL parameters: `stream` (needed); `subject` to publish on (the
stream's name); `lease` in seconds (10): after how long a silent worker is taken for gone; `replicas` of the streams
that are made (1); `creds`: a file with credentials. A server that syncs its disk after every write
(`sync_interval: always`) keeps commits through a power cut.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import suppress

from nats.aio.msg import Msg
from nats.js import api
from nats.js.errors import APIError, NotFoundError

from queryveil.errors import RefusedError
from queryveil.live._nats_connection import PATIENCE, NatsConnection
from queryveil.live._nats_sink import NatsSink
from queryveil.live.connector import (
    READ_BYTES,
    AwayError,
    Batch,
    Endpoint,
    Messages,
    Positions,
    RecordSource,
    new_run_needed,
    share_of_shards,
)

ACKNOWLEDGED_WITHIN = 60.0


class NatsSource(RecordSource):
    """One stream, or one for each shard."""

    def __init__(self, end: Endpoint) -> None:
        self._nats = NatsConnection(end)
        sharded = end.spread == "mine" and end.shards > 1
        self._stream = f"{self._nats.stream}-{end.shard}" if sharded else self._nats.stream
        self._consumer = f"queryveil-{end.run}"
        self.name = f"nats stream {self._stream}"
        self._longest = end.longest
        self._made = ""
        self._last = 0
        self._there = self._upto = 0
        """How many messages are still to come up to a number, where some before it were gone when the run began."""
        self._due = 1
        self._gone = False
        self._arrived: list[Msg] = []
        self._awaited = 0
        self._done = asyncio.Event()
        self._inbox = self._last_reply = ""

    def seek(self, positions: Positions) -> Positions:
        """Go on behind a message, with a consumer that starts there; a run begins with the first that is there."""
        self._made = str(positions.get("made", ""))
        self._last, self._there, self._upto = (int(positions.get(name, 0)) for name in ("sequence", "there", "upto"))
        self._nats(self._begin(new=not positions), 2 * PATIENCE)
        return self._positions()

    def _positions(self) -> Positions:
        holes: Positions = {"there": self._there, "upto": self._upto} if self._there else {}
        return {"sequence": self._last, "made": self._made, **holes}

    async def _begin(self, *, new: bool) -> None:
        jetstream = await self._nats.jetstream()
        try:
            info = await jetstream.stream_info(self._stream)
        except NotFoundError:
            raise AwayError(f"there is no {self.name} on the server yet.") from None
        if info.config.retention != api.RetentionPolicy.LIMITS:
            raise RefusedError(
                f"{self.name} forgets messages once they are acknowledged, so nothing could be read again after a "
                "crash. Read from a stream with retention=limits, which may take it as its source."
            )
        made = info.created.isoformat() if info.created else ""
        if self._made not in ("", made) or info.state.last_seq < self._last:
            raise new_run_needed(
                f"{self.name} is another stream than the one that was read up to {self._last}: it was made anew, or "
                "its server lost the end of it."
            )
        self._made = made
        if new:
            self._last, there = max(0, info.state.first_seq - 1), info.state.messages
            if there < info.state.last_seq - self._last:
                self._there, self._upto = there, info.state.last_seq
        await self._refuse_removed()
        with suppress(NotFoundError):
            await jetstream.delete_consumer(self._stream, self._consumer)
        await jetstream.add_consumer(
            self._stream,
            durable_name=self._consumer,
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._last + 1,
            ack_policy=api.AckPolicy.ALL,
            ack_wait=ACKNOWLEDGED_WITHIN,
            max_ack_pending=-1,
        )
        client = await self._nats.client()
        self._inbox = client.new_inbox()
        await client.subscribe(self._inbox, cb=self._take, pending_msgs_limit=-1, pending_bytes_limit=-1)

    def _follows(self, sequence: int) -> bool:
        """Whether no message between the last one read and this one was removed since the run began."""
        return sequence <= (self._upto if self._there else self._last + 1)

    async def _refuse_removed(self) -> None:
        """See that the next message is there, if there was one: asked of the stream itself, not of the consumer.

        Asked twice, since another server of a cluster may have taken over in between that did not know of it yet.
        """
        jetstream = await self._nats.jetstream()
        for _ in range(2):
            if (await jetstream.stream_info(self._stream)).state.last_seq <= self._last:
                return
            with suppress(NotFoundError):
                found = await jetstream.get_msg(self._stream, seq=self._last + 1, subject=">", next=True)
                if self._follows(int(found.seq or 0)):
                    return
        raise new_run_needed(
            f"messages of {self.name} behind {self._last}, up to where it was read, were removed before they were "
            "read. Keep messages longer."
        )

    async def _take(self, message: Msg) -> None:
        if message.reply:
            self._arrived.append(message)
            self._awaited -= 1
        else:
            headers = message.headers or {}
            self._gone = headers.get("Status") == "503" or headers.get("Description") == "Consumer Deleted"
        if not message.reply or self._awaited <= 0:  # the server's word that there is no more, or all there were
            self._done.set()

    async def _ask(self, most: int, wait: float) -> None:
        """Up to so many messages; without a time to wait only those that are there now."""
        self._awaited = most
        self._done.clear()
        request: dict[str, int | bool] = {"batch": most, "max_bytes": READ_BYTES}
        request |= {"expires": round(wait * 1e9)} if wait else {"no_wait": True}
        client = await self._nats.client()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer}"
        await client.publish(subject, json.dumps(request).encode(), reply=self._inbox)
        await asyncio.wait_for(self._done.wait(), wait + PATIENCE)

    def read(self, most: int, wait: float) -> Batch:
        """Messages in the order of the stream, each once, by so many bytes at most."""
        self._nats(self._ask(most, 0), 2 * PATIENCE)
        if not self._arrived and wait:
            self._nats(self._ask(1, wait), wait + 2 * PATIENCE)
            if most > 1 and self._arrived:
                self._nats(self._ask(most - 1, 0), 2 * PATIENCE)
        if self._gone:
            raise AwayError(f"somebody removed {self.name}, or its consumer; looking for it.")
        if not self._arrived:
            self._nats(self._refuse_removed(), 2 * PATIENCE)
        arrived = self._arrived[:most]
        del self._arrived[: len(arrived)]
        taken = Messages(self._longest)
        for message in arrived:
            sequence, delivery = _numbers(message.reply)
            if delivery != self._due:
                raise AwayError(f"messages of {self.name} went missing on the way; reading them again.")
            self._due += 1
            if sequence <= self._last:  # delivered again, since nobody acknowledged it in time
                continue
            if (self._there or sequence != self._last + 1) and not self._follows(sequence):
                self._nats(self._refuse_removed(), 2 * PATIENCE)
                raise AwayError(f"the consumer of {self.name} is not where it was; reading on from the last commit.")
            self._last, self._last_reply = sequence, message.reply
            if self._there:
                self._there -= 1
                self._last = sequence if self._there else self._upto
            taken.add(message.data, str(sequence))
        return taken.batch(self._positions())

    def acknowledge(self, positions: Positions) -> None:
        """Acknowledge everything up to the last message read."""
        if self._last_reply and positions.get("sequence") == self._last:
            self._nats(self._acknowledge(self._last_reply))

    async def _acknowledge(self, reply: str) -> None:
        await (await self._nats.client()).publish(reply, b"+ACK")

    def close(self) -> None:
        """Close the connection."""
        self._nats.close()


class NatsMembers:
    """The workers of a run: each keeps a message in the stream of leases, which forgets those who stay silent."""

    def __init__(self, end: Endpoint) -> None:
        self._nats = NatsConnection(end)
        self._shards = end.shards
        self._subjects = f"queryveil.{end.run}.lease.worker"
        self._me = f"{self._subjects}.{secrets.token_hex(8)}"

    def wanted(self) -> frozenset[int]:
        """Every n-th shard, for the i-th of n workers."""
        return share_of_shards(self._me, self._nats(self._workers(), 2 * PATIENCE), self._shards)

    async def _workers(self) -> list[str]:
        await self._nats.need_leases()
        await self._nats.put([(self._me, b"", {})])
        info = await (await self._nats.jetstream()).stream_info(self._nats.leases, f"{self._subjects}.*")
        return list(info.state.subjects or {})

    def close(self) -> None:
        """Take the message back."""
        with suppress(AwayError, APIError):  # otherwise the others will see that this one does not come back
            self._nats(self._leave())
        self._nats.close()

    async def _leave(self) -> None:
        await (await self._nats.jetstream()).purge_stream(self._nats.leases, subject=self._me)


def _numbers(reply: str) -> tuple[int, int]:
    """Sequence number in the stream and count of deliveries, from the subject to acknowledge on.

    >>> _numbers("$JS.ACK.searches.queryveil-web.1.17.5.1700000000000000000.0")
    (17, 5)
    """
    parts = reply.split(".")
    at = 5 if len(parts) == 9 else 7  # newer servers may name domain and account first
    return int(parts[at]), int(parts[at + 1])


open_source, open_sink, open_members = NatsSource, NatsSink, NatsMembers
