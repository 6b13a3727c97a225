"""The state of one shard as bytes: versioned, authenticated, small; a torn, altered or foreign one is refused unread.

Layout: eight bytes that name the kind, the version (4 bytes), a check value of the run's key (8 bytes), the length of a
JSON header (8 bytes), the header, the mechanism's snapshot, and the HMAC-SHA-256 of all that under the run's key. The
header says which run, shard and input it belongs to and how far the input was read. Like a snapshot it holds the
records that wait: it is as sensitive as the log.

A run's key is kept in the key folder (`queryveil.privacy.keys`), one for all shards; each shard draws from a key
derived from it. Beside it lies a marker for each shard that has begun. It tells a run that died before its first
commit from one whose checkpoint was lost: going on with the latter would draw a second time for records that are out
already.

>>> seal = Seal(bytes(32))
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
import hashlib
import hmac
import json
from dataclasses import dataclass, field

from queryveil.errors import DataError, RefusedError
from queryveil.privacy import Noise, keys
from queryveil.run.live.connector import Positions

KIND = b"QVLIVECP"
VERSION = 1
CHECK_BYTES, MAC_BYTES = 8, 32
START = len(KIND) + 4 + CHECK_BYTES + 8


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a checkpoint says of itself. `taken` counts all lines read, `dead` and `idle` those that were no records."""

    run: str
    shard: int
    shards: int
    source: str
    generation: int = 0
    positions: Positions = field(default_factory=dict)
    taken: int = 0
    dead: int = 0
    idle: int = 0


class Seal:
    """The key that makes checkpoints known as one's own."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.check = hashlib.blake2b(key=key, digest_size=CHECK_BYTES, person=b"live checkpoint").digest()

    def of(self, content: bytes) -> bytes:
        """The code that only the key can make."""
        return hmac.digest(self._key, content, "sha256")


def pack(header: Header, snapshot: bytes, seal: Seal) -> bytes:
    """All of it as one string of bytes."""
    told = json.dumps(dataclasses.asdict(header)).encode()
    start = KIND + VERSION.to_bytes(4, "big") + seal.check + len(told).to_bytes(8, "big")
    content = b"".join([start, told, snapshot])
    return content + seal.of(content)


def unpack(content: bytes, seal: Seal) -> tuple[Header, bytes]:
    """The header and the snapshot, or `DataError` with what is wrong."""
    at = len(KIND)
    if content[:at] != KIND:
        raise DataError("this is not a checkpoint of a live stream.")
    if int.from_bytes(content[at : at + 4], "big") != VERSION:
        raise DataError(f"the checkpoint has another format than {VERSION}; go on with the version that made it.")
    if content[at + 4 : at + 4 + CHECK_BYTES] != seal.check:
        raise DataError("the checkpoint belongs to another key. Point QUERYVEIL_KEYS to the folder with the run's key.")
    if len(content) < START + MAC_BYTES or not hmac.compare_digest(content[-MAC_BYTES:], seal.of(content[:-MAC_BYTES])):
        raise DataError("the checkpoint is torn or was altered: its authentication code does not hold.")
    end = START + int.from_bytes(content[START - 8 : START], "big")
    return Header(**json.loads(content[START:end])), content[end:-MAC_BYTES]


def refuse_foreign(found: Header, wanted: Header) -> None:
    """A checkpoint of another run, shard or input would meet other records with random words that were used before."""
    for what in ("run", "shard", "shards", "source"):
        if getattr(found, what) != getattr(wanted, what):
            raise RefusedError(
                f"the checkpoint is of {what} {getattr(found, what)}, this is {what} {getattr(wanted, what)}. "
                "Go on with what it was made for, or begin a new run under a new --run name."
            )


class RunKeys:
    """A run's key and what is derived from it for one shard."""

    def __init__(self, run: str, shard: int) -> None:
        self._name, self._marker = f"stream-{run}.key", f"stream-{run}-shard-{shard}.begun"
        if not (keys.key_folder() / self._name).is_file():
            self._keep_new()
        self._run = Noise.kept(self._name)
        self.seal = Seal(self._run.stream_key("live: checkpoints", 0))
        self._shard_key = self._run.stream_key("live: shard", shard)

    def _keep_new(self) -> None:
        with contextlib.suppress(RefusedError):  # another worker of the same run was first: its key is ours
            Noise.keeping(self._name)

    def noise(self) -> Noise:
        """The shard's noise from its first word on; the state says how many words were used."""
        return Noise(self._shard_key, self._run.mode)

    @property
    def begun(self) -> bool:
        """Whether a first commit of this shard was made."""
        return (keys.key_folder() / self._marker).is_file()

    def mark_begun(self) -> None:
        """Remember it, so that a lost checkpoint is not taken for a new run."""
        if not self.begun:
            keys.keep(self._marker, b"")
