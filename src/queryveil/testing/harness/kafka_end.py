"""Kafka topics for a trial: its own, by names that nobody else has, and no others are ever touched."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from queryveil.testing.harness.ends import PATIENCE, BrokerEnd, OwnServer, wait_until
from queryveil.testing.harness.records import LABELS, small_run

AN_HOUR = 3600
"""Seconds; the client may not be told to wait longer for a server."""


class KafkaClient:
    """A plain client."""

    def __init__(self, bootstrap: str) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self.admin: Any = AdminClient(self._settings)
        self.producer: Any = Producer({**self._settings, "enable.idempotence": True})
        self._readers: dict[tuple[str, int, str], Reader] = {}

    def make(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        """A new topic."""
        new = NewTopic(name, partitions, config=config or {})
        self.admin.create_topics([new], operation_timeout=AN_HOUR)[name].result()

    def make_anew(self, name: str) -> None:
        """Delete a topic, and make another of its name as soon as the broker lets us."""
        self.admin.delete_topics([name], operation_timeout=AN_HOUR)[name].result()

        def made() -> bool:
            try:
                self.make(name)
            except KafkaException as error:
                assert error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
                return False
            return True

        wait_until(made, "the broker forgets the topic")

    def publish(self, topic: str, payloads: list[bytes], partition: int = 0) -> None:
        """All of them, and wait until the broker has them."""
        for payload in payloads:
            self.producer.produce(topic, payload, partition=partition)
        assert self.producer.flush(PATIENCE) == 0

    def reader(self, group: str) -> Any:
        """A consumer of a group."""
        return Consumer({**self._settings, "group.id": group})

    def messages(self, topic: str, partition: int = 0, isolation: str = "read_committed") -> list[bytes | None]:
        """Everything in a partition up to now."""
        place = (topic, partition, isolation)
        if place not in self._readers:
            self._readers[place] = Reader(self._settings, *place)
        return self._readers[place].all()

    def forget(self, topic: str) -> None:
        """Begin anew with a topic that was deleted."""
        for place in [place for place in self._readers if place[0] == topic]:
            self._readers.pop(place).consumer.close()

    def close(self) -> None:
        """Disconnect."""
        for reader in self._readers.values():
            reader.consumer.close()


class Reader:
    """Somebody who reads a partition from its beginning, and goes on where they were."""

    def __init__(self, settings: dict[str, Any], topic: str, partition: int, isolation: str) -> None:
        self.consumer: Any = Consumer(
            {
                **settings,
                "group.id": "outside",
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )
        self._place = (topic, partition)
        self._next = 0
        self._seen: list[bytes | None] = []

    def all(self) -> list[bytes | None]:
        """Everything up to now."""
        self.consumer.assign([TopicPartition(*self._place, self._next)])
        while True:
            message = self.consumer.poll(PATIENCE)
            assert message is not None, "the broker does not answer"
            if message.error() is None:
                self._seen.append(message.value())
                self._next = message.offset() + 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return list(self._seen)
            elif message.error().code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                return []


class KafkaEnd(BrokerEnd):
    """From a topic to a topic of one cluster."""

    labels = LABELS

    def __init__(self, url: str, name: str, server: OwnServer | None = None) -> None:
        super().__init__(server)
        self.run, self._url = name, url.rstrip("/")
        self._client = KafkaClient(self._url.removeprefix("kafka://"))
        self._in, self._out = f"{name}-in", f"{name}-out"
        self._client.make(self._in)
        self._client.make(self._out)

    def settings(self) -> dict[str, object]:
        """Of a worker; one that was fenced comes back soon."""
        return small_run(f"{self._url}/{self._in}", f"{self._url}/{self._out}?lease=0.5", {}, self.run)

    def feed(self, lines: list[bytes]) -> None:
        """More input."""
        self._client.publish(self._in, lines)

    def visible(self) -> list[bytes]:
        """What is committed."""
        return [content for content in self._client.messages(self._out) if content is not None]

    def left(self) -> int:
        """As the run's consumer group tells."""
        place, reader = TopicPartition(self._in, 0), self._client.reader(f"queryveil-{self.run}")
        (committed,) = reader.committed([place], timeout=PATIENCE)
        low, high = reader.get_watermark_offsets(place, timeout=PATIENCE)
        reader.close()
        return int(high - max(low, committed.offset))  # where nothing was committed yet, the offset is negative

    def again(self) -> None:
        """A new client: the old one's place in its transactions is not the server's any more."""
        self._client.close()
        self._client = KafkaClient(self._url.removeprefix("kafka://"))

    def close(self) -> None:
        """Remove the run's topics."""
        names = [name for name in self._client.admin.list_topics(timeout=PATIENCE).topics if self.run in name]
        for done in self._client.admin.delete_topics(names).values() if names else ():
            done.result()
        self._client.close()
