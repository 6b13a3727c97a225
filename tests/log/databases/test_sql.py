"""Tables and queries of DuckDB and PostgreSQL: columns say what a row means, and a bad row costs itself."""

import datetime as dt
import random
import uuid

import polars as pl
import pytest

from hostile import HOSTILE_TEXTS
from queryveil.errors import EngineError, FormatError, QueryVeilError, UsageError, VerificationError
from queryveil.log import QueryLog, read, read_with_report
from queryveil.log.databases import database
from queryveil.log.databases.sql import quoted
from queryveil.log.formats import Declared, Findings
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.release.copies import copy, verify_copy

SECRET = "chlamydia in portland"
NOON = dt.datetime(2026, 3, 1, 12, 0, 0, 250_000)


class Tables:
    """One of the databases, with SQL run in it and addresses into it."""

    def __init__(self, kind, connect, address):
        self.kind, self._connect, self.address = kind, connect, address

    def run(self, *statements):
        with self._connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def table(self, columns, *rows):
        """The address of a new table."""
        name = f"t{uuid.uuid4().hex[:8]}"
        self.run(f"CREATE TABLE {name} ({columns})", *(f"INSERT INTO {name} VALUES {row}" for row in rows))
        return self.address(name)


@pytest.fixture(params=["duckdb", pytest.param("postgres", marks=pytest.mark.service("postgresql"))])
def tables(request, tmp_path):
    if request.param == "postgres":
        server = request.getfixturevalue("postgres")
        return Tables("postgres", server.connect, server.address)
    import adbc_driver_duckdb.dbapi

    def address(table=None, *, query=None):
        return f"duckdb:{tmp_path / 'logs.db'}?" + (f"table={table}" if table else f"query={query}")

    return Tables("duckdb", lambda: adbc_driver_duckdb.dbapi.connect(str(tmp_path / "logs.db")), address)


def test_columns_are_told_by_name_and_brought_by_type(tables):
    person = uuid.uuid4()
    address = tables.table(
        'uid uuid, "Query" varchar(40), "time" timestamp with time zone, "rank" numeric(12, 0), "url" text, shop text, '
        "amount double precision, bought date, tags text[]",
        f"('{person}', 'tulips', '2026-03-01 13:00:00.25+01', 3, 'a.example', 'north', 1.5, '2026-03-01', ARRAY['x'])",
    )
    log, report = read_with_report(address, columns={"user": "uid"})
    assert log.frame.rows(named=True) == [
        {
            "user": str(person),
            "query": "tulips",
            "time": NOON,
            "rank": 3,
            "url": "a.example",
            "session": None,
            "shop": "north",
            "amount": 1.5,
        }
    ]
    assert report.format == tables.kind
    assert report.notes == ("other columns that are not text, numbers or truth values were left out: 2",)


def test_a_bad_row_costs_itself_and_is_told_by_number(tables):
    address = tables.table(
        '"user" bigint, query text, "time" timestamp, "rank" bigint',
        "(1, 'tulips', '2026-03-01', 1)",
        f"(NULL, '{SECRET}', NULL, NULL)",
        "(3, '', NULL, NULL)",
        "(4, 'roses', 'infinity', NULL)",
        "(5, 'roses', '-infinity', NULL)",
        "(6, 'roses', NULL, -1)",
        "(7, 'roses', NULL, 4294967296)",
        "(8, 'roses', NULL, 4294967295)",
    )
    log, report = read_with_report(address)
    assert sorted(log.frame["user"]) == ["1", "8"]
    assert [(problem.line, problem.column) for problem in report.problems] == [
        (2, "user"), (3, "query"), (4, "time"), (5, "time"), (6, "rank"), (7, "rank"),
    ]  # fmt: skip
    with pytest.raises(FormatError, match="6 of 8 rows cannot be read") as refusal:
        read(address, on_error="fail")
    assert SECRET not in str(refusal.value)


