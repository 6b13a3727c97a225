"""The source of `kafka.py`, which says how it works.

Positions are offsets, and the topic's identity, which Kafka gives every topic that is made and never gives again: a
topic of the same name that was made anew, or is in another cluster, is refused. Offsets below the first one of a
partition were removed, which stops the run. Within a partition numbers are missing for good reasons (the marks of
transactions), so what compaction takes from its middle could not be known: compacted topics are refused.
"""

from __future__ import annotations

from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from queryveil.errors import RefusedError, Remedy, UsageError
from queryveil.live._kafka_cluster import PATIENCE, KafkaCluster, away, meaning, partitions
from queryveil.live.connector import (
    READ_BYTES,
    AwayError,
    Batch,
    Endpoint,
    Messages,
    Positions,
    RecordSource,
    new_run_needed,
)

AT_ONCE = 32
IDENTITY = "topic"


class KafkaSource(RecordSource):
    """One partition for a shard; all of them for a router."""

    def __init__(self, end: Endpoint) -> None:
        self.cluster = KafkaCluster(end)
        self._topic = self.cluster.topic
        self._shard = end.shard if end.spread == "mine" else None
        self._shards = end.shards
        sharded = f" partition {end.shard}" if end.spread == "mine" and end.shards > 1 else ""
        self.name = f"kafka topic {self._topic}{sharded}"
        self._longest = end.longest
        self.consumer = self.cluster.consumer(f"queryveil-{end.run}")
        self._next: dict[int, int] = {}
        self._identity = ""

    def seek(self, positions: Positions) -> Positions:
        """Go on at the offsets, if they are still there; a run begins with the first records that are there."""
        with away():
            count = partitions(self.consumer, self._topic)
            if not count:
                raise AwayError(f"there is no kafka topic {self._topic} yet.")
            if self._shard is not None and count != self._shards:
                raise UsageError(
                    f"kafka topic {self._topic} has {count} partitions and the run {self._shards} shards: each shard "
                    "reads one partition. Spread the records over such a topic with a router (route), or have a shard "
                    "for each partition.",
                    remedy=Remedy("shards", count),
                )
            self._refuse_another(positions)
            for partition in range(count) if self._shard is None else [self._shard]:
                place = TopicPartition(self._topic, partition)
                low, high = self.consumer.get_watermark_offsets(place, timeout=PATIENCE)
                first = 0 if positions else low  # a partition that was added since then is read from its beginning
                self._next[partition] = int(positions.get(str(partition), first))
                if not low <= self._next[partition] <= high:
                    raise self._refused(partition)
            self.consumer.assign([TopicPartition(self._topic, *place) for place in self._next.items()])
        return self._positions()

    def _refuse_another(self, positions: Positions) -> None:
        """What was read must be of this topic, and what is still to be read must not be removed from its middle."""
        self._identity = self.cluster.identity(self._topic)
        if positions.get(IDENTITY, self._identity) != self._identity:
            raise self._another()
        if "compact" in self.cluster.removal(self._topic):
            raise RefusedError(
                f"kafka topic {self._topic} is compacted: records would be removed before they were read, without a "
                "trace. Read from a topic with cleanup.policy=delete."
            )

    def _another(self) -> RefusedError:
        return new_run_needed(
            f"kafka topic {self._topic} is another topic of the same name than the one that was read: it was made "
            "anew, or is in another cluster."
        )

    def _positions(self) -> Positions:
        identity: Positions = {IDENTITY: self._identity} if self._identity else {}
        return {str(partition): offset for partition, offset in self._next.items()} | identity

    def _refused(self, partition: int) -> RefusedError:
        return new_run_needed(
            f"kafka topic {self._topic} does not hold offset {self._next[partition]} of partition {partition}, up to "
            "where it was read: records were removed before they were read, or it is another topic. Keep records "
            "longer."
        )

    def read(self, most: int, wait: float) -> Batch:
        """Records in the order of each partition."""
        with away():
            messages = more = self.consumer.consume(1, wait)
            size = self._size(messages)
            while more and len(messages) < most and size < READ_BYTES:
                more = self.consumer.consume(min(most - len(messages), AT_ONCE), 0)
                messages += more
                size += self._size(more)
        taken = Messages(self._longest)
        for message in messages:
            error = message.error()
            partition = int(message.partition() or 0)
            if error is not None:
                removed = error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
                raise self._refused(partition) if removed else meaning(error)
            offset = int(message.offset() or 0)
            if offset < self._next[partition]:
                continue
            self._next[partition] = offset + 1
            taken.add(bytes(message.value() or b""), f"{partition}:{offset}")
        if messages:
            self._see_whose_they_are()
        if not messages and self.cluster.down:
            self.cluster.down = False
            raise AwayError("no broker of the kafka cluster can be reached.")
        return taken.batch(self._positions())

    def _see_whose_they_are(self) -> None:
        """No topic gets an identity that another had: if it is the same as before they were read, they are of it."""
        with away():
            if self.cluster.identity(self._topic) != self._identity:
                raise self._another()

    @staticmethod
    def _size(messages: list[Message]) -> int:
        return sum(len(message.value() or b"") for message in messages)

    def offsets(self, positions: Positions) -> list[TopicPartition]:
        """Positions as Kafka wants them."""
        offsets = [(int(name), int(offset)) for name, offset in positions.items() if name != IDENTITY]
        return [TopicPartition(self._topic, *place) for place in offsets]

    def acknowledge(self, positions: Positions) -> None:
        """Tell the group how far we are."""
        if positions:
            with suppress(KafkaException):  # only for others to see
                self.consumer.commit(offsets=self.offsets(positions), asynchronous=True)

    def close(self) -> None:
        """Leave."""
        with suppress(KafkaException):
            self.consumer.close()
