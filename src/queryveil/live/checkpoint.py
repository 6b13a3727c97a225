"""The state of one shard as bytes, and what this machine remembers of a run: its keys, and how far each shard came.

The state is versioned, authenticated and small; a torn, altered or foreign one is refused unread. Sealed with the run's
key (`privacy.keys`): the length of a JSON header (8 bytes), the header, the mechanism's snapshot. The header says which
run, shard and input it belongs to and how far the input was read. Like a snapshot it holds the records that wait: it is
as sensitive as the log.

A run's key is kept in the key folder (`queryveil.privacy.keys`), one for all shards; each shard draws from a key
derived from it. Beside it lies a mark for each shard that has begun (`Marker`), and a note whether the key was made
here. With a key that came from elsewhere a shard can be taken over, but never begun: somebody else may have begun it.

>>> seal = Seal(KIND, bytes(32))
>>> content = pack(Header(run="web", shard=0, shards=1, source="file log.tsv", generation=7), b"snapshot", seal)
>>> unpack(content, seal)[0].generation
7
>>> unpack(content[:-1], seal)
Traceback (most recent call last):
queryveil.errors.DataError: the checkpoint is torn or was altered: its authentication code does not hold.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from queryveil.errors import DataError, RefusedError, Remedy
from queryveil.live.connector import FencedError, Positions, new_run_needed, wait_for_disk
from queryveil.log.spans import Spans
from queryveil.mechanisms.stream._names import Key, fingerprints, fingerprints_of_pairs
from queryveil.privacy import Noise, keys
from queryveil.privacy.keys import Kind, Seal, replace_private

KIND = Kind(
    b"QVLIVECP",
    3,
    "the checkpoint",
    "a checkpoint of a live stream",
    "Point QUERYVEIL_KEYS to the folder with the run's key.",
)
MADE = b"made"
KEY_FOLDER = "the key folder"
MODULUS = 1 << 64


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a checkpoint says of itself. `taken` counts all lines read, `dead` and `idle` those that were no records.

    `digest` is of all lines read, `forced` counts epochs that a stop ended, `settings` is all that decides what
    becomes of a record.
    """

    run: str
    shard: int
    shards: int
    source: str
    generation: int = 0
    positions: Positions = field(default_factory=dict)
    taken: int = 0
    dead: int = 0
    idle: int = 0
    digest: str = ""
    forced: int = 0
    settings: dict[str, str] = field(default_factory=dict)

    def as_far_as(self, other: Header | Mark) -> bool:
        """Whether both took in the same records, with the same early ends of epochs."""
        return (self.taken, self.digest, self.forced) == (other.taken, other.digest, other.forced)


def pack(header: Header, snapshot: bytes, seal: Seal) -> bytes:
    """All of it as one string of bytes."""
    content = json.dumps(dataclasses.asdict(header)).encode()
    return seal.closed(len(content).to_bytes(8, "big"), content, snapshot)


def unpack(content: bytes, seal: Seal) -> tuple[Header, bytes]:
    """The header and the snapshot, or `DataError` with what is wrong."""
    body = seal.open(content)
    end = 8 + int.from_bytes(body[:8], "big")
    return Header(**json.loads(bytes(body[8:end]))), bytes(body[end:])


