"""Exact integer samplers over a block of random words (Numba).

Nothing here is random by itself: every function reads 64-bit words from `words`, starting at `position`, and hands back
the position behind the last word it read, or `OUT_OF_WORDS`. The caller then adds words and starts that one draw again
with the same words, so where a block ends has no influence on the law.

All arithmetic is on integers of 64 or 128 bits (a 128-bit number is a pair `high, low`), so the samplers are exact:
Canonne, Kamath and Steinke (2020), "The Discrete Gaussian for Differential Privacy", algorithms 1 to 3.
"""

from __future__ import annotations

import numpy as np
from numba import njit

OUT_OF_WORDS = -1
ONE = np.uint64(1)
FIRST = np.int64(0)
"""A literal would be a type of its own, and what it is given to compiled once more."""
ZERO = np.uint64(0)
LOW_HALF = np.uint64(0xFFFFFFFF)
HALF_BITS = np.uint64(32)
WORD_BITS = np.uint64(64)
LARGEST_QUOTIENT = 64
"""A draw of the Laplace proposal beyond 64 scales is rejected by the Gaussian: it would be accepted with probability
below e^-1900, and the bound keeps every product within 128 bits."""

_helper = njit(inline="always")


@_helper
def _product(a, b):
    """a · b as a 128-bit number, by schoolbook multiplication of 32-bit halves."""
    a_low, a_high = a & LOW_HALF, a >> HALF_BITS
    b_low, b_high = b & LOW_HALF, b >> HALF_BITS
    low = a_low * b_low
    middle = a_high * b_low + (low >> HALF_BITS)
    other = a_low * b_high + (middle & LOW_HALF)
    high = a_high * b_high + (middle >> HALF_BITS) + (other >> HALF_BITS)
    return high, (other << HALF_BITS) | (low & LOW_HALF)


@_helper
def _times(high, low, factor):
    """(high, low) · factor, which must fit in 128 bits."""
    carry, product = _product(low, factor)
    return high * factor + carry, product


@_helper
def _less(a_high, a_low, b_high, b_low):
    return a_high < b_high or (a_high == b_high and a_low < b_low)


@_helper
def _filled(bits):
    """The smallest 2^m − 1 that is not below `bits`."""
    bits |= bits >> np.uint64(1)
    bits |= bits >> np.uint64(2)
    bits |= bits >> np.uint64(4)
    bits |= bits >> np.uint64(8)
    bits |= bits >> np.uint64(16)
    bits |= bits >> np.uint64(32)
    return bits


@njit(cache=True)
def _uniform_below(words, position, limit):
    """A whole number in [0, limit), by masking and rejecting."""
    mask = _filled(limit - ONE)
    while position < len(words):
        candidate = words[position] & mask
        position += 1
        if candidate < limit:
            return candidate, position
    return ZERO, OUT_OF_WORDS


@njit(cache=True)
def _fraction_succeeds(words, position, top_high, top_low, bottom_high, bottom_low):
    """Bernoulli(top / bottom) for 128-bit whole numbers: a uniform number below `bottom` falls below `top`."""
    if bottom_high == ZERO:
        candidate, position = _uniform_below(words, position, bottom_low)
        return _less(ZERO, candidate, top_high, top_low), position
    mask = _filled(bottom_high)
    while position + 1 < len(words):
        high = words[position] & mask
        low = words[position + 1]
        position += 2
        if _less(high, low, bottom_high, bottom_low):
            return _less(high, low, top_high, top_low), position
    return False, OUT_OF_WORDS


@njit(cache=True)
def _exponential_succeeds_below_one(words, position, top_high, top_low, bottom_high, bottom_low):
    """Bernoulli(e^−γ) for γ = top / bottom ≤ 1: the first failure among Bernoulli(γ/1), Bernoulli(γ/2), … is odd."""
    trial = ONE
    while True:
        high, low = _times(bottom_high, bottom_low, trial)
        succeeded, position = _fraction_succeeds(words, position, top_high, top_low, high, low)
        if position == OUT_OF_WORDS:
            return False, OUT_OF_WORDS
        if not succeeded:
            return (trial & ONE) == ONE, position
        trial += ONE


@njit(cache=True)
def _exponential_succeeds(words, position, top_high, top_low, bottom_high, bottom_low):
    """Bernoulli(e^−γ) for any γ = top / bottom ≥ 0: one Bernoulli(e^−1) for each whole part, then the rest."""
    while not _less(top_high, top_low, bottom_high, bottom_low):
        succeeded, position = _exponential_succeeds_below_one(words, position, ZERO, ONE, ZERO, ONE)
        if position == OUT_OF_WORDS or not succeeded:
            return False, position
        borrow = ONE if top_low < bottom_low else ZERO
        top_low -= bottom_low
        top_high -= bottom_high + borrow
    return _exponential_succeeds_below_one(words, position, top_high, top_low, bottom_high, bottom_low)


