"""Each message once, from a broker that may send it twice or late: which numbers were taken, as a few ranges.

A source whose broker delivers again and out of order (NATS) keeps a `Once` in its positions. Numbers that were taken
are dropped, whenever and in whatever order they come again; a number that was overtaken is still taken when it comes.
Memory follows the gaps, not the numbers; more gaps than `MOST_GAPS` mean that messages are missing for good, and the
lowest gap is closed.

>>> once = Once()
>>> [once.take(number) for number in (1, 2, 5, 2, 3, 5)]
[True, True, True, False, True, False]
>>> once.ranges
[[1, 3], [5, 5]]
>>> Once.read(once.written()).take(4)
True
"""

from __future__ import annotations

import bisect

MOST_GAPS = 100_000


class Once:
    """Whole numbers that were taken, as sorted ranges [first, last]."""

    def __init__(self, ranges: list[list[int]] | None = None) -> None:
        self.ranges = ranges or []

    @classmethod
    def read(cls, text: str) -> Once:
        """What `written` told, for positions that are plain JSON."""
        return cls([[int(number) for number in part.split("-")] for part in text.split(",") if part])

    def written(self) -> str:
        """As text: `1-3,5-5`."""
        return ",".join(f"{first}-{last}" for first, last in self.ranges)

    def take(self, number: int) -> bool:
        """Whether this number comes for the first time."""
        ranges = self.ranges
        at = bisect.bisect_right(ranges, [number, float("inf")]) - 1
        if at >= 0 and number <= ranges[at][1]:
            return False
        joins_before = at >= 0 and ranges[at][1] == number - 1
        joins_after = at + 1 < len(ranges) and ranges[at + 1][0] == number + 1
        if joins_before and joins_after:
            ranges[at][1] = ranges.pop(at + 1)[1]
        elif joins_before:
            ranges[at][1] = number
        elif joins_after:
            ranges[at + 1][0] = number
        else:
            ranges.insert(at + 1, [number, number])
            if len(ranges) > MOST_GAPS:
                ranges[:2] = [[ranges[0][0], ranges[1][1]]]
        return True
