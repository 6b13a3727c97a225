"""What a release that knows nothing would hold: the floor under measures of categories.

Whoever knows nothing of a log can still make one up from public knowledge: as many records, each about a category drawn
from the classifier's tree, all as likely. What such a log scores is a measure's floor; the raw log is its ceiling.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.audit.context import AuditContext
from queryveil.log import QueryLog

MOST_NAMES = 2000


def top_shares(context: AuditContext, tops: npt.NDArray[np.int64], top: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """How many categories of the tree lie under each of its top ones."""
    counts: npt.NDArray[np.int64] = np.bincount(top[1:], minlength=len(context.categories.parents))[tops]
    return counts


def random_categories(context: AuditContext) -> npt.NDArray[np.int32]:
    """A category for each released record, drawn from the whole tree; the root where there is no other."""
    count, records = len(context.categories.parents) - 1, len(context.released)
    if not count or not records:
        return np.zeros(records, np.int32)
    drawn = context.fresh_noise().stream("floor: categories").below(count, records)
    return (drawn + 1).astype(np.int32)


def random_texts(context: AuditContext) -> QueryLog:
    """The release with names of the classifier's categories in place of its texts; of a large tree a sample of them."""
    names, noise = context.classifier.tree.names, context.fresh_noise()
    chosen = noise.stream("floor: names").permutation(len(names))[:MOST_NAMES]
    texts = pl.Series([names[int(place)].replace("_", " ") for place in chosen], dtype=pl.String)
    drawn = noise.stream("floor: texts").below(len(texts), len(context.released))
    return QueryLog(context.released.frame.select("user", texts.gather(drawn).alias("query")))
