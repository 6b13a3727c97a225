"""The first minute of a newcomer: set-up, first output, the whole tour cold and warm, `--help`, and what it all weighs.

    python benchmarks/first_minute.py [--python PYTHON]

Clones this repository into a temporary folder and works there with an empty home, so nothing is cached. In the same run
`pip install` of tools that a reader may know, each into a fresh environment with the same empty home. Writes its
section of RESULTS.md, with the load of the machine: figures of a busy one say little.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _results import write_section

ROOT = Path(__file__).resolve().parent.parent
PEERS = ("presidio-analyzer", "opendp", "datasette")
Row = tuple[str, float, float, str]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that environments are made with")
    python = parser.parse_args().python
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rows = [*of_queryveil(place, python), *(of_peer(place, python, name) for name in PEERS)]
    lines = ["## The first minute", "", "| step | wall s | CPU s | |", "|---|---|---|---|"]
    lines += [f"| {what} | {wall:.1f} | {cpu:.1f} | {note} |" for what, wall, cpu, note in rows]
    lines += ["", f"{os.cpu_count()} cores; load {before:.1f} at the start, {os.getloadavg()[0]:.1f} at the end."]
    write_section("first_minute", "\n".join(lines))
    sys.stdout.write("\n".join(lines) + "\n")


def of_queryveil(place: Path, python: str) -> list[Row]:
    """Set-up as `make demo` does it, the tour twice, the list of commands."""
    clone = place / "queryveil"
    run(place, "git", "clone", "--quiet", str(ROOT), str(clone))
    wall, cpu, _ = run(place, "make", "-C", str(clone), f"PYTHON={python}", ".venv/.ready")
    rows = [("QueryVeil: set-up of `make demo`", wall, cpu, weight(clone / ".venv"))]
    command = str(clone / ".venv" / "bin" / "queryveil")
    for name in ("cold", "warm"):
        wall, cpu, first = run(place, command, "demo")
        rows.append((f"QueryVeil: the tour, {name}", wall, cpu, f"first output after {first:.1f} s"))
    wall, cpu, _ = run(place, command, "--help")
    return [*rows, ("QueryVeil: `queryveil --help`", wall, cpu, "")]


def of_peer(place: Path, python: str, name: str) -> Row:
    """`pip install` into an environment of its own."""
    venv = place / name
    run(place, python, "-m", "venv", str(venv))
    wall, cpu, _ = run(place, str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", name)
    return f"`pip install {name}`", wall, cpu, weight(venv)


def run(home: Path, *command: str) -> tuple[float, float, float]:
    """Wall and CPU seconds of a command with an empty home, and seconds until it first prints."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR", "QUERYVEIL_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "PYTHONUNBUFFERED": "1"}
    used, started = _children(), time.perf_counter()
    with subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        first = time.perf_counter() - started
        process.stdout.read()
    if process.returncode:
        sys.exit(f"{' '.join(command[:4])} failed with {process.returncode}")
    return time.perf_counter() - started, _children() - used, first


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def weight(folder: Path) -> str:
    """What a folder weighs."""
    return f"{sum(path.lstat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:,.0f} MB"


if __name__ == "__main__":
    main()
