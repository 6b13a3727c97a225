"""A file that all machines see is read and worked on by Spark's tasks themselves, with the same outcome."""

import polars as pl
import pytest

from engines.spark_scene import assert_read_alike, assert_same, written
from queryveil.engines.spark import direct_reading
from queryveil.engines.spark.shared_table import SharedLog, SharedTable
from queryveil.engines.spark.spark_log import SparkLog
from queryveil.log import QueryLog, query_log, synthetic, write
from queryveil.log.query_log import LocalTable, in_canonical_order
from queryveil.mechanisms.suppress import Suppress
from queryveil.release import pipeline

pytestmark = pytest.mark.service("spark")

COUNTED = {"block": pl.Int64(), "user": pl.String(), "texts": pl.Int64()}


class CountTexts:
    """A block function that says which block it saw."""

    def __call__(self, block, rows):
        return rows.group_by("user").agg(pl.col("query").n_unique().alias("texts")).with_columns(block=pl.lit(block))


@pytest.fixture
def scene(spark_scene, monkeypatch):
    monkeypatch.setattr(query_log, "RECORDS_PER_BLOCK", 1 << 7)
    monkeypatch.setattr(direct_reading, "ROWS_AT_ONCE", 300)
    return spark_scene


@pytest.fixture
def log(tmp_path):
    made = synthetic.synth(users=150, records=2000, seed=4)
    write(made, tmp_path / "log.parquet")
    return made


def read_by(scene, path, **source):
    return scene.cluster.read(pipeline.Source(path=path, **source))[0]


@pytest.fixture
def by_value():
    """Workers do not have the tests' modules."""
    import sys

    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def test_every_block_has_the_rows_that_it_has_on_one_machine(scene, log, tmp_path, by_value):
    table = read_by(scene, tmp_path / "log.parquet", similar_ids="different").table()
    assert isinstance(table, SharedTable)
    here = LocalTable(log.frame, table.blocks)
    for key in ("user", "query"):
        made = (one.map_blocks(key, CountTexts(), COUNTED).collect() for one in (table, here))
        there, expected = map(in_canonical_order, made)
        assert there.equals(expected)
    again = table.map_blocks("query", CountTexts(), COUNTED).kept().map_blocks("user", First(), COUNTED)
    expected = here.map_blocks("query", CountTexts(), COUNTED).map_blocks("user", First(), COUNTED)
    assert in_canonical_order(again.collect()).equals(in_canonical_order(expected.collect()))


class First:
    """The first row of each user, by all it holds."""

    def __call__(self, block, rows):
        return in_canonical_order(rows).unique("user", keep="first", maintain_order=True)


def test_people_who_leave_may_leave_fewer_blocks_than_there_are_groups(scene, log, tmp_path, by_value):
    whole = read_by(scene, tmp_path / "log.parquet", similar_ids="different")
    stays = log.users()[:3]
    left = whole.without_users(log.users()[3:].to_list())
    rows = log.frame.filter(pl.col("user").is_in(stays.implode()))
    assert (len(left), left.users().to_list()) == (rows.height, stays.to_list())
    assert left.table().blocks < len(whole.table()._files)
    there = left.table().map_blocks("user", CountTexts(), COUNTED).collect()
    here = LocalTable(rows, left.table().blocks).map_blocks("user", CountTexts(), COUNTED).collect()
    assert in_canonical_order(there).equals(in_canonical_order(here))


def test_a_file_with_a_bad_row_is_left_to_sparks_reader(scene, tmp_path):
    good = read_by(scene, written(tmp_path / "good.parquet"))
    bad = read_by(scene, written(tmp_path / "bad.parquet", rank=["1", "first"]))
    assert (type(good), type(bad)) == (SharedLog, SparkLog)
    assert (len(good), len(bad)) == (2, 1)
    assert_read_alike(scene, tmp_path / "bad.parquet")


def test_columns_of_any_name_and_plain_type_come_through(scene, tmp_path):
    extras = {"a.b": ["a", "b"], "`": [1, None], "x y": [True, False]}
    assert_read_alike(scene, written(tmp_path / "log.parquet", **extras))


def test_tasks_that_spark_tries_again_change_nothing(scene, log, tmp_path, monkeypatch):
    write(QueryLog(log.frame.head(1500)), tmp_path / "log.parquet")
    here = scene.release(Suppress(k_text=2), tmp_path / "log.parquet", "files-here", engine="local")
    run = scene.cluster.jobs.run
    monkeypatch.setattr(scene.cluster.jobs, "run", lambda work: (run(work), run(work))[1])
    assert_same(here, scene.release(Suppress(k_text=2), tmp_path / "log.parquet", "files-spark"))