@njit(cache=True)
def _laplace(words, position, scale_top, scale_bottom):
    """One discrete Laplace number: P(x) ∝ e^(−|x| · scale_bottom / scale_top)."""
    while True:
        remainder, position = _uniform_below(words, position, scale_top)
        if position == OUT_OF_WORDS:
            return 0, OUT_OF_WORDS
        accepted, position = _exponential_succeeds_below_one(words, position, ZERO, remainder, ZERO, scale_top)
        if position == OUT_OF_WORDS:
            return 0, OUT_OF_WORDS
        if not accepted:
            continue
        quotient = ZERO
        while True:
            goes_on, position = _exponential_succeeds_below_one(words, position, ZERO, ONE, ZERO, ONE)
            if position == OUT_OF_WORDS:
                return 0, OUT_OF_WORDS
            if not goes_on:
                break
            quotient += ONE
        magnitude = np.int64((remainder + scale_top * quotient) // scale_bottom)
        if position >= len(words):
            return 0, OUT_OF_WORDS
        negative = (words[position] & ONE) == ONE
        position += 1
        if negative and magnitude == 0:  # zero would otherwise count twice
            continue
        return (-magnitude if negative else magnitude), position


@njit(cache=True)
def fill_below(words, out, done, limits):
    """Uniform whole numbers below each of `limits` (one for all, or one each)."""
    position = FIRST
    while done < len(out):
        limit = limits[done] if len(limits) > 1 else limits[0]
        value, after = _uniform_below(words, position, limit)
        if after == OUT_OF_WORDS:
            return done, position
        out[done] = value
        position = after
        done += 1
    return done, position


@njit(cache=True)
def fill_permutation(words, out, done):
    """Fisher and Yates' shuffle of `out` in place."""
    position = FIRST
    while done < len(out) - 1:
        offset, after = _uniform_below(words, position, np.uint64(len(out) - done))
        if after == OUT_OF_WORDS:
            return done, position
        other = done + np.int64(offset)
        out[done], out[other] = out[other], out[done]
        position = after
        done += 1
    return len(out), position


@njit(cache=True)
def fill_fraction(words, out, done, top, bottom):
    """Bernoulli(top / bottom)."""
    position = FIRST
    while done < len(out):
        value, after = _fraction_succeeds(words, position, ZERO, top, ZERO, bottom)
        if after == OUT_OF_WORDS:
            return done, position
        out[done] = value
        position = after
        done += 1
    return done, position


@njit(cache=True)
def fill_exponential(words, out, done, top, bottom):
    """Bernoulli(e^(−top / bottom))."""
    position = FIRST
    while done < len(out):
        value, after = _exponential_succeeds(words, position, ZERO, top, ZERO, bottom)
        if after == OUT_OF_WORDS:
            return done, position
        out[done] = value
        position = after
        done += 1
    return done, position


@njit(cache=True)
def fill_laplace(words, out, done, scale_top, scale_bottom):
    """Discrete Laplace with scale scale_top / scale_bottom."""
    position = FIRST
    while done < len(out):
        value, after = _laplace(words, position, scale_top, scale_bottom)
        if after == OUT_OF_WORDS:
            return done, position
        out[done] = value
        position = after
        done += 1
    return done, position


@njit(cache=True)
def fill_gaussian(words, out, done, variance_top, variance_bottom, proposal_scale):
    """Discrete Gaussian with variance parameter σ² = variance_top / variance_bottom, from Laplace of scale ⌊σ⌋ + 1.

    Accepts y with probability exp(−(|y| − σ²/t)² / 2σ²); over whole numbers that exponent is
    (|y|·t·bottom − top)² / (2·top·bottom·t²).
    """
    position = FIRST
    below_high, below_low = _product(variance_top, variance_bottom)
    below_high, below_low = _times(below_high, below_low, proposal_scale)
    below_high, below_low = _times(below_high, below_low, proposal_scale)
    below_high, below_low = _times(below_high, below_low, np.uint64(2))
    farthest = np.int64(LARGEST_QUOTIENT) * np.int64(proposal_scale)
    while done < len(out):
        after = position
        while True:
            value, after = _laplace(words, after, proposal_scale, ONE)
            if after == OUT_OF_WORDS:
                return done, position
            magnitude = abs(value)
            if magnitude > farthest:
                continue
            scaled = np.uint64(magnitude) * proposal_scale * variance_bottom
            gap = scaled - variance_top if scaled > variance_top else variance_top - scaled
            top_high, top_low = _product(gap, gap)
            accepted, after = _exponential_succeeds(words, after, top_high, top_low, below_high, below_low)
            if after == OUT_OF_WORDS:
                return done, position
            if accepted:
                break
        out[done] = value
        position = after
        done += 1
    return done, position
