"""What a Kafka URL says, the clients it asks for, and what their errors mean, for `kafka.py`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from queryveil.errors import UsageError
from queryveil.live.connector import AwayError, Endpoint, FencedError, UrlParameters

PATIENCE = 10.0
READ_KIBIBYTES = 32 << 10
SILENT = logging.Logger("librdkafka")
SILENT.addHandler(logging.NullHandler())
LONGEST = 900_000
"""Longest output: brokers take messages of 1 MB unless set otherwise."""
OURS = (
    "bootstrap.servers",
    "group.id",
    "transactional.id",
    "isolation.level",
    "enable.auto.commit",
    "auto.offset.reset",
    "enable.idempotence",
    "partition.assignment.strategy",
)
FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
REFUSED = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)


NO_TOPIC_ID = "A" * 22
"""From brokers that give topics none (zero, in base 64)."""
MAY_NOT_SEE = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


class KafkaCluster:
    """What a URL says of a cluster and a topic."""

    def __init__(self, end: Endpoint) -> None:
        address = urlsplit(end.url)
        self.topic = address.path.strip("/")
        named = bool(self.topic and "/" not in self.topic and address.netloc)
        url = UrlParameters(end, ("lease", "config"), "kafka://host:9092/topic?lease=10", complete=named)
        self.place = frozenset(address.netloc.split(","))
        self.down = False
        self.lease = url.number("lease", 10)
        more = _settings(Path(url.text("config"))) if url.text("config") else {}
        self._settings: dict[str, Any] = {
            **more,
            "bootstrap.servers": address.netloc,
            "logger": SILENT,
            "error_cb": self._heard,
            "reconnect.backoff.max.ms": 1000,
        }

    def _heard(self, error: KafkaError) -> None:
        self.down = self.down or error.code() == KafkaError._ALL_BROKERS_DOWN

    def consumer(self, group: str, **more: Any) -> Consumer:
        """A reader of what is committed."""
        return Consumer(
            {
                **self._settings,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "queued.max.messages.kbytes": READ_KIBIBYTES,
                **more,
            }
        )

    def producer(self, name: str) -> Producer:
        """A writer in transactions."""
        return Producer(
            {**self._settings, "transactional.id": name, "linger.ms": 5, "message.max.bytes": LONGEST + 100_000}
        )

    def need(self, client: Consumer | Producer, topic: str, count: int, config: dict[str, str]) -> int:
        """How many partitions a topic has; it is made where it is absent."""
        found = partitions(client, topic)
        if found:
            return found
        new = NewTopic(topic, num_partitions=count, config=config)
        try:
            self._admin.create_topics([new], operation_timeout=PATIENCE)[topic].result(PATIENCE)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        deadline = time.monotonic() + PATIENCE
        while not (found := partitions(client, topic)):
            if time.monotonic() > deadline:
                raise AwayError(f"kafka topic {topic} was made and is not there yet.")
            time.sleep(0.05)
        return found

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(self._settings)

    def identity(self, topic: str) -> str:
        """What tells a topic from another that had, or will have, its name; nothing where brokers give none."""
        asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=PATIENCE)[topic]
        identity = str(asked.result(PATIENCE).topic_id)
        return "" if identity == NO_TOPIC_ID else identity

    def removal(self, topic: str) -> str:
        """How the cluster removes records from a topic (`compact`, `delete` or both); empty where we may not see it."""
        place = ConfigResource(ResourceType.TOPIC, topic)
        try:
            config = self._admin.describe_configs([place], request_timeout=PATIENCE)[place].result(PATIENCE)
        except KafkaException as error:
            if error.args[0].code() in MAY_NOT_SEE:
                return ""
            raise
        return str(config["cleanup.policy"].value)


def partitions(client: Consumer | Producer, topic: str) -> int:
    """How many partitions a topic has; 0 where there is no such topic.

    All topics are listed: to ask for one by its name may make it.
    """
    found = client.list_topics(timeout=PATIENCE).topics.get(topic)
    return len(found.partitions) if found is not None else 0


def _settings(path: Path) -> dict[str, str]:
    """librdkafka's settings from a file. Those that the promises hang on cannot be changed."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path.name}: cannot be read.") from None
    written = (line.partition("=") for line in lines if line.strip() and not line.lstrip().startswith("#"))
    settings = {name.strip(): value.strip() for name, _, value in written}
    if forbidden := sorted(set(settings) & set(OURS)):
        raise UsageError(f"{path.name}: {', '.join(forbidden)} cannot be set: exactly-once delivery hangs on it.")
    return settings


def meaning(error: KafkaError) -> Exception:
    """What an error means for the worker; its words are not passed on, they may hold data."""
    if error.code() in FENCED or error.fatal():
        return FencedError("another worker took the shard over.")
    if error.code() in REFUSED:
        return UsageError(f"the kafka cluster does not let us in ({error.name()}).")
    return AwayError(f"the kafka cluster cannot be reached, or takes no writes now ({error.name()}).")


def call_in_time(call: Callable[[], object]) -> None:
    """Do a call that has a limit of its own and may yet never come back.

    Where the coordinator of a transaction dies in the middle, librdkafka was seen to wait for ever in
    `send_offsets_to_transaction`. The call is then left behind with its producer; the next one fences it.
    """
    failed: list[BaseException] = []

    def work() -> None:
        try:
            call()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(3 * PATIENCE)
    if thread.is_alive():
        raise AwayError("the kafka cluster does not answer.")
    if failed:
        raise failed[0]


@contextmanager
def away() -> Iterator[None]:
    """Every error of the client as what it means."""
    try:
        yield
    except KafkaException as error:
        raise meaning(error.args[0]) from None
    except TimeoutError:
        raise AwayError("the kafka cluster does not answer.") from None
