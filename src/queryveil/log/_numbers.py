"""Random and mixed integers for public data and fixed choices, the same on every machine and with every NumPy.

Nothing here is fit for privacy: that noise comes from `queryveil.privacy`.

`PCG64.random_raw` is the one part of NumPy's random numbers whose values are fixed for good (NEP 19), so every draw
starts there. What follows uses integers, and floats only through + - * / and square roots, which IEEE 754 rounds in one
way; `exp`, `log` and `pow` differ in the last bit between machines and are avoided.

>>> [round(float(x), 6) for x in Dice(1).fractions(2)]
[0.511822, 0.950464]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

_ALL_64_BITS = (1 << 64) - 1


class Dice:
    """A stream of random numbers from a seed."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def words(self, n: int) -> U64:
        """`n` random 64-bit words."""
        return np.asarray(self._bits.random_raw(n), dtype=np.uint64)

    def fractions(self, n: int) -> F64:
        """`n` random multiples of 2^-53 in [0, 1)."""
        return fraction(self.words(n))

    def permutation(self, n: int) -> I64:
        """The numbers 0 … n-1 in random order."""
        return np.argsort(self.words(n), kind="stable")


def fraction(words: U64) -> F64:
    """The top 53 bits of each word as a number in [0, 1)."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(words: U64, limit: int | I64) -> I64:
    """Each word scaled down to 0 … limit-1 (limit < 2^32)."""
    return (((words >> np.uint64(32)) * np.asarray(limit, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64)


def head_first(words: U64, limit: int) -> I64:
    """Like `below`, small numbers being likelier: the density falls as 1/sqrt."""
    u = fraction(words)
    return (u * u * limit).astype(np.int64)


def mixed(words: U64, salt: int) -> U64:
    """A well-stirred word for each word, another for another salt (the finaliser of SplitMix64, Steele et al. 2014)."""
    z = words + np.uint64((salt + 1) * 0x9E3779B97F4A7C15 & _ALL_64_BITS)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def pick(words: U64, weights: ArrayLike) -> I64:
    """An index for each word, with probability in proportion to the whole-number weights."""
    ends: I64 = np.cumsum(np.asarray(weights, dtype=np.int64))
    return np.searchsorted(ends, (fraction(words) * float(ends[-1])).astype(np.int64), side="right")


def zipf(n: int) -> I64:
    """Whole-number weights in proportion to 1, 1/2, … 1/n."""
    return np.asarray((1 << 32) // np.arange(1, n + 1, dtype=np.int64))
