"""Checks a live run from outside: the input, what readers saw, the last committed state and the run's key.

Nothing of `queryveil.run` or `queryveil.mechanisms` is imported here. The layout of a checkpoint is read as its
documentation states it, and every release is worked out anew with the plain algorithm of `mechanisms/stream_oracle.py`
and the run's random words. Those come from `queryveil.privacy.Noise`, the one thing shared with the worker.

It holds for runs whose window and epoch are longer than the input (but for one end of an epoch behind all of it), with
a pseudonym for every record or for every person and epoch. Not looked at: the order within a window of the mix, and how
a pseudonym is spelt. That pools had more than k people is counted in the plain algorithm, whose draws the output must
show.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import zstandard

from mechanisms.stream_oracle import Emission, Oracle, from_words
from queryveil.privacy import Noise

SEPARATOR = ": "


@dataclass(frozen=True)
class Rules:
    """The public parameters of the run."""

    k: int
    k_text: int
    mix: int
    depth: int
    cap: int = 3
    pseudonym: str = "record"


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
    of = [(row["query"], row["topic"].split(SEPARATOR)[0]) for row in arrivals]
    out = [(row["query"], row["category"].split(SEPARATOR)[0]) for row in released]
    waiting = [(row["query"], row["category"].split(SEPARATOR)[0]) for row in held.iter_rows(named=True)]
    found.check(header["taken"] == len(arrivals) + len(suppressed) + dead, "some input was not taken, or taken twice")
    found.check(header["dead"] == dead, "the dead letters are not those of the input")
    if finished:
        found.check(not waiting, "something waits after the end")
        found.check(not Counter(out) - Counter(of), "something came out that did not come in")
    else:
        found.check(Counter(out) + Counter(waiting) == Counter(of), "released and pending are not the input")
        found.check(counts["suppressed"] == len(suppressed), "not those are suppressed that had to be")
    found.check(counts["released"] == len(released), "the state counts other releases than are visible")

    # Nothing was released twice: every record has a pseudonym of its own.
    names = Counter(row["user"] for row in released)
    if rules.pseudonym == "record":
        found.check(all(count == 1 for count in names.values()), "a record was released twice")
    found.check(not names.keys() & {row["user"] for row in arrivals}, "a true user is visible")

    # Every draw is the one that the run's key gives, from a pool of more than k.
    expected = emissions(arrivals, key, rules, shard)
    found.check(all(e.users > rules.k and e.owners > rules.k for _, e in expected), "a pool of too few people")
    windows: dict[int, list[tuple[str, str]]] = {}
    of_receiver: dict[object, Counter[tuple[int, str, str]]] = {}
    for number, (arrival, emission) in enumerate(expected):
        window = arrival // rules.mix
        told_of = arrivals[emission.record]["query"], SEPARATOR.join(emission.category)
        windows.setdefault(window, []).append(told_of)
        receiver = number if rules.pseudonym == "record" else emission.receiver
        if finished or window < len(arrivals) // rules.mix:
            of_receiver.setdefault(receiver, Counter())[(window, *told_of)] += 1
    of_name: dict[object, Counter[tuple[int, str, str]]] = {}
    over = len(arrivals) // rules.mix if not finished else len(windows) + len(arrivals)
    at = 0
    for window in sorted(number for number in windows if number < over):
        drawn = windows[window]
        told = [(row["query"], row["category"]) for row in released[at : at + len(drawn)]]
        found.check(Counter(told) == Counter(drawn), f"window {window} shows other draws than the key gives")
        for row, text in zip(released[at : at + len(drawn)], told, strict=True):
            of_name.setdefault(row["user"], Counter())[(window, *text)] += 1
        at += len(drawn)
    found.check(at == len(released), "more came out than the key gives")

    # What goes by one pseudonym is what one receiver got, and each receiver has one.
    shown, given = (Counter(frozenset(part.items()) for part in by.values()) for by in (of_name, of_receiver))
    found.check(shown == given, "pseudonyms stand for other receivers than the key gives")

    # A text was issued by k_text people before it came out.
    askers: dict[str, set[str]] = {}
    for row in arrivals:
        askers.setdefault(row["query"], set()).add(row["user"])
    found.check(all(len(askers[row["query"]]) >= rules.k_text for row in released), "a rare text came out")
    return found.problems


def emissions(arrivals: list[dict[str, str]], key: bytes, rules: Rules, shard: int) -> list[tuple[int, Emission]]:
    """Every emission, with the arrival that brought it out, by the plain algorithm and the run's words."""
    noise = Noise(Noise(key, "secure").stream_key("live: shard", shard), "secure")
    words = (int(word) for block in range(1000) for word in noise.stream("stream: draws", block).words(1 << 17))
    oracle = Oracle(rules.k, from_words(words), exclude_owner=False, distinct=True, cap=rules.cap)
    askers: dict[str, set[str]] = {}
    waiting: dict[str, list[int]] = {}
    came_out: list[tuple[int, Emission]] = []
    for arrival, row in enumerate(arrivals):
        known = askers.setdefault(row["query"], set())
        known.add(row["user"])
        waiting.setdefault(row["query"], []).append(arrival)
        if len(known) < rules.k_text:
            continue
        for record in waiting.pop(row["query"]):
            path = tuple(arrivals[record]["topic"].split(SEPARATOR))[: rules.depth]
            before = len(oracle.out)
            oracle.push(arrivals[record]["user"], record, path)
            came_out += [(arrival, emission) for emission in oracle.out[before:]]
    return came_out


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
