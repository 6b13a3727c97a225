"""What a live stream is connected to: a `RecordSource` to read from and a `Sink` to publish to.

The whole promise hangs on one rule, and every connector keeps it in its own way: **what is published, the state it
came from and how far the input was read become true in one atomic step** (`Sink.commit`). The positions are inside
the state, so a source of one kind goes with a sink of another. Three things follow:

* A crash, a lost connection or a lost shard are one and the same case: open anew, `Sink.load` the last commit,
  `RecordSource.seek` to the positions in it, go on. Nothing that was not committed was seen by anybody, so nothing
  that is drawn anew then is a second draw.
* If somebody did see more (a reader of uncommitted messages, or a checkpoint that was set back by hand, which is taken
  only if this holds), the same records come again from the same positions in the same order, the random words are
  addressed by the run's kept key and the count of words used, which is in the state, and batches leave no trace in the
  outcome (`mechanisms.stream.live`). So the second outcome is the first one, byte by byte.
* Two workers for one shard: `Sink.claim` gives out a fencing number that only grows, and a commit by the holder of an
  older one raises `FencedError` and changes nothing.

How to write a connector (see `files.py` and `redis.py`):

1. `RecordSource.read` hands out records once each, in an order, as `Batch`es: one line of bytes a record, and `place`,
   which names a record to a human (a dead letter says `line 17`, `1718-0`). `after` is where to `seek` to go on behind
   the batch. A record longer than the limit is `None`: read past it without keeping it. A batch is over once it holds
   `READ_BYTES`, however few records that are.
2. `Sink.commit` gets a `Step`: output lines, dead letters, the state (opaque bytes, authenticated already) and
   the source, so that a sink on the same broker can acknowledge in the same transaction. One broker cannot do all of
   that in one go? Then commit state and outputs together first (an *outbox*), publish after, and let `load` finish a
   publication that was cut short, without repeating what is out already.
3. Losing the server raises `AwayError`, never anything else: the worker waits and opens anew. Its message names no
   data.
4. Call `on_step` wherever a kill between two writes could tear something: `mid publish` when all is ready and the
   atomic write is still to come, `state safe` right after it, and, where outputs follow it, `half published` when some
   of them are out. The kill tests die there.

5. Give the module `open_source` and `open_sink`, classes or functions that take an `Endpoint`, and add its scheme to
   `CONNECTORS`. With shards, `open_members` says which shards this worker should hold now (`Members`).

Sharding: shard i of n holds the top-level categories that `shard_of` gives it, and a source opened for shard i reads
what was routed there. The shard's loop refuses a record that strayed in, so a category is never split in silence.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

from queryveil.errors import DataError, QueryVeilError, RefusedError, Remedy, UsageError, reason_of
from queryveil.log.spans import Spans

Positions: TypeAlias = dict[str, int | str]
"""How far each part of the input was read; plain JSON, understood by its source alone."""

SMALL_BATCH = 20_000
"""For brokers: a commit is one transaction, and must be over well within a lease."""
LARGE_BATCH = 100_000
"""For files: every commit costs a whole state, so the fewer the better; a file that is followed has fewer at a time."""

READ_BYTES = 32 << 20
"""A source stops adding to a batch once it holds so many bytes."""

OnStep: TypeAlias = Callable[[str], None]
Accept: TypeAlias = Callable[[bytes | None, bytes | None], bool]
"""Checks the committed state and one that is offered instead of it, or raises. Whether what is out may be cut back."""
Delivery: TypeAlias = Literal["exactly once", "at most once"]

CONNECTORS = {
    "file": ("files", ""),
    "-": ("files", ""),
    "redis": ("redis", "redis"),
    "rediss": ("redis", "redis"),
    "nats": ("nats", "nats"),
    "kafka": ("kafka", "kafka"),
}
"""Scheme of a URL: the module here that connects to it, and the extra that installs its client."""

STEPS = (
    "before restore",
    "during restore",
    "before read",
    "after read",
    "before commit",
    "mid publish",
    "state safe",
    "half published",
    "after commit",
)
"""Labels at which the kill tests die. The loop calls them but for the three before the last, which the sinks call."""


def no_step(label: str) -> None:
    """For all but the kill tests."""


class AwayError(DataError):
    """The other side cannot be reached now. Worth waiting for."""


class FencedError(QueryVeilError):
    """Another worker took the shard over; this one may not commit any more."""

    exit_code = 1


def new_run_needed(problem: str, otherwise: str | None = None) -> RefusedError:
    """Refuses to go on with a run: used random words would meet other records. `otherwise` helps without a new run."""
    advice = f"{otherwise}, or begin a new run." if otherwise else "Begin a new run."
    return RefusedError(f"{problem} {advice}", remedy=Remedy("run", "NEW_NAME"))


@contextmanager
def wait_for_disk(name: str) -> Iterator[None]:
    """A full or failing disk is worth waiting for: nothing was lost, and nothing is out that is not committed."""
    try:
        yield
    except OSError as error:
        raise AwayError(f"{name} cannot be written ({reason_of(error)}).") from None


@dataclass(frozen=True)
class Batch:
    """Records in the order they came. `ended` says that there will never be more."""

    lines: Spans | list[bytes | None] = field(default_factory=list)
    place: Callable[[int], str] = str
    """Names a record by its number in the batch."""
    after: Positions = field(default_factory=dict)
    ended: bool = False
    unread: str | None = None
    """At the end: what of the input was left, and what to do about it. Never what it says."""
    cut: bool = False
    """Whether the first line (None here) may lack its beginning, and so is a dead letter."""

    def __len__(self) -> int:
        return len(self.lines)


class Messages:
    """Messages of a broker on their way into a batch; of one that is too long only its place is kept."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._lines: list[bytes | None] = []
        self._places: list[str] = []
        self.size = 0

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, content: bytes, place: str) -> None:
        """One more."""
        self.size += len(content)
        self._lines.append(content if len(content) <= self._longest else None)
        self._places.append(place)

    def batch(self, after: Positions) -> Batch:
        """All of them, and where they end."""
        return Batch(self._lines, self._places.__getitem__, after if self._lines else {})


