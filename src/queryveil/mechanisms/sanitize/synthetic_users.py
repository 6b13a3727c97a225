"""Users who never were: the second half of safe mode.

Three things are known after the private stages: how many people each published pair has, a noisy histogram of how many
published pairs a user has, and a noisy table of which topics meet in one user. From these alone (post-processing)
`assemble` deals every pair's copies out to synthetic users: as many users of each length as the histogram says, scaled
so that every copy finds a place; a user's topics follow the table. No user gets a pair twice where that can be helped.

Topics come from the published texts only: words of the query and of the url's host that several pairs share, hashed,
and grouped around the most popular pairs (spherical k-means, deterministic).

>>> apportioned(np.array([3, 1]), 8).tolist()
[6, 2]
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import sparse

from queryveil.arrays import Longs
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStream, integer_weights

TOPICS = 16
HASHED_WORDS = 4096
GROUPING_ROUNDS = 10
SWAPPING_ROUNDS = 60
WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True)
class Dealt:
    """One row for each copy: which synthetic user, which pair."""

    user: Longs
    pair: Longs
    users: int


def length_histogram(user: Longs, contribution: int) -> Longs:
    """How many users have 1, 2, …, `contribution` published pairs; one person changes one cell by one.

    `user` has the user of each published pair of all users.
    """
    lengths = np.bincount(user)
    return np.bincount(lengths, minlength=contribution + 1)[1 : contribution + 1].astype(np.int64)


def meeting_topics(user: Longs, topic: Longs, stream: NoiseStream, topics: int) -> Longs:
    """Table topics × topics: each user with two published pairs adds one, at the topics of two of them drawn at random.

    `user, topic` list the published pairs of all users. One person changes one cell by one.
    """
    order = np.lexsort((stream.words(len(user)), user))
    user, topic = user[order], topic[order]
    first = np.concatenate([[True], user[1:] != user[:-1]]) if len(user) else np.zeros(0, dtype=np.bool_)
    begins = np.flatnonzero(first)
    with_two = begins[np.diff(np.append(begins, len(user))) >= 2]
    cells = topic[with_two] * topics + topic[with_two + 1]
    return np.bincount(cells, minlength=topics * topics).reshape(topics, topics).astype(np.int64)


def topics_of(pairs: pl.DataFrame, popularity: Longs, topics: int = TOPICS) -> Longs:
    """A topic for each published pair, from its texts and how popular it is, both already public.

    Words of one pair only, or of more than half of them, tell nothing; pairs without others make up the last topic.
    """
    host = pl.col("url").str.replace_all(r"^[a-z]+://|/.*$", "").fill_null("")
    texts = pairs.select(pl.concat_str("query", host, separator=" "))
    words = [sorted({_hashed(word) for word in WORD.findall(text.lower())}) for text in texts.to_series()]
    columns = np.concatenate([np.asarray(w, dtype=np.int64) for w in words]) if words else np.zeros(0, dtype=np.int64)
    rows = np.repeat(np.arange(len(words)), [len(w) for w in words])
    pairs_of_word = np.bincount(columns, minlength=HASHED_WORDS)
    telling = (pairs_of_word[columns] > 1) & (2 * pairs_of_word[columns] <= len(words))
    rows, columns = rows[telling], columns[telling]
    words_of_pair = np.bincount(rows, minlength=len(words))
    each = 1.0 / np.sqrt(words_of_pair[rows])
    features = sparse.csr_array((each, (rows, columns)), shape=(len(words), HASHED_WORDS))
    centres = _spread_out(features, np.where(words_of_pair > 0, popularity, 0), topics - 1)
    group = np.zeros(len(words), dtype=np.int64)
    for _ in range(GROUPING_ROUNDS):
        group = np.argmax(features @ centres.T, axis=1).astype(np.int64)
        cells = (group, np.arange(len(words)))
        member = sparse.csr_array((np.ones(len(words)), cells), shape=(len(centres), len(words)))
        sums = (member @ features).toarray()
        size = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.where(size > 0, sums / np.maximum(size, 1e-12), centres)
    return np.where(words_of_pair > 0, group, topics - 1)


def apportioned(weights: Longs, seats: int) -> Longs:
    """`seats` dealt out in proportion to whole weights, by largest remainder; exact."""
    total = int(weights.sum())
    if total == 0:
        return np.zeros(len(weights), dtype=np.int64)
    shares = [divmod(int(w) * seats, total) for w in weights]
    given = np.array([whole for whole, _ in shares], dtype=np.int64)
    by_remainder = np.argsort([-rest for _, rest in shares], kind="stable")
    given[by_remainder[: seats - int(given.sum())]] += 1
    return given


def lengths_for(histogram: Longs, copies: int) -> Longs:
    """How many published pairs each synthetic user has: like the histogram, with exactly `copies` in sum."""
    length = np.arange(1, len(histogram) + 1)
    places = int(histogram @ length)
    if places == 0:
        return np.ones(copies, dtype=np.int64)
    users = np.array([int(h) * copies // places for h in histogram], dtype=np.int64)
    left = copies - int(users @ length)
    remainders = np.array([int(h) * copies % places for h in histogram], dtype=np.int64)
    for index in np.argsort(-remainders, kind="stable").tolist():
        if remainders[index] > 0 and left >= index + 1:
            users[index] += 1
            left -= index + 1
    while left > 0:  # the rest, shorter than any user that is due
        users[min(left, len(histogram)) - 1] += 1
        left -= min(left, len(histogram))
    return np.repeat(length, users)


def assemble(copies: Longs, topic: Longs, histogram: Longs, meetings: Longs, noise: Noise) -> Dealt:
    """Deal the copies of each pair out to synthetic users."""
    stream = noise.stream("sanitize: synthetic users")
    lengths = lengths_for(np.maximum(histogram, 0), int(copies.sum()))
    user = np.repeat(np.arange(len(lengths)), lengths)
    supply = np.bincount(topic, weights=copies, minlength=len(meetings)).astype(np.int64)
    wanted = _wanted_topics(user, supply, np.maximum(meetings, 0), stream)
    wanted = _matched(wanted, supply, stream)
    places = np.lexsort((stream.words(len(user)), wanted))
    pair_of_copy = np.repeat(np.arange(len(copies)), copies)
    dealt_in = np.lexsort((stream.words(len(pair_of_copy)), topic[pair_of_copy]))
    pair = np.empty(len(user), dtype=np.int64)
    pair[places] = pair_of_copy[dealt_in]
    _swap_repeats(user, pair, places, supply, stream)
    return Dealt(user, pair, len(lengths))


def _hashed(word: str) -> int:
    return zlib.crc32(word.encode()) % HASHED_WORDS


def _spread_out(features: sparse.csr_array, popularity: Longs, topics: int) -> np.ndarray:
    """Starting centres: the most popular pair, then always the most popular one least like those before."""
    nearest = np.zeros(features.shape[0])
    centres = []
    weight = np.sqrt(np.maximum(popularity, 0).astype(np.float64))
    for _ in range(topics):
        next_one = int(np.argmax((1.0 - nearest) * weight))
        centre = features[[next_one]].toarray().ravel()
        centres.append(centre)
        nearest = np.maximum(nearest, features @ centre)
    return np.array(centres)


def _wanted_topics(user: Longs, supply: Longs, meetings: Longs, stream: NoiseStream) -> Longs:
    """A topic for each place: the user's first by supply, the others by what meets it, if anything is known to."""
    topics = len(supply)
    together = meetings + meetings.T
    anywhere = integer_weights(supply)
    first = np.concatenate([[True], user[1:] != user[:-1]]) if len(user) else np.zeros(0, dtype=np.bool_)
    wanted = np.zeros(len(user), dtype=np.int64)
    wanted[first] = stream.choice(anywhere, int(first.sum()))
    leader = wanted[first][np.cumsum(first) - 1] if len(user) else wanted
    for lead in range(topics):
        followers = np.flatnonzero(~first & (leader == lead))
        row = together[lead]
        weights = integer_weights(row) if row.sum() > 0 else anywhere
        wanted[followers] = stream.choice(weights, len(followers))
    return wanted


