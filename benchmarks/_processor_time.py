"""Processor time of programs that a benchmark started, whatever else the machine does meanwhile (Linux)."""

from __future__ import annotations

import os
from pathlib import Path


def by_part(parts: dict[str, str]) -> dict[str, float]:
    """Seconds of processor time so far of all our descendants, by part: those with its word in their command line."""
    commands, parents, seconds = {}, {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(folder.name)
        commands[number], parents[number] = command, int(fields[1])
        seconds[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    ours = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in ours} - ours:
        ours |= more
    ours -= {os.getpid()}
    return {part: sum(seconds[number] for number in ours if word in commands[number]) for part, word in parts.items()}
