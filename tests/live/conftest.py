"""Servers for the live stream's tests: real ones, on free ports, started here and stopped here."""

import pytest

from free_ports import free_port
from live.kafka_scene import KafkaScene, KafkaServer
from live.nats_scene import NatsScene, NatsServer
from live.redis_scene import RedisScene, ValkeyServer
from live.scenes import FileScene, Zygote
from maven_jars import NoServerError


@pytest.fixture(scope="session")
def valkey_session(tmp_path_factory):
    server = ValkeyServer(tmp_path_factory.mktemp("valkey"), free_port())
    yield server
    server.stop()


@pytest.fixture
def redis_scene(valkey_session):
    made = RedisScene(valkey_session)
    yield made
    made.close()


@pytest.fixture(scope="session")
def nats_session(tmp_path_factory):
    server = NatsServer(tmp_path_factory.mktemp("nats"), free_port())
    yield server
    server.stop()


@pytest.fixture
def nats_scene(nats_session):
    made = NatsScene(nats_session)
    yield made
    made.close()


@pytest.fixture(scope="session")
def kafka_session(tmp_path_factory):
    try:
        server = KafkaServer(tmp_path_factory.mktemp("kafka"), free_port(), free_port())
    except NoServerError as reason:
        pytest.skip(str(reason))
    yield server
    server.stop()


@pytest.fixture
def kafka_scene(kafka_session):
    made = KafkaScene(kafka_session)
    yield made
    made.close()


@pytest.fixture
def file_scene(tmp_path):
    return FileScene(tmp_path)


@pytest.fixture
def scene(request):
    """The scene of a connector, by name."""
    return request.getfixturevalue(f"{request.param}_scene")


@pytest.fixture(scope="session")
def zygote():
    """Workers in processes of their own, forked from one that has everything loaded."""
    made = Zygote()
    yield made
    made.close()
