"""Brokers for `live.py`: the worker beside a plain loop of the same client, and the brokers' own tools.

`nats bench` is in no package that can be had here, so `NatsFlood` does what it does: it writes the protocol's bytes to
a bare socket, publishing with a window of unanswered messages, or fetching in batches, and reads nothing but counts.
"""

from __future__ import annotations

import asyncio
import csv
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

Figures = tuple[dict[str, float], float, str]
STATE_PART = 500_000
WINDOW = 500
"""Messages that `nats bench` lets go unanswered."""


def redis_tool(port: int, count: int, size: int, batch: int) -> str:
    """What redis-benchmark (Debian's redis-tools) says of the same server: entries written, entries read in batches."""
    if shutil.which("redis-benchmark") is None:
        return "redis-benchmark (Debian's redis-tools) was not installed."

    def asked(requests: int, pipelined: int, *command: str) -> float:
        flags = ["-p", str(port), "-c", "1", "-n", str(requests), "-P", str(pipelined), "--csv"]
        rows = list(csv.DictReader(_heard(["redis-benchmark", *flags, *command]).splitlines()))
        return float(rows[-1]["rps"])

    written = asked(count, 1000, "XADD", "perf", "*", "record", "x" * size)
    read = batch * asked(max(1, count // batch), 1, "XREAD", "COUNT", str(batch), "STREAMS", "in", "0")
    return (
        f"redis-benchmark on the same server, one connection, as many entries of the same size: {written:,.0f} XADD/s "
        f"in pipelines of 1,000, {read:,.0f} entries/s by XREAD; each does half of what the worker does."
    )


class NatsFlood:
    """A bare connection to a NATS server."""

    def __init__(self, port: int) -> None:
        self._socket, self._rest = socket.create_connection(("127.0.0.1", port)), b""
        self._socket.sendall(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\nSUB inbox 1\r\n')

    def publish(self, subject: bytes, line: bytes, count: int) -> float:
        """Seconds until every one of these messages is stored and answered."""
        message = b"PUB %s inbox %d\r\n%s\r\n" % (subject, len(line), line)
        begun, sent, stored = time.perf_counter(), 0, 0
        while stored < count:
            if sent < count and sent - stored < WINDOW:
                more = min(WINDOW - (sent - stored), count - sent)
                self._socket.sendall(message * more)
                sent += more
            stored += self._heard(b'"seq":')
        return time.perf_counter() - begun

    def fetch(self, stream: bytes, consumer: bytes, count: int, batch: int) -> float:
        """Seconds until so many messages of a consumer have come, asked for in batches."""
        begun, left = time.perf_counter(), count
        while left > 0:
            ask = b'{"batch":%d}' % min(batch, left)
            subject = b"$JS.API.CONSUMER.MSG.NEXT.%s.%s" % (stream, consumer)
            self._socket.sendall(b"PUB %s inbox %d\r\n%s\r\n" % (subject, len(ask), ask))
            wanted = min(batch, left)
            left -= wanted
            while wanted > 0:
                wanted -= self._heard(b"$JS.ACK.")
        return time.perf_counter() - begun

    def close(self) -> None:
        """The connection is no longer needed."""
        self._socket.close()

    def _heard(self, mark: bytes) -> int:
        """How many marks came, once at least one line is whole; the rest waits for the next call."""
        heard = self._rest + self._socket.recv(1 << 20)
        whole = heard.rfind(b"\n") + 1
        self._rest = heard[whole:]
        if b"PING\r\n" in heard[:whole]:
            self._socket.sendall(b"PONG\r\n")
        return heard.count(mark, 0, whole)


def _nats_tool(port: int, client: object, lines: list[bytes], batch: int) -> str:
    from nats.js.api import AckPolicy, ConsumerConfig

    at_once = ConsumerConfig(durable_name="perf", ack_policy=AckPolicy.ALL, max_ack_pending=-1)
    client.do(client.jetstream.add_consumer("in", at_once))
    client.do(client.jetstream.add_stream(name="perf", subjects=["perf"]))
    size = sum(map(len, lines)) // len(lines)
    flood = NatsFlood(port)
    sent, read = flood.publish(b"perf", b"x" * size, len(lines)), flood.fetch(b"in", b"perf", len(lines), batch)
    flood.close()
    return (
        "A bare socket on the same NATS server, used as `nats bench` does, as many messages of the same size: "
        f"{len(lines) / sent:,.0f} stored/s with {WINDOW} unanswered, {len(lines) / read:,.0f} fetched/s; "
        "each does half of what the worker does."
    )


def nats_figures(
    folder: Path, records: Iterator[bytes], worker: Callable[..., dict[str, float]], batch: int, line: bytes
) -> Figures:
    """The worker, a loop that fetches, publishes as many lines, keeps a state and acknowledges, and a bare socket."""
    from nats.js.api import AckPolicy, ConsumerConfig

    from free_ports import free_port
    from live.nats_scene import NatsClient, NatsServer

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
        tool = _nats_tool(server.port, client, lines, batch)
        client.close()
    finally:
        server.stop()
    return ours, plain, tool


def kafka_figures(
    folder: Path, records: Iterator[bytes], worker: Callable[..., dict[str, float]], batch: int, line: bytes
) -> Figures:
    """The worker, a loop that does the same transactions, and what Kafka's own tools say of the same broker."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    from free_ports import free_port
    from live.kafka_scene import KafkaClient, KafkaServer

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
    from live.kafka_scene import java

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
