"""What a person adds to the tables with public cells, block by block of people.

Every function here looks at each person's own records and at public data only; what it hands to the kernel is a list of
(person, cell), of which the kernel makes one vector of whole numbers a person, of length at most `UNIT`. A text that a
person asked again counts once in the tables of words, topics and phrases.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.mechanisms.distill import _vector_kernel as kernel
from queryveil.mechanisms.distill import known_queries
from queryveil.mechanisms.distill.budget import (
    BEFORE,
    CELLS,
    CLASSES,
    FOLLOW_LENGTHS,
    FOLLOWS,
    GAP_BUCKETS,
    HOURS,
    LENGTHS,
    RANKS,
    RECORD_BUCKETS,
    SESSION_LENGTHS,
    TOTALS,
    UNIT,
)
from queryveil.mechanisms.distill.texts import Asked, Texts, vocabulary
from queryveil.privacy.joint_gaussian import key_weight

SESSION_GAP = 30 * 60
"""Seconds without a query after which a new session begins, where the log names none."""

Counted = dict[str, tuple[Longs, Longs]]
"""For each table the person and the cell of each thing that is counted."""


def cells_of(table: str) -> int:
    """How many cells a table has."""
    return CELLS[table] or (known_queries.begins()[-1] if table == "queries" else len(vocabulary()) + 1)


@lru_cache(maxsize=1)
def classes_of_words() -> Longs:
    """The class of each word at each level; the last column is for words outside the vocabulary."""
    known = vocabulary().classes.astype(np.int64)
    return np.concatenate([known, np.array(CLASSES)[:, None] - 1], axis=1)


def sums(asked: Asked) -> dict[str, Longs]:
    """The sum of all people's vectors, for each table with public cells."""
    counted = {**count_words(asked), **count_shape(asked)}
    made = {name: add_up(name, *things) for name, things in counted.items()}
    made["people"] = add_products(*counted["topics_64"])
    made["query_total"] = total_weight("query_total", counted["queries"][0])
    return made


