"""Canaries for the audit of a claim in one run: users who are in the log or not.

A canary is a user who is in the log or not, by its coin, and clicks on pairs that a known number of others clicked too.
The evidence is how far the published number of clicks lies above the middle. *Heavy* ones click often and on more pairs
than a user may contribute, in case that is not held back; *lone* ones click pairs of their own, which nobody should
see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Floats
from queryveil.log import QueryLog
from queryveil.release.release import Release

if TYPE_CHECKING:
    from queryveil.mechanisms.sanitize.sanitization import Sanitize

Reading: TypeAlias = Literal["sign", "sum", "kept", "seen"]
"""What copies of a pair speak for: above the middle or not, how far above, published or not, published at all."""

MOST_CLICKERS: Final = 2_000
MOST_HEAVY: Final = 500
MOST_CLICKS: Final = 600_000
HEAVY_PAIRS, HEAVY_CLICKS = 6, 5
CLEAR_OF_THRESHOLD: Final = 5


@dataclass(frozen=True)
class AddedClickers:
    """Users who are in the log or not, and click `pairs` pairs each, `clicks` times, which `others` people share."""

    name: str
    canaries: int
    pairs: int
    clicks: int
    others: int
    per_other: int
    """How many of the pairs one of the others holds."""
    reading: Reading

    def log(self, coins: Flags) -> QueryLog:
        """The others, and the canaries whose coin is heads."""
        count = self.canaries * self.pairs
        pair = np.arange(count)
        of_canary = np.repeat(pair[coins[pair // self.pairs]], self.clicks)
        of_others = np.repeat(pair, self.others)
        turn = np.tile(np.arange(self.others), count)
        users = [
            pl.select(pl.format("canary {}", pl.lit(pl.Series(of_canary // self.pairs)))).to_series(),
            pl.select(
                pl.format("other {} {}", pl.lit(pl.Series(of_others // self.per_other)), pl.lit(pl.Series(turn)))
            ).to_series(),
        ]
        pairs = pl.Series(np.concatenate([of_canary, of_others]))
        return QueryLog(
            pl.DataFrame({"user": pl.concat([one.alias("user") for one in users]), "pair": pairs}).select(
                "user", pl.format("query {}", "pair").alias("query"), pl.lit("canary.example").alias("url")
            )
        )

    def evidence(self, release: Release) -> Floats:
        """How far the published clicks on a canary's pairs lie above the middle of both cases."""
        shown = release.log.frame.group_by("query").agg(pl.len().alias("copies"))
        every = pl.DataFrame({"pair": np.arange(self.canaries * self.pairs)}).select(
            pl.format("query {}", "pair").alias("query")
        )
        found = every.join(shown, on="query", how="left", maintain_order="left")["copies"].fill_null(0)
        copies = found.to_numpy().astype(np.float64)
        above = copies - self.others - 0.5
        spoken_for = {
            "sign": np.sign(above),
            "sum": above,
            "kept": np.sign(copies - 0.5),
            "seen": np.sign(copies),
        }[self.reading]
        summed: Floats = spoken_for.reshape(self.canaries, self.pairs).sum(axis=1)
        return summed


def added_clickers(mechanism: Sanitize) -> list[AddedClickers]:
    """Ordinary clickers, those who click again and again or on more than is allowed, and lone ones."""
    rule = mechanism.selection
    keys_only = mechanism.objective == "diversity"
    others = rule.half_kept - 1 if keys_only else rule.half_kept + int(np.ceil(CLEAR_OF_THRESHOLD * float(rule.scale)))
    # Laplace's noise tells no more than on which side of the middle a count lies; Gauss's tells the more, the farther.
    reading: Reading = "kept" if keys_only else "sign" if rule.kind == "laplace" else "sum"
    allowed = mechanism.contribution
    kinds: list[AddedClickers] = []
    heavy = HEAVY_PAIRS * allowed
    for name, pairs, clicks, wanted in (
        ("clickers", allowed, 1, MOST_CLICKERS),
        ("repeating clickers", allowed, HEAVY_CLICKS, MOST_CLICKERS),
        ("heavy clickers", heavy, HEAVY_CLICKS, MOST_HEAVY),
    ):
        most = MOST_CLICKS // (others * pairs)
        if mechanism.objective == "frequent":
            most = min(most, int(0.5 / (float(mechanism.support) * pairs)))
        canaries = min(wanted, most)
        if canaries:
            kinds.append(AddedClickers(name, canaries, pairs, clicks, others, allowed, reading))
    if mechanism.objective != "frequent":
        kinds.append(AddedClickers("lone clickers", MOST_CLICKERS, allowed, HEAVY_CLICKS, 0, allowed, "seen"))
    return kinds
