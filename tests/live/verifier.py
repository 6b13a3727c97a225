"""Checks a live run from outside: the input, what readers saw, the last committed state and the run's key.

Nothing of `queryveil.live` or `queryveil.mechanisms` is imported here. The layout of a checkpoint is read as its
documentation states it, and every release is worked out anew with the plain algorithm of `mechanisms/stream_oracle.py`
and the run's random words. Those come from `queryveil.privacy.Noise`, the one thing shared with the worker. Windows and
epochs are followed; a forced end of an epoch only behind all of the input (`finished`).

That a text had been asked by enough people, and that a pool held records of more than k, is then counted once more for
every release, from the records that came before it and the releases before it alone (`too_few`).

Not looked at: the order within a window of the mix, how a pseudonym is spelt, and runs whose epochs end early because
too many records wait.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import polars as pl
import zstandard

from mechanisms.stream_oracle import Emission, GateOracle, Oracle, from_words
from queryveil.privacy import Noise

SEPARATOR = ": "
Told: TypeAlias = tuple[str, str, str | None]


@dataclass(frozen=True)
class Rules:
    """The public parameters of the run."""

    k: int
    k_text: int
    mix: int
    depth: int
    cap: int = 3
    pseudonym: str = "record"
    window: int = 10**9
    epoch: int = 10**9
    time: str = "drop"

    def window_of(self, arrival: int) -> tuple[int, int]:
        """Epoch and window of the mix."""
        return arrival // self.epoch, arrival % self.epoch // self.mix

    def comes_out(self, arrival: int, arrivals: int) -> bool:
        """Whether what this arrival brought out of its pool is out after so many."""
        start = arrival - arrival % self.epoch
        end = start + (arrival - start) // self.mix * self.mix + self.mix
        return end <= min(arrivals, start + self.epoch)


@dataclass
class Findings:
    """What is wrong; nothing, one hopes."""

    problems: list[str] = field(default_factory=list)

    def check(self, holds: bool, what: str) -> None:
        if not holds:
            self.problems.append(what)


def verify(
    *,
    arrivals: list[dict[str, str]],
    suppressed: list[dict[str, str]],
    dead: int,
    visible: list[bytes],
    state: bytes,
    key: bytes,
    rules: Rules,
    shard: int = 0,
    finished: bool = False,
) -> list[str]:
    """The problems found. `arrivals` are the records that can be mixed, in order; `suppressed` those that cannot."""
    found = Findings()
    header, counts, held = opened(state)
    try:
        released = [json.loads(line) for line in visible]
    except json.JSONDecodeError:
        return ["a line that is no record is visible"]

    # Every input is accounted for exactly once.
    ran = Replay.of(arrivals, key, rules, shard, finished=finished)
    waiting = Counter((row["query"], _top(row["category"])) for row in held.iter_rows(named=True))
    expected_to_wait = Counter((arrivals[n]["query"], _top(arrivals[n]["topic"])) for n in ran.waiting)
    found.check(header["taken"] == len(arrivals) + len(suppressed) + dead, "some input was not taken, or taken twice")
    found.check(header["dead"] == dead, "the dead letters are not those of the input")
    found.check(waiting == expected_to_wait, "other records wait than the key gives")
    found.check(counts["released"] == len(released), "the state counts other releases than are visible")
    found.check(
        counts["suppressed"] == len(suppressed) + len(arrivals) - len(ran.waiting) - len(ran.out),
        "not those are suppressed that had to be",
    )
    came_in = Counter((row["query"], _top(row["topic"])) for row in arrivals)
    came_out = Counter((row["query"], _top(row["category"])) for row in released)
    found.check(not came_out + waiting - came_in, "something is out or waits that did not come in, or both")

    # Nothing was released twice: every record has a pseudonym of its own.
    names = Counter(row["user"] for row in released)
    if rules.pseudonym == "record":
        found.check(all(count == 1 for count in names.values()), "a record was released twice")
    found.check(not names.keys() & {row["user"] for row in arrivals}, "a true user is visible")

    # Every draw is the one that the run's key gives.
    windows: dict[tuple[int, int], list[Told]] = {}
    of_receiver: dict[object, Counter[tuple[tuple[int, int], Told]]] = {}
    for number, (arrival, emission) in enumerate(ran.out):
        window, told_of = rules.window_of(arrival), _told(arrivals, arrival, emission, rules)
        windows.setdefault(window, []).append(told_of)
        receiver = number if rules.pseudonym == "record" else (window[0], emission.receiver)
        of_receiver.setdefault(receiver, Counter())[(window, told_of)] += 1
    of_name: dict[object, Counter[tuple[tuple[int, int], Told]]] = {}
    at = 0
    for window, drawn in sorted(windows.items()):
        rows = released[at : at + len(drawn)]
        told = [(row["query"], row["category"], row.get("time")) for row in rows]
        found.check(Counter(told) == Counter(drawn), f"window {window} shows other draws than the key gives")
        for row, text in zip(rows, told, strict=True):
            of_name.setdefault(row["user"], Counter())[(window, text)] += 1
        at += len(drawn)
    found.check(at == len(released), "more came out than the key gives")

    # What goes by one pseudonym is what one receiver got, and each receiver has one.
    shown, given = (Counter(frozenset(part.items()) for part in by.values()) for by in (of_name, of_receiver))
    found.check(shown == given, "pseudonyms stand for other receivers than the key gives")

    found.problems += too_few(arrivals, ran.drawn, rules)
    return found.problems


def _top(category: str) -> str:
    return category.split(SEPARATOR)[0]


def _told(arrivals: list[dict[str, str]], arrival: int, emission: Emission, rules: Rules) -> Told:
    """What of a release can be seen: its text, its category, and the day of the arrival that brought it out."""
    day = f"{arrivals[arrival]['time'][:10]}T00:00:00" if rules.time == "day" else None
    return arrivals[emission.record]["query"], SEPARATOR.join(emission.category), day


@dataclass
class Replay:
    """What the plain algorithm makes of the arrivals: the draws, which of them are out, and what waits at the end."""

    drawn: list[tuple[int, Emission]] = field(default_factory=list)
    out: list[tuple[int, Emission]] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, arrivals: list[dict[str, str]], key: bytes, rules: Rules, shard: int, *, finished: bool) -> Replay:
        """Every draw with the arrival that brought it out of its pool, by the run's words."""
        noise = Noise(Noise(key, "secure").stream_key("live: shard", shard), "secure")
        words = (int(word) for block in range(1000) for word in noise.stream("stream: draws", block).words(1 << 17))
        draw, made = from_words(words), cls()
        for start in range(0, len(arrivals), rules.epoch):
            oracle = Oracle(rules.k, draw, exclude_owner=False, distinct=True, cap=rules.cap)
            gate = GateOracle(rules.k_text, rules.window)
            end = min(start + rules.epoch, len(arrivals))
            for arrival in range(start, end):
                row = arrivals[arrival]
                for owner, record in gate.push(row["user"], row["query"], arrival):
                    before = len(oracle.out)
                    oracle.push(owner, record, tuple(arrivals[record]["topic"].split(SEPARATOR))[: rules.depth])
                    made.drawn += [(arrival, emission) for emission in oracle.out[before:]]
            if end == len(arrivals) and end - start < rules.epoch and not finished:
                made.waiting = set(range(start, end)) - set(gate.expired)
        made.out = [(arrival, drawn) for arrival, drawn in made.drawn if rules.comes_out(arrival, len(arrivals))]
        made.waiting -= {drawn.record for _, drawn in made.out}
        return made


