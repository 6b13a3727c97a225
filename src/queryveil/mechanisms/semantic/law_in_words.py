"""What a law does to queries, in a sentence that needs no mathematics; every number in it is computed from the law."""

from __future__ import annotations

import math
from typing import Final

from queryveil.mechanisms.semantic.ball import BallLaw
from queryveil.mechanisms.semantic.calibration import Certified
from queryveil.privacy.guarantee import rounded_up

SMALL_NUMBERS: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
LONGEST: Final = 10**6


def law_in_words(certified: Certified, epsilon: float) -> str:
    """What becomes of queries at this ε each.

    >>> from queryveil.knowledge.taxonomy import Taxonomy
    >>> from queryveil.mechanisms.semantic.ball import ball
    >>> from queryveil.mechanisms.semantic.domain import Domain
    >>> toy = Taxonomy.build(["R", "H", "S", "flu", "asthma", "tennis"], [[], [0], [0], [1], [1], [2]], [["r"]] * 6)
    >>> law_in_words(ball(Domain.of([toy], outside=False), 4.0), 4.0)
    'ε = 4 by randomised response: 92 queries in 100 are the true concept, the others are drawn evenly.'
    """
    law, true = certified.law, certified.law.true_share()
    at = f"ε = {rounded_up(epsilon)} by"
    if certified.criterion == "nsqc" or (isinstance(law, BallLaw) and law.size == 1):
        return f"{at} randomised response: {share_in_words(true)} the true concept, the others are drawn evenly."
    if isinstance(law, BallLaw):
        inside, others = law.size * law.near / law.total, len(law.domain) - law.size
        return (
            f"{at} a ball of {law.size:,} concepts: {share_in_words(inside, 'becomes', 'become')} one of the "
            f"{law.size:,} concepts nearest to what was asked, all equally likely ({share_in_words(true)} the true "
            f"concept); the others are drawn evenly from the other {others:,}."
        )
    how = "the best law there is" if certified.criterion == "lp" else "similarity"
    return (
        f"{at} {how}: on average over all concepts {share_in_words(true)} the true concept; of the others, similar "
        "ones are likelier."
    )


def use_in_words(certified: Certified) -> str:
    """What the law keeps, beside what queries replaced at random keep; nothing where the law was not chosen by that."""
    if certified.use is None:
        return ""
    return (
        f"A query and what replaces it have a mean similarity of {_down(certified.use.expected):.3f} over equally "
        f"likely queries, where 1 is the same concept; concepts drawn at random have {_up(certified.use.floor):.3f}."
    )


def share_in_words(share: float, one: str = "is", many: str = "are") -> str:
    """A share of queries, with its verb.

    >>> share_in_words(0.207), share_in_words(1 / 31_234), share_in_words(0.9769), share_in_words(0.7)
    ('one query in five is', 'one query in 31,000 is', '98 queries in 100 are', '70 queries in 100 are')
    """
    if share <= 0.49:
        number = round(1 / share)
        number = round(number, 1 - math.floor(math.log10(number))) if number > 99 else number
        return f"one query in {SMALL_NUMBERS[number - 2] if number <= 10 else f'{number:,}'} {one}"
    whole = 100
    while round(share * whole) == whole and whole < LONGEST:
        whole *= 10
    count = round(share * whole)
    return f"all queries {many}" if count == whole else f"{count:,} queries in {whole:,} {many}"


def _down(value: float) -> float:
    return math.floor(value * 1000) / 1000


def _up(value: float) -> float:
    return math.ceil(value * 1000) / 1000
