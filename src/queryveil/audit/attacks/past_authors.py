"""Who wrote this record, for somebody who knows what people asked before?

A record by itself is put down to the person whose earlier words and texts make it likeliest (`interests.Likelihood`),
busy people being likelier before. Of whom the attacker has to choose depends on the release:

- of *everybody*, for any release;
- of the people who share a log, where several do: only one of them supplied the record;
- of the *pool*, where a record carries the name of somebody in a pool and the mechanism can tell who was in it
  (`pools`): the very attacker its promise speaks of, who now also knows the past. Nobody keeps pools, so this is tried
  on a run made again over the later part of the raw log.

Some records say more than others: those whose text somebody asked before. An attacker may well stick to them, so they
are told beside all records.

Cost: as `past_pseudonyms`; for groups and pools one sum over shared terms for each record and candidate.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from queryveil.audit.attacks.groups import group_of_records
from queryveil.audit.attacks.interests import Floats, Likelihood, Longs
from queryveil.audit.attacks.knowing import RECORDS, RECORDS_OF, Knowing, Targets
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, Question, Success, risk

OUTSIDE = -1e9
"""The score of a candidate of whom no past is known: taken only where nobody else is left."""

Flags = npt.NDArray[np.bool_]


class AuthorsByPast:
    """A record is put down to whoever asked such things before."""

    key: ClassVar[str] = "past-authors"
    title: ClassVar[str] = "Who wrote a record, known from the past"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        missing = context.nothing_to_go_by(self.title)
        if missing is not None:
            yield missing
            return
        yield from self._of_everybody(context)
        yield from self._of_group(context)
        yield from self._of_pool(context)

    def _of_everybody(self, context: AuditContext) -> Found:
        knowing = context.knowing
        stream = context.fresh_noise().stream("attack: records to name")
        targets, raw = knowing.records_to_name(stream), knowing.raw_records_to_name(stream)
        if not len(targets):
            yield LeftOut(title=self.title, reason="nobody who wrote a released record is in what the attacker knows")
            return
        index, prior = Likelihood(knowing.past_by_texts), knowing.activity
        right, on_raw = (
            index.best(knowing.by_texts(those), stream.uniform(len(those)), prior) == those.truth
            for those in (targets, raw)
        )
        yield from self._findings(
            "past-authors", "of everybody", "of everybody", knowing, targets, right,
            raw=float(on_raw.mean()) if len(on_raw) else None, chance=knowing.chance_of_records(targets),
        )  # fmt: skip

    def _of_group(self, context: AuditContext) -> Found:
        """Pseudonyms with the very same log are one group; each record of it was supplied by one of its people."""
        knowing = context.knowing
        group_of = group_of_records(context.released.frame)
        judged = knowing.judged
        group = group_of[judged]
        pairs = np.unique(np.column_stack([group, knowing.receivers]), axis=0)
        pairs = pairs[pairs[:, 1] >= 0]
        sizes = np.bincount(pairs[:, 0], minlength=int(group_of.max(initial=-1)) + 1)
        able = np.flatnonzero((knowing.owners >= 0) & (sizes[group] > 1))
        if len(able) < len(judged) // 2 or not len(able):
            return  # logs are people's own
        stream = context.fresh_noise().stream("attack: records of groups")
        chosen = np.sort(able[stream.permutation(len(able))[:RECORDS]])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        rows, members = _spread(starts, pairs[:, 1], group[chosen])
        targets = Targets(np.arange(len(chosen)), knowing.released_texts[chosen], knowing.owners[chosen])
        scores = Likelihood(knowing.past_by_all).scores(knowing.by_all(targets), rows, np.maximum(members, 0))
        right = _best_of(knowing, targets, rows, members, scores, stream.uniform(len(members)))
        yield from self._findings(
            "past-authors-in-group", "of those who share the log", "of the people who share the log", knowing, targets,
            right, raw=1.0, chance=float((1 / sizes[group[chosen]]).mean()),
        )  # fmt: skip

    def _of_pool(self, context: AuditContext) -> Found:
        pools = context.pools if context.safe else None
        if pools is None:
            return
        knowing = context.knowing
        noise = context.fresh_noise()
        owners, people = knowing.places(pools.owners), knowing.places(pools.members)
        sizes = np.diff(pools.starts)
        able = np.flatnonzero(owners >= 0)
        chosen = np.sort(able[noise.stream("attack: records of pools").permutation(len(able))[:RECORDS]])
        if not len(chosen):
            yield LeftOut(title=f"{self.title}: of a pool", reason="no record came out of a pool of known people")
            return
        rows, members = _spread(pools.starts, people, chosen)
        texts = knowing.terms.numbers(pools.queries.gather(chosen))
        targets = Targets(np.arange(len(chosen)), texts, owners[chosen])
        draws = noise.stream("attack: ties in pools").uniform(len(members))
        scores = Likelihood(knowing.past_by_texts).scores(knowing.by_texts(targets), rows, np.maximum(members, 0))
        right = _best_of(knowing, targets, rows, members, scores, draws)
        yield from self._findings(
            "past-authors-in-pool", "of the pool it came out of", "of the pool that it came out of (known, "
            "as the promise assumes)", knowing, targets, right, raw=1.0, chance=float((1 / sizes[chosen]).mean()),
        )  # fmt: skip

    def _findings(
        self,
        key: str,
        among: str,
        told: str,
        knowing: Knowing,
        targets: Targets,
        right: Flags,
        *,
        raw: float | None,
        chance: float,
    ) -> Found:
        """All records, and those whose text somebody asked before."""
        before = knowing.asked_before(targets.texts)
        for suffix, which, these in (
            ("", "", np.ones(len(right), np.bool_)),
            ("-asked-before", " of a text asked before", before),
        ):
            tried = Success(int(right[these].sum()), int(these.sum()))
            if not tried.measured or (suffix and before.all()):
                continue
            yield risk(
                f"{key}{suffix}", f"Author of a record{which} named from the past, {among}", "knowing the past",
                self.question, tried,
                f"Share of released records{which} that are put down to who wrote them, {told}, by an attacker who "
                f"knows {knowing.told}: the person whose earlier words and texts make the record likeliest.",
                raw=raw, chance=chance, population=RECORDS_OF,
            )  # fmt: skip


def _spread(starts: npt.NDArray[np.integer], members: Longs, chosen: Longs) -> tuple[Longs, Longs]:
    """Row and member for each member of each chosen list."""
    sizes = np.diff(starts)[chosen]
    rows = np.repeat(np.arange(len(chosen)), sizes)
    offsets = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rows.astype(np.int64), members[starts[chosen][rows] + offsets].astype(np.int64)


def _best_of(knowing: Knowing, targets: Targets, rows: Longs, members: Longs, scores: Floats, draws: Floats) -> Flags:
    """Whether the candidate with the best score of each row, busy people before others, is the right one."""
    scores = np.where(members >= 0, scores + knowing.activity[np.maximum(members, 0)], OUTSIDE)
    order = np.lexsort((draws, scores, rows))
    last = np.flatnonzero(np.r_[np.diff(rows[order]) != 0, True])
    guessed = np.full(len(targets), -1, np.int64)
    guessed[rows[order][last]] = members[order][last]
    right: Flags = guessed == targets.truth
    return right
