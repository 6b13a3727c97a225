"""A Kafka broker for tests, from the jars of Maven Central, and what the kill tests need of the connector."""

from __future__ import annotations

import json
import signal
import subprocess
import uuid
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from live.scenes import LABELS, copy_anew, small_run
from maven_jars import KAFKA
from queryveil.testing.harness.kafka_end import AN_HOUR, KafkaClient
from waiting import LONG, SLOWNESS, wait_until


def java(main: str, *arguments: str) -> list[str]:
    """The command line of one of the broker's programs."""
    return KAFKA.java(f"{KAFKA.jars()}/*", main, *arguments)


class KafkaServer:
    """Broker and controller in one process, on ports and a folder of their own, which survive a restart."""

    def __init__(self, folder: Path, port: int, controller: int) -> None:
        self.folder, self.port = folder, port
        self.bootstrap = f"127.0.0.1:{port}"
        self._config = folder / "server.properties"
        self._config.write_text(
            "\n".join(
                [
                    "process.roles=broker,controller",
                    "node.id=1",
                    f"controller.quorum.voters=1@127.0.0.1:{controller}",
                    f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                    f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
                    "controller.listener.names=CONTROLLER",
                    f"log.dirs={folder / 'logs'}",
                    "num.partitions=1",
                    "offsets.topic.num.partitions=1",
                    "offsets.topic.replication.factor=1",
                    "transaction.state.log.num.partitions=1",
                    "transaction.state.log.replication.factor=1",
                    "transaction.state.log.min.isr=1",
                    "group.initial.rebalance.delay.ms=0",
                    "group.min.session.timeout.ms=1000",
                    "log.cleaner.dedupe.buffer.size=2000000",
                    "num.network.threads=2",
                    "num.io.threads=2",
                    "num.recovery.threads.per.data.dir=1",
                    "background.threads=2",
                    "",
                ]
            )
        )
        identity = uuid.uuid4().hex
        subprocess.run(
            java("kafka.tools.StorageTool", "format", "-t", identity[:22], "-c", str(self._config)),
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=LONG,
        )
        self.start()

    def start(self) -> None:
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(java("kafka.Kafka", str(self._config)), stdout=output, stderr=output)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

        def answers() -> bool:
            assert self._process.poll() is None, "the Kafka broker does not start"
            try:
                return bool(admin.list_topics(timeout=2).brokers)
            except Exception:
                return False

        wait_until(answers, "the Kafka broker answers")

    def stop(self, *, kill: bool = False) -> None:
        (self._process.kill if kill else self._process.terminate)()
        self._process.wait(LONG)

    def save(self) -> None:
        """A copy of the disk as a power cut would leave it: what the broker answered for, it has written."""
        self._process.send_signal(signal.SIGSTOP)
        copy_anew(self.folder / "logs", self.folder / "saved")
        self._process.send_signal(signal.SIGCONT)

    def lose(self) -> None:
        """The broker dies and comes back with that copy."""
        self.stop(kill=True)
        copy_anew(self.folder / "saved", self.folder / "logs")
        self.start()


class KafkaScene:
    """From a topic to a topic of one broker. Each scene has topics of its own: deleting some takes the broker long."""

    between_looks = 0.05

    def __init__(self, server: KafkaServer) -> None:
        self.server = server
        self.client = KafkaClient(server.bootstrap)
        mark = uuid.uuid4().hex[:8]
        self.run, self.source, self.output = f"kills-{mark}", f"in-{mark}", f"out-{mark}"
        self.client.make(self.source)
        self.client.make(self.output)

    @property
    def labels(self) -> tuple[str, ...]:
        return LABELS

    def settings(self, **more: object) -> dict[str, object]:
        url = f"kafka://{self.server.bootstrap}"
        return small_run(f"{url}/{self.source}", f"{url}/{self.output}", more, self.run)

    def feed(self, lines: list[bytes]) -> None:
        self.client.publish(self.source, lines)

    def visible(self) -> list[bytes]:
        return self.client.messages(self.output)

    def state(self, shard: int = 0) -> bytes:
        """Chunks stand behind 16 bytes: commit (8), number (4), how many (4)."""
        chunks = [content for content in self.client.messages(f"queryveil-{self.run}-state", shard) if content]
        if not chunks:
            return b""
        count = int.from_bytes(chunks[-1][12:16], "big")
        return b"".join(chunk[16:] for chunk in chunks[-count:])

    def dead(self) -> list[dict[str, str]]:
        return [json.loads(content) for content in self.client.messages(f"queryveil-{self.run}-dead")]

    def lag(self) -> int:
        place = TopicPartition(self.source, 0)
        reader = self.client.reader(f"queryveil-{self.run}")
        (committed,) = reader.committed([place], timeout=LONG)
        low, high = reader.get_watermark_offsets(place, timeout=LONG)
        reader.close()
        return high - max(low, committed.offset)  # where nothing was committed yet, the offset is negative

    def places(self, *numbers: int) -> list[str]:
        """How a dead letter names the n-th message (from 0) of the input."""
        return [f"0:{number}" for number in numbers]

    def lose_state(self) -> None:
        topic = f"queryveil-{self.run}-state"
        self.client.admin.delete_topics([topic], operation_timeout=min(int(LONG), AN_HOUR))[topic].result()
        known = self.client.admin.list_topics
        wait_until(lambda: topic not in known(timeout=LONG).topics, "the broker has deleted the topic")
        self.client.forget(topic)

    def again(self) -> None:
        """The client connects again by itself."""

    def sharded(self, shards: int) -> tuple[dict[str, object], dict[str, object]]:
        """Where a router reads and writes, and where the workers of its shards do."""
        url, raw, parts = f"kafka://{self.server.bootstrap}", f"raw-{self.run}", f"parts-{self.run}"
        self.client.make(raw, 2)
        return (
            {"from": f"{url}/{raw}", "to": f"{url}/{parts}", "route": True},
            {"from": f"{url}/{parts}", "to": f"{url}/{self.output}?lease={2 * SLOWNESS}"},
        )

    def feed_raw(self, lines: list[bytes]) -> None:
        """All in one partition: what is routed must keep its order for the verifier."""
        self.client.publish(f"raw-{self.run}", lines, partition=1)

    def close(self) -> None:
        self.client.close()
