"""Objects of JSON in which a key stands twice: bad lines, since readers do not agree on what they say.

RFC 8259 leaves open which of two values counts. Most readers take the last, some the first, so that one line could be
ann's record to us and bob's to whoever reads it next, or was read before. A line is judged by itself, so it is that
line that is left out.

A decoder that is fast does not tell. So keys are counted in the text of many lines at once: where a key stands as often
as there are lines that have it, it stands once in each. Only where that does not come out are lines looked
at, and only those in which a key may stand twice are decoded once more.

>>> lines = [b'{"user": "ann", "query": "user"}', b'{"user": "ann", "us' + bytes([92]) + b'u0065r": "bob"}']
>>> lines_with_twins(b"".join(lines), lambda: lines, {"user": lambda: 2, "query": lambda: 1})
[1]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

TWICE = "a key stands twice in it"
_ESCAPED_KEY = re.compile(rb'\\(?:u[0-9a-fA-F]{4}|/)[^"\\]*"[ \t\r\n]*:')  # no other escape is of a key that is read


def lines_with_twins(
    content: bytes, lines: Callable[[], Sequence[bytes]], present: Mapping[str, Callable[[], int]]
) -> list[int]:
    """Which of the lines, by number, hold one of these keys twice.

    `content` is all of them together, `lines` gives them one by one where that is needed, and each key comes with what
    counts the lines that have it.
    """
    keys = {key: f'"{key}"'.encode() for key in present}
    counts = {key: content.count(quoted) for key, quoted in keys.items()}
    escaped = (b"\\u" in content or b"\\/" in content) and _ESCAPED_KEY.search(content) is not None
    # A key written with an escape is not counted, and could make up for one that stands twice.
    odd = [keys[key] for key, count in counts.items() if count and (escaped or count != present[key]())]
    if not (odd or escaped):
        return []
    each = lines()
    suspects = {number for quoted in odd for number, line in enumerate(each) if line.count(quoted) > 1}
    if escaped:
        suspects.update(number for number, line in enumerate(each) if _ESCAPED_KEY.search(line))
    return sorted(number for number in suspects if _has_twins(each[number], present))


def _has_twins(line: bytes, keys: Iterable[str]) -> bool:
    """Whether the outermost object, of which the hook hears last, has one of the keys twice."""
    names: list[str] = []

    def remember(pairs: list[tuple[str, object]]) -> None:
        nonlocal names
        names = [name for name, _ in pairs]

    try:
        json.loads(line, object_pairs_hook=remember, parse_int=str)  # Python reads no number of 5,000 digits
    except RecursionError:  # nested so deeply that nobody can tell
        return True
    except ValueError:  # no JSON: then it does not matter
        return False
    return any(names.count(key) > 1 for key in keys)
