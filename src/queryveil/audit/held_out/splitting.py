"""Which people are kept aside to judge: by a public hash of their ids, never by what they asked.

>>> log = QueryLog.of([(f"user {n}", "weather") for n in range(1000)])
>>> seen, aside = hold_out(log, 0.1)
>>> seen.user_count() + aside.user_count(), 70 < aside.user_count() < 130
(1000, True)
>>> check_apart(seen, aside)
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.checks import real_number, require
from queryveil.errors import DataError
from queryveil.log import QueryLog
from queryveil.log.identifying import representatives

MOST_HELD_OUT: Final = 0.5


def hold_out(log: QueryLog, share: float) -> tuple[QueryLog, QueryLog]:
    """The log without some of its people, and these. Similar ids (`queryveil.log.identifying`) stay on one side."""
    require_share(share)
    users = log.users()
    aside = users.filter(pl.Series(id_hashes(representatives(users)) < share * 2**48, dtype=pl.Boolean))
    is_aside = pl.col("user").is_in(aside.implode())
    seen, judges = (QueryLog(log.frame.filter(f), similar_ids=log.similar_ids) for f in (~is_aside, is_aside))
    return seen, judges


def require_share(share: float) -> None:
    """Which share of the people may be kept aside: checked by whoever reads a log before it is split."""
    require(real_number("hold_out", share, at_least=0, at_most=MOST_HELD_OUT, suggest=0.1))


def check_apart(original: QueryLog, held_out: QueryLog) -> None:
    """Refuse judges whom the mechanism may have seen."""
    seen, judges = (representatives(log.users()).unique() for log in (original, held_out))
    both = int(judges.is_in(seen.implode()).sum())
    if both:
        raise DataError(
            f"{both:,} of {len(judges):,} held-out users have an id of the original: who was seen cannot judge. Keep "
            "people aside before the release is made; rename them where only the ids are alike.",
            parameter="held_out",
        )


def id_hashes(ids: pl.Series) -> Longs:
    """A public hash of each id: 48 bits of SHA-256."""
    return np.array([int.from_bytes(hashlib.sha256(i.encode()).digest()[:6], "big") for i in ids], np.int64)
