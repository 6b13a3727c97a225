"""Reads the Open Directory's own dump and simple tables, a piece at a time, and survives what is broken in them.

The dump (`structure.rdf.u8`, `content.rdf.u8`) calls itself RDF but was never quite XML: it has bytes that are not
UTF-8, control characters and unclosed elements. So no XML parser is used. The text is cut where a `Topic` or an
`ExternalPage` begins; each piece must close what it opened and give what it must, or it is told by its line and left
out.

Tables have a category and a document count (`categories.tsv`), or under a header line category, url, title and
description (`pages.tsv`). All files may be gzip.

>>> piece = b'<ExternalPage about="u"><d:Title>Tea</d:Title><topic>Top/Home/Tea</topic></ExternalPage>'
>>> _entry(b"ExternalPage", piece)
Entry(path=('Home', 'Tea'), title='Tea', description='', documents=1, is_page=True)
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import IO, NamedTuple, cast

from queryveil.errors import KnowledgeError

PIECE = 1 << 22  # bytes read at once
LONGEST_ENTRY = 1 << 23  # a Topic of content.rdf lists the links of a category; none comes near this
PROBLEMS_KEPT = 100
LONGEST_PATH = 64

START = re.compile(rb"<(Topic|ExternalPage)[\s>]")
TOPIC_ID = re.compile(rb'^<Topic\s[^>]*?r:id="([^"]*)"')
TOPIC = re.compile(rb"<topic>(.*?)</topic>", re.DOTALL)
TITLE = re.compile(rb"<d:Title>(.*?)</d:Title>", re.DOTALL)
DESCRIPTION = re.compile(rb"<d:Description>(.*?)</d:Description>", re.DOTALL)


class Entry(NamedTuple):
    """A category, or a page listed in one."""

    path: tuple[str, ...]
    title: str
    description: str
    documents: int
    is_page: bool


@dataclass
class ImportReport:
    """What an import met: how much, and which lines were left out and why (never what they said)."""

    categories: int = 0
    pages: int = 0
    problem_count: int = 0
    problems: list[str] = field(default_factory=list)

    def problem(self, place: str, line: int, reason: str) -> None:
        """Note a problem; after the first hundred only their number grows."""
        self.problem_count += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(f"{place}, line {line:,}: {reason}")


def read_entries(path: Path, report: ImportReport) -> Iterator[Entry]:
    """Every category and page of one file, dump or table."""
    try:
        with _opened(path) as file:
            is_dump = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
        with _opened(path) as file:
            yield from (_read_dump if is_dump else _read_table)(file, path.name, report)
    except (OSError, EOFError) as problem:
        raise KnowledgeError(f"cannot read {path} to its end: {type(problem).__name__}.") from None


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(path, "rb")) if zipped else path.open("rb")


def _read_dump(file: IO[bytes], name: str, report: ImportReport) -> Iterator[Entry]:
    line, held = 1, b""
    while True:
        more = file.read(PIECE)
        held += more
        starts = list(START.finditer(held))
        ends = [start.start() for start in starts[1:]] + ([len(held)] if not more else [])
        for start, end in zip(starts, ends, strict=False):
            piece = held[start.start() : end]
            entry = _entry(start.group(1), piece)
            if isinstance(entry, Entry):
                yield entry
            else:  # counting lines is dear: only where somebody reads the number
                told = report.problem_count < PROBLEMS_KEPT
                report.problem(name, line + held.count(b"\n", 0, start.start()) if told else 0, entry)
        if not more:
            return
        used = ends[-1] if ends else 0
        if len(held) - used > LONGEST_ENTRY:
            report.problem(name, line + held.count(b"\n", 0, used), "an entry of more than 8 MiB; left out")
            used = len(held) - 16  # a start may be cut in two
        line += held.count(b"\n", 0, used)
        held = held[used:]


def _entry(kind: bytes, piece: bytes) -> Entry | str:
    """The entry, or what is wrong with it."""
    if b"</" + kind + b">" not in piece:
        return f"{kind.decode()} is not closed"
    is_page = kind == b"ExternalPage"
    found = TOPIC.search(piece) if is_page else TOPIC_ID.search(piece)
    path = _path(_text(found)) if found else None
    if path is None:
        return f"{kind.decode()} names no category"
    return Entry(path, _text(TITLE.search(piece)), _text(DESCRIPTION.search(piece)), int(is_page), is_page)


def _text(found: re.Match[bytes] | None) -> str:
    return "" if found is None else unescape(found.group(1).decode("utf-8", "replace")).strip()


def _path(text: str) -> tuple[str, ...] | None:
    """`Top/Arts/Anime` and `Arts/Anime` as names; the root alone is an empty path."""
    names = [name.strip() for name in text.split("/")]
    if names[0] == "Top":
        names = names[1:]
    return tuple(names) if all(names) and len(names) <= LONGEST_PATH else None


def _read_table(file: IO[bytes], name: str, report: ImportReport) -> Iterator[Entry]:
    has_pages = False
    for number, raw in enumerate(iter(lambda: file.readline(LONGEST_ENTRY), b""), 1):
        fields = raw.decode("utf-8", "replace").rstrip("\r\n").split("\t")
        if number == 1 and fields[0].lower() == "category":
            has_pages = len(fields) > 2
            continue
        path = _path(fields[0])
        if not path:
            report.problem(name, number, "no category")
        elif has_pages and len(fields) == 4:
            yield Entry(path, fields[2], fields[3], 1, True)
        elif not has_pages and len(fields) == 2 and fields[1].isdecimal() and len(fields[1]) < 10:
            yield Entry(path, "", "", int(fields[1]), False)
        else:
            report.problem(name, number, f"expected {'4 columns' if has_pages else 'a category and a count'}")
