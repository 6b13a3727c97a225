"""The state of one shard as bytes: versioned, authenticated, small; a torn, altered or foreign one is refused unread.

Sealed with the run's key (`privacy.keys`): the length of a JSON header (8 bytes), the header, the mechanism's snapshot.
The header says which run, shard and input it belongs to and how far the input was read. Like a snapshot it holds the
records that wait: it is as sensitive as the log.

A run's key is kept in the key folder (`queryveil.privacy.keys`), one for all shards; each shard draws from a key
derived from it. Beside it lies a mark for each shard that has begun (`marker`), and a note whether the key was made
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
import json
from dataclasses import dataclass, field

from queryveil.errors import RefusedError
from queryveil.live.connector import Positions
from queryveil.live.input_digest import InputDigest
from queryveil.live.marker import Mark, Marker
from queryveil.privacy import Noise, keys
from queryveil.privacy.keys import Kind, Seal

KIND = Kind(
    b"QVLIVECP",
    3,
    "the checkpoint",
    "a checkpoint of a live stream",
    "Point QUERYVEIL_KEYS to the folder with the run's key.",
)
MADE = b"made"


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
    told = json.dumps(dataclasses.asdict(header)).encode()
    return seal.closed(len(told).to_bytes(8, "big"), told, snapshot)


def unpack(content: bytes, seal: Seal) -> tuple[Header, bytes]:
    """The header and the snapshot, or `DataError` with what is wrong."""
    body = seal.open(content)
    end = 8 + int.from_bytes(body[:8], "big")
    return Header(**json.loads(bytes(body[8:end]))), bytes(body[end:])


def refuse_foreign(found: Header, wanted: Header) -> None:
    """A checkpoint of another run, shard or input would meet other records with random words that were used before."""
    for what in ("run", "shard", "shards", "source"):
        if getattr(found, what) != getattr(wanted, what):
            raise RefusedError(
                f"the checkpoint is of {what} {getattr(found, what)}, this is {what} {getattr(wanted, what)}. "
                "Go on with what it was made for, or begin a new run under a new --run name."
            )
    names = sorted(found.settings.keys() | wanted.settings.keys())
    changed = [name for name in names if found.settings.get(name) != wanted.settings.get(name)]
    if changed:
        raise RefusedError(
            f"the checkpoint was made with other settings: {', '.join(changed)}. Use the same ones, or begin a new run "
            "under a new --run name."
        )


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
                    f"the key of run {run} was not made in this key folder. If this is one more worker of that run, "
                    "with the same input and output, say --join once; for another input begin a run under a new name."
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
