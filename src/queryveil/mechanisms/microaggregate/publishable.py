"""What of the texts may be published: shared ones as they are, labels of categories in place of others.

A text that fewer than `k_text` users asked gives way to the label of the category of its last classified term; a label
that stands for rare texts of fewer than `k_text` users gives way to the category above it, and at the top the text is
withheld. Only those who really asked a rare text with the label count: whoever asked a shared text of the category is
no cover. A text that identifies by itself is withheld and has no label.

Texts are judged in blocks of texts, where each is also read, once in the whole log. For the labels it is enough to know
up to `k_text` users of each: a label that has them stays, and one that does not is known with all of its users, so that
the driver can let it climb and count whom it meets. That is exact, and at most `k_text` rows for each category ever
reach the driver.

Every (user, text) pair then carries a label: `ITSELF`, a node of the tree, or null for what is withheld.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from queryveil.knowledge.categories import NO_CATEGORY, CategoryTree
from queryveil.log.identifying import is_identifying
from queryveil.log.query_log import Schema, Table, in_canonical_order
from queryveil.mechanisms.microaggregate.profiles import CATEGORIES, COUNT, TextReading, Vocabulary, list_columns

LABEL = "__label"
ITSELF = -1
ASKED: Schema = {"user": pl.String(), "query": pl.String()}
ITEMS: Schema = {**ASKED, COUNT: pl.Int32(), LABEL: pl.Int32()}
PAIRS: Schema = {**ITEMS, CATEGORIES: pl.List(pl.Int32())}
HOLDERS: Schema = {LABEL: pl.Int32(), "user": pl.String()}


@dataclass(frozen=True)
class Judging:
    """A block of texts: how often each user asked each, what it means, and what it may be published as at first."""

    reading: TextReading
    k_text: int

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """All records of these texts are here, so each pair is one row and each text has as many rows as users."""
        pairs = rows.group_by("user", "query").agg(pl.len().alias(COUNT))
        texts = pairs.group_by("query").agg(users("user"))
        meant = self.reading.vocabulary(texts["query"])
        label = pl.Series(LABEL, meant.labels())
        rare = pl.when(label != NO_CATEGORY).then(label)
        shown = pl.when(pl.col("users") >= self.k_text).then(ITSELF).otherwise(rare)
        judged = texts.select("query", pl.when(~is_identifying("query")).then(shown).alias(LABEL))
        return pairs.join(judged.with_columns(categories_of(meant)), on="query")


@dataclass(frozen=True)
class Counting:
    """A block of users: how often each asked each text, what it means, and every text as it is, as in the paper."""

    reading: TextReading

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Each pair is one row."""
        pairs = rows.group_by("user", "query").agg(pl.len().alias(COUNT), pl.lit(ITSELF, pl.Int32).alias(LABEL))
        texts = pairs.select(pl.col("query").unique())
        return pairs.join(texts.with_columns(categories_of(self.reading.vocabulary(texts["query"]))), on="query")


def categories_of(meant: Vocabulary) -> pl.Series:
    """The categories of each text's terms, as a column."""
    lists = meant.text_categories()
    return list_columns(lists.offsets, {CATEGORIES: lists.values})[CATEGORIES]


def users(column: str) -> pl.Expr:
    """How many distinct users a group of pairs has."""
    return pl.col(column).n_unique().alias("users")


@dataclass(frozen=True)
class Holders:
    """Up to `k_text` distinct users of each label; of the users of many pieces together again as many."""

    k_text: int

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Any piece of the pairs, or of what was left of them."""
        held = rows.filter(pl.col(LABEL) > ITSELF).select(LABEL, "user").unique()
        return in_canonical_order(held).group_by(LABEL).head(self.k_text)

    def together(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """A block of labels."""
        return self(rows)


def in_brackets(name: str) -> str:
    """The label of a category, as it is published."""
    return f"[{name.replace('_', ' ')}]"


@dataclass(frozen=True)
class Labels:
    """What becomes of each label, once all users of all labels are counted."""

    reading: TextReading
    before: pl.Series = field(default_factory=lambda: pl.Series([ITSELF], dtype=pl.Int32))
    after: pl.Series = field(default_factory=lambda: pl.Series([ITSELF], dtype=pl.Int32))

    @classmethod
    def of(cls, pairs: Table, reading: TextReading, k_text: int) -> Labels:
        """Count the users of the labels of a table of pairs."""
        holders = Holders(k_text)
        few = pairs.map_rows(holders, HOLDERS).map_blocks(LABEL, holders.together, HOLDERS)
        held = few.collect()  # at most k_text rows for each category of the classifier
        return cls(reading, *climb(held, reading.classifier.tree, reading.levels, k_text))

    def final(self) -> pl.Expr:
        """The label of each pair in the end."""
        return pl.col(LABEL).replace_strict(self.before, self.after, default=None, return_dtype=pl.Int32)

    def items(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """How often each user asked each publishable text, labels in square brackets."""
        pairs = pairs.with_columns(self.final()).filter(pl.col(LABEL).is_not_null())
        nodes = pairs[LABEL].unique().to_list()
        names = self.reading.classifier.tree.names
        shown = [None if node == ITSELF else in_brackets(names[node]) for node in nodes]
        brackets = pl.col(LABEL).replace_strict(nodes, shown, return_dtype=pl.String) if nodes else pl.col("query")
        items = pairs.with_columns(pl.coalesce(brackets, "query").alias("query"))
        return items.group_by("user", "query").agg(pl.col(COUNT).sum())


def climb(held: pl.DataFrame, tree: CategoryTree, levels: int, k_text: int) -> tuple[pl.Series, pl.Series]:
    """The labels there are, and what each becomes: itself, a category above it, or null for none.

    `held` has the users of each label, or `k_text` of them. `ITSELF` stays.
    """
    depths = np.append(tree.depths, 0)  # the last entry stands for −1
    labels = held[LABEL].to_numpy()
    people = held["user"].rank("dense").to_numpy().astype(np.int64)
    now = labels.copy()
    for depth in range(levels, 0, -1):  # what climbs is counted again with what it meets one level up
        here = depths[now] == depth
        met = np.unique(now[here].astype(np.int64) * (len(held) + 1) + people[here])
        climbing = here & (np.bincount(met // (len(held) + 1), minlength=len(tree))[now] < k_text)
        now[climbing] = tree.parents[now[climbing]]
    before, first = np.unique(labels, return_index=True)
    after = pl.Series(now[first], dtype=pl.Int32).replace(NO_CATEGORY, None)
    return pl.Series([ITSELF, *before], dtype=pl.Int32), pl.concat([pl.Series([ITSELF], dtype=pl.Int32), after])
