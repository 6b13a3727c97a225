"""Small logs for tests of distill, and slow readings of what a person adds."""

import math
import re
import unicodedata
from collections import Counter
from datetime import datetime
from functools import lru_cache

import numpy as np
import polars as pl
from hypothesis import strategies as st

from queryveil.log import QueryLog
from queryveil.mechanisms.distill import contributions, unions
from queryveil.mechanisms.distill.budget import MOST_KEYS, UNIT
from queryveil.mechanisms.distill.texts import Asked, vocabulary
from queryveil.privacy import Noise

WORDS = ["the", "cheap", "flights", "to", "paris", "2006", "qzxqzx", "throat", "cancer", "www", "ebay", "com", "vvkwq"]
QUERIES = st.one_of(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
    st.sampled_from(
        ["ebay.com", "www.ebay.com", "qzxqzx.com", "ebay com", "new york", '"paris"', "new\u00a0york", "york-new"]
    ),
)
TIMES = st.none() | st.datetimes(min_value=datetime(2006, 3, 1), max_value=datetime(2006, 3, 3))
URLS = st.none() | st.sampled_from(["http://www.a.example/x", "https://b.example/", "c.example"])
RECORDS = st.tuples(QUERIES, TIMES, st.none() | st.integers(1, 40), URLS, st.none() | st.sampled_from(["s1", "s2"]))
PEOPLE = st.lists(st.lists(RECORDS, min_size=1, max_size=12), min_size=1, max_size=4)


def log_of(people):
    """A log of people's records; person k is called `p<k>`."""
    return QueryLog.of([(f"p{k}", *record) for k, records in enumerate(people) for record in records])


def sums_of(people):
    """Every table with public cells, summed over the people."""
    return contributions.sums(Asked.of(log_of(people).frame))


def union_weights(people):
    """`table, person, key, weight` of every union."""
    asked = Asked.of(log_of(people).frame)
    keys = unions.text_keys(asked)
    rows = []
    for name in MOST_KEYS:
        if name == "pairs":
            person, key = unions.word_pairs(asked)
            mine = pl.DataFrame({"person": person, "key": key}).with_columns(pl.col("key").cast(pl.String))
        else:
            mine = pl.DataFrame({"person": keys[name].person, "key": keys[name].names.gather(keys[name].number)})
        weight = unions.weights_of(mine["person"].to_numpy().astype(np.int64), name, Noise.seeded(1).stream(name))
        rows.append(
            mine.select(
                pl.lit(name).alias("table"), pl.col("person").cast(pl.Int64), "key", pl.Series("weight", weight)
            )
        )
    return pl.concat(rows)


def squares(vector):
    """The exact square of a vector's length, in Python's whole numbers."""
    return sum(int(x) ** 2 for x in np.asarray(vector)[np.flatnonzero(vector)])


def slow_texts(records):
    """The distinct texts of one person, by plain Python."""
    return {" ".join(unicodedata.normalize("NFKC", query).lower().split()) for query, *_ in records}


@lru_cache(maxsize=1)
def slow_lists():
    """The words that are queries by themselves, and the public pairs."""
    words, prior = vocabulary().words.to_list(), vocabulary()
    pairs = {(words[a], words[b]) for a, b in zip(prior.pair_first, prior.pair_second, strict=True) if a < len(words)}
    return set(words[: 1 << 17]), pairs


def slow_queries(records):
    """The table of known queries of one person: each has the same weight, rounded down."""
    known, pairs = slow_lists()
    mine = {
        text
        for text in slow_texts(records)
        if text in known
        or (text.endswith(".com") and text.removesuffix(".com") in known)
        or (text.count(" ") == 1 and tuple(text.split(" ")) in pairs)
    }
    return dict.fromkeys(mine, math.isqrt(UNIT**2 // len(mine)) if mine else 0)


def slow_words(records):
    """The table of words of one person, by plain Python: distinct texts, powers, a unit vector, rounded down."""
    counts = Counter(word for text in slow_texts(records) for word in re.findall(r"[^\W_]+", text))
    numbers = Counter()
    for word, count in counts.items():
        number = vocabulary().number(word)
        numbers[number if number >= 0 else len(vocabulary())] += count
    weights = {number: math.floor(1024 * count**0.7) for number, count in numbers.items()}
    length = math.sqrt(sum(w * w for w in weights.values()))
    return {number: math.floor(UNIT * weight / length) for number, weight in weights.items()}