def refuse_foreign(found: Header, wanted: Header) -> None:
    """A checkpoint of another run, shard or input would meet other records with random words that were used before."""
    for what in ("run", "shard", "shards", "source"):
        if getattr(found, what) != getattr(wanted, what):
            raise new_run_needed(
                f"the checkpoint is of {what} {getattr(found, what)}, this is {what} {getattr(wanted, what)}.",
                "Go on with what it was made for",
            )
    names = sorted(found.settings.keys() | wanted.settings.keys())
    changed = [name for name in names if found.settings.get(name) != wanted.settings.get(name)]
    if changed:
        raise new_run_needed(f"the checkpoint was made with other settings: {', '.join(changed)}.", "Use the same ones")


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The furthest that is known. `made` says that the commit is known to be made, not only that it was tried.

    `replaying` says that an older state was taken, which has not come so far again.

    >>> mark = Mark(source="file a", place="/out", generation=4, taken=30, digest="d")
    >>> mark.only_tried_after(3), mark.only_tried_after(2), replace(mark, made=True).only_tried_after(3)
    (True, False, False)
    """

    source: str
    place: str
    generation: int = 0
    taken: int = 0
    digest: str = ""
    forced: int = 0
    made: bool = False
    replaying: bool = False

    def only_tried_after(self, generation: int) -> bool:
        """Whether all that is known behind a committed state is one commit that was tried, and perhaps never made."""
        return not self.made and generation == self.generation - 1

    def after(self, header: Header, *, made: bool) -> Mark:
        """With a commit that is made, or about to be. While replaying, what is to be reached again is kept."""
        if header.generation < self.generation:
            return self
        if self.replaying and header.taken < self.taken:
            return replace(self, generation=header.generation, made=made)
        return replace(
            self,
            generation=header.generation,
            taken=header.taken,
            digest=header.digest,
            forced=header.forced,
            made=made,
            replaying=False,
        )


class Marker:
    """The file of one shard's mark: where the shard works and how far it ever came.

    The state may be lost, or set back by a backup or a broker; then other records could meet random words that were
    used before. So a small file in the key folder is written before every commit, and again when the commit is made:
    its number, how many records were taken in by then, a keyed digest of them all (`InputDigest`) and how many epochs
    were ended by a stop or for want of memory. A state that is older than the mark is taken only if the input, read
    again from there, has the same digest, and no epoch was ended so in between: then all draws are the same again. That
    holds for the last commit too, where it was tried and nobody knows whether it was made: a server may have made it,
    shown it and lost it. Only with a pipe, which cannot be read again, is it taken for not made. The first mark of a
    shard is made exclusively, before its first commit, and names input and output, so that two first starts cannot both
    go ahead.

    It knows what workers with this key folder did. Of commits by another machine it hears when it opens the shard.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: Mark | None = None
        """What stood there when we last looked or wrote."""

    @property
    def _path(self) -> Path:
        return keys.key_folder() / self._name

    def read(self) -> Mark | None:
        """The mark, if the shard has begun."""
        self._last = self._read()
        return self._last

    def _read(self) -> Mark | None:
        try:
            return Mark(**json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError):
            raise DataError(f"{self._path} is not the mark of a live stream. Restore it.") from None

    def replace(self, known: Mark | None, mark: Mark) -> None:
        """Write what was decided when the mark was `known` (None: there was none), unless it is another by now.

        Between reading a mark and writing it a worker may freeze for as long as it likes, while it reads the input or
        anywhere else. Others take the shard over meanwhile, and what they noted must not be set back: whoever comes
        later would take an older state for the newest. Of two that begin at once, the later one must want the same.
        """
        if known is None:
            with wait_for_disk(KEY_FOLDER):
                keys.keep(self._name, _encode(mark))  # never over another
            kept = self.read()
            refuse_elsewhere(kept or mark, mark)
            if kept != mark:
                raise self._overtaken()
            return
        with self._locked() as found:
            if found != known:
                raise self._overtaken()
            self._write(mark, known)

    def note(self, header: Header, *, made: bool, alone: bool = False) -> None:
        """Remember a commit that is about to be made, or is made; a worker that was fenced never sets the mark back.

        `alone` says that nobody else may have written the mark since we did: the shard was theirs in between. The
        server knows as well, unless it lost all they did and is again as we left it.
        """
        with self._locked() as known:
            if known is None:
                raise RefusedError(f"{self._path} was removed while the run was at work: bring it back.")
            if alone and known != self._last:
                raise self._overtaken()
            self._write(known.after(header, made=made), known, durable=not made)  # if lost, the commit counts as tried

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Mark | None]:
        """The mark as it is, which nobody else changes meanwhile."""
        with wait_for_disk(KEY_FOLDER):
            lock = os.open(self._path.with_name(f".{self._name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self._read()
        finally:
            os.close(lock)

    def _write(self, mark: Mark, known: Mark, *, durable: bool = True) -> None:
        """What others wrote, where there is nothing to add, stays theirs: `_last` is what we read or wrote."""
        if mark != known:
            with wait_for_disk(KEY_FOLDER):
                replace_private(self._path, _encode(mark), durable=durable)
            self._last = mark

    def _overtaken(self) -> FencedError:
        return FencedError(f"another worker took the shard over, as {self._name} tells.")


def refuse_elsewhere(known: Mark, wanted: Mark) -> None:
    """The same run with another input or output would draw the same words for other records."""
    for what, old, new in (("reads", known.source, wanted.source), ("writes", known.place, wanted.place)):
        if old != new:
            raise new_run_needed(
                f"the run has begun here and {what} {old}, not {new}. If its output was moved together with its state, "
                "join it once (join).",
                "Go on with the old one",
            )


def _encode(mark: Mark) -> bytes:
    return json.dumps(dataclasses.asdict(mark)).encode()


class InputDigest:
    """A keyed digest of all records that were ever taken in, which does not depend on where batches are cut.

    Each record is fingerprinted (SipHash-2-4, 64 bits), the fingerprint again together with the number of the record,
    under two secret keys (together the run's key of 32 bytes), and the results are added up modulo 2^64. A sum goes on
    from a batch to the next, and the kernels of the stream mechanism make it over a whole batch at once. If one record
    is another, or stands at another place, the sum changes by a number that nobody can foresee without the keys: two
    different inputs of the same length have the same digest with a probability of about 2^-64. Whoever could see
    digests and choose inputs might do better; they are kept beside the key and in the state alone.

    >>> digest = InputDigest(bytes(range(32)))
    >>> whole = digest.after("", 0, [b"a", None, b"b"])
    >>> digest.after(digest.after("", 0, [b"a"]), 1, [None, b"b"]) == whole
    True
    >>> digest.after("", 0, [b"b", None, b"a"]) == whole or digest.after("", 0, [b"a", b"", b"b"]) == whole
    False
    """

    def __init__(self, key: bytes) -> None:
        words = np.frombuffer(key, "<u8", count=4).astype(np.uint64)
        self._line_key, self._place_key = Key(words[0], words[1]), Key(words[2], words[3])

    def after(self, digest: str, taken: int, lines: Sequence[bytes | None]) -> str:
        """The digest of `taken` records (empty at the beginning) with more; None is a record too long to be kept."""
        return self.sum(digest, self.fingerprints(taken, lines))

    def fingerprints(self, taken: int, lines: Sequence[bytes | None]) -> NDArray[np.uint64]:
        """Of each record at its place, where the first of them follows `taken` others."""
        places = 2 * np.arange(taken, taken + len(lines), dtype=np.uint64)
        if isinstance(lines, Spans):
            spans = lines
        else:
            places[[number for number, line in enumerate(lines) if line is None]] += np.uint64(1)
            kept = [line or b"" for line in lines]
            spans = Spans.of_lengths(b"".join(kept), list(map(len, kept)))
        return fingerprints_of_pairs(fingerprints(spans, self._line_key), places, self._place_key)

    def sum(self, digest: str, fingerprints: NDArray[np.uint64]) -> str:
        """The digest of some records with more, whose fingerprints are given."""
        return f"{(int(digest or '0', 16) + int(fingerprints.sum())) % MODULUS:016x}"


class RunKeys:
    """A run's key and what is derived from it for one shard. `join` takes a key that was made elsewhere."""

    def __init__(self, run: str, shard: int, *, join: bool = False) -> None:
        self._name, home = f"stream-{run}.key", f"stream-{run}.home"
        if not (keys.key_folder() / self._name).is_file():
            keys.keep(home, MADE)  # before the key, so that no worker beside us finds a key without it
            self._keep_new()
        elif not (keys.key_folder() / home).is_file():
            if not join:
                raise RefusedError(
                    f"the key of run {run} was not made in this key folder. For another input begin a run under a new "
                    "name. If this is one more worker of that run, with the same input and output, join it once.",
                    remedy=Remedy("join", True),
                )
            keys.keep(home, b"joined")
        self.made_here = keys.load(home) == MADE
        self._run = Noise.load(self._name)
        self.sealing_key = self._run.stream_key("live: checkpoints", 0)
        self.seal = Seal(KIND, self.sealing_key)
        self.input_digest = InputDigest(self._run.stream_key("live: digest of the input", 0))
        self._shard_key = self._run.stream_key("live: shard", shard)
        self.marker = Marker(f"stream-{run}-shard-{shard}.begun")

    def _keep_new(self) -> None:
        with contextlib.suppress(RefusedError):  # another worker of the same run was first: its key is ours
            Noise.create(self._name)

    def noise(self) -> Noise:
        """The shard's noise from its first word on; the state says how many words were used."""
        return Noise(self._shard_key, self._run.mode)
