"""What an attacker on a stream release sees, and what only the judge knows.

An attack takes numbers, not names: the receiver of each release, its text, and its category on a tree that the attacker
can rebuild with the public classifier. `owners` is the truth; no attack looks at it before it is judged.

>>> stream = ReleasedStream.of_names([("b", "a", "tulips", "plants: flowers"), ("a", "b", "roses", "plants")])
>>> stream.at_depth(1).tolist(), stream.depths.tolist()
([1, 1], [0, 1, 2])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ReleasedStream:
    """Releases in the order they were handed out; categories are numbers on a tree whose root is 0."""

    receivers: Ints
    owners: Ints
    texts: Ints
    categories: Ints
    parents: Ints
    depths: Ints
    pseudonyms: Ints

    @classmethod
    def of_names(cls, rows: Iterable[Sequence[str]], separator: str = ": ") -> ReleasedStream:
        """From rows (receiver, owner, text, category path)."""
        frame = pl.DataFrame(list(rows), schema=["receiver", "owner", "text", "category"], orient="row")
        receivers = frame["receiver"]
        return cls._of(receivers, frame["owner"], frame["text"], frame["category"], receivers, separator)

    @classmethod
    def of(cls, parts: Sequence[Any], separator: str = ": ") -> ReleasedStream:
        """From what a live stream showed its holder (`Emissions`)."""
        parts = [part for part in parts if len(part)]
        if not parts:
            return cls.of_names([])
        rows = pl.concat([part.rows for part in parts])
        receivers = pl.Series(np.concatenate([part.receivers for part in parts]))
        owners = pl.Series(np.concatenate([part.owners for part in parts]))
        names = pl.concat([part.pseudonyms for part in parts])
        return cls._of(receivers, owners, rows["query"], rows["category"], names, separator)

    @classmethod
    def _of(
        cls,
        receivers: pl.Series,
        owners: pl.Series,
        texts: pl.Series,
        paths: pl.Series,
        names: pl.Series,
        separator: str,
    ) -> ReleasedStream:
        people = _dense(pl.concat([receivers, owners]))
        categories, parents, depths = numbered_paths(paths, separator)
        return cls(
            receivers=people[: len(receivers)],
            owners=people[len(receivers) :],
            texts=_dense(texts),
            categories=categories,
            parents=parents,
            depths=depths,
            pseudonyms=_dense(names),
        )

    def __len__(self) -> int:
        return len(self.receivers)

    def at_depth(self, depth: int) -> Ints:
        """Each release's category cut to `depth` levels."""
        return cut_to_depth(self.parents, self.depths, depth)[self.categories]


def numbered_paths(paths: pl.Series, separator: str) -> tuple[Ints, Ints, Ints]:
    """Category paths as numbers on a tree: the number of each, then parent and depth of every number."""
    numbers: dict[str, int] = {}
    parents, depths = [0], [0]

    def number(path: str) -> int:
        new: list[str] = []  # from the path up to what is known: a path may have a thousand levels
        while (found := numbers.get(path)) is None:
            new.append(path)
            cut = path.rfind(separator)
            if cut < 0:
                break
            path = path[:cut]
        above = found or 0
        for part in reversed(new):
            numbers[part] = len(parents)
            parents.append(above)
            depths.append(depths[above] + 1)
            above = numbers[part]
        return above

    distinct = paths.unique(maintain_order=True)
    found = pl.Series([number(path) for path in distinct.to_list()], dtype=pl.Int32)
    mapped = paths.replace_strict(distinct, found, return_dtype=pl.Int32) if len(paths) else found
    return mapped.to_numpy(), np.array(parents, np.int32), np.array(depths, np.int32)


def cut_to_depth(parents: Ints, depths: Ints, depth: int) -> Ints:
    """For each category its ancestor at a depth, or itself where it is not deeper."""
    cut = np.arange(len(parents), dtype=np.int32)
    while (deep := depths[cut] > depth).any():
        cut[deep] = parents[cut[deep]]
    return cut


def _dense(values: pl.Series) -> Ints:
    return (values.rank("dense") - 1).cast(pl.Int32).to_numpy() if len(values) else np.zeros(0, np.int32)