@dataclass(frozen=True)
class DeadLetter:
    """A record that could not be read: where it is and why. Never what it says."""

    place: str
    reason: str


@dataclass(frozen=True)
class Step:
    """What becomes true at once. `routes`, where given, names the shard that each output goes to."""

    outputs: Sequence[bytes]
    dead: list[DeadLetter]
    state: bytes
    positions: Positions
    routes: list[int] | None = None

    def by_shard(self) -> Mapping[int, Sequence[bytes]]:
        """The outputs for each shard in their order; without routes there is one place for all, number 0."""
        if self.routes is None:
            return {0: self.outputs}
        lines: dict[int, list[bytes]] = {}
        for line, shard in zip(self.outputs, self.routes, strict=True):
            lines.setdefault(shard, []).append(line)
        return lines


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One end of a live stream: the URL and all that a connector may want to know."""

    url: str
    run: str
    shard: int = 0
    shards: int = 1
    spread: Literal["none", "mine", "all"] = "mine"
    """A worker reads and writes what is its shard's; a router reads one input and writes to all shards."""
    follow: bool = False
    longest: int = 1 << 20
    checkpoint: Path | None = None
    from_checkpoint: Path | None = None
    on_step: OnStep = no_step

    @property
    def scheme(self) -> str:
        """The kind of connector: `file` for plain paths, `-` for stdin and stdout."""
        scheme, found, _ = self.url.partition(":")
        return "-" if self.url == "-" else scheme.lower() if found else "file"

    @property
    def place(self) -> str:
        """The URL without what may change from start to start: user, password and settings of the connection.

        >>> Endpoint(url="redis://me:secret@host/0?stream=out&lease=3", run="web").place
        'redis://host/0?stream=out'
        """
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2].lower()
        named = [(name, value) for name, value in sorted(parse_qsl(parts.query)) if name in ("stream", "subject")]
        return urlunsplit((parts.scheme, host, parts.path, urlencode(named), ""))


class RecordSource(Protocol):
    """Where records come from; a base class of all that do."""

    delivery: Delivery = "exactly once"
    name: str
    """Names the input without passwords, to tell a foreign checkpoint."""

    def seek(self, positions: Positions) -> Positions | None:
        """Go on behind these positions; empty ones mean the beginning. Called before the first `read`.

        Returns them with what the source adds, if anything: where the beginning is, and what tells this input from
        another of its name. A new run commits that before it reads: from then on nothing vanishes unnoticed. A pipe's
        source lives as long as its worker, so it is called again when the shard is opened anew.
        """

    def read(self, most: int, wait: float) -> Batch:
        """Up to `most` records, waiting up to so many seconds for the first; an empty batch where none came."""

    def acknowledge(self, positions: Positions) -> None:
        """Everything up to these positions is committed elsewhere; a hint, which may be lost without harm."""
        return

    def close(self) -> None:
        """Let go; what was read and not committed must be readable again."""


