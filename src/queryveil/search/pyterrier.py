"""Obfuscation as a step of a retrieval pipeline: frames with `qid, query` in, the same out.

Macdonald and Tonellotto (2020), "Declarative Experimentation in Information Retrieval using PyTerrier": a pipeline is a
chain of functions from frame to frame. `ObfuscateQueries` replaces the queries, `PoolResults` brings the results of a
query's obfuscations back under its name. Both take and give pandas or Polars frames, whichever comes, and need neither
PyTerrier nor Java:

    pt.apply.generic(ObfuscateQueries(mechanism, noise, n=20)) >> bm25 >> pt.apply.generic(PoolResults())

With n > 1 the i-th obfuscation of query `7` is called `7~i`, because a retriever wants each name once. Other columns of
a frame of queries are left out: PyTerrier keeps what was typed in columns like `query_0`, which would go along.

>>> import polars as pl
>>> class Shout:
...     def obfuscate(self, query, n, noise):
...         return [query.upper() + "!" * i for i in range(n)]
>>> topics = pl.DataFrame({"qid": ["7"], "query": ["tea"], "query_0": ["my tea"]})
>>> ObfuscateQueries(Shout(), Noise.seeded(1), n=2)(topics).rows()
[('7~0', 'TEA'), ('7~1', 'TEA!')]
"""

from __future__ import annotations

from typing import Any, Protocol

from queryveil.checks import require, whole_number
from queryveil.errors import DataError
from queryveil.privacy import Noise

MARK = "~"


class Obfuscator(Protocol):
    """What makes other queries of a query."""

    def obfuscate(self, query: str, n: int, noise: Noise) -> list[str]:
        """n other queries."""


class ObfuscateQueries:
    """Replaces each query of a frame by n obfuscations of it."""

    def __init__(self, obfuscator: Obfuscator, noise: Noise, *, n: int = 1) -> None:
        require(whole_number("n", n, at_least=1, at_most=1000, suggest=1))
        self._obfuscator, self._noise, self._n = obfuscator, noise, n

    def transform(self, topics: Any) -> Any:
        """A frame of the kind that came in, with columns `qid` and `query`."""
        names, queries = _column(topics, "qid"), _column(topics, "query")
        if any(MARK in str(name) for name in names):
            raise DataError(f"a qid holds {MARK}, which marks obfuscations here. Rename the queries.")
        rows: list[tuple[Any, str]] = []
        for name, query in zip(names, queries, strict=True):
            others = self._obfuscator.obfuscate(str(query), self._n, self._noise)
            if self._n == 1:
                rows += [(name, other) for other in others]
            else:
                rows += [(f"{name}{MARK}{i}", other) for i, other in enumerate(others)]
        return type(topics)({"qid": [name for name, _ in rows], "query": [query for _, query in rows]})

    __call__ = transform


class PoolResults:
    """Merges the results of obfuscations: each document once per query, in the order of its best rank."""

    def transform(self, results: Any) -> Any:
        """A frame of the kind that came in, with columns `qid`, `docno`, `score` and `rank`.

        The score is the negative best rank: scores of different queries cannot be compared. Rank at home next.
        """
        best: dict[tuple[str, Any], int] = {}
        columns = (_column(results, name) for name in ("qid", "docno", "rank"))
        for name, document, rank in zip(*columns, strict=True):
            key = str(name).rpartition(MARK)[0] or str(name), document
            best[key] = min(best.get(key, rank), rank)
        queries = {query: place for place, query in enumerate(dict.fromkeys(query for query, _ in best))}
        rows = sorted(best.items(), key=lambda row: (queries[row[0][0]], row[1], str(row[0][1])))
        ranks: list[int] = []
        for place, ((query, _), _) in enumerate(rows):
            ranks.append(ranks[-1] + 1 if place and rows[place - 1][0][0] == query else 0)
        return type(results)(
            {
                "qid": [query for (query, _), _ in rows],
                "docno": [document for (_, document), _ in rows],
                "score": [-float(rank) for rank in ranks],
                "rank": ranks,
            }
        )

    __call__ = transform


def _column(frame: Any, name: str) -> list[Any]:
    if name not in list(frame.columns):
        raise DataError(f"the frame has no column {name}.")
    return list(frame[name])
