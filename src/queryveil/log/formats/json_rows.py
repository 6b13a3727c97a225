"""JSON Lines as objects of Python, one line at a time where it matters: short blocks, and lines that are not plain.

What is compiled (`_json_columns`) takes as long to load as some megabytes take to be decoded here, and knows texts and
whole numbers alone. What a line means is decided here, and the compiled way says the same of the lines it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

import msgspec

from queryveil.log.formats.format import Findings
from queryveil.log.formats.json_keys import TWICE, lines_with_twins
from queryveil.log.source import Block

Decoded = TypeVar("Decoded")


def decoded_lines(
    block: Block, decoder: msgspec.json.Decoder[Decoded], found: Findings
) -> tuple[list[int], list[Decoded]]:
    """Line numbers and objects of all lines that hold one; the others are reported."""
    if not block.broken and _one_object_a_line(block):
        try:
            decoded = decoder.decode_lines(block.data)
            if len(decoded) == block.line_count:
                numbers = list(range(block.first_line, block.first_line + len(decoded)))
                return _without_twins(block.data, lambda: block.data.split(b"\n"), numbers, decoded, found)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass  # some line is bad: find out which
    lines = enumerate(block.data.split(b"\n"), start=block.first_line)
    return decoded_singly(lines, block.broken, decoder, found)


def decoded_singly(
    lines: Iterable[tuple[int, bytes]],
    broken: Mapping[int, str],
    decoder: msgspec.json.Decoder[Decoded],
    found: Findings,
) -> tuple[list[int], list[Decoded]]:
    """The same of numbered lines."""
    numbers, decoded, good = [], [], []
    for number, line in lines:
        if number in broken:
            found.add(number, broken[number])
        elif line.strip():
            try:
                decoded.append(decoder.decode(line))
                numbers.append(number)
                good.append(line)
            except msgspec.ValidationError:
                found.add(number, "not a JSON object")
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                found.add(number, "not valid JSON")
    return _without_twins(b"\n".join(good), lambda: good, numbers, decoded, found)


def _without_twins(
    content: bytes, lines: Callable[[], Sequence[bytes]], numbers: list[int], decoded: list[Decoded], found: Findings
) -> tuple[list[int], list[Decoded]]:
    """Without objects in which a key that is read stands twice, which are reported."""
    if not decoded:
        return numbers, decoded

    def having(field: msgspec.structs.FieldInfo) -> Callable[[], int]:
        return lambda: len(decoded) - list(map(attrgetter(field.name), decoded)).count(field.default)

    fields = msgspec.structs.fields(type(decoded[0]))  # type: ignore[arg-type]  # all decoders here are of structs
    twins = set(lines_with_twins(content, lines, {field.encode_name: having(field) for field in fields}))
    if not twins:
        return numbers, decoded
    for place in sorted(twins):
        found.add(numbers[place], TWICE)
    kept = [place for place in range(len(decoded)) if place not in twins]
    return [numbers[place] for place in kept], [decoded[place] for place in kept]


def _one_object_a_line(block: Block) -> bool:
    """Whether every line opens with a brace and closes with one.

    The decoder of many lines takes any white space for a line end, so that an object opened on one line could take in
    somebody else's line and close on a third. Where every line begins and ends so, no comma can join two of them.
    """
    text = block.data.removesuffix(b"\n").removesuffix(b"\r")
    joints = text.count(b"}\n{") + text.count(b"}\r\n{")
    return text.startswith(b"{") and text.endswith(b"}") and joints == block.line_count - 1