def test_a_log_is_a_function_of_its_rows_and_not_of_their_order(tables):
    rows = [f"('{user}', '{query}', '2026-03-{day:02}')" for user in "ab" for query in "xyz" for day in (1, 2)]
    shuffled = random.Random(7).sample([*rows, rows[0]], k=len(rows) + 1)
    columns = '"user" text, query text, "time" timestamp'
    one, other = (read(tables.table(columns, *some)) for some in ([rows[0], *rows], shuffled))
    assert one == other
    assert len(one) == len(rows) + 1


def test_hostile_texts_come_and_go_as_they_are(tables):
    texts = [text for text in HOSTILE_TEXTS if text and "\0" not in text]
    log = QueryLog(pl.DataFrame({"user": texts, "query": texts[::-1], "url": texts, "shop": texts}))
    for name in ("plain", 'we"ird; DROP TABLE plain', "sélect"):
        target = database(tables.address(f"{name}{uuid.uuid4().hex[:6]}"))
        target.check_free()
        target.write(log)
        found = Findings(5)
        back = QueryLog(target.read(found, Declared()))
        assert found.problem_count == 0
        order = ["user", "query"]
        assert back.frame.sort(order).equals(log.frame.sort(order).select(back.frame.columns))
        with pytest.raises(UsageError, match="there already"):
            target.write(log)


@pytest.mark.parametrize("column", ["text", "text[]", "timestamp", "binary", "date"])
def test_a_copy_with_a_column_more_is_not_the_release_s_whatever_its_type(tables, column, tmp_path):
    log = QueryLog.of([(f"u{number}", "tulips") for number in range(5)])
    folder = make("suppress", k_text=2).protect(log, Noise.secure()).write(tmp_path / "release")
    name = f"t{uuid.uuid4().hex[:8]}"
    copy(folder, tables.address(name))
    verify_copy(folder, tables.address(name))
    kind = {"binary": "BLOB" if tables.kind == "duckdb" else "bytea"}.get(column, column)
    tables.run(f"ALTER TABLE {name} ADD COLUMN real_name {kind}")
    with pytest.raises(VerificationError, match="columns that this release does not have"):
        verify_copy(folder, tables.address(name))


def test_a_query_reads_and_does_nothing_else(tables, tmp_path):
    address = tables.table('"user" text, query text', f"('ann', '{SECRET}')", "('bob', 'a&b+c%20d')")
    name = address.rpartition("=")[2]
    kept = read(tables.address(query=f"SELECT \"user\" AS uid, query FROM {name} WHERE query LIKE 'a&b+c%20d'"),
                columns={"user": "uid"})  # fmt: skip
    assert kept.frame["user"].to_list() == ["bob"]
    outside = tmp_path / "outside.csv"
    for sql in (
        f"DROP TABLE {name}",
        f"SELECT 1) AS asked; DROP TABLE {name}; --",
        f"DELETE FROM {name} RETURNING *",
        f"SELECT * FROM {name}) AS asked; COMMIT; DROP TABLE {name}; SELECT * FROM (SELECT 1",
        f"SELECT * FROM read_csv('{outside}')",
        f"SELECT 1 / (CASE WHEN query = '{SECRET}' THEN 0 ELSE 1 END) AS \"user\", query FROM {name}",
        f'SELECT CAST(query AS integer) AS "user", query FROM {name}',
    ):
        with pytest.raises(QueryVeilError) as refusal:
            read(tables.address(query=sql))
        assert SECRET not in str(refusal.value)
        assert name not in str(refusal.value)
    assert len(read(address)) == 2
    assert not outside.exists()


def test_what_cannot_be_read_as_a_log_is_refused_by_the_columns_alone(tables):
    with pytest.raises(FormatError, match="no column for query"):
        read(tables.table('"user" text, words text'))
    with pytest.raises(FormatError, match="column user has the type Float64"):
        read(tables.table('"user" double precision, query text'))
    if tables.kind == "postgres":  # DuckDB gives the second one another name
        with pytest.raises(FormatError, match="two columns have the same name"):
            read(tables.address(query="SELECT 'a' AS \"user\", 'b' AS query, 'c' AS query"))
    with pytest.raises(EngineError, match="no such table"):
        read(tables.address("nowhere"))
    assert len(read(tables.table('"user" text, query text'))) == 0
    with pytest.raises(UsageError, match="said of a file"):
        read(tables.address("nowhere"), format="csv")
    with pytest.raises(UsageError, match="a copy goes into a table"):
        database(tables.address(query="SELECT 1")).check_free()


