"""The first minute of a newcomer: set-up, first output, the whole tour cold and warm, `--help`, and what it all weighs.

    python benchmarks/first_minute.py                      everything
    python benchmarks/first_minute.py --part set-up        one part again; the others keep their last figures

Clones this repository into a temporary folder and works there with an empty home, so nothing is cached. In the same run
`pip install` of tools that a reader may know, each into a fresh environment with the same empty home. Writes its
section of RESULTS.md, with the load of the machine beside each figure: wall seconds of a busy one say little.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from _results import write_section

ROOT = Path(__file__).resolve().parent.parent
KEPT = Path(__file__).with_name("out") / "first_minute.json"
PARTS = ("set-up", "tour", "peers")
PEERS = ("presidio-analyzer", "opendp", "datasette")
Figures = dict[str, str | float]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that environments are made with")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; may be given again")
    given = parser.parse_args()
    chosen = given.part or PARTS
    kept: dict[str, list[Figures]] = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if "set-up" in chosen or "tour" in chosen:
            kept["set-up"] = set_up(place, given.python)
        if "tour" in chosen:
            kept["tour"] = tour(place)
        if "peers" in chosen:
            kept["peers"] = [peer(place, given.python, name) for name in PEERS]
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept))
    text = section([row for part in PARTS for row in kept.get(part, [])])
    write_section("first_minute", text)
    sys.stdout.write(text)


def section(rows: list[Figures]) -> str:
    """The table."""
    lines = [
        "## The first minute",
        "",
        f"`python benchmarks/first_minute.py`, last part {datetime.now(UTC):%Y-%m-%d}; {os.cpu_count()} cores, each "
        "row in a fresh clone or environment with an empty home. The load is that of the machine when it began; where "
        "it is above the number of cores, the wall seconds are mostly waiting. Ours is weighed without the tools of "
        "the set-up, which go again, and before bytecode is written (31 MB by the end of the tour); the others with "
        "pip and the bytecode that it writes.",
        "",
        "| step | wall | CPU | first output | weight | load |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['step']} | {row['wall']:.1f} s | {row['cpu']:.1f} s | {row.get('first', '')} "
            f"| {row.get('weight', '')} | {row['load']:.0f} |"
        )
    return "\n".join(lines) + "\n"


def set_up(place: Path, python: str) -> list[Figures]:
    """Set-up as `make demo` does it, and the list of commands."""
    clone = place / "queryveil"
    run(place, "git", "clone", "--quiet", str(ROOT), str(clone))
    done = run(place, "make", "-C", str(clone), f"PYTHON={python}", ".venv/.ready")
    done |= {"step": "QueryVeil: set-up of `make demo`", "weight": weight(clone / ".venv"), "first": ""}
    run(place, str(clone / ".venv" / "bin" / "queryveil"), "--help")  # writes the bytecode
    listed = run(place, str(clone / ".venv" / "bin" / "queryveil"), "--help")
    return [done, listed | {"step": "QueryVeil: `queryveil --help`"}]


def tour(place: Path) -> list[Figures]:
    """The tour twice, first with nothing compiled."""
    command = str(place / "queryveil" / ".venv" / "bin" / "queryveil")
    return [run(place, command, "demo") | {"step": f"QueryVeil: the tour, {name}"} for name in ("cold", "warm")]


def peer(place: Path, python: str, name: str) -> Figures:
    """`pip install` into an environment of its own."""
    venv = place / name
    run(place, python, "-m", "venv", str(venv))
    done = run(place, str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", name)
    return done | {"step": f"`pip install {name}`", "weight": weight(venv), "first": ""}


def run(home: Path, *command: str) -> Figures:
    """Wall and CPU seconds of a command with an empty home, and seconds until it first prints."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR", "QUERYVEIL_CACHE")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), "PYTHONUNBUFFERED": "1"}
    load, used, started = os.getloadavg()[0], _children(), time.perf_counter()
    with subprocess.Popen(command, cwd=home, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        first = time.perf_counter() - started
        process.stdout.read()
    if process.returncode:
        sys.exit(f"{' '.join(command[:4])} failed with {process.returncode}")
    wall, cpu = time.perf_counter() - started, _children() - used
    return {"wall": wall, "cpu": cpu, "first": f"{first:.1f} s", "load": load}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def weight(folder: Path) -> str:
    """What a folder weighs."""
    return f"{sum(path.lstat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:,.0f} MB"


if __name__ == "__main__":
    main()