def too_few(arrivals: list[dict[str, str]], drawn: list[tuple[int, Emission]], rules: Rules) -> list[str]:
    """Texts and pools of too few people, counted from the input before each draw and the draws before it."""
    found = Findings()
    asked: dict[str, list[int]] = {}
    let_in: dict[int, int] = {}  # record: the arrival at which enough people had asked its text
    for arrival, row in enumerate(arrivals):
        start = max(arrival - arrival % rules.epoch, arrival - rules.window + 1)
        alike = [n for n in [*asked.get(row["query"], []), arrival] if n >= start]
        asked[row["query"]] = alike
        if len({arrivals[n]["user"] for n in alike}) >= rules.k_text:
            for record in alike:
                let_in.setdefault(record, arrival)
    to_enter = sorted((arrival, record) for record, arrival in let_in.items())[::-1]
    inside: dict[int, int] = {}  # what is in the pools: record, arrival
    for arrival, emission in drawn:
        while to_enter and to_enter[-1][0] <= arrival:
            entered, record = to_enter.pop()
            inside[record] = entered
        start = arrival - arrival % rules.epoch
        inside = {record: entered for record, entered in inside.items() if entered >= start}
        found.check(emission.record in inside, "a text came out that too few people had asked")
        paths = {record: tuple(arrivals[record]["topic"].split(SEPARATOR)) for record in inside}
        depth = len(emission.category)
        pool = {arrivals[n]["user"] for n, path in paths.items() if path[:depth] == emission.category}
        found.check(len(pool) > rules.k, "a pool held records of too few people")
        inside.pop(emission.record, None)
    return sorted(set(found.problems))


def opened(state: bytes) -> tuple[dict[str, object], dict[str, object], pl.DataFrame]:
    """Header of the checkpoint, header of the snapshot in it, and the records that wait."""
    content = unsealed(state, b"QVLIVECP")
    end = 8 + int.from_bytes(content[:8], "big")
    header = json.loads(content[8:end])
    body = zstandard.ZstdDecompressor().decompress(unsealed(content[end:], b"QVSTREAM"))
    at = 8 + int.from_bytes(body[:8], "big")
    counts = json.loads(body[8:at])
    at += sum(int(dtype[2:]) * length for _, dtype, length in counts["arrays"])
    return header, counts, pl.read_ipc(io.BytesIO(body[at:]))


def unsealed(content: bytes, kind: bytes) -> bytes:
    """What stands after the kind, a version of 4 bytes, a check value of 8 and a code of 32."""
    assert content[:8] == kind
    return content[52:]


def file_state(path: Path) -> bytes:
    """The state in a file sink's checkpoint.

    It stands after numbers of 8 bytes: how many files, their lengths, those of state and parts.
    """
    body = unsealed(path.read_bytes(), b"QVFILECP")
    files = int.from_bytes(body[:8], "big")
    start, length = 8 * (2 * files + 2), int.from_bytes(body[8 * (files + 1) : 8 * (files + 2)], "big")
    return body[start : start + length]
