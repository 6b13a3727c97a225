"""Every file at an address is looked at before Spark reads one, and what is wrong is told by its name."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.spark_scene import assert_read_alike, on_spark, written
from queryveil.errors import FormatError, ParameterError, UsageError
from queryveil.release import pipeline

pytestmark = pytest.mark.service("spark")


@pytest.fixture
def scene(spark_scene):
    return spark_scene


# --- folders: nothing is left out without a word


def folder_with(tmp_path, *, paths=()):
    """A folder with a file, and more files by their paths."""
    folder = tmp_path / "folder"
    for name in ("a.parquet", *paths):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        written(folder / name)
    return folder


@pytest.mark.parametrize(
    "path", ["2024/b.parquet", "2024/05/b.parquet", "_b.parquet", ".b.parquet", "_later/b.parquet"]
)
def test_a_folder_with_files_that_would_not_be_read_is_refused(scene, tmp_path, path):
    folder = folder_with(tmp_path, paths=[path])
    with pytest.raises(
        FormatError, match=rf"^folder: 1 files there would not be read, {path.rpartition('/')[2]} among"
    ):
        on_spark(scene, folder)


def test_what_writers_of_parquet_leave_beside_it_is_no_data(scene, tmp_path):
    folder = folder_with(tmp_path, paths=["b.parquet"])
    for name in ("_SUCCESS", "._SUCCESS.crc", ".gone.parquet.crc", ".DS_Store", "_committed_1", "_started_1"):
        (folder / name).write_bytes(b"x")
    there, _ = on_spark(scene, folder)
    assert there.height == 4


def test_urls_and_ranks_of_one_file_stay_beside_a_file_without(scene, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    written(folder / "a.parquet")
    written(folder / "b.parquet", user=["cat", "cat"], url=["u.example", None], rank=[1, None])
    there, _ = on_spark(scene, folder)
    assert sorted(there["url"].drop_nulls()) == ["u.example"]
    assert there["rank"].drop_nulls().to_list() == [1]
    assert there.height == 4


@pytest.mark.parametrize(
    "values",
    [pa.array([1, 2], pa.time64("ns")), pa.array([1, 2], pa.time64("us")), pa.nulls(2, pa.float16()), [{"a": 1}] * 2],
    ids=["time64[ns]", "time64[us]", "float16", "struct"],
)
def test_an_extra_column_that_spark_has_no_type_for_is_left_out_and_noted(scene, tmp_path, values):
    there, report = on_spark(scene, written(tmp_path / "log.parquet", extra=values, kept=["x", "y"]))
    assert sorted(there["kept"]) == ["x", "y"]
    assert "extra" not in there.columns
    assert len(report.notes) == 1


def test_two_columns_of_one_name_are_told(scene, tmp_path):
    columns = [pa.array(["a"]), pa.array(["q"]), pa.array(["r"])]
    pq.write_table(pa.Table.from_arrays(columns, names=["user", "query", "query"]), tmp_path / "log.parquet")
    with pytest.raises(FormatError, match="two columns have the same name"):
        on_spark(scene, tmp_path / "log.parquet")


def test_the_file_that_is_cut_off_is_named(scene, tmp_path, capfd):
    folder = folder_with(tmp_path, paths=["b c.parquet"])
    whole = (folder / "b c.parquet").read_bytes()
    (folder / "b c.parquet").write_bytes(whole[:200])
    with pytest.raises(FormatError, match=r"^folder: b c.parquet: not a whole Parquet file"):
        on_spark(scene, folder)
    (folder / "b c.parquet").write_bytes(whole[:4] + bytes(40) + whole[44:])
    with pytest.raises(FormatError, match=r"b c.parquet: Spark cannot read it to its end"):
        on_spark(scene, folder)
    assert "exception" not in "".join(capfd.readouterr()).lower()


def test_the_column_whose_type_differs_is_named(scene, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    written(folder / "a.parquet", user=pa.array([1, 2], pa.int32()))
    written(folder / "b.parquet", user=pa.array([1, 2**40], pa.int64()))
    with pytest.raises(FormatError, match=r"^folder: the files differ in the type of column user: bigint and int\."):
        on_spark(scene, folder)


# --- what is read here, and settings


def test_a_ubi_folder_and_a_packed_file_are_read_here_as_without_spark(scene, tmp_path):
    folder = tmp_path / "ubi"
    folder.mkdir()
    query = '{"client_id":"ann","query_id":"q1","user_query":"tulips","timestamp":"2024-01-01T00:00:00Z"}\n'
    (folder / "ubi_queries.jsonl").write_text(query)
    assert assert_read_alike(scene, folder)["query"].to_list() == ["tulips"]
    packed = tmp_path / "log.parquet.gz"
    packed.write_bytes(gzip.compress(written(tmp_path / "log.parquet").read_bytes()))
    assert assert_read_alike(scene, packed).height == 2


@pytest.mark.parametrize("wrong", [{"encoding": "nonsense"}, {"columns": {"foo": "user"}}])
def test_settings_that_no_reader_takes_are_refused_alike(scene, tmp_path, wrong):
    path = written(tmp_path / "log.parquet")
    told = []
    for reader in (pipeline.read_source, scene.cluster.read):
        with pytest.raises(ParameterError) as caught:
            reader(pipeline.Source(path=path, **wrong))
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_a_blocklist_needs_one_file_on_this_machine(scene, tmp_path):
    folder = folder_with(tmp_path)
    for source in ({"path": folder}, {"path": folder, "address": f"file://{folder}/a.parquet"}):
        with pytest.raises(UsageError, match=r"^block_categories is applied on this machine"):
            scene.cluster.read(pipeline.Source(**source, block_categories=tmp_path / "topics.txt"))