def total_weight(table: str, person: Longs) -> Longs:
    """What the things of a block's people weigh in sum, in units of the most that one person's can weigh, rounded down.

    A person's d things weigh ⌊UNIT/√d⌋ each, √d units together, so at most the root of how many may count.
    """
    most = TOTALS[table][1]
    each = np.array(
        [0, *(things * key_weight(things, UNIT) // greatest_weight(table) for things in range(1, most + 1))]
    )
    return np.array([each[np.minimum(np.bincount(person), most)].sum()])


def greatest_weight(table: str) -> int:
    """The root, rounded up, of how many things of a person count: the most that they weigh, in units."""
    return math.isqrt(TOTALS[table][1] - 1) + 1


def add_up(table: str, person: Longs, cell: Longs) -> Longs:
    """The sum of the unit vectors of all people."""
    cells = cells_of(table)
    out = np.zeros(cells, np.int64)
    kernel.add_vectors(np.sort(person * cells + cell), cells, UNIT, kernel.WEIGHTS, out)
    return out


def add_products(person: Longs, topic: Longs) -> Longs:
    """The sum of h·hᵀ, h a person's unit vector of topics."""
    out = np.zeros(CLASSES[0] ** 2, np.int64)
    kernel.add_outer_products(np.sort(person * CLASSES[0] + topic), CLASSES[0], UNIT, kernel.WEIGHTS, out)
    return out


def count_words(asked: Asked) -> Counted:
    """Words, their classes, and classes of words one behind the other, over each person's distinct texts."""
    person, text = asked.distinct()
    of, place = asked.texts.spread(text)
    who, word = person[of], asked.texts.numbers[place]
    classes = classes_of_words()
    before = _class_before(asked.texts, classes)[place]
    counted = {f"topics_{name}": (who, classes[level][word]) for level, name in enumerate(("64", "512", "3000"))}
    counted |= {
        f"phrases_{name}": (who, before * CLASSES[level] + classes[level][word])
        for level, name in enumerate(("64", "512"))
    }
    counted["words"] = (who, word)
    cell = known_queries.cells_of_texts(asked.names, asked.texts)
    counted["queries"] = (person[cell[text] >= 0], cell[text][cell[text] >= 0])
    counted["query_kinds"] = (person, known_queries.kinds_of_texts(cell, asked.texts)[text])
    lengths = asked.texts.lengths[text]
    counted["lengths"] = (person[lengths > 0], np.minimum(lengths[lengths > 0], LENGTHS) - 1)
    return counted


def _class_before(texts: Texts, classes: Longs) -> Longs:
    """The class of 64 of what stands before each word."""
    with_start = np.append(classes[0], BEFORE - 1)
    return with_start[texts.before(start=len(with_start) - 1)]


def count_shape(asked: Asked) -> Counted:
    """How much, when and how people search: over each person's queries in the order of time."""
    one_of_query = pl.struct("person", "text_number", "time", "session").is_first_distinct()
    timed = asked.rows.filter(pl.col("time").is_not_null() & one_of_query)  # a query has a record for each click
    everybody = np.arange(asked.people)
    records = np.bincount(asked.rows["person"].to_numpy(), minlength=asked.people)
    rank = asked.rows["rank"].fill_null(RANKS).cast(pl.Int64).clip(1, RANKS - 1)
    clicked = asked.rows["url"].is_not_null() | asked.rows["rank"].is_not_null()
    return {
        "users": (everybody, np.zeros_like(everybody)),
        "records": (everybody, bucket_of_records(records)),
        "ranks": (
            asked.rows["person"].to_numpy().astype(np.int64),
            np.where(clicked.to_numpy(), rank.to_numpy(), 0),
        ),
        **_sessions(timed, asked.texts),
    }


def bucket_of_records(records: Longs) -> Longs:
    """1, 2–3, 4–7, … records."""
    return np.minimum(np.floor(np.log2(np.maximum(records, 1))).astype(np.int64), RECORD_BUCKETS - 1)


def _sessions(queries: pl.DataFrame, texts: Texts) -> Counted:
    person = queries["person"].to_numpy().astype(np.int64)
    text = queries["text_number"].to_numpy().astype(np.int64)
    seconds = queries["time"].dt.epoch("s").to_numpy().astype(np.int64)
    hour = ((seconds // 3600 + 72) % HOURS) if len(seconds) else seconds  # the epoch began on a Thursday
    session = queries["session"].fill_null("").rle_id().to_numpy().astype(np.int64)
    follows = np.zeros(len(person), np.bool_)
    gap = np.zeros(len(person), np.int64)
    if len(person) > 1:
        gap[1:] = seconds[1:] - seconds[:-1]
        named = queries["session"].is_not_null().to_numpy()[1:]
        together = np.where(named, session[1:] == session[:-1], gap[1:] <= SESSION_GAP)
        follows[1:] = (person[1:] == person[:-1]) & together
    starts = np.flatnonzero(~follows)
    length = np.diff(np.append(starts, len(person)))
    here = np.flatnonzero(follows)
    topic = topics_of_texts(texts)[text]
    kind = how_it_follows(texts, text[here - 1], text[here])
    words = np.clip(texts.lengths[text[here]], 1, FOLLOW_LENGTHS) - 1
    return {
        "hours": (person, hour),
        "session_lengths": (person[starts], np.minimum(length, SESSION_LENGTHS) - 1),
        "gaps": (person[here], bucket_of_gap(gap[here])),
        "follows": (person[here], kind * FOLLOW_LENGTHS + words),
        "successions": (person[here], topic[here - 1] * CLASSES[0] + topic[here]),
    }


def bucket_of_gap(seconds: Longs) -> Longs:
    """0, 1, 2–3, 4–7, … seconds."""
    return np.minimum(np.floor(np.log2(np.maximum(seconds, 0) + 1.0)).astype(np.int64), GAP_BUCKETS - 1)


def topics_of_texts(texts: Texts) -> Longs:
    """The class of 64 of each text's rarest known word."""
    topics: Longs = classes_of_words()[0][texts.rarest()]  # −1 is the last: words outside the vocabulary
    return topics


def how_it_follows(texts: Texts, before: Longs, after: Longs) -> Longs:
    """How each text follows the one before, as an index of `FOLLOWS`."""
    if not len(before):
        return before
    common = _common_words(texts, before, after)
    old, new = texts.lengths[before], texts.lengths[after]
    kinds = [before == after, (common == old) & (new > old), (common == new) & (new < old), common > 0]
    return np.select(kinds, list(range(len(FOLLOWS) - 1)), len(FOLLOWS) - 1).astype(np.int64)


def _common_words(texts: Texts, before: Longs, after: Longs) -> Longs:
    """How many places of the later text hold a word of the earlier one."""
    common = np.zeros(len(before), np.int64)
    kernel.count_common_words(texts.offsets, texts.numbers, before, after, common)
    return common
