"""Attacks on records that carry other people's names: A0 by pairing anew, A1 by windows, A2 by repeats.

What each of them does stands in `rematching.py` and `neighbours.py`; here they are tried on a release whose mechanism
declares that it reassigns records.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.audit.attacks.neighbours import WINDOWS, repeated_texts, window_plurality
from queryveil.audit.attacks.released_stream import ReleasedStream
from queryveil.audit.attacks.rematching import repair
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Finding,
    Found,
    Question,
    Success,
    risk,
)


class PoolAttacks:
    """A0 by re-pairing, A1 and A2: for records that got other people's names."""

    key: ClassVar[str] = "pools"
    title: ClassVar[str] = "Re-pairing, neighbours in time and repeats"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not context.declares("reassigns_records"):
            return
        if context.owners is None or context.receivers is None:
            yield context.not_attacked(self.title)
            return
        stream = _stream(context, context.owners, context.receivers)
        k, depth = int(context.parameters["k"]), int(context.parameters["depth"])
        excluded = not context.declares("owner_in_pool")
        bound = 1 / k if context.safe else None
        chance = 1 / max(len(context.users), 1)
        algorithms: tuple[Literal["simple", "full"], ...] = ("simple", "full")
        paired = [
            repair(stream, k=k, depth=depth, noise=context.fresh_noise(), algorithm=algorithm, owner_excluded=excluded)
            for algorithm in algorithms
        ]
        yield risk(
            "author-by-repairing", "Author guessed by pairing anew", "record linkage", "linkability",
            _best(paired),
            "Share of released records that get their author back where names and queries are paired anew, by the "
            "better "
            "of the paper's Algorithms 2 and 3.",
            raw=1.0, chance=chance, bound=bound, confidence=1 - 0.05 / 2,
        )  # fmt: skip
        windows = window_plurality(stream, depth=depth, owner_excluded=excluded)
        yield risk(
            "author-by-window", "Author guessed by who received much nearby", "neighbours in time", "linkability",
            _best(list(windows.values())),
            f"Share of released records whose author is the name seen most among the neighbouring releases of the same "
            f"category, for the best of the windows {', '.join(map(str, WINDOWS))}.",
            raw=1.0, chance=chance, bound=bound, confidence=1 - 0.05 / len(WINDOWS),
        )  # fmt: skip
        repeats = repeated_texts(stream, depth=depth, personal=_asked_by_one(context))
        yield Finding(
            key="repeats-eligible", title="Personal texts released again and again", kind="risk", topic="repeats",
            question="linkability", value=repeats.eligible, bound=0.0 if context.safe else None, trials=len(stream),
            better="lower", unit="count", explanation="Texts that one person alone asked and that were released at "
            "least four times: those that the attack by repeats can be tried on. Counted, not sampled.",
        )  # fmt: skip
        if repeats.eligible:
            yield risk(
                "repeats", "Personal texts given back to their author", "repeats", "linkability", repeats.success,
                "Share of those texts whose author is the name most often near their releases that never received "
                "them.",
                raw=1.0, chance=chance,
            )  # fmt: skip


def _asked_by_one(context: AuditContext) -> npt.NDArray[np.bool_]:
    """For each text whether a single user of the raw log asked it; the gate of a stream counts those who asked."""
    pairs = np.unique(context.original_users.astype(np.int64) * len(context.texts) + context.original_texts)
    found: npt.NDArray[np.bool_] = np.bincount(pairs % len(context.texts), minlength=len(context.texts)) == 1
    return found


def _best(found: list[Success]) -> Success:
    return max(found, key=lambda success: (success.measured, success.right))


def _stream(context: AuditContext, owners: pl.Series, receivers: pl.Series) -> ReleasedStream:
    """The release as an attacker reads it: in its own order in paper mode, by its cut times where it was shuffled."""
    frame = context.released.frame
    order = np.arange(len(frame))
    if context.safe:
        mixed = context.fresh_noise().stream("attack: order within a time").permutation(len(frame))
        times = frame["time"].to_physical().fill_null(0).to_numpy()
        order = mixed[np.argsort(times[mixed], kind="stable")]
    order = order[(owners.is_not_null() & receivers.is_not_null()).to_numpy()[order]]
    categories = context.categories
    return ReleasedStream(
        receivers=context.people(receivers)[order],
        owners=context.people(owners)[order],
        texts=context.released_texts[order],
        categories=categories.of_text[context.released_texts][order],
        parents=categories.parents,
        depths=categories.depths,
        pseudonyms=context.released_names[order],
    )
