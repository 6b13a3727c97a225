"""Emissions on their way out: they wait for the end of their window of arrivals and leave it in random order.

Without this, a record would come out at the very arrival that set it free, and its text would be known to be the
arriving person's. A window is a number of arrivals, counted from the start of the epoch: public, and the same however
the stream is cut into batches. Only whole numbers are kept here; texts stay where they were held.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from queryveil.arrays import Array, Flags, Ints, Longs, Words
from queryveil.mechanisms.stream import _layout as at
from queryveil.mechanisms.stream._names import Key, fingerprints_of_pairs

WORD_BITS, RANK_BITS = np.uint64(64), np.uint64(46)
"""A slice of arrivals spans at most 2^17 windows and one begun before: 18 bits."""


@dataclass(frozen=True, kw_only=True)
class Departures:
    """Who leaves, one row each in the order it is handed out, with what only the holder may see.

    `handles` name the records held, `times` is the cut time of the arrival that brought each out (safe mode).
    `serials` counts emissions as they left the pools. `owners` and `receivers` are keyed fingerprints of users;
    `pool_users` and `pool_owners` how many distinct ones were in the pool, `records` how many queries were in the
    query's vertex, all before the record left; `delays` how many records came until it left the pool (the mix comes on
    top).
    """

    handles: Ints
    times: Longs
    owners: Words
    receivers: Words
    depths: Ints
    pool_users: Ints
    pool_owners: Ints
    records: Ints
    delays: Longs
    serials: Longs

    def __len__(self) -> int:
        return len(self.owners)


@dataclass(frozen=True, kw_only=True)
class Emissions(Departures):
    """What came out: `rows` are the original records (their `user` is the true owner) with the full `category`; in safe
    mode without click, and `time` is the cut time of the arrival that brought the record out, not the owner's.
    """

    rows: pl.DataFrame
    pseudonyms: pl.Series

    @classmethod
    def of(cls, left: Departures, rows: pl.DataFrame, pseudonyms: pl.Series) -> Emissions:
        """Departures with their rows."""
        return cls(**vars(left), rows=rows, pseudonyms=pseudonyms)


class Mix:
    """Emissions in the order they left the pools: the rows of the kernel, their triggers and their cut times."""

    def __init__(self, out: Ints | None = None, triggers: Longs | None = None, times: Longs | None = None) -> None:
        self.out: Ints = np.zeros((0, at.OUT_COLUMNS), np.int32) if out is None else out
        self.triggers: Longs = np.zeros(0, np.int64) if triggers is None else triggers
        self.times: Longs = np.zeros(0, np.int64) if times is None else times

    def __len__(self) -> int:
        return len(self.triggers)

    def add(self, out: Ints, triggers: Longs, times: Longs) -> None:
        """More emissions, with the arrivals that brought them out and those arrivals' times."""
        self.out = np.concatenate([self.out, out])
        self.triggers = np.concatenate([self.triggers, triggers])
        self.times = np.concatenate([self.times, times])

    def take(self, before: int) -> Mix:
        """Take out what arrivals before this one brought out."""
        ready = int(np.searchsorted(self.triggers, before))
        taken = Mix(self.out[:ready], self.triggers[:ready], self.times[:ready])
        self.out, self.triggers, self.times = self.out[ready:].copy(), self.triggers[ready:], self.times[ready:]
        return taken

    def shuffled(self, start: int, window: int, first: int, key: Key) -> Longs:
        """A random order within each window of arrivals from `start` on.

        Each emission's number, `first` and up, is given a secret random rank, so the order does not depend on batches.
        """
        serials = np.arange(first, first + len(self), dtype=np.uint64)
        ranks = fingerprints_of_pairs(serials, np.zeros(len(self), np.uint64), key)
        windows = (self.triggers - start) // window
        since_first = (windows - windows[:1]).astype(np.uint64)
        # One sort of one key: the window above, as much of the rank as fits below.
        order: Longs = np.argsort((since_first << RANK_BITS) | (ranks >> (WORD_BITS - RANK_BITS)), kind="stable")
        return order

    def mark_used(self, users: Flags) -> None:
        """Mark the numbers of users that emissions here still need."""
        users[self.out[:, at.OUT_OWNER]] = True
        users[self.out[:, at.OUT_RECEIVER]] = True

    def renumber(self, users: Ints) -> None:
        """Follow new numbers of users."""
        for column in (at.OUT_OWNER, at.OUT_RECEIVER):
            self.out[:, column] = users[self.out[:, column]]

    def renumber_handles(self, handles: Ints) -> None:
        """Follow new numbers of the records held."""
        self.out[:, at.OUT_HANDLE] = handles[self.out[:, at.OUT_HANDLE]]

    def to_arrays(self) -> dict[str, Array]:
        """All there is to know."""
        return {"out": np.ascontiguousarray(self.out).reshape(-1), "triggers": self.triggers, "times": self.times}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Mix:
        """The mix that `to_arrays` described."""
        out = np.array(arrays["out"], np.int32).reshape(-1, at.OUT_COLUMNS)
        return cls(out, np.array(arrays["triggers"], np.int64), np.array(arrays["times"], np.int64))
