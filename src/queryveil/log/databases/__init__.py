"""One file a kind of database that a log is read from and a release's log is copied to; `database` finds them.

An address names one: `duckdb:logs.db?table=queries`, `postgres://holder@host/shop?table=queries`,
`opensearch:https://host:9200?queries=ubi_queries&events=ubi_events`. Third parties add theirs through the entry-point
group `queryveil.databases`: a name and what makes a `Database` of an `Address`. Each is loaded when it is asked for.

>>> database("log.tsv") is None, database("/data/duckdb:log.tsv") is None
(True, True)
>>> database("duckdb:logs.db?table=queries").title
'queries'
"""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

from queryveil.log.databases.address import Address as Address
from queryveil.log.databases.database import Database as Database
from queryveil.plugins import installed

BUILT_IN = {
    "duckdb": "queryveil.log.databases.duckdb:DuckDB",
    "postgres": "queryveil.log.databases.postgres:Postgres",
    "postgresql": "queryveil.log.databases.postgres:Postgres",
    "opensearch": "queryveil.log.databases.opensearch:OpenSearch",
    "elasticsearch": "queryveil.log.databases.opensearch:OpenSearch",
}
ENTRY_POINTS = "queryveil.databases"


def database(place: str | Path) -> Database | None:
    """The database of an address, with nothing asked of it yet; None where the place is a file or another address."""
    kind, colon, _ = str(place).partition(":")
    if not colon or not kind.isalnum():
        return None
    if kind in BUILT_IN:
        entry = EntryPoint(kind, BUILT_IN[kind], ENTRY_POINTS)
    else:
        third_party = {entry.name: entry for entry in installed(ENTRY_POINTS)}
        if kind not in third_party:
            return None
        entry = third_party[kind]
    made: Database = entry.load()(Address.parse(str(place)))
    return made
