"""A vocabulary in bytes: a first look that leaves few words of hundreds of thousands to be compared exactly.

Each word x is written as s·c with a scale of its own and whole numbers |c_i| ≤ 127, each point q as t·d in the same
way, and x·q is estimated by s·t·(c·d). The product c·d of whole numbers is exact, and processors with VPDPBUSD (AVX-512
VNNI) do it four times as fast as one in single precision.

**Nothing near is lost.** Let r = x − s·c and e = q − t·d be what the codes leave out. Then

    x·q − s·t·(c·d) = r·(t·d) + x·e,    so |x·q − s·t·(c·d)| ≤ ‖r‖·‖t·d‖ + ‖x‖·‖e‖    (Cauchy and Schwarz),

and r and e are not estimated but measured, in double precision. The score x·q − ‖x‖²/2 is then computed in single
precision with at most seven roundings, each by a factor within 1 ± 2^-24, of numbers that are at most 2‖x‖‖t·d‖ (|s·c|
is at most 2‖x‖, since no code is further from its number than 0 is) or ‖x‖²; 32 units of the largest of these are added
to the bound, and one per cent for the bound's own arithmetic. A word whose score plus its bound is less than the second
best score minus its bound is further away than two other words. All others are compared in double precision, as in
`nearest`. Where more than `MOST_KEPT` remain (words that are alike), the caller has to search otherwise.

Cost for N words and n dimensions: N·n bytes. 400,000 random words of 300 dimensions leave some tens for each point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from queryveil.arrays import Flags, Floats, Longs

Singles = npt.NDArray[np.float32]

MOST_KEPT = 256
MOST_DIMENSIONS = 1 << 15
"""The sums of so many products of bytes fit in 32 bits."""
ROUNDING = 32 * 2.0**-24


def available(dimension: int) -> bool:
    """Whether this processor multiplies bytes, and the sums of so many products are exact."""
    from queryveil.mechanisms.obfuscate import _bytes_kernel as kernel  # compiles on first use

    return dimension <= MOST_DIMENSIONS and kernel.available()


@dataclass(frozen=True)
class Kept:
    """The words that may be among the two nearest of each point: the first `counts` of `found`."""

    found: Longs
    upper: Singles
    """The most that each one's score can be."""
    floors: Singles
    """What the second best score is at least."""
    counts: Longs


class ByteCodes:
    """The rows of a matrix as bytes."""

    def __init__(self, matrix: Singles) -> None:
        from queryveil.mechanisms.obfuscate import _bytes_kernel as kernel

        self._words, self._dimension = matrix.shape
        tiles = -(-len(matrix) // kernel.TILE)
        self._groups = -(-self._dimension // kernel.GROUP)
        self._codes = np.full((tiles, self._groups, kernel.TILE, kernel.GROUP), kernel.ZERO, np.uint8)
        self._scales, self._residuals, self._lengths = np.zeros((3, tiles * kernel.TILE), np.float32)
        self._half_norms = np.full(tiles * kernel.TILE, np.inf, np.float32)  # what fills the last tile is never near
        kernel.encode(matrix, self._codes, self._scales, self._half_norms, self._residuals, self._lengths)
        self._largest = np.stack([np.max(part.reshape(tiles, -1), axis=1) for part in (self._residuals, self._lengths)])
        self._longest = float(self._largest[1].max())

    def candidates(self, points: Floats, within_reach: Flags) -> Kept:
        """What may be among the two nearest of each point; counts are `OVERFULL` out of reach, or where it is much."""
        from queryveil.mechanisms.obfuscate import _bytes_kernel as kernel
        from queryveil.mechanisms.obfuscate._nearest_kernel import OVERFULL

        count = len(points)
        usable = np.where(within_reach[:, None], points, 0.0)
        largest = np.abs(usable).max(axis=1)
        units = np.maximum(largest / kernel.LARGEST_CODE, kernel.SMALLEST_SCALE).astype(np.float32)
        scale = units[:, None].astype(np.float64)
        codes = np.clip(np.rint(usable / scale), -kernel.LARGEST_CODE, kernel.LARGEST_CODE)
        blocks = -(-count // kernel.POINTS)
        packed = np.zeros((blocks * kernel.POINTS, self._groups * kernel.GROUP), np.int8)
        packed[:count, : self._dimension] = codes
        starts = -kernel.ZERO * packed.sum(axis=1, dtype=np.int32)
        packed = packed.reshape(blocks, kernel.POINTS, self._groups, kernel.GROUP).transpose(0, 2, 1, 3)
        coded = np.linalg.norm(codes * scale, axis=1)
        lost = np.linalg.norm(usable - codes * scale, axis=1)
        kept = Kept(
            np.empty((count, MOST_KEPT), np.int64),
            np.empty((count, MOST_KEPT), np.float32),
            np.full((count, 2), -np.inf, np.float32),
            np.where(within_reach, 0, OVERFULL),
        )
        kernel.scan(
            self._codes, self._scales, self._half_norms, self._residuals, self._lengths, self._largest.T.copy(),
            self._words, np.ascontiguousarray(packed), starts.reshape(blocks, -1), units,
            self._errors(coded, lost), kept.floors, kept.found, kept.upper, kept.counts,
        )  # fmt: skip
        return kept

    def _errors(self, coded: Floats, lost: Floats) -> Singles:
        """What a word's ‖r‖, its ‖x‖ and 1 are multiplied by in the bound of its score, for each point."""
        rounding = ROUNDING * self._longest * (2 * coded + self._longest)
        return (1.01 * np.stack([coded, lost, rounding], axis=1)).astype(np.float32)
