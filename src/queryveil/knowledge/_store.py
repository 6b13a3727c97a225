"""Compiled knowledge on disk: named arrays in one memory-mapped file, and where such files live.

A file is a magic word, a JSON header and the raw arrays, each aligned to 64 bytes. It is written beside its final
name and moved into place, so a reader sees a whole file or none. Anything unreadable counts as absent: it is compiled
again.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "toy.arrays"
>>> write_arrays(path, {"kind": "toy"}, {"numbers": np.arange(3)})
>>> header, arrays = read_arrays(path)
>>> header["kind"], arrays["numbers"].tolist()
('toy', [0, 1, 2])
"""

from __future__ import annotations

import fcntl
import gc
import hashlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Array
from queryveil.progress import tell

MAGIC = b"QVARRAY1"
ALIGNMENT = 64
SETTLED_NS = 2_000_000_000
"""As long as the coarsest file system's tick."""

_digests: dict[tuple[int, int, int, int, int], str] = {}
_reading = threading.Lock()


def cache_folder() -> Path:
    """Where compiled knowledge is kept: `QUERYVEIL_CACHE`, else the user's cache folder."""
    setting = os.environ.get("QUERYVEIL_CACHE")
    if setting:
        return Path(setting)
    import platformdirs

    return Path(platformdirs.user_cache_dir("queryveil"))


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal; a file that did not change is read once in a process.

    A change shows in the inode, the size or the times. Times tick slowly, so what changed only just now may change once
    more unseen: it is read again each time, as is a file that changes while it is read.
    """
    with path.open("rb") as file, _reading:
        state = _file_state(file.fileno())
        known = _digests.get(state)
        if known is None:
            known = hashlib.file_digest(file, "sha256").hexdigest()
            if state == _file_state(file.fileno()) and time.time_ns() - max(state[-2:]) >= SETTLED_NS:
                _digests[state] = known
        return known


def _file_state(file: int) -> tuple[int, int, int, int, int]:
    found = os.fstat(file)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def write_arrays(path: Path, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write arrays and a JSON-able header to one file, atomically."""
    entries: dict[str, Any] = {}
    position = 0
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    for name, array in whole.items():
        entries[name] = {"dtype": array.dtype.str, "shape": array.shape, "at": position}
        position += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
    head = json.dumps({"header": dict(header), "arrays": entries, "bytes": position}, sort_keys=True).encode()
    head += b" " * (-(len(MAGIC) + 8 + len(head)) % ALIGNMENT)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    except OSError as problem:
        raise KnowledgeError(
            f"cannot write compiled knowledge to {path.parent}: {problem.strerror}. "
            "Set QUERYVEIL_CACHE to a folder you own."
        ) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC + len(head).to_bytes(8, "little") + head)
            for array in whole.values():
                file.write(array.data if array.size else b"")
                file.write(b"\0" * (-array.nbytes % ALIGNMENT))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as problem:
        raise KnowledgeError(
            f"cannot write {path}: {problem.strerror}. Free some space or set QUERYVEIL_CACHE."
        ) from None
    finally:
        Path(name).unlink(missing_ok=True)


def read_arrays(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Map a file written by `write_arrays`; the arrays are read-only views of the file."""
    try:
        data = np.memmap(path, mode="r", dtype=np.uint8)
    except (OSError, ValueError):
        raise KnowledgeError(f"{path} is not there or is empty. Build it first.") from None
    try:
        if data[: len(MAGIC)].tobytes() != MAGIC:
            raise ValueError
        size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8].tobytes(), "little")
        start = len(MAGIC) + 8 + size
        head = json.loads(data[len(MAGIC) + 8 : start].tobytes())
        if len(data) != start + head["bytes"]:
            raise ValueError
        arrays: dict[str, Array] = {}
        for name, entry in head["arrays"].items():
            dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
            begin = start + entry["at"]
            end = begin + dtype.itemsize * int(np.prod(shape))
            arrays[name] = np.asarray(data[begin:end].view(dtype)).reshape(shape)
        return head["header"], arrays
    except (ValueError, KeyError, TypeError, IndexError):
        raise KnowledgeError(f"{path} is damaged or not a QueryVeil index. Build it again.") from None


def compiled_once(
    path: Path, build: Callable[[], tuple[Mapping[str, Any], Mapping[str, Array]]]
) -> tuple[dict[str, Any], dict[str, Array]]:
    """What `path` holds; built first where it is absent or damaged, by one process while others wait."""
    with suppress(KnowledgeError):
        return read_arrays(path)
    with _locked(path):
        with suppress(KnowledgeError):
            return read_arrays(path)  # somebody else has built it meanwhile
        tell("preparing public knowledge, once", 0)
        with _without_collections():
            header, arrays = build()
        write_arrays(path, header, arrays)
        tell("preparing public knowledge, once", 1)
    return read_arrays(path)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Building makes millions of small objects and no circles of them: to look for some took two fifths of the time."""
    wanted = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if wanted:
            gc.enable()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of what is built; it falls with its process. Where nothing can be locked, nobody waits.

    The file goes when all is built: who waits for it then finds what was built, and who comes later needs no lock.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f"{path.name}.lock").open("ab")
    except OSError:
        yield
        return
    with lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            Path(lock.name).unlink(missing_ok=True)
