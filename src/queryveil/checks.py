"""One grammar for checking parameters: each check returns None or a sentence, `require` raises all sentences at once.

>>> whole_number("k_text", 1, at_least=2, suggest=5)
'k_text must be a whole number >= 2; got 1. Try 5.'
>>> real_number("epsilon", float("nan"), above=0, suggest=1.0)
'epsilon must be a finite number > 0; got nan. Try 1.0.'
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import TypeGuard

from queryveil.errors import ParameterError

LEAST_SIZE = 64 << 20
LONGEST_SHOWN = 60  # a hostile value of megabytes must not fill the screen


def require(*findings: str | None) -> None:
    """Raise `ParameterError` with every finding that is not None."""
    problems = [finding for finding in findings if finding is not None]
    if problems:
        raise ParameterError(problems)


def whole_number(
    name: str,
    value: object,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    suggest: int | None = None,
    optional: bool = False,
) -> str | None:
    """Accept an int, also NumPy's, within bounds; refuse bools, floats, strings and everything else."""
    if optional and value is None:
        return None
    good = (
        _is_number(value, Integral)
        and (at_least is None or value >= at_least)
        and (at_most is None or value <= at_most)
    )
    bounds = _bounds((">=", at_least), ("<=", at_most))
    return None if good else _sentence(name, f"a whole number{bounds}", value, suggest)


def real_number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    suggest: float | None = None,
    optional: bool = False,
) -> str | None:
    """Accept a finite int, float or Fraction, also NumPy's, within bounds; refuse NaN, infinities, bools and text."""
    if optional and value is None:
        return None
    good = (
        _is_number(value, Real)
        and _is_finite(value)
        and (above is None or value > above)
        and (at_least is None or value >= at_least)
        and (below is None or value < below)
        and (at_most is None or value <= at_most)
    )
    bounds = _bounds((">", above), (">=", at_least), ("<", below), ("<=", at_most))
    return None if good else _sentence(name, f"a finite number{bounds}", value, suggest)


def one_of(
    name: str, value: object, allowed: Collection[str], *, suggest: str | None = None, optional: bool = False
) -> str | None:
    """Accept exactly one of the allowed words."""
    if (optional and value is None) or (isinstance(value, str) and value in allowed):
        return None
    return _sentence(name, f"one of {', '.join(sorted(allowed))}", value, suggest)


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A question that ends a sentence about an unknown name, where one that is known is near; else nothing.

    >>> did_you_mean("supress", ["suppress", "stream"]), did_you_mean("query freqency", ["query frequency"])
    ('. Did you mean suppress?', '. Did you mean query frequency?')
    >>> did_you_mean("freqency", ["query frequency", "topic profiles"]), did_you_mean("cooking", ["clicks"])
    ('. Did you mean query frequency?', '')
    """
    by_word = {word: name for name in known for word in (*name.split(), name)}
    nearest = get_close_matches(given.casefold(), by_word, n=1, cutoff=0.7)
    return f". Did you mean {by_word[nearest[0]]}?" if nearest else ""


def no_such(what: str, given: str, known: Sequence[str]) -> str:
    """That there is no such thing, with the name that was meant, or all there are.

    >>> no_such("task", "freqency", ["query frequency"])
    'there is no task of that name. Did you mean query frequency?'
    >>> no_such("task", "cooking", ["clicks", "contents"])
    'there is no task of that name. Choose one of clicks, contents.'
    """
    return f"there is no {what} of that name" + (did_you_mean(given, known) or f". Choose one of {', '.join(known)}.")


def parse_size(name: str, value: str) -> int:
    """Bytes from a size with its unit, of at least 64 MiB.

    >>> parse_size("memory", "4GiB") == 4 << 30, parse_size("memory", "900 MB")
    (True, 900000000)
    """
    written = re.fullmatch(r"([0-9]{1,6}) ?([KMGT])(i?)B?", value.strip(), re.IGNORECASE)
    size = 0
    if written:
        number, unit, binary = written.groups()
        size = int(number) * (1024 if binary else 1000) ** ("KMGT".index(unit.upper()) + 1)
    require(None if size >= LEAST_SIZE else _sentence(name, "a size of at least 64MiB", value, "4GiB"))
    return size


def truth_value(name: str, value: object) -> str | None:
    """Accept True or False only."""
    return None if isinstance(value, bool) else _sentence(name, "True or False", value, None)


def _is_number(value: object, kind: type[Integral | Real]) -> TypeGuard[int]:
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond the range of a float has no place in any of our formulas
        return False


def _bounds(*limits: tuple[str, float | None]) -> str:
    told = [
        f"{sign} {limit:g}" if isinstance(limit, float) else f"{sign} {limit}"
        for sign, limit in limits
        if limit is not None
    ]
    return f" {' and '.join(told)}" if told else ""


def _sentence(name: str, rule: str, value: object, suggest: object) -> str:
    try:
        shown = repr(value) if isinstance(value, str) else str(value)
    except ValueError:  # Python refuses to print whole numbers of thousands of digits
        shown = "a number too long to print"
    if len(shown) > LONGEST_SHOWN:
        shown = shown[: LONGEST_SHOWN - 1] + "…"
    remedy = "" if suggest is None else f" Try {suggest!r}." if isinstance(suggest, str) else f" Try {suggest}."
    return f"{name} must be {rule}; got {shown}.{remedy}"
