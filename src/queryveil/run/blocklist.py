"""Sensitive categories: records whose query falls under one are left out before any mechanism sees them.

The file names one category path of the WordNet tree a line, such as `state` or `animal/young`; lines that start with #
are comments. A query is left out if any of its five likeliest categories lies at or below a named one. Like every
filter on private data this gives no differential privacy; it keeps a topic out, not a person.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.errors import UsageError
from queryveil.knowledge.categories import NO_CATEGORY, CategoryTree, WordNetClassifier
from queryveil.knowledge.wordnet import WordNet
from queryveil.log import QueryLog

CATEGORIES_LOOKED_AT = 5


def without_categories(log: QueryLog, path: Path) -> QueryLog:
    """The log without records under the categories that a file names."""
    classifier = WordNetClassifier(WordNet.load())
    blocked = read_blocklist(path, classifier.tree)
    at_or_below = _at_or_below(classifier.tree, blocked)
    texts = log.frame["query"].unique()
    found = classifier.categories(texts.to_list(), at_most=CATEGORIES_LOOKED_AT)
    hits = np.bincount(np.repeat(np.arange(len(texts)), found.lengths), at_or_below[found.values], len(texts))
    return QueryLog(log.frame.filter(~pl.col("query").is_in(texts.filter(hits > 0).implode())))


def read_blocklist(path: Path, tree: CategoryTree) -> list[int]:
    """The categories that a file names; an unknown one is an error, because a typo would let the topic through."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"cannot read {path} as a text file with one category a line.") from None
    blocked = []
    for number, line in enumerate(lines, 1):
        prefix = tuple(part.strip() for part in line.split("/") if part.strip())
        if not prefix or line.lstrip().startswith("#"):
            continue
        category = tree.find(prefix)
        if category == NO_CATEGORY:
            top = sorted(
                str(tree.names[int(top_category)]) for top_category in np.flatnonzero(tree.parents == NO_CATEGORY)
            )
            raise UsageError(f"{path}, line {number}: there is no such category. The top level is: {', '.join(top)}.")
        blocked.append(category)
    return blocked


def _at_or_below(tree: CategoryTree, categories: list[int]) -> npt.NDArray[np.bool_]:
    marked = np.zeros(len(tree), dtype=np.bool_)
    marked[categories] = True
    for category, parent in enumerate(tree.parents.tolist()):  # parents come before their children
        marked[category] |= parent != NO_CATEGORY and marked[parent]
    return marked
