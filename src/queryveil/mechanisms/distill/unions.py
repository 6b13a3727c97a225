"""Tables whose keys nobody knows beforehand: texts, words outside the vocabulary, pairs of words, clicks.

A person with d keys, at most `MOST_KEYS` of the table, chosen at random among the person's own, gives each ⌊UNIT/√d⌋.
A key is published where its weight with noise exceeds the threshold (`privacy/set_union.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.log.identifying import can_be_written, is_identifying
from queryveil.mechanisms.distill.budget import CLASSES, MOST_KEYS, UNIT
from queryveil.mechanisms.distill.contributions import topics_of_texts
from queryveil.mechanisms.distill.known_queries import NONE, cells_of_texts
from queryveil.mechanisms.distill.texts import Asked, distinct, numbers_of, vocabulary, words_of
from queryveil.privacy import set_union
from queryveil.privacy.noise import NoiseStream

HOST = r"^(?:[a-z][a-z0-9+.-]*://)?(?:[^/@]*@)?(?:www\.)?([^/:?#]+)"
SEPARATOR = "\t"
LONGEST_WORD = 32


def weights_of(person: Longs, table: str, stream: NoiseStream) -> Longs:
    """The weight of each key of sorted people, 0 where it is not among those of the person that count.

    >>> from queryveil.privacy import Noise
    >>> weights_of(np.array([0, 0, 0, 0, 1]), "head", Noise.seeded(1).stream("keys")).tolist()
    [32768, 32768, 32768, 32768, 65536]
    """
    return set_union.weights_of(person, stream, most_keys=MOST_KEYS[table], unit=UNIT)


def word_pairs(asked: Asked) -> tuple[Longs, Longs]:
    """Person and pair of words, once each, sorted; the start and words outside the vocabulary make no pair but as
    `start · base + word`, with the base of `pair_base`."""
    person, text = asked.distinct()
    of, place = asked.texts.spread(text)
    base, known = pair_base(), len(vocabulary())
    first, second = asked.texts.before(start=known + 1)[place], asked.texts.numbers[place]
    both = (first != known) & (second != known)
    keys = distinct(person[of][both] * (base * base) + first[both] * base + second[both])  # up to 41 million people
    return keys // (base * base), keys % (base * base)


def pair_base() -> int:
    """A pair of words is the number first · base + second; the start has the number base − 1."""
    return len(vocabulary()) + 2


@dataclass(frozen=True)
class Keys:
    """The keys of a union that people have: once each, sorted by person and number."""

    person: Longs
    number: Longs
    names: pl.Series
    """The keys themselves by their numbers, sorted: a number is the same whatever the order of the records was."""

    @classmethod
    def of(cls, person: Longs, number: Longs, names: pl.Series) -> Keys:
        """From a list with repeats, in any order."""
        both = distinct(person * max(1, len(names)) + number)
        return cls(both // max(1, len(names)), both % max(1, len(names)), names)

    @classmethod
    def of_pairs(cls, person: Longs, first: Longs, firsts: pl.Series, second: Longs, seconds: pl.Series) -> Keys:
        """Of keys that have two halves."""
        both = first * max(1, len(seconds)) + second
        pairs = distinct(both)
        number = np.searchsorted(pairs, both)
        halves = {
            "first": firsts.gather(pairs // max(1, len(seconds))),
            "second": seconds.gather(pairs % max(1, len(seconds))),
        }
        return cls.of(
            person, number, pl.DataFrame(halves).select(pl.concat_str(pl.all(), separator=SEPARATOR))["first"]
        )


def text_keys(asked: Asked) -> dict[str, Keys]:
    """The keys of the unions of texts; what identifies by itself is no key.

    Nor is a text with control characters: seen after the draw, by a format that cannot hold it, it would cost a budget.
    """
    person, text = asked.distinct()
    shown = asked.names.to_frame("text").select(
        ((pl.col("text") != "") & ~is_identifying("text") & can_be_written("text")).alias("shown")
    )["shown"]
    may = shown.to_numpy()
    head = (may & (cells_of_texts(asked.names, asked.texts) == NONE))[text]  # known queries have a table of their own
    clicks = asked.rows.filter(pl.col("url").is_not_null()).select("person", "text_number", "url")
    urls = (
        clicks.select(pl.col("url").unique())
        .filter(~is_identifying("url") & can_be_written("url"))
        .sort("url")
        .select("url", pl.col("url").str.to_lowercase().str.extract(HOST).alias("host"))
        .with_row_index("number")
    )
    hosts = urls.select(pl.col("host").unique().drop_nulls().sort()).with_row_index("host_number")
    clicks = clicks.join(urls.join(hosts, on="host", how="left"), on="url")
    clicker, clicked, url = (clicks[name].to_numpy().astype(np.int64) for name in ("person", "text_number", "number"))
    at = may[clicked]
    known = at & clicks["host_number"].is_not_null().to_numpy()
    host = clicks["host_number"].fill_null(0).to_numpy().astype(np.int64)
    topic = topics_of_texts(asked.texts)[clicked]
    topics = pl.Series(range(CLASSES[0])).cast(pl.String)
    return {
        "own_words": _own_words(asked),
        "head": Keys(person[head], text[head], asked.names),
        "clicks": Keys.of_pairs(clicker[at], clicked[at], asked.names, url[at], urls["url"]),
        "hosts": Keys.of_pairs(clicker[known], topic[known], topics, host[known], hosts["host"]),
    }


def _own_words(asked: Asked) -> Keys:
    """Words outside the vocabulary."""
    unknown = asked.texts.numbers == len(vocabulary())
    strange = distinct(np.searchsorted(asked.texts.offsets, np.flatnonzero(unknown), side="right") - 1)
    texts = pl.DataFrame({"text_number": strange, "text": asked.names.gather(strange)})
    words = texts.select("text_number", words_of("text").alias("key")).explode("key", empty_as_null=False).unique()
    own = pl.Series(numbers_of(words["key"]) == len(vocabulary()))
    short = pl.col("key").str.len_chars() <= LONGEST_WORD
    words = words.filter(own & short).filter(~is_identifying("key"))
    names = words["key"].unique().sort()
    words = words.join(names.to_frame().with_row_index("number"), on="key").sort("text_number", "number")
    # Every person has the words of each of their texts, which lie together.
    person, text = asked.distinct()
    held = np.bincount(words["text_number"].to_numpy(), minlength=len(asked.names))
    begin = np.cumsum(held) - held
    mine = held[text]
    place = np.arange(mine.sum()) - np.repeat(np.cumsum(mine) - mine, mine) + np.repeat(begin[text], mine)
    return Keys.of(np.repeat(person, mine), words["number"].to_numpy().astype(np.int64)[place], names)
