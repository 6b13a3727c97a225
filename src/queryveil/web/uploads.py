"""Files from a browser: streamed to disk under a name of our own, never trusted, never unpacked beyond a limit.

Of the name a browser sends, only a suffix that stands for a known format has an effect, because formats are told by it;
the rest becomes a title for people to read, cut to plain characters.

>>> title_of("../../etc/passwd")
'passwd'
>>> file_name_of("My Log.TSV.gz"), file_name_of("evil.exe"), file_name_of("../../x.excite.log")
('log.tsv.gz', 'log', 'log.excite.log')
"""

from __future__ import annotations

import csv
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import polars as pl
import polars.selectors as cs

from queryveil.errors import FormatError, QueryVeilError
from queryveil.log.formats import FORMATS
from queryveil.log.formats.format import AOL_NAMES
from queryveil.log.formats.json_lines import first_object
from queryveil.log.query_log import COLUMNS
from queryveil.log.reading import PACKED_SUFFIXES, sniff
from queryveil.log.source import LogFile
from queryveil.privacy.keys import open_new
from queryveil.report.formatting import size as in_bytes
from queryveil.web.formatting import as_page_field
from queryveil.web.parquet_footer import read_footer

LONGEST_TITLE: Final = 80
MOST_NAMES: Final = 200
MOST_PARQUET_ROWS: Final = 200_000_000

SYNONYMS: Final = {
    "user": ("uid", "userid", "user_id", "client_id", "visitor", "visitor_id", "cookie"),
    "query": ("q", "text", "user_query", "search", "search_term", "querytext", "query_text"),
    "time": ("timestamp", "date", "datetime", "when", "ts"),
    "rank": ("position", "item_rank", "click_rank"),
    "url": ("clicked_url", "click_url", "link", "item_id", "document", "doc_id"),
    "session": ("session_id", "sid"),
}
"""Names that people give our columns, as a first guess for the form."""


class TooLargeError(QueryVeilError):
    """More was sent, or packed, than the server takes."""


async def save(chunks: AsyncIterator[bytes], path: Path, *, at_most: int) -> int:
    """Write what arrives, piece by piece; stop at the limit and leave nothing behind."""
    size = 0
    try:
        with open_new(path) as file:
            async for chunk in chunks:
                size += len(chunk)
                if size > at_most:
                    raise TooLargeError(f"the file is larger than {in_bytes(at_most)}, the most this server takes.")
                file.write(chunk)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return size


def refuse_bombs(path: Path, *, at_most: int) -> None:
    """Read a packed file once without keeping it, so that no later step meets more than the limit."""
    if _head(path) == b"PAR1":
        _refuse_parquet_bombs(path, at_most)
        return
    source = LogFile(path)
    if not source.compressed:
        return
    size = 0
    for chunk in source.raw():
        size += len(chunk)
        if size > at_most:
            raise TooLargeError(
                f"unpacked, the file is larger than {in_bytes(at_most)}, the most this server takes. "
                "Nothing of it was kept."
            )


def guess(path: Path) -> dict[str, Any]:
    """What the file seems to be: its format, the names of its columns, and which of ours they are likely to be."""
    try:
        format_name = sniff(path)
    except QueryVeilError as error:
        return {"format": None, "names": [], "columns": {}, "problem": error.describe(as_page_field)}
    names = _names(path, format_name) if FORMATS[format_name].extras else []
    return {"format": format_name, "names": names, "columns": _likely(names), "problem": None}


def title_of(name: str) -> str:
    """A file's name for people to read."""
    last = re.split(r"[/\\]", name)[-1]
    plain = "".join(c if c.isprintable() else " " for c in last).strip()
    return plain[:LONGEST_TITLE] or "log"


def file_name_of(name: str) -> str:
    """The name on disk: always `log`, with a suffix only where it stands for a known format or packing."""
    lower = name.lower()
    packed = next((suffix for suffix in PACKED_SUFFIXES if lower.endswith(suffix)), "")
    plain = lower.removesuffix(packed)
    known = {".tsv", ".txt", ".json", *(known.suffix for known in FORMATS.values())}
    return "log" + max((suffix for suffix in known if plain.endswith(suffix)), key=len, default="") + packed


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4)


def _refuse_parquet_bombs(path: Path, at_most: int) -> None:
    too_large = TooLargeError("unpacked, the table is larger than this server takes. Nothing of it was kept.")
    footer = read_footer(path)
    # A value takes eight bytes or more once it is unpacked, however small it was packed.
    if footer.rows > MOST_PARQUET_ROWS or max(footer.rows * len(footer.names) * 8, footer.unpacked) > at_most:
        raise too_large
    # Texts that a dictionary repeats count once in the footer and every time in the log. Their sum is exact.
    try:
        texts = pl.scan_parquet(path).select(cs.string().str.len_bytes().sum().cast(pl.UInt64))
        sums = texts.collect(engine="streaming").row(0) if texts.collect_schema() else ()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise FormatError("the file begins like Parquet but cannot be read as such.") from None
    if sum(size or 0 for size in sums) > at_most:
        raise too_large


def _names(path: Path, format_name: str) -> list[str]:
    try:
        if format_name == "parquet":
            return list(read_footer(path).names)[:MOST_NAMES]
        head = LogFile(path).head()
    except (QueryVeilError, OSError):
        return []
    if format_name == "jsonl":
        return list(first_object(head))[:MOST_NAMES]
    first = head.decode("utf-8", errors="replace").split("\n", 1)[0].rstrip("\r")
    try:
        tries = [next(csv.reader([first], delimiter=separator), []) for separator in ",\t;"]
    except csv.Error:
        return []
    return [name for name in max(tries, key=len) if name][:MOST_NAMES]


def _likely(names: list[str]) -> dict[str, str]:
    by_lower = {name.lower(): name for name in reversed(names)}
    found: dict[str, str] = {}
    for ours in COLUMNS:
        for candidate in (ours, AOL_NAMES.get(ours, ours).lower(), *SYNONYMS[ours]):
            if candidate in by_lower and by_lower[candidate] not in found.values():
                found[ours] = by_lower[candidate]
                break
    return found
