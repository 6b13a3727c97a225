"""Who is interested in what: topic profiles of users, how far a release moves them, and how much meaning it keeps.

Sánchez et al. (2018), section 4. A profile counts a user's queries by topic (ρ: the first topic whose root subsumes the
concept). Two profiles are compared by the Jensen-Shannon divergence with logarithm to base 2 (eqs. 9 and 10; the T(i)
printed there is the profile itself): 0 for the same shares, 1 where they share no topic. The utility loss of a release
is the mean over users (eq. 11).

Queries without a topic are left out of a profile, as in the paper, unless `other` asks for a topic of their own; the
paper does not say which it did, and it changes the ranking of methods where domains are wide.

Cost: linear in queries, after reading each distinct text once.

>>> round(divergence([3, 1, 10, 5], [5, 3, 6, 5]), 9)
0.048643985
>>> divergence([2, 0], [1, 0]), divergence([1, 0], [0, 1])
(0.0, 1.0)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.errors import DataError
from queryveil.knowledge._arrays import Array, Floats
from queryveil.knowledge.phrases import PhraseMapper
from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.log import QueryLog


def divergence(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """The Jensen-Shannon divergence of two histograms; an empty one is at 1 from any other, at 0 from another empty."""
    return float(divergences(np.asarray(one)[None, :], np.asarray(other)[None, :])[0])


def divergences(ones: npt.ArrayLike, others: npt.ArrayLike) -> Floats:
    """The divergence of each row of counts from the same row of the other table."""
    p, q = (np.asarray(table, np.float64) for table in (ones, others))
    if p.shape != q.shape or (p < 0).any() or (q < 0).any() or not (np.isfinite(p).all() and np.isfinite(q).all()):
        raise ValueError("profiles are tables of counts >= 0 with the same shape.")
    p_total, q_total = p.sum(axis=1), q.sum(axis=1)
    p_share = p / np.where(p_total > 0, p_total, 1)[:, None]
    q_share = q / np.where(q_total > 0, q_total, 1)[:, None]
    middle = (p_share + q_share) / 2
    halves = (_divergence_from(p_share, middle) + _divergence_from(q_share, middle)) / 2
    empty = (p_total == 0) != (q_total == 0)
    same = (p_share == q_share).all(axis=1)  # exactly 0, whatever the rounding
    return np.where(same, 0.0, np.where(empty, 1.0, np.clip(halves, 0.0, 1.0)))


def _divergence_from(share: Floats, middle: Floats) -> Floats:
    """Kullback-Leibler, eq. 10, with 0 · log 0 = 0."""
    present = share > 0
    ratio = np.divide(share, middle, out=np.ones_like(share), where=present)
    return np.asarray((share * np.log2(ratio)).sum(axis=1))


def topic_counts(users: Array, topics: Array, user_count: int, topic_count: int, *, other: bool = False) -> Array:
    """One row for each user: how many of their queries have each topic; −1 is no topic (a last column if `other`)."""
    columns = topic_count + other
    kept = topics >= 0 if not other else np.ones(len(topics), np.bool_)
    place = np.where(topics >= 0, topics, topic_count)[kept]
    flat = np.bincount(users[kept].astype(np.int64) * columns + place, minlength=user_count * columns)
    return flat.reshape(user_count, columns)


class Profiler:
    """Reads queries as concepts of a taxonomy and profiles users by topics."""

    def __init__(self, mapper: PhraseMapper, topics: Sequence[str], *, other: bool = False) -> None:
        self.mapper = mapper
        self.taxonomy: Taxonomy = mapper.taxonomy
        self._topic_of = self.taxonomy.topics([self.taxonomy.concept(name) for name in topics])
        self.topics = list(topics)
        self.other = other

    def profiles(self, log: QueryLog) -> pl.DataFrame:
        """One row for each user, sorted by user: `user` and a count for each topic."""
        users = log.users()
        who, concepts = self._phrases(log.frame, users)
        counts = topic_counts(who, self._topics(concepts), len(users), len(self.topics), other=self.other)
        names = [*self.topics, *(["(other)"] if self.other else [])]
        return pl.DataFrame({"user": users, **{name: counts[:, k] for k, name in enumerate(names)}})

    def utility_loss(self, original: QueryLog, released: QueryLog, owners: pl.Series) -> float:
        """Eq. 11: the mean divergence of users' profiles; `owners` holds the true user of each released record."""
        users = original.users()
        if len(owners) != len(released):
            raise DataError("owners must name a user for each released record.")
        if not len(users):
            return 0.0
        tables = []
        for frame in (original.frame.select("user", "query"), released.frame.select(owners.alias("user"), "query")):
            who, concepts = self._phrases(frame, users)
            tables.append(topic_counts(who, self._topics(concepts), len(users), len(self.topics), other=self.other))
        return float(divergences(*tables).mean())

    def _topics(self, concepts: Array) -> Array:
        return np.where(concepts >= 0, self._topic_of[concepts], -1)

    def _phrases(self, frame: pl.DataFrame, users: pl.Series) -> tuple[Array, Array]:
        """For every noun phrase of every record the place of its user in `users` and its concept."""
        texts = frame["query"].unique(maintain_order=True)
        found = self.mapper.concepts(texts.to_list())
        numbers = pl.DataFrame({"query": texts, "text": np.arange(len(texts))})
        text = frame.select("query").join(numbers, on="query", how="left", maintain_order="left")["text"].to_numpy()
        gathered = found.gather(text)
        who = users.search_sorted(frame["user"]).to_numpy() if len(frame) else np.empty(0, np.int64)
        return np.repeat(who, gathered.lengths), gathered.values


def mean_similarity(taxonomy: Taxonomy, inputs: Array, outputs: Array) -> float:
    """The mean similarity (eq. 5) of each input concept to its replacement; 1 where there is none to compare."""
    if not len(inputs):
        return 1.0
    total = 0.0
    for concept in np.unique(inputs).tolist():
        total += float(taxonomy.similarity_to_all(concept)[outputs[inputs == concept]].sum())
    return total / len(inputs)
