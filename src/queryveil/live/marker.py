"""What this machine remembers of a shard, beside the run's key: where it works and how far it ever came.

The state may be lost, or set back by a backup or a broker; then other records could meet random words that were used
before. So a small file in the key folder is written before every commit, and again when the commit is made: its
number, how many records were taken in by then, a keyed digest of them all (`input_digest`) and how many epochs were
ended by a stop or for want of memory. A state that is older than the mark is taken only if the input, read again from
there, has the same digest, and no epoch was ended so in between: then all draws are the same again. That holds for the
last commit too, where it was tried and nobody knows whether it was made: a server may have made it, shown it and lost
it. Only with a pipe, which cannot be read again, is it taken for not made. The first mark of a
shard is made exclusively, before its first commit, and names input and output, so that two first starts cannot both go
ahead.

It knows what workers with this key folder did. Of commits by another machine it hears when it opens the shard.

>>> mark = Mark(source="file a", place="/out", generation=4, taken=30, digest="d")
>>> mark.only_tried_after(3), mark.only_tried_after(2), replace(mark, made=True).only_tried_after(3)
(True, False, False)
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from queryveil.errors import DataError, RefusedError
from queryveil.live.connector import AwayError, FencedError
from queryveil.privacy import keys
from queryveil.privacy.keys import replace_private

if TYPE_CHECKING:
    from queryveil.live.checkpoint import Header


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The furthest that is known. `made` says that the commit is known to be made, not only that it was tried.

    `replaying` says that an older state was taken, which has not come so far again.
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
    """The file of one shard's mark."""

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

    def begin(self, mark: Mark) -> None:
        """The first mark; of two that begin at once, the one who is later must want the same."""
        try:
            keys.keep(self._name, _written(mark))
        except OSError as error:
            raise _no_room(error) from None
        refuse_elsewhere(self.read() or mark, mark)

    def write(self, mark: Mark, *, durable: bool = True) -> None:
        """Replace the mark, whole."""
        try:
            replace_private(self._path, _written(mark), durable=durable)
        except OSError as error:
            raise _no_room(error) from None
        self._last = mark

    def note(self, header: Header, *, made: bool, alone: bool = False) -> None:
        """Remember a commit that is about to be made, or is made; a worker that was fenced never sets the mark back.

        `alone` says that nobody else may have written the mark since we did: the shard was theirs in between. The
        server knows as well, unless it lost all they did and is again as we left it.
        """
        lock = os.open(self._path.with_name(f".{self._name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = self._read()
            if known is None:
                raise RefusedError(f"{self._path} was removed while the run was at work: bring it back.")
            if alone and known != self._last:
                raise FencedError(f"another worker took the shard over, as {self._name} tells.")
            mark = known.after(header, made=made)
            if mark != known:
                self.write(mark, durable=not made)  # if this is lost, the commit counts as tried
        finally:
            os.close(lock)


def refuse_elsewhere(known: Mark, wanted: Mark) -> None:
    """The same run with another input or output would draw the same words for other records."""
    for what, old, new in (("reads", known.source, wanted.source), ("writes", known.place, wanted.place)):
        if old != new:
            raise RefusedError(
                f"the run has begun here and {what} {old}, not {new}. Go on with that, or begin a new run under a new "
                "--run name. If its output was moved together with its state, say --join once."
            )


def _written(mark: Mark) -> bytes:
    return json.dumps(asdict(mark)).encode()


def _no_room(error: OSError) -> AwayError:
    return AwayError(f"the key folder cannot be written ({(error.strerror or 'failed').lower()}).")