class Sink(Protocol):
    """Where outputs, dead letters and the state go; a base class of all that take them."""

    delivery: Delivery = "exactly once"
    place: str
    """Where outputs go, exactly, without passwords: the same run must not begin at another place."""
    takes_back: bool = False
    """Whether outputs that are out can be taken back, to come the same again."""
    may_forget: bool = False
    """Whether the server may lose its last commits, and with them who held the shard."""
    batch: int = SMALL_BATCH
    """How many records a commit should hold where nobody says otherwise."""

    def claim(self, sealing_key: bytes) -> None:
        """Take the shard over; whoever held it before can commit no more. `FencedError` where that must not be.

        The state is sealed already; the key is for what a sink keeps besides it, where others could alter that.
        """

    def load(self, accept: Accept) -> bytes | None:
        """The last committed state, its publication finished; None where there never was one.

        `accept` is called with it first, before anything is touched.
        """

    def ready(self) -> bool:
        """Called before every read: keep the hold on the shard, and say whether there is room for more outputs.

        `FencedError` where the hold is lost.
        """
        return True

    def advice(self) -> str | None:
        """What to set so that a crash of the server loses no commit; None where it loses none, or does not say."""
        return None

    def commit(self, step: Step, source: RecordSource) -> None:
        """Make it all true, or raise and leave everything as it was."""

    def close(self) -> None:
        """Let go of the shard."""


class Members(Protocol):
    """Who works on which shards."""

    def wanted(self) -> frozenset[int]:
        """The shards this worker should hold now; asked every few seconds."""

    def close(self) -> None:
        """Tell the others that this worker is gone."""


class UrlParameters:
    """What stands behind the question mark of a broker's URL.

    >>> end = Endpoint(url="redis://host/0?stream=searches&lease=3", run="web")
    >>> UrlParameters(end, ("stream", "lease"), "redis://host/0?stream=searches").number("lease", 10)
    3.0
    """

    def __init__(self, end: Endpoint, known: tuple[str, ...], example: str, *, complete: bool = True) -> None:
        """A stream must be named where one can be; what else a URL needs is `complete` as the caller says."""
        self._scheme, self.parts = end.scheme, urlsplit(end.url)
        self._values = {name: values[-1] for name, values in parse_qs(self.parts.query).items()}
        if not complete or not set(self._values) <= set(known) or ("stream" in known and "stream" not in self._values):
            raise UsageError(f"a {self._scheme} URL takes {', '.join(known)}, e.g. {example}.")

    def text(self, name: str, default: str = "") -> str:
        """A parameter as it is written."""
        return self._values.get(name, default)

    def number(self, name: str, default: float) -> float:
        """A parameter that is a positive number."""
        try:
            value = float(self._values.get(name, default))
        except ValueError:
            value = -1
        if not value > 0:
            raise UsageError(f"{name} in a {self._scheme} URL must be a number > 0.")
        return value


class FixedMembers:
    """A worker by itself holds the shards it was given."""

    def __init__(self, shards: frozenset[int]) -> None:
        self._shards = shards

    def wanted(self) -> frozenset[int]:
        """Always the same."""
        return self._shards

    def close(self) -> None:
        """There is nobody else."""


def open_source(end: Endpoint) -> RecordSource:
    """The source of a URL."""
    source: RecordSource = _module(end).open_source(end)
    return source


def open_sink(end: Endpoint) -> Sink:
    """The sink of a URL."""
    sink: Sink = _module(end).open_sink(end)
    return sink


def open_members(end: Endpoint) -> Members:
    """Who shares the shards of a sink; without a broker that can tell, nobody does."""
    members: Members = _module(end).open_members(end)
    return members


def _module(end: Endpoint) -> Any:
    if end.scheme not in CONNECTORS:
        raise UsageError(f"{end.scheme}: is no connector. Use a file, - or one of {', '.join(CONNECTORS)}.")
    name, extra = CONNECTORS[end.scheme]
    try:
        return importlib.import_module(f"queryveil.live.{name}")
    except ModuleNotFoundError:
        raise UsageError(f"{end.scheme} needs another package: pip install 'queryveil[{extra}]'.") from None


def share_of_shards(me: str, workers: Iterable[str], shards: int) -> frozenset[int]:
    """Every n-th shard, for the i-th of n workers.

    >>> sorted(share_of_shards("b", {"a", "b"}, 5))
    [1, 3]
    """
    everybody = sorted({me, *workers})
    return frozenset(range(everybody.index(me), shards, len(everybody)))


def shard_of(category: str, separator: str, shards: int) -> int:
    """The shard of a category path, by its top level: the same on every machine and in every version.

    >>> shard_of("animal: young: puppy", ": ", 8) == shard_of("animal", ": ", 8)
    True
    """
    top = category.split(separator, 1)[0]
    return int.from_bytes(hashlib.blake2b(top.encode(), digest_size=8, person=b"queryveil shard").digest()) % shards
