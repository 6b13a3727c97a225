"""What should not be in a release at all: rare texts and clicks, identifiers, logs that nobody shares.

These are counts over the whole release, not samples, so they have no interval. *Rare* texts occur in the raw log, but
were asked by fewer than k different users there; a text that the release made up (a label, a concept) is not rare.
*Identifiers* are e-mail addresses, long numbers (telephone, account) and credentials in URLs.

Cost: a few groupings.

>>> raw = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "my secret"), ("bob", "a@b.example")])
>>> rare_texts(raw, raw, k=2)
Residue(records=2, of=4, distinct=2)
>>> identifiers(raw).records, smallest_shared_log(raw)
(1, 1)
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from queryveil.log import QueryLog
from queryveil.log.identifying import is_identifying


@dataclass(frozen=True)
class Residue:
    """How many released records hold something, of how many, and how many distinct things that is."""

    records: int
    of: int
    distinct: int

    @property
    def share(self) -> float:
        """Of all released records; 0 where there are none."""
        return self.records / self.of if self.of else 0.0


def rare_texts(original: QueryLog, released: QueryLog, *, k: int) -> Residue:
    """Released records whose text fewer than `k` users of the raw log asked."""
    return _rare(original.frame, released.frame, ["query"], k)


def rare_clicks(original: QueryLog, released: QueryLog, *, k: int) -> Residue:
    """Released clicks whose pair (query, url) fewer than `k` users of the raw log have."""
    given, shown = (log.frame.filter(pl.col("url").is_not_null()) for log in (original, released))
    return _rare(given, shown, ["query", "url"], k)


def _rare(original: pl.DataFrame, released: pl.DataFrame, columns: list[str], k: int) -> Residue:
    askers = original.group_by(columns).agg(pl.col("user").n_unique().alias("askers"))
    rare = released.group_by(columns).len("copies").join(askers.filter(pl.col("askers") < k), on=columns, how="semi")
    return Residue(int(rare["copies"].sum()), released.height, rare.height)


def identifiers(log: QueryLog) -> Residue:
    """Records whose text names a person or opens a door by itself."""
    texts = log.frame.group_by("query").len("copies").filter(is_identifying("query"))
    return Residue(int(texts["copies"].sum()), len(log), texts.height)


def smallest_shared_log(log: QueryLog) -> int:
    """The fewest users who hold the very same multiset of texts; 0 for an empty log."""
    logs = log.frame.group_by("user").agg(pl.col("query").sort().str.join("\0").hash().alias("log"), pl.len())
    sizes = logs.group_by("log", "len").len("sharers")["sharers"]
    return int(sizes.min()) if len(sizes) else 0  # type: ignore[arg-type]


def sharing_logs(log: QueryLog, *, fewer_than: int) -> float:
    """The share of users whose very log fewer than so many users hold."""
    logs = log.frame.group_by("user").agg(pl.col("query").sort().str.join("\0").hash().alias("log"), pl.len())
    alone = logs.select((pl.len().over("log", "len") < fewer_than).mean()).item()
    return float(alone) if alone is not None else 0.0
