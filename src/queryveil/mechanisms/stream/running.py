"""A stream that is being anonymised, whatever its records are kept as: epochs, windows, the mix, snapshots.

`RunningStream` turns users, texts and category paths into numbers (keyed fingerprints), runs the window over texts and
the tree, and says which records leave under whose pseudonym. In safe mode what leaves the pools waits for the end of
its window of `mix` arrivals and comes out in random order. Where a stream is cut into batches has no influence on what
comes out, in which order. How records come and go is for its two kinds to say: as columns (`live.py`) or as lines
(`lines.py`).

With `most_pending` an epoch ends early when more records could wait before the next window of the mix is over. That is
decided at the ends of these windows alone, which are certain arrivals, so it does not depend on batches either.

A snapshot holds everything but the key. Whoever restores it brings the same key, and the draws go on at the word where
they stopped. So after a crash, restore the last snapshot and take in the same records in the same order: they get the
same draws and come out the same. Other records, or another order, would meet words that were used before, and both
outcomes together tell more than either: never publish both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.arrays import Ints, Longs, Words
from queryveil.errors import DataError, RefusedError
from queryveil.log.spans import Spans
from queryveil.mechanisms.stream import _layout as at
from queryveil.mechanisms.stream import _snapshot
from queryveil.mechanisms.stream._gate import Gate
from queryveil.mechanisms.stream._names import (
    CategoryNumbers,
    Key,
    Numbers,
    fingerprints,
    fingerprints_of_pairs,
)
from queryveil.mechanisms.stream._tree import Draws, Rules, Tree
from queryveil.mechanisms.stream.emissions import Departures, Mix
from queryveil.privacy import Noise
from queryveil.privacy.keys import Seal
from queryveil.progress import tell
from queryveil.release.mechanism import TimeTreatment

SLICE = 1 << 17
SPARE_NAMES = 1 << 17
"""Names beyond twice those in use before the others are forgotten: each time all state is gone through."""


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """What a live stream must know of its mechanism: the public parameters, checked and worked out."""

    rules: Rules
    depth: int
    separator: str
    safe: bool
    k_text: int
    window: int
    epoch: int
    mix: int
    pseudonym: Literal["record", "session", "epoch"]
    time: TimeTreatment
    most_pending: int | None = None
    """How many records may wait before the epoch ends early."""


Kept = TypeVar("Kept", bound="Sliceable")
Out = TypeVar("Out")


class Sliceable(Protocol):
    """Records in the order they came."""

    def __len__(self) -> int: ...

    def __getitem__(self, chosen: slice, /) -> Any: ...


class Held(Protocol):
    """Records that wait, by handle."""

    def __len__(self) -> int: ...

    def take(self, handles: Ints) -> pl.DataFrame:
        """The rows of these handles, in this order."""

    def arrivals(self, handles: Ints) -> Longs:
        """The numbers under which these rows arrived."""

    def wasteful(self, live: int) -> bool:
        """Whether it is time to let go of rows that left."""

    def keep_only(self, live: npt.NDArray[np.integer]) -> Ints:
        """Let go of all rows but these (ascending); returns the new handle of each old one."""


@dataclass(frozen=True)
class TakenIn:
    """What the state machine needs of records: their users, paths and, in safe mode, texts; and their handles."""

    users: Spans
    paths: Spans
    texts: Spans
    handles: Ints


class RunningStream(ABC, Generic[Kept, Out]):
    """A stream that is being anonymised. Not for sharing between threads.

    What it hands out for publication carries no statement, so it refuses where that may not be published: seeded noise
    or paper mode. `for_science` says that it is not published.

    Where an epoch ends, what waits is suppressed, in safe mode also what is in the mix: its window would be shorter
    than `mix` arrivals, perhaps a single one. `all_at_once` says that nothing leaves before the end of the whole log,
    and then in an order that tells of no arrival; then no window hides anything, and what is in the mix comes out.
    """

    _held: Held

    def __init__(
        self, settings: StreamSettings, noise: Noise, *, for_science: bool = False, all_at_once: bool = False
    ) -> None:
        self.settings = settings
        self.for_science, self.all_at_once = for_science, all_at_once
        self._noise = noise
        secret = noise.stream("stream: keys").words(14)
        self._user_key, self._text_key, self._path_key, self._pseudonym_key, self._mix_key = (
            Key(secret[2 * i], secret[2 * i + 1]) for i in range(5)
        )
        self._seal = Seal(_snapshot.KIND, secret[10:].tobytes())
        self._draws = Draws(noise, 0)
        self.arrived = 0
        self.released = 0
        self.suppressed = 0
        self.epoch = 0
        self.early_ends = 0
        self.ending = False
        self._epoch_start = 0
        self._start_epoch()

    def _start_epoch(self) -> None:
        settings = self.settings
        self.tree = self._empty_tree()
        self.gate = Gate(settings.k_text, settings.window) if settings.safe else None
        self._held = self._hold_rows(None, np.zeros(0, np.int64))
        self._users = Numbers()
        self._categories = CategoryNumbers(settings.separator, settings.depth, self._path_key)
        self._mix = Mix()
        self._users_kept = self._categories_kept = 0

    def _empty_tree(self) -> Tree:
        return Tree(self.settings.rules)

    # What its kinds differ in

    @abstractmethod
    def _hold_rows(self, rows: pl.DataFrame | None, arrivals: Longs) -> Held:
        """The store of waiting records, empty or as a snapshot tells it."""

    @abstractmethod
    def _hold(self, kept: Kept) -> TakenIn:
        """Keep records until they leave."""

    @abstractmethod
    def _cut_times(self, kept: Kept, triggers: Ints) -> Longs:
        """The cut times of some of the records, in safe mode."""

    @abstractmethod
    def _made(self, left: Departures) -> Out:
        """What comes out: the records that left, under their pseudonyms."""

    # What it shows of itself

    @property
    def publishable(self) -> bool:
        """Whether what comes out may be published: safe mode and secure noise."""
        return self.settings.safe and self._noise.publishable

    @property
    def pending(self) -> int:
        """How many records wait: for people in the tree, for others to issue their text, or in the mix."""
        return self.tree.pending + self.withheld + self.mixing

    @property
    def mixing(self) -> int:
        """How many records left their pool and wait for the end of their window of arrivals."""
        return len(self._mix)

    @property
    def withheld(self) -> int:
        """How many records wait until enough people issued their text."""
        return self.gate.waiting if self.gate else 0

    def mark_end(self) -> None:
        """Say in the next snapshot that the epoch ends here, so that whoever restores it ends it here as well."""
        self.ending = True

    # Batches

    def finish_with_owners(self) -> list[Out]:
        """End the epoch: what waits is suppressed, never flushed; `all_at_once` what is in the mix comes out."""
        last = self._made(self._hand_out(self.arrived if self.all_at_once else 0))
        self.suppressed += self.pending
        self.epoch += 1
        self.ending = False
        self._epoch_start = self.arrived
        self._start_epoch()
        return [last]

    def people(self, numbers: Longs) -> Words:
        """The fingerprints of people by the numbers that the tree has for them now."""
        found: Words = self._users.known[numbers]
        return found

    def _check_publishable(self) -> None:
        if not (self.publishable or self.for_science):
            raise RefusedError(
                "a live stream hands out records for publication only in safe mode with secure noise. "
                "Open it with for_science=True where they are not published."
            )

    def _in_slices(self, kept: Kept) -> Iterator[Out]:
        """Take in all of it, and hand out what leaves, slice by slice."""
        done = 0
        while done < len(kept):
            left_in_epoch = self.settings.epoch - (self.arrived - self._epoch_start)
            count = min(SLICE, len(kept) - done, left_in_epoch, self._certain_to_fit())
            tell("streaming the records", done, len(kept))
            yield self._take_in(kept[done : done + count])
            done += count
            if count == left_in_epoch:
                yield from self.finish_with_owners()
            elif self._too_many_wait():
                self.early_ends += 1
                yield from self.finish_with_owners()
        tell("streaming the records", 1)

    def _certain_to_fit(self) -> int:
        """How many arrivals until the first end of a window at which too many could wait.

        An arrival adds one waiting record at most, so at the ends of windows before that there is nothing to decide.
        """
        most, mix = self.settings.most_pending, self.settings.mix
        if most is None:
            return SLICE
        done_in_window = (self.arrived - self._epoch_start) % mix
        windows = (most - self.pending + done_in_window) // mix
        return max(1, windows) * mix - done_in_window

    def _too_many_wait(self) -> bool:
        """Whether a window is over and the next one could bring more than may wait."""
        most, mix = self.settings.most_pending, self.settings.mix
        return most is not None and not (self.arrived - self._epoch_start) % mix and self.pending + mix > most

    def _take_in(self, kept: Kept) -> Out:
        taken = self._hold(kept)
        users, handles = self._users.of(fingerprints(taken.users, self._user_key)), taken.handles
        leaves, parents, depths = self._categories.of_paths(taken.paths)
        if len(parents):
            self.tree.add_categories(parents, depths)
        if self.gate is not None:
            texts = fingerprints(taken.texts, self._text_key)
            entered, expired = self.gate.push(texts, self._users.known, users, leaves, handles)
            self.suppressed += len(expired)
            handles, users, leaves, came = (np.ascontiguousarray(column) for column in entered.T)
            out = self.tree.push(leaves, users, handles, self._draws)
            triggers = came[out[:, at.OUT_ARRIVAL]]
        else:
            out = self.tree.push(leaves, users, handles, self._draws)
            triggers = out[:, at.OUT_ARRIVAL]
        # Paper mode publishes the record's own time; in safe mode the owner's would single it out within its pool.
        times = self._cut_times(kept, triggers) if self.settings.safe else np.zeros(len(triggers), np.int64)
        self._mix.add(out, self.arrived + triggers.astype(np.int64), times)
        self.arrived += len(kept)
        over = self.arrived
        if self.settings.safe:
            over -= (self.arrived - self._epoch_start) % self.settings.mix
        made = self._made(self._hand_out(over))
        self._forget_what_left()
        return made

    def _hand_out(self, before: int) -> Departures:
        """What arrivals before this one brought out, in the order it is published in."""
        taken, first = self._mix.take(before), self.released
        out, times, triggers, order = taken.out, taken.times, taken.triggers, np.arange(len(taken))
        if self.settings.safe:
            order = taken.shuffled(self._epoch_start, self.settings.mix, first, self._mix_key)
            out, times, triggers = out[order], times[order], triggers[order]
        self.released += len(out)
        handles = np.ascontiguousarray(out[:, at.OUT_HANDLE])
        return Departures(
            handles=handles,
            times=times,
            owners=self._users.known[out[:, at.OUT_OWNER]],
            receivers=self._users.known[out[:, at.OUT_RECEIVER]],
            depths=np.ascontiguousarray(out[:, at.OUT_DEPTH]),
            pool_users=out[:, at.OUT_POOL_USERS],
            pool_owners=out[:, at.OUT_POOL_OWNERS],
            records=out[:, at.OUT_RECORDS],
            delays=triggers - self._held.arrivals(handles),
            serials=first + order,
        )

    def _name_numbers(self, left: Departures, buckets: Longs | None) -> Words:
        """The number that each pseudonym shows; `buckets` are the released times, for names that last as long."""
        kind, count = self.settings.pseudonym, len(left)
        if kind == "record":
            serial = np.arange(self.released - count, self.released, dtype=np.uint64)
            return fingerprints_of_pairs(serial, np.full(count, 1, np.uint64), self._pseudonym_key)
        numbers = fingerprints_of_pairs(left.receivers, np.full(count, 2 + self.epoch, np.uint64), self._pseudonym_key)
        if kind == "session" and buckets is not None:
            numbers = fingerprints_of_pairs(numbers, buckets.view(np.uint64), self._pseudonym_key)
        return numbers

    # Forgetting

    def _forget_what_left(self) -> None:
        if self._held.wasteful(self.pending):
            self._compact_rows()
        if (
            self._users.count > 2 * self._users_kept + SPARE_NAMES
            or self._categories.count > 2 * self._categories_kept + SPARE_NAMES
        ):
            self._compact_names()

    def _compact_rows(self) -> None:
        waiting, records = self.tree.live_records(), self.tree.rows("records")
        live = np.concatenate([records[waiting, at.R_HANDLE], self._mix.out[:, at.OUT_HANDLE]])
        if self.gate is not None:
            live = np.concatenate([live, self.gate.waiting_handles()])
        numbers = self._held.keep_only(np.sort(live))
        records[waiting, at.R_HANDLE] = numbers[records[waiting, at.R_HANDLE]]
        self._mix.renumber_handles(numbers)
        if self.gate is not None:
            self.gate.renumber_handles(numbers)

    def _compact_names(self) -> None:
        categories, users = self.tree.used_categories(), self.tree.used_users(self._users.count)
        self._mix.mark_used(users)
        if self.gate is not None:
            self.gate.mark_used(categories, users)
            parents = self.tree.rows("categories")[:, at.G_PARENT]
            for _ in range(self.settings.depth):
                categories[parents[categories]] = True
        new_users, new_categories = self._users.keep_only(users), self._categories.keep_only(categories)
        self.tree.renumber(new_categories, new_users)
        self._mix.renumber(new_users)
        if self.gate is not None:
            self.gate.renumber(new_categories, new_users)
        self._users_kept, self._categories_kept = self._users.count, self._categories.count

    # Snapshots

    def snapshot(self) -> bytes:
        """All that is needed to go on, but for the key. As sensitive as the log itself."""
        self._compact_rows()
        self._compact_names()
        arrays = {f"tree.{name}": array for name, array in self.tree.to_arrays().items()}
        if self.gate is not None:
            arrays |= {f"gate.{name}": array for name, array in self.gate.to_arrays().items()}
        arrays |= {f"mix.{name}": array for name, array in self._mix.to_arrays().items()}
        everything = np.arange(len(self._held), dtype=np.int32)
        arrays |= {
            "users": self._users.known[: self._users.count],
            "categories": self._categories.known[: self._categories.count],
            "held.arrivals": self._held.arrivals(everything),
        }
        header = {
            "settings": asdict(self.settings),
            "noise": self._noise.mode,
            "words_used": self._draws.used,
            "arrived": self.arrived,
            "released": self.released,
            "suppressed": self.suppressed,
            "epoch": self.epoch,
            "epoch_start": self._epoch_start,
            "ending": self.ending,
        }
        return _snapshot.pack(header, arrays, self._held.take(everything), self._seal)

    def restore(self, content: bytes) -> None:
        """Go on where a snapshot was taken, in a stream opened with the same settings and the same key."""
        header, arrays, rows = _snapshot.unpack(content, self._seal)
        if header["settings"] != asdict(self.settings):
            changed = sorted(name for name, value in asdict(self.settings).items() if header["settings"][name] != value)
            raise DataError(f"the snapshot was made with other settings: {', '.join(changed)}. Use the same ones.")
        self.tree = Tree.from_arrays(self.settings.rules, _named(arrays, "tree."))
        self._users = Numbers(_words(arrays["users"]))
        if self.gate is not None:
            window = _named(arrays, "gate.")
            self.gate = Gate.from_arrays(self.settings.k_text, self.settings.window, window, self._users.known)
        self._categories = CategoryNumbers(
            self.settings.separator, self.settings.depth, self._path_key, _words(arrays["categories"])
        )
        self._users_kept, self._categories_kept = self._users.count, self._categories.count
        self._mix = Mix.from_arrays(_named(arrays, "mix."))
        self._held = self._hold_rows(rows, np.array(arrays["held.arrivals"], np.int64))
        self._draws = Draws(self._noise, header["words_used"])
        self.arrived, self.released = header["arrived"], header["released"]
        self.suppressed, self.epoch = header["suppressed"], header["epoch"]
        self._epoch_start, self.ending = header["epoch_start"], header["ending"]


def _named(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _words(array: Any) -> Words:
    return np.array(array, np.uint64)
