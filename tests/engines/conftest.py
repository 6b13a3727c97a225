"""A real Spark for its tests, started here and stopped here."""

import pytest

from engines.spark_scene import SparkScene


@pytest.fixture(scope="session")
def spark_scene(tmp_path_factory):
    """A running Spark, one for all of its tests."""
    made = SparkScene(tmp_path_factory.mktemp("spark"))
    yield made
    made.close()
