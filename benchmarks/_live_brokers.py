"""NATS and Kafka for `live.py`: the worker beside a plain loop of the same client, and Kafka's own tools."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

Figures = tuple[dict[str, float], float]
STATE_PART = 500_000


def nats_figures(
    folder: Path, records: Iterator[bytes], worker: Callable[..., dict[str, float]], batch: int, line: bytes
) -> Figures:
    """The worker, and a loop that fetches, publishes as many lines, keeps a state and acknowledges."""
    from nats.js.api import AckPolicy, ConsumerConfig

    from run.conftest import free_port
    from run.live_nats import NatsClient, NatsServer

    lines = [record.rstrip() for record in records]
    store = folder / "nats"
    store.mkdir()
    server = NatsServer(store, free_port())
    try:
        client = NatsClient(server.url)
        for name in ("in", "plain", "state"):
            client.do(client.jetstream.add_stream(name=name, subjects=[name]))
        for at in range(0, len(lines), 5000):
            client.publish("in", lines[at : at + 5000])
        ours = worker(**{"from": f"{server.url}?stream=in", "to": f"{server.url}?stream=out"})
        share, state = ours["released"] / len(lines), b"x" * int(ours["state"])

        async def loop() -> None:
            at_once = ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=-1)
            reader = await client.jetstream.pull_subscribe("in", durable="plain", config=at_once)
            left = len(lines)
            while left > 0:
                messages = await reader.fetch(min(batch, left), timeout=5)
                left -= len(messages)
                sent = [await client.jetstream.publish_async("plain", line) for _ in range(int(share * len(messages)))]
                parts = [state[at : at + STATE_PART] for at in range(0, len(state), STATE_PART)]
                sent += [await client.jetstream.publish_async("state", part) for part in parts]
                await asyncio.gather(*sent)
                await messages[-1].ack()
            await client.connection.flush()

        begun = time.perf_counter()
        client.do(loop(), 600)
        plain = time.perf_counter() - begun
        client.close()
    finally:
        server.stop()
    return ours, plain


def kafka_figures(
    folder: Path, records: Iterator[bytes], worker: Callable[..., dict[str, float]], batch: int, line: bytes
) -> tuple[dict[str, float], float, str]:
    """The worker, a loop that does the same transactions, and what Kafka's own tools say of the same broker."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    from run.conftest import free_port
    from run.live_kafka import KafkaClient, KafkaServer

    lines = [record.rstrip() for record in records]
    store = folder / "kafka"
    store.mkdir()
    server = KafkaServer(store, free_port(), free_port())
    try:
        client = KafkaClient(server.bootstrap)
        for name in ("in", "out", "plain", "state", "perf"):
            client.make(name)
        for at in range(0, len(lines), 50_000):
            client.publish("in", lines[at : at + 50_000])
        url = f"kafka://{server.bootstrap}"
        ours = worker(**{"from": f"{url}/in", "to": f"{url}/out", "wait": 5.0})
        share, state = ours["released"] / len(lines), b"x" * int(ours["state"])
        settings = {"bootstrap.servers": server.bootstrap}
        reader = Consumer({**settings, "group.id": "plain", "isolation.level": "read_committed"})
        writer = Producer({**settings, "transactional.id": "plain", "linger.ms": 5, "log_level": 0})
        writer.init_transactions(30)
        reader.assign([TopicPartition("in", 0, 0)])
        begun, left = time.perf_counter(), len(lines)
        while left > 0:
            messages = reader.consume(1, 5) + reader.consume(batch - 1, 0)
            left -= len(messages)
            writer.begin_transaction()
            for _ in range(int(share * len(messages))):
                writer.produce("plain", line)
                writer.poll(0)
            for at in range(0, len(state), STATE_PART):
                writer.produce("state", state[at : at + STATE_PART])
            end = TopicPartition("in", 0, messages[-1].offset() + 1)
            writer.send_offsets_to_transaction([end], reader.consumer_group_metadata(), 30)
            writer.commit_transaction(30)
        plain = time.perf_counter() - begun
        reader.close()
        client.close()
        del reader, writer, client
        tools = _tools(server.bootstrap, len(lines), sum(map(len, lines)) // len(lines))
    finally:
        server.stop()
    return ours, plain, tools


def _tools(bootstrap: str, count: int, size: int) -> str:
    from run.live_kafka import java

    sends = ["--topic", "perf", "--num-records", str(count), "--record-size", str(size), "--throughput", "-1"]
    sends += ["--producer-props", f"bootstrap.servers={bootstrap}", "acks=all"]
    sent = _heard(java("org.apache.kafka.tools.ProducerPerformance", *sends)).strip().splitlines()[-1]
    reads = ["--bootstrap-server", bootstrap, "--topic", "in", "--messages", str(count), "--timeout", "30000"]
    read = _heard(java("org.apache.kafka.tools.ConsumerPerformance", *reads)).strip().splitlines()[-1].split(",")
    sent_rate = float(sent.split(" records/sec")[0].rsplit(" ", 1)[1])
    return (
        f"Kafka's own tools on the same broker and machine, with as many records of the same size: "
        f"ProducerPerformance {sent_rate:,.0f} records/s, ConsumerPerformance {float(read[5]):,.0f} records/s; neither "
        "commits transactions, and each does half of what the worker does."
    )


def _heard(command: list[str]) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
