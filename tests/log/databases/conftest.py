"""The databases under test, by name, each as a place that hands out addresses."""

import itertools

import pytest

from database_servers import OpenSearchServer, PostgresServer
from maven_jars import NoServerError


def running(server):
    try:
        made = server()
    except NoServerError as why:
        pytest.skip(str(why))
    yield made
    made.stop()


@pytest.fixture(scope="session")
def postgres():
    yield from running(PostgresServer)


@pytest.fixture(scope="session")
def opensearch():
    yield from running(OpenSearchServer)


_numbers = itertools.count()


@pytest.fixture
def place(request, tmp_path):
    """The address of something in a database that is not there yet."""
    name = f"released{next(_numbers)}"
    if request.param == "duckdb":
        return f"duckdb:{tmp_path / 'out.db'}?table={name}"
    return request.getfixturevalue(request.param).address(name)


SERVERS = [
    pytest.param("postgres", marks=pytest.mark.service("postgresql")),
    pytest.param("opensearch", marks=pytest.mark.service("opensearch")),
]


def pytest_generate_tests(metafunc):
    if "place" in metafunc.fixturenames:
        metafunc.parametrize("place", ["duckdb", *SERVERS], indirect=True)
