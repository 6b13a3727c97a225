"""A log is the same log whether this machine or Spark reads it, and it is read once."""

import datetime as dt
import re
import shutil
from collections import Counter

import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from engines.spark_scene import SOAK, assert_read_alike, assert_same, on_spark, written
from properties import daily
from queryveil.cli.main import app
from queryveil.errors import FormatError, RefusedError, UsageError
from queryveil.log import QueryLog, read, read_with_report, synthetic, write
from queryveil.log.formats.format import LONGEST_FIELD
from queryveil.log.reading import address_of
from queryveil.mechanisms import make
from queryveil.mechanisms.microaggregate import Microaggregate
from queryveil.mechanisms.stream import Stream
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Ledger, Noise
from queryveil.release import pipeline, secrets

pytestmark = pytest.mark.service("spark")

WITH_ALL = [
    ("ann", "tulips", dt.datetime(2006, 3, 1, 7), 3, "a.example", "s1"),
    ("bob", "tulips", None, None, None, None),
]


@pytest.fixture
def scene(spark_scene):
    return spark_scene


def asked(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


# --- read once


def test_a_file_exchanged_after_the_ledger_was_debited_changes_nothing(scene, tmp_path):
    mine, other = (
        QueryLog.of([(f"{name} {i % 9}", f"weather {i % 3}") for i in range(90)]) for name in ("user", "stranger")
    )
    for name, log in (("log", mine), ("original", mine), ("other", other)):
        write(log, tmp_path / f"{name}.parquet")
    out = tmp_path / "out.txt"
    out.write_text("user 0\n")
    ledger = Ledger.create(tmp_path / "ledger", epsilon=1, delta=0)
    releases = []
    for name, engine, when in (("log", scene.cluster, "ledger debited"), ("original", None, "never")):
        place = scene.folder / f"exchanged-{name}"

        def exchange(step, when=when):
            if step == when:
                shutil.copy(tmp_path / "other.parquet", tmp_path / "log.parquet")

        source = pipeline.Source(path=tmp_path / f"{name}.parquet", exclude_users=out)
        target = pipeline.Target(folder=place, format="csv", ledger=ledger.path)
        outcome = pipeline.release(Suppress(k_text=2), source, target, Noise.seeded(5), exchange, engine)
        releases.append((place / "log.csv").read_bytes())
        assert set(outcome.release.people().collect()["user"]) == {f"user {i}" for i in range(1, 9)}
    assert read(tmp_path / "log.parquet") == other
    assert releases[0] == releases[1]


class Smuggling(Suppress):
    """A broken twin: it releases a log of its own."""

    def protect(self, log, noise):
        return super().protect(QueryLog.of([(f"stranger {i}", "weather") for i in range(9)]), noise)


def test_a_release_of_people_who_were_not_debited_is_refused(tmp_path):
    write(QueryLog.of([(f"user {i}", "weather") for i in range(9)]), tmp_path / "log.csv")
    target = pipeline.Target(folder=tmp_path / "out", ledger=Ledger.create(tmp_path / "l", epsilon=1, delta=0).path)
    with pytest.raises(RefusedError, match="not debited"):
        pipeline.release(Smuggling(k_text=2), pipeline.Source(path=tmp_path / "log.csv"), target, Noise.secure())
    assert not (tmp_path / "out").exists()


def test_people_whose_budget_is_spent_are_not_behind_a_release():
    log = QueryLog.of([(f"user {i}", "weather") for i in range(9)])
    protected = Suppress(k_text=2).protect(log, Noise.secure())
    protected.refuse_unpaid(log.users(), frozenset())
    with pytest.raises(RefusedError, match="not debited"):
        protected.refuse_unpaid(log.users(), frozenset({"user 3"}))


# --- addresses


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("hdfs:///data/log", True),
        ("dbfs:/mnt/log", True),
        ("file:///tmp/x", True),
        ("s3a://bucket/log", True),
        ("/data/log", False),
        ("log:1.parquet", False),
        ("c:/log", False),
    ],
)
def test_what_is_an_address_is_kept_as_it_was_written(text, is_one):
    assert address_of(text) == (text if is_one else None)


