"""Kafka: `kafka://host:9092,other:9092/TOPIC`.

A commit is one transaction: outputs, dead letters, the state and the consumed offsets become visible at once to readers
with `isolation.level=read_committed`, or never. Claiming a shard is `init_transactions` with the shard's own
transactional id: it ends what a predecessor left open and fences it, so that its next commit fails.

The state goes to the compacted topic `queryveil-RUN-state`, in the partition of its shard, cut into chunks that fit
into messages; a restore reads the end of that partition, where the last commit is. Offsets are sent to the group
`queryveil-RUN` for the world to see the lag; what counts is the offset inside the state.

A reader of uncommitted messages sees more than was promised, and must not learn more from it: a round that is repeated
must draw the same again. For that the records must come in the same order again, so a shard reads one partition:
shard 3 reads partition 3, and the topic has as many partitions as the run has shards. A router draws nothing and reads
a topic of any number of partitions; it writes to the partition of each record's shard.

Workers share the shards out as a consumer group (`queryveil-RUN-members`) on the state topic: whom Kafka assigns a
partition of the state, works on that shard. Without the group (a worker of one `shard`), a worker that
was fenced comes back only after the one who fenced it has committed nothing for as long as `lease` says.

Topics that are not there are made. URL parameters: `lease` in seconds (10): after how long a silent worker is taken for
gone; `config`: a file of librdkafka's settings (`name=value` a line), for encryption and credentials.
"""

from __future__ import annotations

import struct
import time
from contextlib import closing, suppress
from dataclasses import asdict
from functools import partial

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from queryveil.errors import RefusedError, UsageError
from queryveil.live._kafka_cluster import LONGEST, PATIENCE, KafkaCluster, away, call_in_time, meaning
from queryveil.live._kafka_source import KafkaSource
from queryveil.live.connector import Accept, AwayError, Endpoint, FencedError, RecordSource, Sink, Step

CHUNK = 512 << 10
PLACE = struct.Struct(">QII")
"""In front of each chunk: the commit, the chunk's number, how many there are."""
FIRST_LOOK = 16
STATE_TOPIC = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20), "min.cleanable.dirty.ratio": "0.1"}
ETERNAL = {"retention.ms": "-1"}

_fenced_at: dict[str, tuple[int, float]] = {}
"""Shards that this process lost: how far their state was then, and when."""


