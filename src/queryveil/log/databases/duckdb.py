"""DuckDB: `duckdb:logs.db?table=queries` or `duckdb:logs.db?query=SELECT …`, through the ADBC driver of its package.

A file is opened for reading only, and nothing outside it can be reached from a query. A copy may go into a new file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from queryveil.errors import UsageError
from queryveil.log.databases.address import Address
from queryveil.log.databases.sql import SqlDatabase


class DuckDB(SqlDatabase):
    """A table or query of one file."""

    kind: ClassVar[str] = "duckdb"

    def __init__(self, address: Address) -> None:
        address.only(("table", "query"))
        super().__init__(address)
        if not address.place or address.place.startswith(":"):
            raise UsageError("duckdb: the address names no file. It looks like duckdb:logs.db?table=queries.")
        self._path = Path(address.place)

    def _connection(self, *, writes: bool) -> Any:
        import adbc_driver_duckdb
        from adbc_driver_manager import dbapi

        there = self._path.is_file()
        if not there and (not writes or self._path.exists() or not self._path.absolute().parent.is_dir()):
            raise UsageError(f"duckdb: {self._path.name} cannot be opened; there is no such file.")
        options = {"path": str(self._path), "enable_external_access": "false"}
        if not writes:
            options["access_mode"] = "READ_ONLY"
        return dbapi.connect(adbc_driver_duckdb.driver_path(), entrypoint="duckdb_adbc_init", db_kwargs=options)

    def _told(self, error: Exception) -> str:
        said = str(error)
        for sign, reason in _REASONS.items():
            if sign in said:
                return reason
        return "the database refused; its words are not shown, since they may quote data"


_REASONS = {
    "already exists": "the table is there already",
    "does not exist": "there is no such table, or the query names something that does not exist",
    "read-only": "a query may only read",
    "Permission Error": "a query may reach nothing outside the database",
    "Could not set lock": "the file is open elsewhere. Close it there first",
    "not a valid DuckDB": "this is no file of DuckDB",
    "Parser Error": "the query is not SQL that DuckDB understands",
    "No space left": "no room left on the disk",
}
"""Signs in DuckDB's messages, which have no codes, and what is told in their place."""
