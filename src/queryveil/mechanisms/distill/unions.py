"""Tables whose keys nobody knows beforehand: texts, words outside the vocabulary, pairs of words, clicks.

A person with d keys, at most `MOST_KEYS` of the table, chosen at random among the person's own, gives each ⌊UNIT/√d⌋.
A key is published where its weight with noise exceeds the threshold (`privacy/set_union.py`).
"""

from __future__ import annotations

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.log.identifying import can_be_written, is_identifying
from queryveil.log.table import shaped
from queryveil.mechanisms.distill.budget import MOST_KEYS, UNIT
from queryveil.mechanisms.distill.contributions import topics_of_texts
from queryveil.mechanisms.distill.texts import Asked, numbers_of, vocabulary, words_of
from queryveil.privacy import set_union
from queryveil.privacy.joint_gaussian import key_weight
from queryveil.privacy.noise import Stream

HOST = r"^(?:[a-z][a-z0-9+.-]*://)?(?:[^/@]*@)?(?:www\.)?([^/:?#]+)"
SEPARATOR = "\t"
LONGEST_WORD = 32


def weights_of(person: Longs, table: str, stream: Stream) -> Longs:
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
    keys = np.unique(person[of][both] * (base * base) + first[both] * base + second[both])  # up to 41 million people
    return keys // (base * base), keys % (base * base)


def pair_base() -> int:
    """A pair of words is the number first · base + second; the start has the number base − 1."""
    return len(vocabulary()) + 2


def text_keys(asked: Asked) -> pl.DataFrame:
    """`table, person, key` of the unions of texts, once each, sorted; what identifies by itself is no key.

    Nor is a text with control characters: seen after the draw, by a format that cannot hold it, it would cost a budget.
    """
    person, text = asked.distinct()
    texts = pl.DataFrame({"text": asked.names}).with_columns(
        ((pl.col("text") != "") & ~is_identifying("text") & can_be_written("text")).alias("shown"),
        pl.Series("topic", topics_of_texts(asked.texts)),
    )
    every = pl.DataFrame({"person": person, "text_number": text})
    clicks = asked.rows.filter(pl.col("url").is_not_null()).select("person", "text_number", "url").unique()
    urls = clicks.select(pl.col("url").unique()).with_columns(
        (~is_identifying("url") & can_be_written("url")).alias("safe"),
        pl.col("url").str.to_lowercase().str.extract(HOST).alias("host"),
    )
    numbered = texts.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("text_number"))
    clicks = clicks.join(urls.filter("safe"), on="url").join(numbered.filter("shown"), on="text_number")
    made = {
        "own_words": _own_words(asked).join(every, on="text_number").select("person", "key"),
        "head": every.join(numbered.filter("shown"), on="text_number").select("person", key="text"),
        "clicks": clicks.select("person", key=pl.concat_str("text", "url", separator=SEPARATOR)),
        "hosts": clicks.select("person", key=pl.concat_str("topic", "host", separator=SEPARATOR)).drop_nulls(),
    }
    columns = {"table": pl.String(), "person": pl.Int64(), "key": pl.String()}
    rows = [shaped(keys.unique().with_columns(table=pl.lit(name)), columns) for name, keys in made.items()]
    return pl.concat(rows).sort("table", "person", "key")


def _own_words(asked: Asked) -> pl.DataFrame:
    """`text_number, key`: words of each text that are outside the vocabulary."""
    unknown = asked.texts.numbers == len(vocabulary())
    strange = np.unique(np.searchsorted(asked.texts.offsets, np.flatnonzero(unknown), side="right") - 1)
    texts = pl.DataFrame({"text_number": strange, "text": asked.names.gather(strange)})
    words = texts.select("text_number", words_of("text").alias("key")).explode("key", empty_as_null=False).unique()
    own = pl.Series(numbers_of(words["key"]) == len(vocabulary()))
    short = pl.col("key").str.len_chars() <= LONGEST_WORD
    return words.filter(own & short).filter(~is_identifying("key"))


def head_weights(asked: Asked) -> tuple[Longs, Longs]:
    """Person and weight of each person's texts, without their keys: for the sum of all weights.

    A text that identifies by itself counts here, and more texts than may count weigh what those that count do.
    """
    person, _ = asked.distinct()
    most = MOST_KEYS["head"]
    texts = np.bincount(person)
    each = np.array([0, *(keys * key_weight(keys, UNIT) for keys in range(1, most + 1))])[np.minimum(texts, most)]
    return np.arange(len(texts)), each