class KafkaSink(Sink):
    """Outputs, dead letters, state and offsets in one transaction, for readers of committed records."""

    def __init__(self, end: Endpoint) -> None:
        self.place = end.place
        self._cluster = KafkaCluster(end)
        self._what = f"shard {end.shard} of run {end.run}"
        self._routed = end.spread == "all"
        self._group = f"queryveil-{end.run}"
        self._id = f"{self._group}-{'router' if self._routed else end.shard}"
        self._state_topic = f"{self._group}-{'router' if self._routed else 'state'}"
        self._dead_topic = f"{self._group}-dead"
        self._shard, self._shards = end.shard, end.shards
        self._partition = 0 if self._routed else end.shard
        self._outputs_to = 0
        self._commits = self._chunks = 0
        self._producer: Producer | None = None
        self._on_step = end.on_step

    def claim(self, sealing_key: bytes) -> None:
        """Take the transactional id over: whoever had it can commit no more."""
        producer = self._producer = self._cluster.producer(self._id)
        with away():
            states = self._cluster.need(producer, self._state_topic, 1 if self._routed else self._shards, STATE_TOPIC)
            if "delete" in self._cluster.removal(self._state_topic):
                raise UsageError(f"{self._state_topic} would forget the state: set cleanup.policy to compact alone.")
            outputs = self._cluster.need(producer, self._cluster.topic, self._shards, {})
            self._cluster.need(producer, self._dead_topic, 1, ETERNAL)
            if not self._routed and states != self._shards:
                raise RefusedError(f"{self._state_topic} was made for {states} shards, the run has {self._shards}.")
            if self._routed and outputs != self._shards:
                raise UsageError(
                    f"kafka topic {self._cluster.topic} has {outputs} partitions and the run {self._shards} shards: "
                    "a router needs a partition for each shard."
                )
            self._outputs_to = self._shard % outputs
            if self._id in _fenced_at:
                self._wait_for_silence()
            producer.init_transactions(PATIENCE)

    def _wait_for_silence(self) -> None:
        with self._reader() as consumer:
            end = self._ends(consumer)[1]
        before, since = _fenced_at[self._id]
        now = time.monotonic()
        if end != before:
            before, since = _fenced_at[self._id] = end, now
        if now - since < self._cluster.lease:
            raise AwayError(f"another worker holds {self._what}.")
        del _fenced_at[self._id]

    def _reader(self) -> closing[Consumer]:
        quick = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}
        return closing(self._cluster.consumer(f"{self._id}-restore", **quick))

    def _ends(self, consumer: Consumer) -> tuple[int, int]:
        place = TopicPartition(self._state_topic, self._partition)
        low, high = consumer.get_watermark_offsets(place, timeout=PATIENCE)
        return int(low), int(high)

    def load(self, accept: Accept) -> bytes | None:
        """The last state in the topic."""
        state = self._committed()
        accept(state, None)
        return state

    def _committed(self) -> bytes | None:
        """The end of its partition is read, and more of it until one is whole."""
        with away(), self._reader() as consumer:
            low, high = self._ends(consumer)
            look = FIRST_LOOK
            while True:
                start = max(low, high - look)
                chunks, count = self._last_commit(consumer, start)
                if count and len(chunks) == count:
                    self._chunks = count
                    return b"".join(chunks[number] for number in range(count))
                if start == low:
                    return None
                look *= 8

    def _last_commit(self, consumer: Consumer, start: int) -> tuple[dict[int, bytes], int]:
        consumer.assign([TopicPartition(self._state_topic, self._partition, start)])
        chunks: dict[int, bytes] = {}
        last = count = 0
        while True:
            message = consumer.poll(PATIENCE)
            if message is None:
                raise AwayError("the kafka cluster does not hand out the state.")
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._commits = max(self._commits, last)
                    return chunks, count
                raise meaning(error)
            content = message.value()
            if content is None:  # a chunk that is needed no more
                continue
            commit, number, of = PLACE.unpack_from(content)
            if commit != last:
                chunks, last, count = {}, commit, of
            chunks[number] = bytes(content[PLACE.size :])

    def commit(self, step: Step, source: RecordSource) -> None:
        """One transaction; if one of its messages cannot be delivered, committing it fails."""
        together = source if isinstance(source, KafkaSource) and source.cluster.place == self._cluster.place else None
        producer = self._producer
        assert producer is not None
        try:
            with away():
                producer.begin_transaction()
                self._fill(producer, step)
                self._send(producer)
                self._on_step("mid publish")
                if together is not None and step.positions:
                    members = together.consumer.consumer_group_metadata()
                    offsets = together.offsets(step.positions)
                    call_in_time(partial(producer.send_offsets_to_transaction, offsets, members, PATIENCE))
                call_in_time(partial(producer.commit_transaction, PATIENCE))
        except FencedError:
            _fenced_at[self._id] = (-1, time.monotonic())
            raise FencedError(f"another worker took {self._what} over.") from None
        except AwayError:
            with suppress(KafkaException, AwayError):
                call_in_time(partial(producer.abort_transaction, PATIENCE / 10))
            raise
        self._on_step("state safe")
        if together is None:
            source.acknowledge(step.positions)

    def _fill(self, producer: Producer, step: Step) -> None:
        dead = [asdict(letter) for letter in step.dead]
        for number, line in enumerate(step.outputs):
            if len(line) > LONGEST:
                dead.append({"place": f"output {number} of commit {self._commits + 1}", "reason": "longer than 900 kB"})
                continue
            to = step.routes[number] if step.routes is not None else self._outputs_to
            self._produce(producer, self._cluster.topic, to, line)
        for letter in dead:
            self._produce(producer, self._dead_topic, 0, msgspec.json.encode(letter))
        self._commits += 1
        chunks = [step.state[at : at + CHUNK] for at in range(0, max(1, len(step.state)), CHUNK)]
        for number, chunk in enumerate(chunks):
            content = PLACE.pack(self._commits, number, len(chunks)) + chunk
            self._produce(producer, self._state_topic, self._partition, content, str(number))
        for number in range(len(chunks), self._chunks):
            self._produce(producer, self._state_topic, self._partition, None, str(number))
        self._chunks = len(chunks)

    def _send(self, producer: Producer) -> None:
        """Wait until everything is with the broker; in short waits, which notice that it went or that we are fenced."""
        deadline, self._cluster.down = time.monotonic() + PATIENCE, False
        while producer.flush(0.1):
            if self._cluster.down or time.monotonic() > deadline:
                raise AwayError("the kafka cluster takes no writes now.")

    def _produce(
        self, producer: Producer, topic: str, partition: int, value: bytes | None, key: str | None = None
    ) -> None:
        while True:
            try:
                producer.produce(topic, value=value, key=key, partition=partition)
            except BufferError:  # the queue is full: let it empty
                producer.poll(0.1)
            else:
                producer.poll(0)
                return

    def close(self) -> None:
        """The transactional id is left for the next one."""
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.purge()
            self._producer = None


class KafkaMembers:
    """The workers of a run as a consumer group on the state topic, whose partitions are the shards."""

    def __init__(self, end: Endpoint) -> None:
        self._cluster = KafkaCluster(end)
        self._topic, self._shards = f"queryveil-{end.run}-state", end.shards
        self._joined = False
        lease = round(1000 * self._cluster.lease)
        self._consumer = self._cluster.consumer(
            f"queryveil-{end.run}-members",
            **{
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": lease,
                "heartbeat.interval.ms": lease // 4,
                "auto.offset.reset": "latest",
            },
        )

    @staticmethod
    def _assigned(consumer: Consumer, places: list[TopicPartition]) -> None:
        consumer.incremental_assign(places)
        consumer.pause(places)  # nothing is read here

    def wanted(self) -> frozenset[int]:
        """The partitions that Kafka gave this worker; the group is joined when the cluster is first there."""
        with away():
            if not self._joined:
                self._cluster.need(self._consumer, self._topic, self._shards, STATE_TOPIC)
                self._consumer.subscribe([self._topic], on_assign=self._assigned)
                self._joined = True
            self._consumer.poll(0.1)
            return frozenset(place.partition for place in self._consumer.assignment())

    def close(self) -> None:
        """Leave the group."""
        with suppress(KafkaException):
            self._consumer.close()


open_source, open_sink, open_members = KafkaSource, KafkaSink, KafkaMembers
