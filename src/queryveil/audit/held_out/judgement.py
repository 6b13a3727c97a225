"""What held-out people say about a release: where it lies between public knowledge (0) and the raw log (1).

A measure gives a figure for three readers, who know public data alone, the release, and the raw log. *Value kept* is
the share of the way from the first to the third that the second has gone:

    value kept = (release − floor) / (ceiling − floor)

All three are judged by the same people, who are drawn anew many times (bootstrap over people, the three together), so
that what people differ by among themselves cancels out. Beyond either end counts as that end in a finding; `Judgement`
has the figures as they are. Nothing is said where fewer than `FEWEST` people judge, or where the raw log itself does
not clearly tell them more than public knowledge does: a share of nothing is no figure.

>>> def figures(weights):  # of three judges, who see the floor at 0, the release at a half and the ceiling at 1
...     return np.tile([0.0, 0.5, 1.0], (len(weights), 1))
>>> judge(figures, 30, Noise.seeded(1)).value
0.5
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.audit.finding import RESAMPLED, Finding, Found, LeftOut, kept
from queryveil.privacy import Noise

if TYPE_CHECKING:
    from queryveil.audit.context import AuditContext

FEWEST: Final = 10
NEEDS_JUDGES: Final = "needs people whom the mechanism never saw: give their log as held_out"
TOO_FEW_JUDGES: Final = f"fewer than {FEWEST} held-out people have what it takes"
NO_GAP: Final = "the raw log does not clearly tell held-out people more than public knowledge does"

Figures: TypeAlias = Callable[[Floats], Floats]
"""From how often each judge counts (a row for each draw) to floor, release and ceiling (a row for each draw)."""


@dataclass(frozen=True)
class Judgement:
    """Value kept with its interval, and the three figures behind it. Higher is better in each, or lower in each."""

    value: float
    low: float
    high: float
    floor: float
    release: float
    ceiling: float
    judges: int


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A figure of a measure, with what it is called and what it means."""

    key: str
    title: str
    explanation: str
    figure: str
    """What floor, release and ceiling are, in words: for the holder."""
    judgement: Judgement


def judge(figures: Figures, people: int, noise: Noise, *, better: Literal["higher", "lower"] = "higher") -> Judgement:
    """Value kept, by resampling people; raises `NothingToSayError` where it is no figure."""
    if people < FEWEST:
        raise NothingToSayError(TOO_FEW_JUDGES)
    picks = noise.stream("held out: resampling").below(people, RESAMPLED * people)
    draw = np.repeat(np.arange(RESAMPLED), people)
    drawn = np.bincount(draw * people + picks, minlength=RESAMPLED * people).reshape(RESAMPLED, people)
    floor, release, ceiling = (float(figure) for figure in figures(np.ones((1, people)))[0])
    resampled = figures(drawn.astype(np.float64))
    gaps = (resampled[:, 2] - resampled[:, 0]) * (1 if better == "higher" else -1)
    if floor == ceiling or not np.quantile(gaps, 0.025) > 0:
        raise NothingToSayError(NO_GAP)
    floors, releases, ceilings = resampled[gaps != 0].T  # the few without a gap have no share
    shares = (releases - floors) / (ceilings - floors)
    value = (release - floor) / (ceiling - floor)
    low, high = (float(end) for end in np.quantile(shares, [0.025, 0.975]))
    return Judgement(value, min(low, value), max(high, value), floor, release, ceiling, people)


class NothingToSayError(Exception):
    """Why there is no figure; a measure turns it into what was left out."""


def means(person: Longs, floor: Floats, release: Floats, ceiling: Floats) -> tuple[Figures, int]:
    """The mean over trials of three scores, resampled by the people whose trials they are; and how many these are."""
    judges, place = np.unique(person, return_inverse=True)
    sums = np.stack([np.bincount(place, scores, len(judges)) for scores in (floor, release, ceiling)], axis=1)
    trials = np.bincount(place, minlength=len(judges)).astype(np.float64)

    def figures(weights: Floats) -> Floats:
        averages: Floats = (weights @ sums) / (weights @ trials)[:, None]
        return averages

    return figures, len(judges)


def distances(person: Longs, cell: Longs, floor: Floats, release: Floats, ceiling: Floats) -> tuple[Figures, int]:
    """Total variation distance of three sets of shares from those that the judges' own counts of cells give."""
    judges, place = np.unique(person, return_inverse=True)
    cells = len(floor)
    table = np.bincount(place * cells + cell, minlength=len(judges) * cells).reshape(len(judges), cells)
    said = np.stack([floor, release, ceiling])

    def figures(weights: Floats) -> Floats:
        counts = weights @ table
        shares = counts / counts.sum(axis=1, keepdims=True)
        return np.stack([total_variation(shares, row) for row in said], axis=1)

    return figures, len(judges)


def total_variation(one: Floats, other: Floats) -> Floats:
    """Half the sum of how far shares differ: 0 for the same ones, 1 for nothing in common.

    >>> float(total_variation(np.array([0.5, 0.5, 0.0]), np.array([0.25, 0.25, 0.5])))
    0.5
    """
    return np.asarray(np.abs(one - other).sum(axis=-1) / 2)


def reciprocal_rank(scores: Floats, place: int, shown: int) -> float:
    """1 / rank of the one at a place, those before it going first among equals; 0 where it is not shown.

    >>> reciprocal_rank(np.array([0.1, 0.5, 0.1]), 1, 10), reciprocal_rank(np.array([0.1, 0.5, 0.1]), 2, 2)
    (1.0, 0.0)
    """
    rank = 1 + int((scores > scores[place]).sum() + (scores[:place] == scores[place]).sum())
    return 1 / rank if rank <= shown else 0.0


def shares_of(cell: Longs, cells: int, otherwise: Floats) -> Floats:
    """The share of each cell; what is known otherwise where there is nothing to count."""
    counts = np.bincount(cell, minlength=cells).astype(np.float64)
    return counts / counts.sum() if len(cell) else otherwise


class JudgedByOthers(ABC):
    """A measure that people judge who are in neither log. Whoever writes one says what `judge` does."""

    key: ClassVar[str]
    title: ClassVar[str]
    task: ClassVar[str]
    needs_held_out: ClassVar[bool] = True

    @abstractmethod
    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """Its figures, or what is missing, where there are held-out people."""

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if context.held_out is None:
            yield LeftOut(title=self.title, reason=NEEDS_JUDGES, by_settings=True)
            return
        for found in self.judged(context):
            yield found if isinstance(found, LeftOut) else self._finding(found)

    def _finding(self, found: Judged) -> Finding:
        judged = found.judgement
        value, low, high = (min(1.0, max(0.0, end)) for end in (judged.value, judged.low, judged.high))
        return kept(
            found.key, found.title, self.task, value,
            f"{found.explanation} 0 % is what public knowledge alone gives, 100 % what the raw log gives, on people "
            "who are in neither log.",
            interval=(low, high), raw=1.0, chance=0.0, trials=judged.judges, population="held-out people",
            detail=f"{found.figure}: public knowledge {judged.floor:.3f}, release {judged.release:.3f}, raw log "
            f"{judged.ceiling:.3f}.",
        )  # fmt: skip
