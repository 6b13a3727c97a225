"""A3: link the two halves of a log by what people are interested in.

Each user with enough records in both halves is described by the normalised histogram of categories in each half; a
first half is linked to the second half with the nearest profile by cosine. Report it beside the same attack on the raw
log and beside chance: a release that keeps profiles on purpose keeps this link, whatever the pseudonyms.

>>> users = np.repeat(np.arange(4), 50)
>>> success = profile_linkage(users, users, np.tile(np.arange(50) < 25, 4))
>>> success.right, success.tried
(4, 4)
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from queryveil.audit.attacks.released_stream import Success

AT_LEAST = 10
AT_ONCE = 512


def profile_linkage(
    users: npt.NDArray[np.integer],
    categories: npt.NDArray[np.integer],
    in_first_half: npt.NDArray[np.bool_],
    at_least: int = AT_LEAST,
) -> Success:
    """How many users with `at_least` records in both halves find their own second half. Chance is 1 / tried."""
    enough = linkable(users, in_first_half, at_least)
    if not len(enough):
        return Success(0, 0)
    shape = (int(users.max()) + 1, int(categories.max()) + 1)
    mine, other = (_profiles(users[half], categories[half], shape, enough) for half in (in_first_half, ~in_first_half))
    right = 0
    for start in range(0, len(enough), AT_ONCE):
        nearest = np.asarray((mine[start : start + AT_ONCE] @ other.T).todense()).argmax(axis=1)
        right += int((nearest == np.arange(start, start + len(nearest))).sum())
    return Success(right, len(enough))


def linkable(
    users: npt.NDArray[np.integer], in_first_half: npt.NDArray[np.bool_], at_least: int = AT_LEAST
) -> npt.NDArray[np.intp]:
    """The users with `at_least` records in both halves."""
    if not len(users):
        return np.zeros(0, np.intp)
    size = int(users.max()) + 1
    first, second = (np.bincount(users[half], minlength=size) for half in (in_first_half, ~in_first_half))
    return np.flatnonzero((first >= at_least) & (second >= at_least))


def halves(records: int) -> npt.NDArray[np.bool_]:
    """The first half of a log in its order."""
    return np.arange(records) < records // 2


def _profiles(
    users: npt.NDArray[np.integer],
    categories: npt.NDArray[np.integer],
    shape: tuple[int, int],
    rows: npt.NDArray[np.integer],
) -> sparse.csr_matrix:
    ones = np.ones(len(users))
    table = sparse.csr_matrix((ones, (users, categories)), shape=shape)[rows]
    lengths = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags_array(1 / lengths) @ table)
