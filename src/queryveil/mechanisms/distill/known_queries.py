"""Whole queries that are public: a public word, the site that a word names, and a public pair of words.

Most of what many people ask is one of these, so it needs no threshold to be counted. Which they are follows from the
public word lists alone.

>>> names = pl.Series(["ebay", "ebay.com", "new york", "new-york", "ebay auctions near me"])
>>> [known_names()[cell] if cell >= 0 else None for cell in cells_of_texts(names, Texts.of(names)).tolist()]
['ebay', 'ebay.com', 'new york', None, None]
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.mechanisms.distill.texts import Texts, vocabulary

KNOWN_WORDS = 1 << 17
"""The most frequent public words are queries by themselves, and with `SITE` behind them."""
SITE_ENDING = "com"
KINDS = ("word", "site", "pair", "other of one word", "other")
"""The kinds of queries; of the first three each query is a cell."""
WORD, SITE, PAIR, OTHER_WORD, OTHER = range(len(KINDS))
NONE = -1


@lru_cache(maxsize=1)
def known_pairs() -> Longs:
    """The public pairs as first · words + second, sorted; what stands at the start of a text is no pair."""
    first, second = (side.astype(np.int64) for side in (vocabulary().pair_first, vocabulary().pair_second))
    inside = first < len(vocabulary())
    return np.asarray(first[inside] * len(vocabulary()) + second[inside])


def begins() -> tuple[int, int, int, int]:
    """Where the cells of each kind begin, and where the last ends."""
    return 0, KNOWN_WORDS, 2 * KNOWN_WORDS, 2 * KNOWN_WORDS + len(known_pairs())


@lru_cache(maxsize=1)
def known_names() -> pl.Series:
    """The text of every cell."""
    words = pl.Series(vocabulary().words.to_list())
    known = words.head(KNOWN_WORDS)
    first, second = (words.gather(side) for side in np.divmod(known_pairs(), len(vocabulary())))
    return pl.concat([known, known + f".{SITE_ENDING}", first + " " + second])


def cells_of_texts(names: pl.Series, texts: Texts) -> Longs:
    """The cell of each text; `NONE` where it is none of them.

    A text that is as long as its words and what stands between them has nothing else in it.
    """
    cell = np.full(len(names), NONE, np.int64)
    sizes = np.append(np.diff(vocabulary().words.offsets), 0)
    size = names.str.len_bytes().to_numpy().astype(np.int64)
    begin = texts.offsets[:-1]
    one, two = (np.flatnonzero(texts.lengths == words) for words in (1, 2))
    word = texts.numbers[begin[one]]
    good = (word < KNOWN_WORDS) & (sizes[word] == size[one])
    cell[one[good]] = word[good]
    first, second = texts.numbers[begin[two]], texts.numbers[begin[two] + 1]
    good = (np.maximum(first, second) < len(vocabulary())) & (sizes[first] + sizes[second] + 1 == size[two])
    two, first, second = two[good], first[good], second[good]
    between = names.gather(two)
    dotted, apart = (between.str.contains(mark, literal=True).to_numpy() for mark in (".", " "))
    sites = dotted & (first < KNOWN_WORDS) & (second == vocabulary().number(SITE_ENDING))
    cell[two[sites]] = begins()[SITE] + first[sites]
    wanted = first * len(vocabulary()) + second
    place = np.searchsorted(known_pairs(), wanted).clip(0, len(known_pairs()) - 1)
    pairs = apart & (known_pairs()[place] == wanted)
    cell[two[pairs]] = begins()[PAIR] + place[pairs]
    return cell


def kinds_of_texts(cell: Longs, texts: Texts) -> Longs:
    """The kind of each text, by its cell."""
    known = np.searchsorted(begins(), cell, side="right") - 1
    return np.where(cell >= 0, known, np.where(texts.lengths == 1, OTHER_WORD, OTHER))
