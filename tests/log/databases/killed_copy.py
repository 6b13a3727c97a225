"""`python killed_copy.py POINT FOLDER ADDRESS`: a copy that is killed at a point, or at none.

Points: `half` of the rows written, before the `commit`, before the n-th request whose path ends in a word
(`_bulk#2`). The broken twin `half-committed` commits what is there in the middle.
"""

import os
import signal
import sys

from queryveil.log.databases._search_api import SearchApi
from queryveil.release.copies import copy


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(point: str) -> None:
    if "#" in point:
        ending, _, number = point.partition("#")
        asked, left = SearchApi.ask, int(number)

        def ask(self, method, path, *given, **named):
            nonlocal left
            left -= path.endswith(ending)
            return asked(self, method, path, *given, **named) if left else die()

        SearchApi.ask = ask
        return
    from adbc_driver_manager import dbapi

    ingest = dbapi.Cursor.adbc_ingest

    def ingested(self, table, rows, **named):
        ingest(self, table, rows if point == "commit" else rows.head(len(rows) // 2), **named)
        if point == "half-committed":
            self.connection.commit()
        die()

    dbapi.Cursor.adbc_ingest = ingested


if __name__ == "__main__":
    when, folder, address = sys.argv[1:]
    if when != "none":
        kill_at(when)
    print("began", flush=True)
    copy(folder, address)
