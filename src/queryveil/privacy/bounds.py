"""Exponentials, roots and normal tails as fractions that are certainly not too small, or not too large.

Everything is computed in decimals of many more digits than are asked for, and then moved by more than all rounding can
have done. Arguments are fractions, so that nothing is lost on the way in.

>>> exponential(Fraction(1), up=False) < Fraction(math.e) + Fraction(1, 10**15)
True
>>> round(float(normal_tail(Fraction(2), up=True)), 12), round(float(gaussian_delta(Fraction(1, 2), Fraction(1))), 12)
(0.022750131948, 0.126936737507)
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

DIGITS = 50
DUST = Fraction(1, 10**40)
"""By what share of itself a result is moved outwards; rounding takes less than 10^-45 of it."""
FARTHEST = 60
"""A normal number lies so many standard deviations out with a chance below 10^-783: there that is the bound."""
LEAST = Fraction(1, 10**783)
FARTHEST_POWER = 2000


def exponential(power: Fraction, *, up: bool) -> Fraction:
    """e^power, rounded outwards; below e^-2000 it is told to be between 0 and that."""
    if power < -FARTHEST_POWER:
        return exponential(Fraction(-FARTHEST_POWER), up=True) if up else Fraction(0)
    with localcontext(Context(prec=DIGITS + 10)):
        found = Fraction(_decimal(power).exp())
    # The argument is off by 10^-(DIGITS+9) of itself at most, and so is the result, times the argument.
    return found * (1 + _outwards(up) * (1 + abs(power)))


def square_root(value: Fraction, *, up: bool) -> Fraction:
    """√value, rounded outwards to 40 digits behind the point."""
    scaled = value * 10**80
    root = math.isqrt(math.floor(scaled))
    return Fraction(root + 1 if up else root, 10**40)


def normal_tail(distance: Fraction, *, up: bool) -> Fraction:
    """P(X > distance) for a standard normal X, rounded outwards.

    P(0 < X ≤ x) = e^(−x²/2)/√(2π) · (x + x³/3 + x⁵/(3·5) + …), a sum of positive terms. What is left of 1/2 has lost as
    many digits as the tail has zeros, so as many more are computed.
    """
    if distance < 0:
        return 1 - normal_tail(-distance, up=not up)
    if distance > FARTHEST:
        return LEAST if up else Fraction(0)
    zeros = math.ceil(float(distance) ** 2 / 4) + 10
    digits = 2 * zeros + DIGITS + 20
    with localcontext(Context(prec=digits)):
        x = _decimal(distance)
        term = total = x
        n = 1
        while term > total * Decimal(10) ** -(digits - 10) or n <= x * x:
            n += 2
            term = term * x * x / n
            total += term
        inside = (-x * x / 2).exp() / (2 * _pi(digits)).sqrt() * total
        tail = Fraction(Decimal("0.5") - inside)
    return tail * (1 + _outwards(up))


def gaussian_delta(rho: Fraction, epsilon: Fraction) -> Fraction:
    """The least δ at ε of a Gaussian mechanism whose means lie √(2ρ) standard deviations apart, rounded up.

    Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) with μ = √(2ρ) (Balle and Wang 2018, theorem 8); it grows with μ, which is rounded
    up first. A negative ε says how alike the two laws are at least, and is answered too.
    """
    if not rho:
        return max(Fraction(0), 1 - exponential(epsilon, up=False))
    mu = square_root(2 * rho, up=True)
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    second = normal_tail(far, up=False)
    if second:  # beyond 60 standard deviations it is told to be nothing, and e^ε need not be known
        second *= exponential(epsilon, up=False)
    return max(Fraction(0), normal_tail(near, up=True) - second)


def concentrated_delta(mean: Fraction, variance: Fraction, epsilon: Fraction) -> Fraction:
    """A δ at ε of whatever has E e^(aL) ≤ e^(a·mean + a²·variance/2) for its privacy loss L and all a > 0, rounded up.

    δ ≤ E (1 − e^(ε−L))_+ ≤ sup_u (1 − e^−u) e^(−au) · E e^(a(L−ε)), where the supremum is a^a / (1+a)^(1+a) (Canonne,
    Kamath and Steinke 2020, proposition 12). It holds for every a; which one is taken decides how good it is.
    """
    a = Fraction(_least_at(float(mean - epsilon), float(variance)))
    with localcontext(Context(prec=DIGITS + 30)):
        power = a * (mean - epsilon) + a * a * variance / 2
        power += Fraction(_decimal(a) * _decimal(a).ln() - _decimal(1 + a) * _decimal(1 + a).ln())
    return min(Fraction(1), exponential(power, up=True)) if power < 0 else Fraction(1)


def _least_at(drift: float, variance: float) -> float:
    """Where a·drift + a²·variance/2 + a ln a − (1+a) ln(1+a) is least: where its derivative, which grows, is 0."""
    low, high = -60.0, 60.0  # of ln a
    for _ in range(60):
        middle = (low + high) / 2
        a = math.exp(middle)
        low, high = (low, middle) if drift + a * variance - math.log1p(1 / a) > 0 else (middle, high)
    return math.exp(high)


def _outwards(up: bool) -> Fraction:
    return DUST if up else -DUST


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


@lru_cache(maxsize=64)
def _pi(digits: int) -> Decimal:
    """π to so many digits, by Machin's formula."""

    def inverse_tangent(n: int) -> Decimal:
        power = total = Decimal(1) / n
        k, sign = 1, -1
        while power > Decimal(10) ** -(digits + 5):
            power /= n * n
            k += 2
            total += sign * power / k
            sign = -sign
        return total

    with localcontext(Context(prec=digits + 10)):
        return 4 * (4 * inverse_tangent(5) - inverse_tangent(239))
