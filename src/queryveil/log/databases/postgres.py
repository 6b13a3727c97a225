"""PostgreSQL: `postgres://holder@host/shop?table=queries`, or `postgres:?service=shop&query=SELECT …`, through ADBC.

What stands before the `?`, and options other than `table` and `query`, go to libpq as they are, and so count its
variables and files: `PGPASSWORD`, `~/.pgpass`, `PGSERVICE`. A text of SQL_ASCII may be anything, so that one row could
stop all others from being read: such a database is refused.
"""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import urlencode

from queryveil.errors import EngineError, FormatError
from queryveil.log.databases.address import Address
from queryveil.log.databases.sql import SqlDatabase, fetched
from queryveil.log.formats import Rule
from queryveil.log.query_log import exactly


class Postgres(SqlDatabase):
    """A table or query of one database."""

    kind: ClassVar[str] = "postgres"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        options = {name: value for name, value in address.options.items() if name not in ("table", "query")}
        self._uri = f"postgresql:{address.place or '//'}?{urlencode({'application_name': 'queryveil', **options})}"

    def _connection(self, *, writes: bool) -> Any:
        from adbc_driver_postgresql import dbapi

        try:
            connection = dbapi.connect(self._uri)
        except dbapi.Error:  # without a code: it comes from libpq, before a server has one
            told = "no server lets us in there. Does it run, and are host, name and password right?"
            raise EngineError(f"{self.kind}, {self.title}: {told}") from None
        try:
            with connection.cursor() as cursor:
                if not writes:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                if fetched(cursor, "SELECT current_setting('server_encoding')").item() == "SQL_ASCII":
                    raise FormatError("the database has the encoding SQL_ASCII, in which text may be anything.")
        except BaseException:
            connection.close()
            raise
        return connection

    def _rules(self, column: str) -> list[Rule]:
        return [Rule(column, "a NUL, which PostgreSQL cannot keep", exactly(column).str.contains("\0", literal=True))]

    def _told(self, error: Exception) -> str:
        state = getattr(error, "sqlstate", None)
        if not state:
            return "the connection broke off, or the driver cannot read what came. Its words may quote data"
        return f"{_REASONS.get(state, 'the database refused')} (SQLSTATE {state})"


_REASONS = {
    "25006": "a query may only read",
    "28000": "the name is not let in",
    "28P01": "the name and password do not fit",
    "3D000": "there is no such database",
    "3F000": "there is no such schema",
    "42501": "the name lacks the right to do this",
    "42601": "the query is not SQL, or more than one statement",
    "42703": "the query names a column that does not exist",
    "42P01": "there is no such table",
    "42P07": "the table is there already",
    "53100": "no room left on the server's disk",
}
"""What a code of SQL's standard means here."""
