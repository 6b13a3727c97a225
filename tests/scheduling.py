"""Which worker runs which tests: what shares a server stays together, and what takes long comes first.

A server, a browser or a Spark is started once by each worker that needs it, and takes seconds of both cores. So all
tests of one are one unit, and every other file is a unit: what a module prepares for its tests is made once too. Units
are handed out one by one as workers have done theirs, long ones first, so that no worker is left alone with a long one.
"""

from xdist.scheduler import LoadScopeScheduling

TOGETHER = ("tests/engines/", "tests/log/databases/", "tests/live/")
"""Folders whose files share servers that take long to start."""
FIRST = (
    "tests/engines/",
    "tests/live/",
    "tests/web/test_access.py",
    "tests/web/test_browser.py",
    "tests/log/databases/",
    "tests/broken_twins/test_all.py",
    "tests/web/test_gateway_browser.py",
    "tests/report/test_browser.py",
    "tests/audit/",
    "tests/mechanisms/",
    "tests/web/",
    "tests/cli/",
    "tests/test_",
)
"""Units that take tens of seconds, and folders with some that take more than a few; all others come behind these."""


def unit(nodeid: str) -> str:
    """The unit that a test belongs to."""
    path = nodeid.partition("::")[0]
    return next((folder for folder in TOGETHER if path.startswith(folder)), path)


def rank(name: str) -> int:
    """The place of a unit among all: the lower, the earlier."""
    return next((place for place, start in enumerate(FIRST) if name.startswith(start)), len(FIRST))


class LongUnitsFirst(LoadScopeScheduling):
    """Hands out units by rank; those of one rank stay in the order of collection."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def add_node_collection(self, node, collection):
        self.config.option.loadscopereorder = False  # by the number of tests: that tells little of how long they take
        super().add_node_collection(node, collection)

    def _assign_work_unit(self, node):
        first = min(self.workqueue, key=rank)
        self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)
