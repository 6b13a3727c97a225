"""Clicks: which hosts people who are in neither log click on, by what they ask about.

Held-out people's clicks on the `TOP` hosts that most of them clicked, each as a share of all of these: for each of 64
public classes of queries, total variation distance between their shares and the release's, averaged over classes by how
often they click there. A release knows little of rare classes, so its shares there lean on those over all classes, as
if `LEAN` more clicks had been seen. Who knows nothing of these hosts takes them all to be clicked alike.

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
    """Person and cell (class of the query and host) of each click on these hosts; texts of no class are in the last."""
    known = clicks.join(pl.DataFrame({"host": hosts, "place": np.arange(len(hosts))}), on="host", maintain_order="left")
    topic = known["class"].to_numpy()
    topic = np.where(topic >= 0, topic, class_count(COARSE) - 1)
    return known["person"].to_numpy().astype(np.int64), topic * len(hosts) + known["place"].to_numpy()


def shares_by_class(clicks: pl.DataFrame, hosts: pl.Series) -> Floats:
    """The share of each host in each class, leaning on all classes."""
    rows, columns = class_count(COARSE), len(hosts)
    counts = np.bincount(grid(clicks, hosts)[1], minlength=rows * columns).reshape(rows, columns)
    overall = counts.sum(axis=0) / counts.sum() if counts.any() else np.full(columns, 1 / columns)
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
        alike = np.full((class_count(COARSE), len(hosts)), 1 / len(hosts))
        said = [alike, *(shares_by_class(log.clicks, hosts) for log in (judging.released, judging.raw))]
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
