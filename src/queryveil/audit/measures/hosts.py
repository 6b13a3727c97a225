"""Clicks: which hosts people who are in neither log click on, by what they ask about.

Of held-out people's clicks the `TOP` hosts that most of them clicked are told apart, all others are one. For each of 64
public classes of queries, total variation distance between the shares of hosts among their clicks and in the release,
averaged over classes by how often they click there. A release knows little of rare classes, so its shares there lean on
those over all classes, as if `LEAN` more clicks had been seen. Who knows nothing expects none of these hosts.

Each host counts once for a person and a text. Only where the release has clicks. Clicks on single queries are told by
`query-frequency`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np
import polars as pl
from scipy import sparse

from queryveil.arrays import Floats, Longs
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Figures, Judged, JudgedByOthers, total_variation
from queryveil.audit.held_out.searches import COARSE, class_count

TOP: Final = 100
LEAN: Final = 10.0


def grid(clicks: pl.DataFrame, hosts: pl.Series) -> tuple[Longs, Longs]:
    """Person and cell (class of the query and host) of each click; texts of no class are in the last class."""
    places = pl.DataFrame({"host": hosts, "place": np.arange(len(hosts))})
    known = clicks.join(places, on="host", how="left", maintain_order="left")
    topic = known["class"].to_numpy()
    topic = np.where(topic >= 0, topic, class_count(COARSE) - 1)
    host = known["place"].fill_null(len(hosts)).to_numpy()
    return known["person"].to_numpy().astype(np.int64), topic * (len(hosts) + 1) + host


def shares_by_class(clicks: pl.DataFrame, hosts: pl.Series) -> Floats:
    """The share of each host in each class, leaning on all classes."""
    rows, columns = class_count(COARSE), len(hosts) + 1
    counts = np.bincount(grid(clicks, hosts)[1], minlength=rows * columns).reshape(rows, columns)
    overall = counts.sum(axis=0) / max(1, counts.sum())
    shares: Floats = (counts + LEAN * overall) / (counts.sum(axis=1, keepdims=True) + LEAN)
    return shares


class HostsClicked(JudgedByOthers):
    """Distance of the shares of hosts, class by class."""

    key: ClassVar[str] = "hosts"
    title: ClassVar[str] = "Hosts that other people click"
    task: ClassVar[str] = "clicks"

    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """Distances of each reader."""
        judging = context.judging
        logs = {"held-out log": judging.judges, "raw log": judging.raw, "release": judging.released}
        for name, log in logs.items():
            if log.clicks.is_empty():
                yield LeftOut(title=self.title, reason=f"the {name} has no clicks")
                return
        mine = judging.judges.clicks
        known = mine.group_by("host").agg(pl.col("person").n_unique()).sort("person", "host", descending=[True, False])
        hosts = known["host"].head(TOP)
        none_of_them = np.zeros((class_count(COARSE), len(hosts) + 1))
        none_of_them[:, -1] = 1.0
        said = [none_of_them, *(shares_by_class(log.clicks, hosts) for log in (judging.released, judging.raw))]
        yield from judging.judge(
            self.title, "hosts",
            f"How near the shares of the {TOP} hosts that most other people click come in the release, for queries of "
            "each of 64 public classes: total variation distance.",
            "Distance", _by_class(*grid(mine, hosts), np.stack(said)), better="lower",
        )  # fmt: skip


def _by_class(person: Longs, cell: Longs, said: Floats) -> tuple[Figures, int]:
    """Distances class by class, averaged by the judges' clicks."""
    judges, place = np.unique(person, return_inverse=True)
    _, rows, columns = said.shape
    table = sparse.csr_array((np.ones(len(cell)), (place, cell)), shape=(len(judges), rows * columns))

    def figures(weights: Floats) -> Floats:
        counts = np.asarray(weights @ table).reshape(len(weights), rows, columns)
        clicks = counts.sum(axis=2)
        shares = counts / np.maximum(clicks, 1.0)[:, :, None]
        apart = np.stack([total_variation(shares, row) for row in said], axis=2)
        averages: Floats = (apart * clicks[:, :, None]).sum(axis=1) / clicks.sum(axis=1)[:, None]
        return averages

    return figures, len(judges)