@pytest.mark.parametrize("slashes", ["file://", *daily([("file:",)], 0)])
def test_a_file_of_this_machine_may_be_given_as_an_address(scene, tmp_path, slashes):
    text = f"{slashes}{written(tmp_path / 'log.parquet')}"
    log, _, _ = scene.cluster.read(pipeline.Source(path=tmp_path / "elsewhere", address=address_of(text)))
    assert log.users().to_list() == ["ann", "bob"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("hdfs:///data/log", r"^hdfs:///data/log: Spark cannot open it"),
        ("nosuch://host/log", "knows no file system nosuch"),
        ("s3a://name:password@bucket/log", r"^s3a://bucket/log: this Spark knows no file system s3a"),
        ("file:///nowhere/log", "finds no Parquet"),
        ("file:///nowhere/log.csv", "only where Parquet lies there"),
    ],
)
def test_an_address_that_cannot_be_read_is_told_in_one_line(scene, address, said, capfd):
    with pytest.raises(UsageError, match=said) as caught:
        scene.cluster.read(pipeline.Source(path=pipeline.Path(address), address=address))
    assert "\n" not in str(caught.value)
    assert "password" not in str(caught.value)
    assert "java" not in (str(caught.value) + "".join(capfd.readouterr())).lower()


@pytest.mark.soak
def test_the_command_line_hands_an_address_on_and_one_machine_refuses_it(scene, tmp_path):
    path = tmp_path / "log.parquet"
    write(QueryLog.of([(f"user {i % 9}", "weather") for i in range(40)]), path)
    refused = asked("release", "suppress", f"file://{path}", "-o", tmp_path / "no")
    assert isinstance(refused.exception, UsageError) or refused.exit_code == 2
    assert not (tmp_path / "no").exists()
    made = asked("release", "suppress", f"file://{path}", "-o", tmp_path / "out", "--engine", "spark")
    assert made.exit_code == 0, made.output
    assert len(read(tmp_path / "out" / "log.parquet")) == 40


def test_brackets_in_a_name_are_brackets(scene, tmp_path):
    written(tmp_path / "log1.parquet", user=["wrong", "wrong"])
    written(tmp_path / "log[1]{a,b}*.parquet")
    assert_read_alike(scene, tmp_path / "log[1]{a,b}*.parquet")


def test_a_damaged_file_is_told_without_a_byte_of_it(scene, tmp_path, capfd):
    (tmp_path / "log.parquet").write_text("secret secret secret")
    with pytest.raises(FormatError, match="not a whole Parquet file"):
        on_spark(scene, tmp_path / "log.parquet")
    assert "magic" not in "".join(capfd.readouterr())


# --- types


