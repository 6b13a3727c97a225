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

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from queryveil.audit.attacks.released_stream import cut_to_depth
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Found,
    LeftOut,
    kept,
    resampled,
)
from queryveil.audit.measures.floor import top_shares
from queryveil.knowledge._arrays import Array, Floats
from queryveil.knowledge.taxonomy import Taxonomy


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


def mean_similarity(taxonomy: Taxonomy, inputs: Array, outputs: Array) -> float:
    """The mean similarity (eq. 5) of each input concept to its replacement; 1 where there is none to compare."""
    if not len(inputs):
        return 1.0
    total = 0.0
    for concept in np.unique(inputs).tolist():
        total += float(taxonomy.similarity_to_all(concept)[outputs[inputs == concept]].sum())
    return total / len(inputs)


class TopicProfiles:
    """How far profiles of topics move: of each person where they are known, and of all people together."""

    key: ClassVar[str] = "topic-profiles"
    title: ClassVar[str] = "Topics of each person"
    task: ClassVar[str] = "topic profiles"

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        categories = context.categories
        top = cut_to_depth(categories.parents, categories.depths, 1)
        tops = np.flatnonzero(categories.depths == 1)
        place = np.full(len(top), -1, np.int64)
        place[tops] = np.arange(len(tops))
        before, after = (place[top[categories.of_text[t]]] for t in (context.original_texts, context.released_texts))
        nothing = top_shares(context, tops, top)
        one, other = (np.bincount(numbers[numbers >= 0], minlength=len(tops)) for numbers in (before, after))
        yield kept(
            "topics-all", "Topics of all people together", "topic profiles", float(divergences(one[None],
            other[None])[0]),
            "Jensen–Shannon divergence between the shares of the top categories in both logs: 0 unchanged, 1 nothing "
            "in common. Counted, not sampled.",
            better="lower", unit="distance", raw=0.0, chance=float(divergences(one[None], nothing[None])[0]),
            trials=len(context.users), population="both logs",
            detail=f"{len(tops)} top categories.",
        )  # fmt: skip
        if context.receivers is None:
            yield LeftOut(title=self.title, reason=context.why_no_owners(), by_settings=True)
            return
        behind = context.people(context.receivers)
        chosen = context.some_people()
        sides = (context.original_users, before), (behind, after)
        tables = [_table(users, numbers, chosen, len(tops)) for users, numbers in sides]
        known = tables[0].sum(axis=1) > 0
        moved = divergences(tables[0][known], tables[1][known])
        if len(moved):
            yield kept(
                "topics-person", "Topics of each person", "topic profiles", float(moved.mean()),
                "Mean over people of the Jensen–Shannon divergence between the topics they searched and those released "
                "under their pseudonym: 0 unchanged, 1 nothing in common (also where nothing of theirs was released).",
                better="lower", unit="distance", interval=resampled(moved), raw=0.0, trials=len(moved),
                chance=float(divergences(tables[0][known], np.tile(nothing, (len(moved), 1))).mean()),
                population="people with a topic",
            )  # fmt: skip


def _table(
    users: npt.NDArray[np.int32], topic: npt.NDArray[np.int64], chosen: npt.NDArray[np.int64], count: int
) -> npt.NDArray[np.int64]:
    row = np.full(int(max(users.max(initial=0), chosen.max(initial=0))) + 2, -1, np.int64)  # the last is for −1
    row[chosen] = np.arange(len(chosen))
    good = (row[users] >= 0) & (topic >= 0)
    flat = np.bincount(row[users[good]] * count + topic[good], minlength=len(chosen) * count)
    return flat.reshape(len(chosen), count)
