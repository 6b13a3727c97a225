"""Files of formats that are only read, as their publishers lay them out: for tests that need one."""

from __future__ import annotations

import re
from collections import Counter

from queryveil.errors import FormatError

MOST_RESULTS = 10


def written(log, *, personal):
    """Each record as a query on a page of results of its own, and a click where one of the first ten was clicked."""
    lines, counts = [], Counter()
    for row in log.frame.rows(named=True):
        counts[row["user"]] += 1
        number = f"{row['user']}-{counts[row['user']]}"  # an id that nobody else's records change
        query, url, place = row["query"], row["url"], row["rank"]
        if re.search("[\t\n\r\0]", query + (url or "")):
            raise FormatError("no escapes")
        clicked = url is not None and place is not None and 1 <= place <= MOST_RESULTS
        shown = [url if clicked and at == place else f"9{number}{at}" for at in range(1, MOST_RESULTS + 1)]
        if personal:
            pairs = "\t".join(f"{each},1" for each in shown)
            lines += [f"s{number}\tM\t3\t{row['user']}", f"s{number}\t0\tQ\t0\t{query}\t4,5\t{pairs}"]
            lines += [f"s{number}\t7\tC\t0\t{url}"] * clicked
        else:
            lines += [f"{row['user']}\t0\tQ\t{query}\t1\t" + "\t".join(shown)]
            lines += [f"{row['user']}\t7\tC\t{url}"] * clicked
    return "".join(f"{line}\n" for line in lines).encode()


WRITERS = {
    "yandex": lambda log: written(log, personal=False),
    "yandex-personal": lambda log: written(log, personal=True),
}
"""What makes a file of a log, by format."""
