"""Words that nobody uses, for the words of a log that no list has: names, typing errors, numbers.

The beginning of one rare public word and the end of another. So a synthetic log has about as many unknown words as the
log, and none of anybody's. The list is public and always the same.

>>> len(invented_words()) == INVENTED and not set(invented_words()) & set(vocabulary().words.to_list())
True
"""

from __future__ import annotations

from functools import lru_cache

from queryveil.mechanisms.distill.texts import vocabulary

INVENTED = 1 << 16
FIRST_RARE, STEP, APART = 100_000, 3, 77_777
"""Which public words are spliced: every third from here on, each with the one so far behind."""


@lru_cache(maxsize=1)
def invented_words() -> tuple[str, ...]:
    """So many words outside the vocabulary."""
    words, known = vocabulary().words.to_list(), vocabulary().numbers
    made: dict[str, None] = {}
    place = FIRST_RARE
    while len(made) < INVENTED:
        first = words[FIRST_RARE + place % (len(words) - FIRST_RARE)]
        second = words[FIRST_RARE + (place + APART) % (len(words) - FIRST_RARE)]
        spliced = first[: (len(first) + 1) // 2] + second[len(second) // 2 :]
        if spliced not in known and spliced.isascii() and spliced.isalpha():
            made[spliced] = None
        place += STEP
    return tuple(made)
