"""The samplers of `_sampling_kernel.py` written plainly, with whole numbers of any size, over the same random words."""

from collections.abc import Iterator
from fractions import Fraction


def uniform_below(words: Iterator[int], limit: int) -> int:
    mask = (1 << (limit - 1).bit_length()) - 1
    while True:
        candidate = next(words) & mask
        if candidate < limit:
            return candidate


def fraction_succeeds(words: Iterator[int], top: int, bottom: int) -> bool:
    if bottom < 2**64:
        return uniform_below(words, bottom) < top
    mask = (1 << (bottom >> 64).bit_length()) - 1
    while True:
        high = next(words) & mask
        candidate = (high << 64) + next(words)
        if candidate < bottom:
            return candidate < top


def exponential_succeeds(words: Iterator[int], top: int, bottom: int) -> bool:
    while top >= bottom:
        if not exponential_succeeds_below_one(words, 1, 1):
            return False
        top -= bottom
    return exponential_succeeds_below_one(words, top, bottom)


def exponential_succeeds_below_one(words: Iterator[int], top: int, bottom: int) -> bool:
    trial = 1
    while fraction_succeeds(words, top, bottom * trial):
        trial += 1
    return trial % 2 == 1


def laplace(words: Iterator[int], scale_top: int, scale_bottom: int) -> int:
    while True:
        remainder = uniform_below(words, scale_top)
        if not exponential_succeeds_below_one(words, remainder, scale_top):
            continue
        quotient = 0
        while exponential_succeeds_below_one(words, 1, 1):
            quotient += 1
        magnitude = (remainder + scale_top * quotient) // scale_bottom
        negative = next(words) % 2 == 1
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def gaussian(words: Iterator[int], variance: Fraction, bottom: int, proposal: int) -> int:
    """`bottom` is the denominator the kernel works with, so that both read the same words."""
    top = variance * bottom
    assert top.denominator == 1
    while True:
        value = laplace(words, proposal, 1)
        gap = abs(value) * proposal * bottom - int(top)
        if exponential_succeeds(words, gap * gap, 2 * int(top) * bottom * proposal**2):
            return value
