"""Head: the queries that most people ask, among people who are in neither log.

*Recall*: of the `TOP` texts that most held-out people asked, the share among the `TOP` texts that most users of the
release asked. *Distance*: total variation between the shares of these texts, and of all others together, among held-out
people and in the release: a release of frequent texts alone makes them far too frequent. Each text of a user counts
once, and a text must have two held-out people to be judged. Who knows public counts alone names the most frequent
words, and expects none of the texts.

How much of the raw log's own head is kept is told by `query-frequency`. Cost: groupings, and a sort for each draw of
judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import polars as pl
from scipy import sparse

from queryveil.arrays import Flags, Floats, Longs
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Figures, Judged, JudgedByOthers, distances
from queryveil.audit.held_out.searches import Searches, vocabulary

TOP: Final = 100
FEWEST_TEXTS: Final = 10
FEWEST_ASKERS: Final = 2


@dataclass(frozen=True)
class Head:
    """Which of some texts are among a reader's first, and the share of each among all that is asked."""

    first: Flags
    shares: Floats

    @classmethod
    def of(cls, searches: Searches, texts: pl.Series) -> Head:
        """By how many users of a log asked each text."""
        people = np.bincount(searches.asked[1], minlength=len(searches.names))
        order = np.argsort(-people, kind="stable")[:TOP]
        known = pl.DataFrame({"text": searches.names, "people": people})
        found = texts.to_frame("text").join(known, on="text", how="left", maintain_order="left")["people"].fill_null(0)
        first = texts.is_in(searches.names.gather(order).implode()).to_numpy()
        return cls(first, found.to_numpy() / max(1, people.sum()))

    @classmethod
    def public(cls, texts: pl.Series) -> Head:
        """The most frequent public words; of the texts nothing is known."""
        most = pl.Series([vocabulary().words[word] for word in range(TOP)])
        return cls(texts.is_in(most.implode()).to_numpy(), np.zeros(len(texts)))


class HeadQueries(JudgedByOthers):
    """Recall and distance of the most asked queries."""

    key: ClassVar[str] = "head"
    title: ClassVar[str] = "Most asked queries of other people"
    task: ClassVar[str] = "query frequency"

    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """Recall and distance of each reader."""
        judging = context.judging
        judges = judging.judges
        askers = np.bincount(judges.asked[1], minlength=len(judges.names))
        shared = np.flatnonzero(askers >= FEWEST_ASKERS)
        if len(shared) < FEWEST_TEXTS:
            reason = f"fewer than {FEWEST_TEXTS} texts have {FEWEST_ASKERS} held-out people"
            for what in ("recall", "distance"):
                yield LeftOut(title=f"{self.title}: {what}", reason=reason)
            return
        texts = judges.names.gather(shared)
        public = Head.public(texts)
        release = Head.of(judging.released, texts)
        raw = judging.once("raw head", lambda: Head.of(judging.raw, texts))
        yield from judging.judge(
            f"{self.title}: recall", "head-recall",
            f"Of the {TOP} texts that most other people asked, how many are among the release's {TOP}.",
            f"Recall@{TOP}", _recall(judges, shared, [public.first, release.first, raw.first]),
        )  # fmt: skip
        top = shared[np.argsort(-askers[shared], kind="stable")[:TOP]]
        place = np.searchsorted(shared, top)
        cell = np.full(len(judges.names), len(top), np.int64)
        cell[top] = np.arange(len(top))
        said = (np.append(head.shares[place], 1 - head.shares[place].sum()) for head in (public, release, raw))
        yield from judging.judge(
            f"{self.title}: distance", "head-distance",
            f"How near the shares of the {TOP} texts that most other people asked come in the release: total variation "
            "distance, all other texts being one.",
            "Distance", distances(judges.asked[0], cell[judges.asked[1]], *said), better="lower",
        )  # fmt: skip


def _recall(judges: Searches, shared: Longs, first: list[Flags]) -> tuple[Figures, int]:
    """The share of the texts that most of the drawn judges asked that are among each reader's first."""
    person, text = judges.asked
    there = np.isin(text, shared)
    place = np.searchsorted(shared, text[there])
    asked = sparse.csr_array((np.ones(len(place)), (person[there], place)), shape=(judges.people, len(shared)))
    flags = np.stack(first).astype(np.float64)

    def figures(weights: Floats) -> Floats:
        counts = np.asarray(weights @ asked)
        top = np.argsort(-counts, axis=1, kind="stable")[:, :TOP]
        asked_at_all = np.take_along_axis(counts, top, axis=1) > 0
        found = np.stack([(row[top] * asked_at_all).sum(axis=1) for row in flags], axis=1)
        return np.asarray(found / asked_at_all.sum(axis=1, keepdims=True))

    return figures, judges.people