def test_addresses_that_are_none(tmp_path):
    for wrong, said in (
        ("duckdb:x.db", "one of table=NAME, query=SQL"),
        ("duckdb:x.db?table=", "table is empty"),
        ("duckdb:x.db?table=a&table=b", "table twice"),
        ("duckdb:x.db?table=a&colour=red", "colour is not known"),
        ("duckdb:x.db?table=a..b", "no name of a table"),
        ("duckdb:x.db?table=a.b.c.d", "at most 3 parts"),
        ("duckdb:?table=a", "names no file"),
        ("duckdb::memory:?table=a", "names no file"),
    ):
        with pytest.raises(UsageError, match=said):
            read(wrong)
    with pytest.raises(UsageError, match="no such file"):
        read(f"duckdb:{tmp_path}/none.db?table=a")
    (tmp_path / "text.db").write_text("a,b\n" * 5000)
    with pytest.raises(EngineError, match="no file of DuckDB"):
        read(f"duckdb:{tmp_path}/text.db?table=a")


@pytest.mark.parametrize(
    "address",
    [
        "postgres://ann:hunter2@127.0.0.1/shop?table=queries",
        "postgres:?password=hunter2&table=queries",
        "postgresql://ann@127.0.0.1/shop?sslpassword=hunter2&table=queries",
        "opensearch:https://ann:hunter2@127.0.0.1:9200?queries=a&events=b",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(address):
    with pytest.raises(UsageError, match="holds a password") as refusal:
        read(address)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.service("postgresql")
def test_postgres_takes_the_password_from_where_libpq_looks(postgres, tmp_path, monkeypatch):
    with postgres.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE asked LOGIN PASSWORD '{postgres.PASSWORD}'")
        connection.commit()
    query = "query=SELECT 'ann' AS uid, 'tulips' AS query"
    address = f"postgres://asked@127.0.0.1:{postgres.port}/postgres?{query}"
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    wrong = "wrong-password"
    for variables in ({}, {"PGPASSWORD": wrong}):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(EngineError, match="postgres, query") as refusal:
            read(address, columns={"user": "uid"})
        assert wrong not in str(refusal.value)
    monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
    assert read(address, columns={"user": "uid"}).queries() == ["tulips"]
    monkeypatch.delenv("PGPASSWORD")
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:{postgres.port}:*:asked:{postgres.PASSWORD}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    assert read(address, columns={"user": "uid"}).queries() == ["tulips"]
    service = tmp_path / "services"
    service.write_text(f"[shop]\nhost=127.0.0.1\nport={postgres.port}\nuser=asked\ndbname=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    assert read(f"postgres:?service=shop&{query}", columns={"user": "uid"}).queries() == ["tulips"]


@pytest.mark.service("postgresql")
def test_a_connection_that_breaks_off_is_not_told_as_one_that_was_never_made(postgres):
    with pytest.raises(EngineError, match="postgres, query: ") as refusal:
        read(postgres.address(query="SELECT pg_terminate_backend(pg_backend_pid())::text AS \"user\", 'q' AS query"))
    assert "lets us in" not in str(refusal.value)
    with pytest.raises(EngineError, match="no server lets us in"):
        read("postgres://holder@127.0.0.1:1/postgres?table=queries")


@pytest.mark.service("postgresql")
def test_postgres_without_an_encoding_is_refused_and_a_nul_is_told_by_row(postgres):
    with postgres.connect() as connection, connection.cursor() as cursor:
        connection.adbc_connection.set_autocommit(True)
        cursor.execute("CREATE DATABASE anything TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(FormatError, match="SQL_ASCII"):
        read(postgres.address("queries", database="anything"))
    log = QueryLog.of([("ann", "tulips"), ("bob", f"{SECRET}\0")])
    with pytest.raises(FormatError, match="row 2, column query: a NUL") as refusal:
        database(postgres.address("nul")).refuse_what_is_lost(log)
    assert SECRET not in str(refusal.value)


def test_names_are_quoted():
    assert quoted('a"b') == '"a""b"'
