"""What is kept, task by task: every measure of utility that fits a release, as findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from queryveil.attacks.released_stream import Success
from queryveil.report.findings import Finding, LeftOut
from queryveil.report.material import Material
from queryveil.utility import clicks

Found = Iterator[Finding | LeftOut]
Counts = npt.NDArray[np.int64]

FREQUENT: Final = 100


def frequency(material: Material) -> Found:
    """Which queries are asked how often: the hundred most frequent ones."""
    given = np.bincount(material.original_texts, minlength=len(material.texts))
    released = np.bincount(material.released_texts, minlength=len(material.texts))
    yield from _frequent("query", "queries", given, released)


def _frequent(key: str, what: str, given: Counts, released: Counts) -> Found:
    wanted = min(FREQUENT, int((given > 0).sum()))
    if not wanted:
        yield LeftOut(title=f"Frequent {what}", reason="the raw log has none")
        return
    support = float(np.sort(clicks.supports(given))[-wanted])
    frequent, kept = clicks.is_frequent(given, support), clicks.is_frequent(released, support)
    both = int((frequent & kept).sum())
    distance = clicks.support_distance(given, released, frequent=frequent)
    for name, of, told in (
        ("recall", int(frequent.sum()), f"Share of the raw log's {wanted} most frequent {what} still as frequent"),
        ("precision", int(kept.sum()), f"Share of the {what} so frequent in the release that were so in the raw log"),
    ):
        if not of:
            yield LeftOut(title=f"Frequent {what}: {name}", reason="nothing is so frequent in the release")
            continue
        low, high = Success(both, of).interval()
        yield Finding(
            key=f"frequent-{key}-{name}", title=f"Frequent {what}: {name}", kind="utility", topic="query frequency",
            value=both / of, low=low, high=high, raw=1.0, trials=of, better="higher", unit="share",
            explanation=f"{told} (at least {support:.3g} of all records).",
        )  # fmt: skip
    yield Finding(
        key=f"frequent-{key}-distance", title=f"Frequent {what}: distance of shares", kind="utility",
        topic="query frequency", value=distance.total, raw=0.0, trials=int(frequent.sum()), better="lower",
        unit="distance", explanation=f"Sum over the raw log's {wanted} most frequent {what} of how far their share of "
        "all records moved; 0 is unchanged, at most 2.",
    )  # fmt: skip


STEPS: Final[tuple[tuple[str, Callable[[Material], Iterable[Finding | LeftOut]]], ...]] = (
    ("query frequency", frequency),
)
"""Every measure by name, in the order of the report."""
