"""Tables and queries of SQL databases through ADBC, whose rows come and go as Arrow, without a detour over Python.

What a row means follows from the names and types of the columns, never from rows. Names count as in Parquet
(`formats/column_names.py`). Users, queries, urls and sessions may have any type that the database itself writes as one
text (a UUID, an address, a decimal). Other columns travel along where they are text, whole numbers, floats or truth
values.

A query is run in a transaction that cannot write to tables. A copy goes into a new table in one transaction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import polars as pl

from queryveil.errors import EngineError, FormatError, QueryVeilError, UsageError
from queryveil.log.databases.address import Address
from queryveil.log.formats import Declared, Findings, Rule, refuse_what_is_lost
from queryveil.log.formats.column_names import Names, columns_to_write, match_names
from queryveil.log.formats.parquet import records_of_table
from queryveil.log.query_log import COLUMNS, QueryLog, exactly

_WRITTEN_AS_TEXT = (pl.Binary, pl.Decimal, pl.BaseExtension)
_MOST_PARTS = 3  # catalog, schema, table


class SqlDatabase(ABC):
    """A table or a query of a database that ADBC reaches."""

    kind: ClassVar[str]
    file_format: ClassVar[str] = "parquet"
    columns_are_fixed: ClassVar[bool] = False

    def __init__(self, address: Address) -> None:
        options = address.options
        if ("table" in options) == ("query" in options):
            raise UsageError(f"{self.kind}: say what to read with one of table=NAME, query=SQL.")
        self._address, self._query = address, options.get("query")
        self._table = options.get("table", "").split(".")
        if "\0" in "".join(options.values()) or not (self._query or all(self._table)):
            raise UsageError(f"{self.kind}: this is no name of a table. Names look like queries or shop.queries.")
        if len(self._table) > _MOST_PARTS:
            raise UsageError(f"{self.kind}: a table's name has at most {_MOST_PARTS} parts. Quote nothing in it.")

    @property
    def title(self) -> str:
        """The table's own name."""
        return self._table[-1] or "query"

    @abstractmethod
    def _connection(self, *, writes: bool) -> Any:
        """A connection of ADBC, in a transaction; without `writes`, one that cannot change anything."""

    @abstractmethod
    def _told(self, error: Exception) -> str:
        """Why the database failed, in words that hold nothing of its data."""

    @contextmanager
    def _connected(self, *, writes: bool = False) -> Iterator[Any]:
        """A cursor."""
        with self._in_our_words(), self._connection(writes=writes) as connection, connection.cursor() as cursor:
            yield cursor

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        """What fails is told in our own words: a driver's may quote the data or the query."""
        try:
            yield
        except QueryVeilError:
            raise
        except ImportError:
            missing = f"{self.kind} needs a package that is not installed. Install queryveil[{self.kind}]."
            raise UsageError(missing) from None
        except (pl.exceptions.DuplicateError, pl.exceptions.PanicException):  # it panics where there is no row
            raise FormatError(f"{self.title}: two columns have the same name. Rename one of them.") from None
        except Exception as error:
            raise EngineError(f"{self.kind}, {self.title}: {self._told(error)}.") from None

    def read(self, found: Findings, declared: Declared) -> pl.DataFrame:
        """Every row with a user and a query."""
        rows_of = self._rows_of()
        with self._connected() as cursor:
            schema = fetched(cursor, f"SELECT * FROM {rows_of} LIMIT 0").schema
            names = _that_travel(match_names(list(schema), declared.columns, found), schema, found)
            chosen = ", ".join(_selected(theirs, ours, schema[theirs]) for theirs, ours in names.inside.items())
            table = fetched(cursor, f"SELECT {chosen} FROM {rows_of}")
        return records_of_table(table, names, found)

    def columns(self) -> list[str]:
        """By the schema, whatever their types."""
        with self._connected() as cursor:
            schema = fetched(cursor, f"SELECT * FROM {self._rows_of()} LIMIT 0").schema
        names = match_names(list(schema), {}, Findings(1))
        return [names.outside.get(ours, ours) for ours in names.inside.values()]

    def _rows_of(self) -> str:
        return f"(\n{self._query}\n) AS asked" if self._query else ".".join(map(quoted, self._table))

    def check_free(self) -> None:
        """The table must not be there, and the database must let somebody in."""
        if self._query:
            raise UsageError(f"{self.kind}: a copy goes into a table. Say which with table=NAME.")
        with self._connected(writes=True) as cursor:
            self._refuse_existing(cursor)

    def _refuse_existing(self, cursor: Any) -> None:
        *schema, table = (f"'{part.replace(chr(39), chr(39) * 2)}'" for part in self._table)
        where = f"table_schema = {schema[-1]}" if schema else f"table_schema = {self.own_schema}"
        known = f"SELECT 1 FROM information_schema.tables WHERE table_name = {table} AND {where}"
        if fetched(cursor, known).height:
            raise UsageError(f"{self.title} is there already; a copy never overwrites anything. Choose another table.")

    own_schema: ClassVar[str] = "current_schema()"

    def refuse_what_is_lost(self, log: QueryLog) -> None:
        """Texts and whole numbers can be kept everywhere, but for what a database says itself."""
        schema = log.lazy().collect_schema()
        kept = [name for name, dtype in schema.items() if name in COLUMNS or dtype == pl.String or dtype.is_integer()]
        rules = [rule for name in kept if schema[name] == pl.String for rule in self._rules(name)]
        refuse_what_is_lost(log, self.kind, columns=kept, instead=None, rules=rules)

    def _rules(self, column: str) -> list[Rule]:
        return []

    def write(self, log: QueryLog) -> None:
        """A new table with the columns in use."""
        *schema, table = self._table
        places = dict(zip(("db_schema_name", "catalog_name"), reversed(schema), strict=False))
        rows = log.frame.select(map(exactly, columns_to_write(log)))
        with self._connected(writes=True) as cursor:
            self._refuse_existing(cursor)
            cursor.adbc_ingest(table, rows, mode="create", **places)
            cursor.connection.commit()


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever it holds.

    >>> quoted('user"; DROP TABLE queries; --')
    '"user""; DROP TABLE queries; --"'
    """
    return '"' + name.replace('"', '""') + '"'


def fetched(cursor: Any, sql: str) -> pl.DataFrame:
    """What a statement answers."""
    cursor.execute(sql)
    return pl.DataFrame(cursor.fetch_arrow())


def _selected(theirs: str, ours: str, dtype: pl.DataType) -> str:
    if ours in COLUMNS and ours != "time" and isinstance(dtype, _WRITTEN_AS_TEXT):
        return f"CAST({quoted(theirs)} AS TEXT) AS {quoted(theirs)}"
    return quoted(theirs)


def _that_travel(names: Names, schema: pl.Schema, found: Findings) -> Names:
    """Without extra columns of other types: a list, or a time beyond the calendar, could stop a whole log later."""
    left_out = {
        ours
        for theirs, ours in names.inside.items()
        if ours not in COLUMNS
        and not (schema[theirs] in (pl.String, pl.Boolean) or schema[theirs].is_integer() or schema[theirs].is_float())
    }
    if left_out:
        found.note("other columns that are not text, numbers or truth values were left out", len(left_out))
    inside = {theirs: ours for theirs, ours in names.inside.items() if ours not in left_out}
    return replace(names, inside=inside, outside={k: v for k, v in names.outside.items() if k not in left_out})
