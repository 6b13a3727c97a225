"""DuckDB: `duckdb:logs.db?table=queries` or `duckdb:logs.db?query=SELECT …`, through the ADBC driver of its package.

A file is opened for reading only, and nothing outside it can be reached from a query. A copy may go into a new file.
"""

from __future__ import annotations

import os
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

        self._require_place(writes=writes)
        options = {"path": str(self._path), "enable_external_access": "false"}
        if not writes:
            options["access_mode"] = "READ_ONLY"
        return dbapi.connect(adbc_driver_duckdb.driver_path(), entrypoint="duckdb_adbc_init", db_kwargs=options)

    def _require_place(self, *, writes: bool) -> None:
        if writes and self._path.is_symlink():
            raise UsageError(f"duckdb: {self._path.name} is a symbolic link. A copy goes to the file itself.")
        new = writes and not self._path.exists() and self._path.absolute().parent.is_dir()
        if not new and not self._path.is_file():
            raise UsageError(f"duckdb: {self._path.name} cannot be opened; there is no such file.")

    def check_free(self) -> None:
        """As elsewhere; a file that is not there is not made for it."""
        if self._query or self._path.exists():
            super().check_free()
            return
        self._require_place(writes=True)
        with self._in_our_words():
            import adbc_driver_duckdb  # noqa: F401 -- whether it is installed
        if not os.access(self._path.absolute().parent, os.W_OK):
            raise UsageError(f"duckdb: {self._path.name} cannot be made there; the folder may not be written to.")

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
