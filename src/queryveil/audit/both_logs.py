"""The records of the raw log and of the release in one table, text by text: what counting attacks and measures read.

A figure that counts texts, or records by their text, can be made of a block of texts at a time, as long as a block has
all records of a text in both logs: the counts of all blocks add up to those of the logs. `both_logs` makes such a
table, in memory as one block, on disk (`queryveil.log.spilled_log`) in as many as the memory asks for; `summed` adds up
what is counted in each. So there is one way to count, and a log that outgrows the memory gives the same figures.

>>> from queryveil.log import QueryLog
>>> raw = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "my rash")])
>>> both = both_logs(raw, QueryLog.of([("u1", "weather"), ("u2", "storm")]))
>>> text_counts(both).sort("given", "released").rows()
[(0, 1, 1), (1, 0, 1), (2, 1, 1)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import polars as pl

from queryveil.log import COLUMNS, QueryLog
from queryveil.log.identifying import representatives
from queryveil.log.query_log import LocalTable, Schema, Table, exactly

RELEASED: Final = "__released"
OWNER, RECEIVER = "__owner", "__receiver"
"""Who asked a released record and whose name it carries: hidden columns of a release on disk."""
BOTH: Final[Schema] = {
    **{name: COLUMNS[name] for name in ("user", "query", "rank", "url")}, OWNER: pl.String(), RELEASED: pl.Boolean()
}  # fmt: skip
PAIRS: Final[Schema] = {"given": pl.Int64(), "released": pl.Int64(), "number": pl.Int64()}


def both_logs(original: QueryLog, released: QueryLog, owners: pl.Series | None = None) -> Table:
    """`owners` tells who asked each released record, as the raw log names them; a release on disk has them with it."""

    def pieces() -> Iterator[pl.DataFrame]:
        nobody = pl.lit(None, dtype=pl.String).alias(OWNER)
        columns = [name for name in BOTH if name in COLUMNS]
        for rows in original.rows(*columns):
            yield rows.with_columns(nobody, pl.lit(False).alias(RELEASED))
        if released.outgrows_memory and hidden(released, OWNER):
            for rows in released.rows(*columns, OWNER):
                yield rows.with_columns(known_as_in(original, rows[OWNER]), pl.lit(True).alias(RELEASED))
            return
        told = nobody if owners is None else owners.cast(pl.String).alias(OWNER)
        for rows in released.rows(*columns):
            yield rows.with_columns(told, pl.lit(True).alias(RELEASED))

    larger = max((original, released), key=lambda log: (log.outgrows_memory, len(log)))
    return larger.table_beside(pieces(), BOTH, "query")


def hidden(log: QueryLog, name: str) -> bool:
    """Whether the records of a log on disk have a hidden column."""
    return name in log.hidden().collect_schema()


def known_as_in(original: QueryLog, people: pl.Series) -> pl.Series:
    """People as the raw log names them, which has one id for those that are written alike where they were merged."""
    return representatives(people) if original.similar_ids == "same" else people


def by_user(log: QueryLog) -> Table:
    """The records of a log, for work on a block of people at a time; in memory all are one block."""
    columns = (*COLUMNS, *log.extra_columns)
    if log.outgrows_memory:
        return log.table(*log.extra_columns)
    return LocalTable(log.frame.select(map(exactly, columns)), blocks=1)


def sides(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Those of the raw log, and those of the release."""
    return rows.filter(~pl.col(RELEASED)), rows.filter(RELEASED)


def summed(table: Table, key: str, count: Callable[[pl.DataFrame], Mapping[str, int]]) -> dict[str, int]:
    """What is counted in each block of a column, added up."""
    names = list(count(pl.DataFrame(schema=table.schema)))
    schema = dict.fromkeys(names, pl.Int64())
    made = table.map_blocks(key, lambda _, rows: pl.DataFrame([dict(count(rows))], schema=schema), schema, _sums)
    return {name: int(made.collect()[name].sum()) for name in names}


def _sums(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sum()


def text_counts(both: Table) -> pl.DataFrame:
    """`given`, `released`, `number`: how many texts are in so many records of either log."""
    return pair_counts(both, ["query"])


def pair_counts(both: Table, columns: list[str]) -> pl.DataFrame:
    """The same of what some columns hold together, `query` among them; records without a value count for nothing."""

    def counted(_: int, rows: pl.DataFrame) -> pl.DataFrame:
        released = pl.col(RELEASED).sum().cast(pl.Int64).alias("released")
        found = rows.drop_nulls(columns).group_by(columns).agg(pl.len().cast(pl.Int64).alias("given"), released)
        return _numbers(found.select(pl.col("given") - pl.col("released"), "released", number=1))

    return _numbers(both.map_blocks("query", counted, PAIRS, _numbers).collect())


def _numbers(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("given", "released").agg(pl.col("number").sum().cast(pl.Int64)).sort("given", "released")


def sizes(table: Table, count: Callable[[pl.DataFrame], pl.Series]) -> pl.Series:
    """What is counted of the people of each block, one number each, sorted."""
    schema: Schema = {"size": pl.Int64(), "number": pl.Int64()}

    def counted(_: int, rows: pl.DataFrame) -> pl.DataFrame:
        return _size_numbers(count(rows).rename("size").to_frame().select(pl.col("size").cast(pl.Int64), number=1))

    found = _size_numbers(table.map_blocks("user", counted, schema, _size_numbers).collect())
    return found.select(pl.col("size").repeat_by("number").explode(empty_as_null=False))["size"]


def _size_numbers(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("size").agg(pl.col("number").sum().cast(pl.Int64)).sort("size")