def _matched(wanted: Longs, supply: Longs, stream: NoiseStream) -> Longs:
    """Places of topics that are wanted too often take one that is wanted too seldom, at random."""
    order = np.lexsort((stream.words(len(wanted)), wanted))
    demand = np.bincount(wanted, minlength=len(supply))
    start = np.cumsum(demand) - demand
    too_many = np.concatenate([order[s + k : s + d] for s, d, k in zip(start, demand, supply, strict=True)])
    missing = np.repeat(np.arange(len(supply)), np.maximum(supply - demand, 0))
    matched = wanted.copy()
    matched[too_many[stream.permutation(len(too_many))]] = missing
    return matched


def _swap_repeats(user: Longs, pair: Longs, places: Longs, supply: Longs, stream: NoiseStream) -> None:
    """A pair that a user got twice changes places with a random one, of the same topic for the first half of rounds."""
    end = np.cumsum(supply)
    position = np.empty(len(places), dtype=np.int64)
    position[places] = np.arange(len(places))
    for round_number in range(SWAPPING_ROUNDS):
        order = np.lexsort((pair, user))
        same = (user[order][1:] == user[order][:-1]) & (pair[order][1:] == pair[order][:-1])
        repeats = order[1:][same]
        if not len(repeats):
            return
        if round_number < SWAPPING_ROUNDS // 2:
            topic = np.searchsorted(end, position[repeats], side="right")
            partner = places[end[topic] - supply[topic] + stream.below(supply[topic])]
        else:
            partner = stream.below(len(user), len(repeats))
        _, alone = np.unique(partner, return_index=True)
        alone = alone[~np.isin(partner[alone], repeats)]
        here, there = repeats[alone], partner[alone]
        pair[here], pair[there] = pair[there], pair[here]
