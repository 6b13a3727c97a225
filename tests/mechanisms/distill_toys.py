"""Small logs for tests of distill, and slow readings of what a person adds."""

import math
import re
import unicodedata
from collections import Counter
from datetime import datetime

import numpy as np
import polars as pl
from hypothesis import strategies as st

from queryveil.log import QueryLog
from queryveil.mechanisms.distill import contributions, unions
from queryveil.mechanisms.distill.budget import MOST_KEYS, UNIT
from queryveil.mechanisms.distill.texts import Asked, vocabulary
from queryveil.privacy import Noise

WORDS = ["the", "cheap", "flights", "to", "paris", "2006", "qzxqzx", "throat", "cancer", "www", "ebay", "com", "vvkwq"]
QUERIES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
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


def slow_words(records):
    """The table of words of one person, by plain Python: distinct texts, powers, a unit vector, rounded down."""
    texts = {" ".join(unicodedata.normalize("NFKC", query).lower().split()) for query, *_ in records}
    counts = Counter(word for text in texts for word in re.findall(r"[^\W_]+", text))
    numbers = Counter()
    for word, count in counts.items():
        number = vocabulary().number(word)
        numbers[number if number >= 0 else len(vocabulary())] += count
    weights = {number: math.floor(1024 * count**0.7) for number, count in numbers.items()}
    length = math.sqrt(sum(w * w for w in weights.values()))
    return {number: math.floor(UNIT * weight / length) for number, weight in weights.items()}
