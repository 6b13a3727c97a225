"""A test collection for search: texts, queries, and which texts are right for which query, in BEIR's layout.

Thakur et al. (2021), "BEIR": `corpus.jsonl` (objects with `_id`, `text` and maybe `title`), `queries.jsonl` (`_id`,
`text`) and judgements as `qrels/<split>.tsv` (query-id, corpus-id, score, with a header); any of them may be gzip. A
single `qrels.tsv` beside the corpus is read as well.

Queries without a judged text cannot be measured and are left out; judgements of texts that are not there are an error.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "tea"}')
>>> _ = (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "hot drinks"}')
>>> _ = (folder / "qrels.tsv").write_text("query-id\\tcorpus-id\\tscore\\nq1\\td1\\t2")
>>> Collection.read(folder).judgements
{'q1': {'d1': 2}}
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from queryveil.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Collection:
    """Documents and queries by id, and the grade of each judged document for each query."""

    documents: dict[str, str]
    queries: dict[str, str]
    judgements: dict[str, dict[str, int]]

    @classmethod
    def read(cls, folder: str | os.PathLike[str], split: str = "test") -> Collection:
        """A collection from a folder in BEIR's layout."""
        place = Path(folder)
        documents = read_corpus(place)
        queries = _read_texts(_there(place, "queries.jsonl"))
        judgements: dict[str, dict[str, int]] = {}
        path = _there(place, f"qrels/{split}.tsv", "qrels.tsv")
        for number, line in _lines(path):
            fields = line.decode("utf-8", "replace").split("\t")
            grade = fields[-1].strip()
            if number == 1 and not _is_whole(grade):
                continue  # the header
            if len(fields) != 3 or not _is_whole(grade):
                raise DataError(f"{path.name}, line {number}: expected query-id, corpus-id and a whole number.")
            query, document = fields[0], fields[1]
            if query not in queries or document not in documents:
                raise DataError(f"{path.name}, line {number}: judges a query or a text that is not there.")
            judgements.setdefault(query, {})[document] = int(grade)
        asked = {query: text for query, text in queries.items() if max(judgements.get(query, {"": 0}).values()) > 0}
        if not asked:
            raise DataError(f"{path.name}: no query has a relevant text; there is nothing to measure.")
        return cls(documents=documents, queries=asked, judgements={query: judgements[query] for query in asked})

    def relevant(self, query: str) -> set[str]:
        """The documents of grade 1 and above."""
        return {document for document, grade in self.judgements[query].items() if grade >= 1}


def read_corpus(folder: str | os.PathLike[str]) -> dict[str, str]:
    """The documents alone, by id; a folder without queries and judgements will do."""
    return _read_texts(_there(Path(folder), "corpus.jsonl"))


def _read_texts(path: Path) -> dict[str, str]:
    """Texts by id from JSON lines; a title stands before its text."""
    texts: dict[str, str] = {}
    for number, line in _lines(path):
        try:
            entry = _DECODER.decode(line)
        except msgspec.MsgspecError:
            raise DataError(f"{path.name}, line {number}: expected an object with _id and text.") from None
        if entry.id in texts:
            raise DataError(f"{path.name}, line {number}: an _id that was there before.")
        texts[entry.id] = f"{entry.title} {entry.text}".strip()
    if not texts:
        raise DataError(f"{path.name} is empty.")
    return texts


class _Entry(msgspec.Struct, rename={"id": "_id"}):
    id: str
    text: str
    title: str = ""


_DECODER = msgspec.json.Decoder(_Entry)


def _there(folder: Path, *names: str) -> Path:
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    raise DataError(f"{folder} has no {' or '.join(names)}. A collection in BEIR's layout has one.")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error):
        raise DataError(f"{path.name} cannot be read to its end; it is damaged.") from None


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal() and text.isascii()
