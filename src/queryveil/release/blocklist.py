"""Sensitive categories: records whose query falls under one are left out before any mechanism sees them.

The file names one category path of the WordNet tree a line, such as `state` or `animal/young`; lines that start with #
are comments. A query is left out if any of its words, or any run of them, has any sense at or below a named one
(`queryveil.knowledge.mentions`, which also tells what is not found). Like every filter on private data this gives no
differential privacy; it keeps a topic out, not a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from queryveil.errors import UsageError
from queryveil.knowledge.categories import NO_CATEGORY, CategoryTree, WordNetClassifier
from queryveil.knowledge.mentions import Mentions
from queryveil.knowledge.wordnet import WordNet
from queryveil.log import QueryLog


@dataclass(frozen=True)
class Blocklist:
    """Finds records that mention what lies under some categories."""

    mentions: Mentions

    @classmethod
    def load(cls, path: Path) -> Blocklist:
        """The categories that a file names."""
        classifier = WordNetClassifier(WordNet.load())
        return cls(Mentions(classifier, read_blocklist(path, classifier.tree)))

    def without(self, log: QueryLog) -> QueryLog:
        """The log without such records."""
        texts = log.frame["query"].unique()
        blocked = texts.filter(self.mentions.in_texts(texts))
        return QueryLog(log.frame.filter(~pl.col("query").is_in(blocked.implode())))


def read_blocklist(path: Path, tree: CategoryTree) -> list[tuple[str, ...]]:
    """The categories that a file names; an unknown one is an error, because a typo would let the topic through."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"cannot read {path} as a text file with one category a line.") from None
    blocked: list[tuple[str, ...]] = []
    for number, line in enumerate(lines, 1):
        prefix = tuple(part.strip() for part in line.split("/") if part.strip())
        if not prefix or line.lstrip().startswith("#"):
            continue
        if tree.find(prefix) == NO_CATEGORY:
            top = sorted(
                str(tree.names[int(top_category)]) for top_category in np.flatnonzero(tree.parents == NO_CATEGORY)
            )
            raise UsageError(f"{path}, line {number}: there is no such category. The top level is: {', '.join(top)}.")
        blocked.append(prefix)
    return blocked
