"""Which pairs may be published at all, and with which count of people: the first stage of safe mode.

Each user contributes at most d distinct pairs. A pair's number of people gets noise, and the pair is kept where the
noisy number is above a threshold. Three kinds of noise; the one that keeps a pair of the fewest people half of the time
is used, which depends on public parameters only:

- *gaussian*: discrete Gaussian, σ for d counts at (ε, δ/2); wins for many contributions.
- *laplace*: discrete Laplace, scale d/ε; wins for few.
- *truncated geometric*: the optimal rule where only the keys are wanted and no count, at (ε/d, δ/d) a key.

A pair of one person comes out with probability at most δ/(2d), by the truncated geometric rule at most δ/d.

Why this is (ε, δ)-DP. Let log B be log A with one more user, who holds at most d pairs, some shared with A, some of her
own, and let p be the probability that any of her own is kept; they are kept independently, so p ≤ d · δ/(2d) = δ/2.
On the shared pairs alone the noisy counts of A and B are (ε, δ/2)-close (Gaussian) or (ε, 0)-close (Laplace).
*From B to A*: P(B ∈ S) ≤ p + P(B's shared ∈ S) ≤ δ/2 + e^ε P(A ∈ S) + δ/2.
*From A to B*: outputs of A hold none of her own pairs, and B yields each with (1 − p) times the probability its shared
part has. So the excess of A over e^ε B is at most the excess over e^ε times B's shared part, ≤ δ/2, plus
p/(1−p) · P(the loss exceeds ε − ln 1/(1−p)), and that last probability is below 1 − p: for the Gaussian it is below
one half, as ε lies above the mean loss d/2σ² whenever δ is below 10^-2; for Laplace p/(1−p) ≤ δ already suffices,
because there the first half was not used. Keys by the truncated geometric rule: d independent (ε/d, δ/d)-DP choices,
whose losses add up.

>>> Selection.best(epsilon=2.0, delta=1e-6, contribution=20, keys_only=False).kind
'gaussian'
>>> rule = Selection.best(epsilon=2.0, delta=1e-6, contribution=1, keys_only=True)
>>> rule.kind, rule.keep_probability(1) <= 1e-6
('truncated geometric', True)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from queryveil.arrays import Flags, Longs
from queryveil.privacy import calibration
from queryveil.privacy.noise import NoiseStream

Kind: TypeAlias = Literal["gaussian", "laplace", "truncated geometric"]


FINEST_FOR_KEYS = 2.0**-52
"""Below this probability the truncated geometric rule, a table of multiples of 2^-62, is not considered."""


@dataclass(frozen=True)
class Selection:
    """How a pair is kept and its number of people blurred; all of it public."""

    kind: Kind
    threshold: int
    """Kept where the noisy number is above it; for keys, the last number of people that is never surely kept."""
    scale: Fraction = Fraction(0)
    """σ or Laplace's scale."""
    keys: tuple[int, ...] = ()
    """P(kept) · 2^62 by number of people, for the truncated geometric rule."""

    @classmethod
    def gaussian(cls, *, epsilon: float, delta: float, contribution: int) -> Selection:
        """Half of δ for the shape of the noise, half for pairs of one person."""
        sigma = calibration.discrete_gaussian_sigma(epsilon=epsilon, delta=delta / 2, keys=contribution)
        tail = _one_person(delta, contribution)
        return cls("gaussian", calibration.discrete_gaussian_threshold(sigma, tail=tail), sigma)

    @classmethod
    def laplace(cls, *, epsilon: float, delta: float, contribution: int) -> Selection:
        """One person moves the counts by `contribution` in sum."""
        scale = Fraction(contribution) / Fraction(epsilon)
        tail = _one_person(delta, contribution)
        return cls("laplace", calibration.discrete_laplace_threshold(scale, tail=tail), scale)

    @classmethod
    def truncated_geometric(cls, *, epsilon: float, delta: float, contribution: int) -> Selection:
        """Keys only."""
        share, slack = np.nextafter(epsilon / contribution, 0.0), np.nextafter(delta / contribution, 0.0)
        keys = calibration.truncated_geometric_keep(epsilon=float(share), delta=float(slack))
        return cls("truncated geometric", len(keys) - 2, keys=keys)

    @classmethod
    def best(cls, *, epsilon: float, delta: float, contribution: int, keys_only: bool) -> Selection:
        """The kind that needs the fewest people to keep a pair half of the time.

        A tie goes to the first: where the truncated geometric rule ties, it keeps more pairs of fewer people.
        """
        fine_enough = delta / contribution > FINEST_FOR_KEYS
        kinds = [*([cls.truncated_geometric] if keys_only and fine_enough else []), cls.laplace, cls.gaussian]
        candidates = [make(epsilon=epsilon, delta=delta, contribution=contribution) for make in kinds]
        return min(candidates, key=lambda candidate: candidate.half_kept)

    @property
    def half_kept(self) -> int:
        """The least number of people whose pair is kept at least half of the time."""
        if self.keys:
            return next(n for n, kept in enumerate(self.keys) if 2 * kept >= calibration.KEEP_UNIT)
        return self.threshold + 1

    def keep_probability(self, people: int) -> float:
        """P(a pair of so many people is kept); for one person rounded up."""
        if people < 1:
            return 0.0
        if self.keys:
            return self.keys[min(people, len(self.keys) - 1)] / calibration.KEEP_UNIT
        beyond = self.threshold - people
        if self.kind == "gaussian":
            return calibration.discrete_gaussian_tail(self.scale, beyond)
        return calibration.discrete_laplace_tail(self.scale, beyond)

    def apply(self, people: Longs, stream: NoiseStream) -> tuple[Flags, Longs]:
        """Which pairs are kept, and the noisy number of people of those (1 for each where only keys are wanted)."""
        if self.keys:
            chance = np.array(self.keys, dtype=np.uint64)[np.minimum(people, len(self.keys) - 1)]
            kept: Flags = stream.below(calibration.KEEP_UNIT, len(people)).astype(np.uint64) < chance
            return kept, np.ones(int(kept.sum()), dtype=np.int64)
        draw = stream.discrete_gaussian if self.kind == "gaussian" else stream.discrete_laplace
        noisy = people + draw(self.scale, len(people))
        kept = noisy > self.threshold
        return kept, noisy[kept]

    def in_words(self) -> str:
        """For statements and pages."""
        if self.keys:
            return f"a pair is published with a probability that reaches one half at {self.half_kept} people"
        blur = f"σ = {float(self.scale):.4g}" if self.kind == "gaussian" else f"scale = {float(self.scale):.4g}"
        name = "Gaussian" if self.kind == "gaussian" else "Laplace"
        return (
            f"a pair is published where its number of people, with discrete {name} noise ({blur}), "
            f"is above {self.threshold}"
        )


def contributed(user: Longs, stream: NoiseStream, contribution: int) -> Flags:
    """At most `contribution` entries of each user, uniformly at random; one entry is one distinct pair."""
    words = stream.words(len(user))
    order = np.lexsort((words, user))
    ordered = user[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(user) else np.array([], int)
    rank = np.arange(len(user)) - np.repeat(starts, np.diff(np.append(starts, len(user))))
    kept = np.zeros(len(user), dtype=np.bool_)
    kept[order[rank < contribution]] = True
    return kept


def expected_kept(selection: Selection, people: npt.ArrayLike) -> tuple[float, float]:
    """Mean and variance of the number of pairs kept, by the law, from the numbers of people after the bound."""
    numbers, how_often = np.unique(np.asarray(people), return_counts=True)
    kept = np.array([selection.keep_probability(int(n)) for n in numbers])
    return float(kept @ how_often), float((kept * (1 - kept)) @ how_often)


def _one_person(delta: float, contribution: int) -> float:
    return float(np.nextafter(delta / (2 * contribution), 0.0))
