"""Yandex's click logs of two challenges, in which queries, terms and URLs are numbers. Read only.

`yandex` is that of the Relevance Prediction Challenge (2011), in which nobody is named; the session stands for a user,
and a release that promises something to a person is refused:

    SessionID  TimePassed  Q  QueryID  RegionID  URLID …        SessionID  TimePassed  C  URLID

`yandex-personal` is that of the Personalized Web Search Challenge (2013), where a line says whose session it is:

    SessionID  M  Day  USERID
    SessionID  TimePassed  Q  SERPID  QueryID  TermID,…  URLID,DomainID …
    SessionID  TimePassed  C  SERPID  URLID

All are tab separated. A query with clicks is a record for each of them, with the place of the URL in its list for the
rank. In the first, a click says not which query it is of: it counts for the last one before it in its session that
showed the URL. In the second, a test query (T) is a query. The query is its id, or, declared as `terms`, the ids of its
terms with blanks between, which a mechanism that works on words can use. `TimePassed` counts units that were never
disclosed, so that no record has a time.

What belongs together is told by ids of sessions, which the engine gave out: lines of other sessions change nothing.

Cost: memory in the number of lines, since a session may be anywhere in the file.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl

from queryveil.errors import UsageError
from queryveil.log.formats.format import Declared, Findings, Format, Rule, rules_for_all, stray_returns
from queryveil.log.source import LINE, Block, LogFile

COLUMNS = ("user", "query", "rank", "url")
NOBODY = "no line says who asked: the session stands for a user, and nothing can be promised to a person"

_FIRST_LINE = re.compile(rb"[0-9]+\t[0-9]+\tQ\t[0-9]+\t[0-9]+(\t[0-9]+)*\r?(\n|\Z)")
_FIRST_LINE_OF_A_PERSON = re.compile(rb"[0-9]+\tM\t[0-9]+\t[0-9]+\r?(\n|\Z)")
_IDS = r"^[\x20-\x7e\t]*$"
# The cells of a query, the last with the URLs it showed, tabs between. A click has its URL where a query has its id.
_CELLS = ("session", "passed", "type", "query", "region", "urls")
_PERSONAL_CELLS = ("session", "passed", "type", "page", "query", "terms", "urls")


def read(source: LogFile, found: Findings, declared: Declared) -> pl.DataFrame:
    """Every query with its clicks, each session a user."""
    found.note(NOBODY)
    kind, cell = pl.col("type"), pl.col
    fits = ((kind == "Q") & cell("region").is_not_null()) | ((kind == "C") & cell("region").is_null())
    lines = _lines(source, found, _CELLS, fits & cell("query").is_not_null())
    queries = lines.filter(kind == "Q").with_columns(cell("session").alias("user"))
    clicks = _clicks(lines, "session")
    last = clicks.join_asof(
        queries.select(LINE, "session", "urls", "_at"), on=LINE, by="session", check_sortedness=False
    )
    last = last.with_columns(_place("\t"))
    others = _on_earlier_pages(queries, last.filter(pl.col("rank").is_null()).select(clicks.columns))
    return _joined(
        queries, pl.concat([last.filter(pl.col("rank").is_not_null()).select(others.columns), others]), found
    )


def read_personal(source: LogFile, found: Findings, declared: Declared) -> pl.DataFrame:
    """Every query with its clicks, each session of the user whom a line names."""
    text = declared.columns.get("query", "query")
    if text not in ("query", "terms") or declared.columns.get("user", "USERID") != "USERID":
        raise UsageError("columns can only say that query is terms: the ids of its terms, in place of its own.")
    kind, cell = pl.col("type"), pl.col
    owner = cell("passed") == "M"
    asked = kind.is_in(["Q", "T"]) & cell("terms").is_not_null()
    fits = (owner & cell("query").is_null()) | (~owner & (asked | ((kind == "C") & cell("terms").is_null())))
    lines = _lines(
        source, found, _PERSONAL_CELLS, fits & cell("page").is_not_null() & (owner | cell("query").is_not_null())
    )
    owners = lines.filter(owner).select(LINE, "session", cell("page").alias("user"))
    owners = found.sift(
        owners, [Rule(None, "a session that has a user already", ~cell("session").is_first_distinct())], {}
    )
    # One text for a page of a session, no cell of which holds a tab: two columns are compared far more slowly.
    lines = lines.filter(~owner).with_columns(pl.concat_str("session", "page", separator="\t").alias("page"))
    queries = lines.filter(asked).join(owners, on="session", how="left", maintain_order="left")
    rules = [
        Rule("user", "a session of which no line says the user", cell("user").is_null()),
        Rule(None, "a page of results that its session had before", ~cell("page").is_first_distinct()),
    ]
    queries = found.sift(queries, rules, {}).with_columns(cell("_at").alias(LINE))
    clicks = _clicks(lines, "page")
    pages = queries.select("page", "urls", "_at")
    shown = clicks.join(pages, on="page", how="left", maintain_order="left").with_columns(_place(","))
    if text == "terms":
        queries = queries.with_columns(cell("terms").str.replace_all(",", " ", literal=True).alias("query"))
    return _joined(queries, shown, found, "session")


def _lines(source: LogFile, found: Findings, cells: tuple[str, ...], fits: pl.Expr) -> pl.DataFrame:
    """All lines that are of the format, with their number as `_at` too."""
    schema = {LINE: pl.UInt32(), **dict.fromkeys(cells, pl.String())}
    whole = [pl.DataFrame(schema={**schema, "_at": pl.UInt32()})]
    for block in source.blocks():
        found.lines += block.line_count
        cut = pl.col("text").str.splitn("\t", len(cells)).struct.rename_fields(cells)
        lines = block.lines().filter(pl.col("text") != "").select(LINE, cut).unnest("text")
        rules = [
            Rule(None, "not a line of this log", ~fits.fill_null(False)),
            Rule(None, "a time that is no number", ~pl.col("passed").str.contains("^([0-9]+|M)$")),
            *([] if _is_plain(block) else [Rule(None, "URLs that are no ids", ~pl.col("urls").str.contains(_IDS))]),
            *stray_returns(block, cells),
        ]
        at = lines.with_columns(pl.col(LINE).alias("_at"))
        whole.append(found.sift(at, rules, block.broken).select(pl.col("_at").alias(LINE), *cells, "_at"))
    return pl.concat(whole)


def _is_plain(block: Block) -> bool:
    """Whether a block is of printed ASCII, tabs and line ends alone: then no cell can hold anything else."""
    data = np.frombuffer(block.data, np.uint8)
    others = int(np.count_nonzero(data - np.uint8(0x20) > 0x7E - 0x20))  # below the blank it goes on from 255
    return others == sum(int(np.count_nonzero(data == mark)) for mark in b"\t\n\r")


def _clicks(lines: pl.DataFrame, *of: str) -> pl.DataFrame:
    return lines.filter(pl.col("type") == "C").select(LINE, *of, pl.col("query").alias("url"))


def _place(end: str) -> pl.Expr:
    """The place of `url` among `urls`, each of which `end` comes behind; null where it is not among them."""
    shown = pl.col("urls") if end != "\t" else pl.col("urls") + end
    url = pl.col("url") + end
    at = pl.when(shown.str.starts_with(url)).then(0).otherwise(shown.str.find("\t" + url, literal=True) + 1)
    before = shown.str.slice(0, at).str.count_matches("\t", literal=True)
    return pl.when(at.is_not_null()).then(before + 1).alias("rank")


def _on_earlier_pages(queries: pl.DataFrame, clicks: pl.DataFrame) -> pl.DataFrame:
    """Clicks on what the last query before did not show: those of the last one that did."""
    urls = pl.col("urls").str.split("\t")
    shown = (
        queries.filter(pl.col("session").is_in(clicks["session"].unique().implode()))
        .select(
            LINE,
            "_at",
            "session",
            urls.alias("url"),
            pl.int_ranges(1, urls.list.len() + 1, dtype=pl.UInt32).alias("rank"),
        )
        .explode("url", "rank")
        .unique([LINE, "url"], keep="first", maintain_order=True)
    )
    return clicks.join_asof(shown, on=LINE, by=["session", "url"], check_sortedness=False).select(
        *clicks.columns, "_at", "rank"
    )


def _joined(queries: pl.DataFrame, clicks: pl.DataFrame, found: Findings, *more: str) -> pl.DataFrame:
    """A row for each click, and one for each query without any, in the order of the queries, then of their clicks."""
    rules = [
        Rule(None, "a click on what its session was not shown", pl.col("rank").is_null()),
        *rules_for_all(("url",)),
    ]
    clicks = found.sift(clicks.sort(LINE), rules, {})
    asked = found.sift(queries, rules_for_all(("user", "query")), {})
    rows = asked.join(clicks.select("_at", "url", "rank"), on="_at", how="left", maintain_order="left_right")
    return rows.select(*COLUMNS, *more)


FORMAT = Format(
    name="yandex",
    suffix=".yandex.tsv",
    title="Yandex's log of the Relevance Prediction Challenge: sessions, ids of queries and URLs; no users",
    columns=COLUMNS,
    extras=False,
    sniff=lambda head, path: _FIRST_LINE.match(head) is not None,
    read=read,
    stands_for_user="session",
)

PERSONAL = replace(
    FORMAT,
    name="yandex-personal",
    suffix=".yandex-personal.tsv",
    title="Yandex's log of the Personalized Web Search Challenge: users, ids of queries and URLs",
    columns=(*COLUMNS, "session"),
    sniff=lambda head, path: _FIRST_LINE_OF_A_PERSON.match(head) is not None,
    read=read_personal,
    mapped=("query",),
    stands_for_user="",
)