@pytest.mark.parametrize(
    ("unit", "zone"), daily([("ns", "Asia/Tokyo"), ("ms", None), ("us", "UTC"), ("us", None), ("ns", None)], 2)
)
def test_times_of_every_unit_are_the_same_moments(scene, tmp_path, unit, zone):
    second = {"ns": 10**9, "us": 10**6, "ms": 10**3}[unit]
    values = [1_141_197_432 * second + second // 3, -5 * second - second // 3]
    times = pa.array(values, pa.timestamp(unit, zone))
    there = assert_read_alike(scene, written(tmp_path / "log.parquet", time=times))
    assert dt.datetime(2006, 3, 1, 7, 17, 12) in {time.replace(microsecond=0) for time in there["time"]}


def test_a_day_is_its_first_moment(scene, tmp_path):
    assert_read_alike(scene, written(tmp_path / "log.parquet", time=pa.array([13_000, None], pa.date32())))


@pytest.mark.parametrize(
    ("kind", "beyond"),
    daily([(pa.timestamp("us", "UTC"), -(2**63) + 1), (pa.date32(), 2**31 - 1), (pa.timestamp("ms"), 2**62)], 1),
)
def test_a_time_beyond_any_calendar_costs_its_own_row_alone(scene, tmp_path, kind, beyond):
    there = assert_read_alike(scene, written(tmp_path / "log.parquet", time=pa.array([beyond, 5], kind)))
    assert there["user"].to_list() == ["bob"]


TIMES = {
    "microseconds": pa.array([1_141_197_432 * 10**6, 2], pa.timestamp("us")),
    "nanoseconds": pa.array([1_141_197_432 * 10**9, 2000], pa.timestamp("ns")),
    "no values": pa.nulls(2),
}


def folder_of(tmp_path, first, second):
    """Two files with these times, Ann's and Bob's; Spark lists the first one first."""
    folder = tmp_path / "folder"
    folder.mkdir()
    written(folder / "a.parquet", user=["ann", "ann"], time=first)
    written(folder / "b.parquet", user=["bob", "bob"], time=second)
    return folder


HALVES = [("microseconds", None), (None, "nanoseconds"), ("no values", None)]


@pytest.mark.parametrize(("first", "second"), daily([*HALVES, *(half[::-1] for half in HALVES)], 2))
def test_a_column_that_only_some_files_have_is_read_where_it_is(scene, tmp_path, first, second):
    folder = folder_of(tmp_path, TIMES.get(first), TIMES.get(second))
    there, _ = on_spark(scene, folder)
    each = [read(path).frame for path in sorted(folder.iterdir())]
    assert sorted(there.rows(), key=repr) == sorted(pl.concat(each).rows(), key=repr)


@pytest.mark.parametrize(
    ("first", "second"),
    daily(
        [("no values", "microseconds"), ("nanoseconds", "microseconds"),
         ("microseconds", "no values"), ("nanoseconds", "no values")], 2,
    ),
)  # fmt: skip
def test_files_that_give_a_column_different_types_or_none_are_refused_in_one_line(
    scene, tmp_path, first, second, capfd
):
    said = r"^folder: the files differ in the type of column time: \w+ and \w+\."
    with pytest.raises(FormatError, match=said) as caught:
        on_spark(scene, folder_of(tmp_path, TIMES[first], TIMES[second]))
    assert "\n" not in str(caught.value)
    assert "exception" not in "".join(capfd.readouterr()).lower()


def test_numbers_are_no_times_even_beside_a_file_where_they_are(scene, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    written(folder / "a.parquet", time=pa.array([1, 2], pa.timestamp("ns")))
    on_spark(scene, folder)
    for kind in (pa.int64(), pa.timestamp("us")):
        written(folder / "b.parquet", time=pa.array([1, 2], kind))
        with pytest.raises(FormatError):
            on_spark(scene, folder)
    with pytest.raises(FormatError, match=r"type bigint, .*ISO 8601"):
        on_spark(scene, written(tmp_path / "log.parquet", time=pa.array([1, 2], pa.int64())))


ISO = ["2006-03-01", "2006-03-01T08:17:12,5+01:00", "2006-03-01 07:17Z", "", None, "0001-01-01 00:00:00.123456789"]


def test_times_and_ranks_as_text_are_parsed_alike(scene, tmp_path):
    many = {"user": ["ann"] * 6, "query": ["tulips"] * 6}
    assert_read_alike(
        scene, written(tmp_path / "log.parquet", **many, time=ISO, rank=["1", "", None, "007", "0", "4294967295"])
    )


def test_a_column_without_values_has_no_type_and_counts_as_absent(scene, tmp_path):
    nothing = pa.nulls(2)
    path = written(tmp_path / "log.parquet", time=nothing, rank=nothing, url=nothing, session=nothing, c=nothing)
    assert_read_alike(scene, path)
    there, report = on_spark(scene, written(tmp_path / "none.parquet", query=nothing))
    assert (there.height, report.notes) == (0, ("rows left out, column query: the query is empty: 2",))


def test_users_and_ranks_may_be_whole_numbers_of_any_width(scene, tmp_path):
    wide = pa.array([2**64 - 1, 7], pa.uint64())
    assert_read_alike(scene, written(tmp_path / "log.parquet", user=wide, rank=pa.array([7, None], pa.uint64())))


@pytest.mark.parametrize("column", ["rank", "user", *daily([("query",), ("time",)], 0)])
def test_a_type_that_does_not_fit_is_named_with_the_remedy(scene, tmp_path, column):
    with pytest.raises(FormatError, match=rf"log.parquet: column {column} has the type double, .* Write it as"):
        on_spark(scene, written(tmp_path / "log.parquet", **{column: [0.5, 1.5]}))
    from decimal import Decimal

    tenths = pa.array([Decimal("0.5"), Decimal("1.5")], pa.decimal128(5, 1))
    with pytest.raises(FormatError, match=r"decimal\(5,1\)"):
        on_spark(scene, written(tmp_path / "log.parquet", **{column: tenths}))


NO_NAMES = {
    "nanoseconds": TIMES["nanoseconds"],
    "microseconds": TIMES["microseconds"],
    "bytes": pa.array([b"ann", b"bob"]),
    "decimals": pa.array([1, 2], pa.decimal128(5, 0)),
    "times of day": pa.array([1, 2], pa.time64("ns")),
}


BOTH = [(kind, column) for column in ("user", "url") for kind in NO_NAMES]


@pytest.mark.parametrize(("kind", "column"), daily(BOTH[2::3] + BOTH[::3] + BOTH[1::3], 3))
def test_neither_reader_takes_times_bytes_or_decimals_for_names(scene, tmp_path, kind, column):
    path = written(tmp_path / "log.parquet", **{column: NO_NAMES[kind]})
    refused = rf"^log.parquet: column {column} has the type \w+(\(\S+\))?, which cannot be read as a {column}\."
    with pytest.raises(FormatError, match=refused):
        read(path)
    with pytest.raises(FormatError, match=refused):
        on_spark(scene, path)


def test_users_and_addresses_may_be_numbers_of_32_bits(scene, tmp_path):
    numbers = pa.array([2**31 - 1, -5], pa.int32())
    there = assert_read_alike(scene, written(tmp_path / "log.parquet", user=numbers, url=numbers))
    assert sorted(there["user"]) == sorted(there["url"]) == ["-5", "2147483647"]


def test_what_folders_are_called_stays_text(scene, tmp_path):
    folder = tmp_path / "log"
    for user in ("007", "7"):
        (folder / f"user={user}").mkdir(parents=True)
        written(folder / f"user={user}" / "a.parquet", user=None)
    there, _ = on_spark(scene, folder)
    assert sorted(there["user"]) == ["007", "007", "7", "7"]


# --- bad rows


def bad_rows(path):
    """A table that breaks every rule, with good rows between."""
    rows = [
        ("ann", "tulips", "2006-03-01", "1", "a.example", "x"),
        ("", "tulips", None, None, None, None),
        (None, "", None, None, None, None),
        ("bob", None, None, None, None, None),
        ("bob", "roses", "yesterday", "first", None, None),
        ("bob", "roses", None, "-1", None, None),
        ("bob", "roses", None, "4294967296", None, None),
        ("bob", "roses", "2006-02-30", None, None, None),
        ("bob", "r" * (LONGEST_FIELD + 1), None, None, None, None),
        ("bob", "é" * (LONGEST_FIELD // 2), None, None, None, None),
        ("bob", "roses", None, None, "u" * (LONGEST_FIELD + 1), None),
        ("bob", "roses", None, None, None, "c" * (LONGEST_FIELD + 1)),
        ("bob", "roses", "", "", "", ""),
    ]
    pl.DataFrame(rows, schema=["user", "query", "time", "rank", "url", "colour"], orient="row").write_parquet(path)
    return path


def test_both_readers_refuse_the_same_rows_for_the_same_reasons(scene, tmp_path):
    path = bad_rows(tmp_path / "log.parquet")
    _, report = read_with_report(path, most_problems=100)
    wanted = Counter(f"column {problem.column}: {problem.reason}" for problem in report.problems)
    with pytest.raises(FormatError, match=rf"^log.parquet: {sum(wanted.values())} of 13 rows") as caught:
        on_spark(scene, path, on_error="fail")
    told = re.findall(r"^  (.*): ([\d,]+) rows$", str(caught.value), re.MULTILINE)
    assert {reason: int(count) for reason, count in told} == wanted
    assert len(wanted) == 7
    assert not re.search("yesterday|tulips|roses|bob", str(caught.value))


def test_bad_rows_are_left_out_alike(scene, tmp_path):
    there = assert_read_alike(scene, bad_rows(tmp_path / "log.parquet"))
    assert there.height == 3
    assert "colour" in there.columns


@pytest.mark.parametrize(
    "values", daily([(pa.array([2**64 - 1, 1], pa.uint64()),), (pa.array([-1, 1]),), (pa.array([2**40, 1]),)], 1)
)
def test_a_number_that_is_no_rank_is_a_bad_row_and_never_shown(scene, tmp_path, values, capfd):
    path = written(tmp_path / "log.parquet", rank=values)
    assert assert_read_alike(scene, path)["user"].to_list() == ["bob"]
    with pytest.raises(FormatError, match=r"column rank: not a whole number below 2\^32: 1 rows"):
        on_spark(scene, path, on_error="fail")
    assert str(values[0].as_py()) not in "".join(capfd.readouterr())


def test_bytes_that_are_no_text_are_counted_and_left_out(scene, tmp_path):
    broken = pa.StringArray.from_buffers(
        2, pa.array([0, 2, 7], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfetulip")
    )
    path = written(tmp_path / "log.parquet", query=broken)
    with pytest.raises(FormatError, match="column query: not UTF-8: 1 rows"):
        on_spark(scene, path, on_error="fail")
    there, report = on_spark(scene, path)
    assert (there["query"].to_list(), report.problem_count) == (["tulip"], 1)
    assert report.notes == ("rows left out, column query: not UTF-8: 1",)


NOTHING = pa.array([], pa.string())


@pytest.mark.parametrize("columns", [{"user": ["", ""]}, {"user": NOTHING, "query": NOTHING}], ids=["bad rows", "none"])
def test_a_log_without_a_good_row_or_any_is_empty_and_so_is_its_release(scene, tmp_path, columns):
    path = written(tmp_path / "log.parquet", **columns)
    assert assert_read_alike(scene, path).height == 0
    ledger = Ledger.create(tmp_path / "ledger", epsilon=10_000, delta=0.5)
    made = [
        Suppress(),
        Microaggregate(),
        make("sanitize"),
        make("semantic", epsilon=1.0, per="query", domain="disease"),
        Stream(by_category=True),
        make("obfuscate", mechanism="vkr-mhl", epsilon=6.0),
    ]
    # Which of both it is makes no difference once the log is read: all are tried with each by `make soak`.
    for number, mechanism in enumerate(made if SOAK else made[:3] if "query" in columns else made[3:]):
        if SOAK or (not number and "query" in columns):
            looked = pipeline.dry_run(mechanism, pipeline.Source(path=path), Noise.seeded(5), engine=scene.cluster)
            assert len(looked.release.log) == 0
        name = f"{tmp_path.name}-{mechanism.name}"
        here, there = (
            scene.release(mechanism, path, f"{name}-{engine}", engine=engine, ledger=ledger.path)
            for engine in ("local", "spark")
        )
        assert (there / "log.csv").read_bytes() == (here / "log.csv").read_bytes()


# --- extra columns, exclusions


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("a.b", "jsonl"),
        *daily([(name, "parquet") for name in ("*", "tick`s`", "a.b", "User", "__block", "c", "^c.*$")], 2),
    ],
)
def test_a_category_column_of_any_name_serves_as_on_one_machine(scene, tmp_path, name, suffix):
    path = tmp_path / f"log.{suffix}"
    topics = [f"topic/{i % 2}" for i in range(120)]
    log = QueryLog.of([(f"user {i % 30}", f"query {i % 4}", dt.datetime(2006, 3, 1, 0, i % 60)) for i in range(120)])
    write(QueryLog(log.frame.with_columns(pl.Series("other", map(str, range(120))), pl.Series(name, topics))), path)
    mechanism = Stream(k=3, k_text=3, by_category=True, category_column=name)
    where = f"extra-{suffix}-{abs(hash(name))}"
    here = scene.release(mechanism, path, f"{where}-here", engine="local")
    there = scene.release(mechanism, path, f"{where}-there")
    assert_same(here, there)
    assert len(read(there / "log.csv")) > 20


def test_extra_columns_of_plain_types_travel_along_and_others_are_noted(scene, tmp_path):
    extras = {"n": [1, None], "yes": [True, False], "wide": pa.array([2**64 - 1, 1], pa.uint64())}
    left_out = {"half": [0.5, 1.5], "listed": [[1], [2]]}
    there, report = on_spark(scene, written(tmp_path / "log.parquet", **extras, **left_out))
    assert there.sort("user").select(*extras).rows() == [(1, True, "18446744073709551615"), (None, False, "1")]
    assert set(there.columns) == {"user", "query", "time", "rank", "url", "session", *extras}
    assert len(report.notes) == 1


def test_many_users_are_left_out_without_passing_through_python_rows(scene, tmp_path, monkeypatch):
    write(QueryLog.of([(f"user {i}", "weather") for i in range(50_000)]), tmp_path / "log.parquet")
    (tmp_path / "out.txt").write_text("\n".join(f"user {i}" for i in range(1, 50_010)))
    monkeypatch.setattr(type(scene.cluster.spark), "createDataFrame", None)
    source = pipeline.Source(path=tmp_path / "log.parquet", exclude_users=tmp_path / "out.txt")
    log, _, unknown = scene.cluster.read(source)
    assert (log.users().to_list(), len(log), unknown) == (["user 0"], 1, 10)
    (tmp_path / "out.txt").write_text("\n")
    assert len(scene.cluster.read(source)[0]) == 50_000


@pytest.mark.parametrize("declared", ["same", "different"])
def test_ids_that_may_be_one_person_are_noted_left_out_and_merged_as_on_one_machine(scene, tmp_path, declared):
    users = ("ann", "ANN ", "a\u200bnn", "Bob", "eve", "\u200b", "EVE")
    write(QueryLog.of([(user, "weather") for user in users]), tmp_path / "l.parquet")
    (tmp_path / "out.txt").write_text("Ann\nnobody\n")
    for some in (
        pipeline.Source(path=tmp_path / "l.parquet", similar_ids=declared),
        pipeline.Source(path=tmp_path / "l.parquet", similar_ids=declared, exclude_users=tmp_path / "out.txt"),
    ):
        (there, told, missing), (here, said, unknown) = scene.cluster.read(some), pipeline.read_source(some)
        assert there.table().collect()["user"].sort().equals(here.frame["user"].sort())
        assert there.users().to_list() == here.users().to_list()
        assert (len(there), there.user_count(), there.similar_ids) == (len(here), here.user_count(), declared)
        assert (told.notes, missing) == (said.notes, unknown)
        fewer, as_few = (log.without_users(["eve"]) for log in (there, here))
        assert (fewer.users().to_list(), len(fewer)) == (as_few.users().to_list(), len(as_few))
    assert missing == 1


def test_a_release_of_merged_people_is_the_same_from_spark(scene, tmp_path):
    shapes = [pl.col("user").str.to_uppercase(), pl.col("user") + " ", pl.col("user")]
    log = synthetic.synth(users=60, records=2_000, seed=2).frame
    chosen = (pl.when(pl.int_range(pl.len()) % 3 == place).then(shape) for place, shape in enumerate(shapes))
    mixed = log.with_columns(pl.coalesce(chosen).alias("user"))
    write(QueryLog(mixed), tmp_path / "log.parquet")
    (tmp_path / "out.txt").write_text(f" {log['user'][0].upper()}\n")
    for declared in (None, "different"):
        here, there = (
            scene.release(
                Suppress(k_text=3), tmp_path / "log.parquet", f"merged-{declared}-{engine}", engine=engine,
                similar_ids=declared, excluded=tmp_path / "out.txt",
            )
            for engine in ("local", "spark")
        )  # fmt: skip
        assert_same(here, there)
        known = secrets.read(there.with_suffix(".secrets"))
        gone = mixed["user"].str.to_lowercase().str.strip_chars() == log["user"][0]
        people = (log if declared is None else mixed).filter(~gone)["user"]
        assert (known.original["users"], known.original["records"]) == (people.n_unique(), len(people))


def test_all_columns_come_through_either_way(scene, tmp_path):
    log = QueryLog.of(WITH_ALL)
    for name in ("log.parquet", "log.jsonl"):
        write(log, tmp_path / name)
        assert sorted(on_spark(scene, tmp_path / name)[0].rows(), key=repr) == sorted(log.frame.rows(), key=repr)
