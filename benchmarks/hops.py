"""How many files and functions of the package one small release passes through: the length of the main road.

A reader who wants to know what happens to a record has to open each of these files. The release is made with the
command line (`queryveil release suppress`) in a process that has made one before, so that only functions which do the
work count, not the bodies of modules nor what imports call. A comprehension or a lambda is part of the function around
it.

    python benchmarks/hops.py            the two figures, and each file with its functions
    python benchmarks/hops.py --json     the same for a program
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType

import queryveil
from queryveil.cli import main as command_line

PACKAGE = Path(queryveil.__file__).parent
INSIDE = ("<module>", "<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
"""Code objects that are no functions of their own."""


def main() -> None:
    """Print the figures of one release."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["QUERYVEIL_KEYS"] = str(Path(folder) / "keys")
        log = Path(folder) / "log.tsv"
        _command("synth", "--users", "60", "--records", "900", "-o", str(log))
        _command("release", "suppress", str(log), "--k-text", "3", "-o", str(Path(folder) / "warm"))
        with _Calls() as calls:
            _command("release", "suppress", str(log), "--k-text", "3", "-o", str(Path(folder) / "release"))
    functions = calls.functions()
    count = sum(map(len, functions.values()))
    if "--json" in sys.argv[1:]:
        print(json.dumps({"files": len(functions), "functions": count, "passed": functions}, indent=2))
        return
    shell = sum(file.startswith("cli/") for file in functions)
    print(f"A `release suppress` passes through {count} functions in {len(functions)} files, {shell} in cli/.\n")
    for file, names in functions.items():
        print(f"{file}\n    {', '.join(names)}")


class _Calls:
    """Remembers which functions of the package are called, in every thread that starts meanwhile."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()

    def __enter__(self) -> _Calls:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._codes.add(frame.f_code)

    def functions(self) -> dict[str, list[str]]:
        """The functions by file, in the order in which they stand there."""
        found: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for code in self._codes:
            path = Path(code.co_filename)
            if path.is_relative_to(PACKAGE) and code.co_name not in INSIDE and not _is_class_body(code):
                found[str(path.relative_to(PACKAGE))].append((code.co_firstlineno, code.co_qualname))
        return {file: [name for _, name in sorted(set(found[file]))] for file in sorted(found)}


def _is_class_body(code: CodeType) -> bool:
    return "__qualname__" in code.co_names and "__module__" in code.co_names


def _command(*words: str) -> None:
    """Run a command in this process, and be quiet about it."""
    sys.argv, before = ["queryveil", *words], sys.argv
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as problems:
        try:
            command_line.main()
        except SystemExit as stop:
            if stop.code:
                raise RuntimeError(problems.getvalue()) from None
        finally:
            sys.argv = before


if __name__ == "__main__":
    main()
