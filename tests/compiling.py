"""Workers of `make test` share what Numba compiles: one compiles a kernel, the others wait and load it from the cache.

In a fresh clone all of them begin with empty caches, and each would compile what its tests need for itself.
"""

import fcntl
from contextlib import contextmanager
from pathlib import Path

from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher

_held: set[str] = set()


def install():
    """From now on; once for a process."""
    compile_alone = Dispatcher.compile

    def compile_once(dispatcher, signature):
        file = getattr(dispatcher._cache, "_cache_file", None)
        # The lock of Numba comes first, in every thread. A kernel that calls others holds its own while they compile.
        with global_compiler_lock, _locked(None if file is None else f"{file._index_path}.lock"):
            return compile_alone(dispatcher, signature)

    Dispatcher.compile = compile_once


@contextmanager
def _locked(path):
    try:
        file = None if path is None or path in _held else Path(path).open("w")  # noqa: SIM115 -- closed below
    except OSError:  # no folder for a cache yet, or none that can be written: nothing to share
        file = None
    if file is None:
        yield
        return
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _held.add(path)
        try:
            yield
        finally:
            _held.discard(path)
            fcntl.flock(file, fcntl.LOCK_UN)
