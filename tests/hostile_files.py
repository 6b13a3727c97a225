"""Files that are not what they claim to be: whole ones of every format, damaged in every way; the same for a seed."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Iterator

import polars as pl
import zstandard

MARKER = "zanzibar divorce lawyer"
"""In every file; whatever becomes of it, nobody may show this."""


def whole_files() -> dict[str, bytes]:
    """One good file of each format."""
    rows = [(f"user{n % 7}", MARKER if n % 3 else f"{MARKER} {n}", f"2006-03-01 07:17:{n % 60:02}") for n in range(60)]
    table = pl.DataFrame(rows, schema=["user", "query", "time"], orient="row")
    parquet = io.BytesIO()
    table.write_parquet(parquet)
    aol = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n" + "".join(f"{u}\t{q}\t{t}\t\t\n" for u, q, t in rows)
    jsonl = "".join(json.dumps({"user": u, "query": q, "time": t}) + "\n" for u, q, t in rows)
    line = '1.2.3.4 - - [01/Mar/2006:07:17:12 +0000] "GET /?q={} HTTP/1.1" 200 5 "-" "curl"\n'
    return {
        "log.tsv": aol.encode(),
        "log.csv": table.write_csv().encode(),
        "log.jsonl": jsonl.encode(),
        "log.parquet": parquet.getvalue(),
        "log.tsv.gz": gzip.compress(aol.encode(), mtime=0),
        "log.csv.zst": zstandard.ZstdCompressor(write_checksum=True).compress(table.write_csv().encode()),
        "access.log": "".join(line.format(q.replace(" ", "+")) for _, q, _ in rows).encode(),
    }


def hostile_files(count: int, seed: int = 1) -> Iterator[tuple[str, bytes]]:
    """So many damaged files, name and content."""
    drawn, good = random.Random(seed), list(whole_files().items())
    for number in range(count):
        name, content = good[(number + number // len(DAMAGES)) % len(good)]
        yield name, DAMAGES[number % len(DAMAGES)](bytearray(content), drawn)


def flipped(content: bytearray, drawn: random.Random) -> bytes:
    for _ in range(drawn.randrange(1, 20)):
        content[drawn.randrange(len(content))] ^= 1 << drawn.randrange(8)
    return bytes(content)


def cut_off(content: bytearray, drawn: random.Random) -> bytes:
    return bytes(content[: drawn.randrange(len(content))])


def repeated(content: bytearray, drawn: random.Random) -> bytes:
    at = drawn.randrange(len(content))
    return bytes(content[:at] + content[at : at + 50] * 2000 + content[at:])


def with_odd_bytes(content: bytearray, drawn: random.Random) -> bytes:
    odd = drawn.choice([b"\0", b"\xff\xfe", b"\xed\xa0\x80", b'"', b"\r", b"\x1b[2J", "\u202e".encode(), b"{" * 5000])
    for _ in range(30):
        at = drawn.randrange(len(content))
        content[at:at] = odd
    return bytes(content)


def in_another_encoding(content: bytearray, drawn: random.Random) -> bytes:
    encoding = drawn.choice(["utf-16-le", "utf-16-be", "utf-16", "utf-32", "utf-7"])
    return content.decode("latin-1").encode(encoding)


def one_long_line(content: bytearray, drawn: random.Random) -> bytes:
    return bytes(content).replace(b"\n", b" ") * 300


def a_wide_header(content: bytearray, drawn: random.Random) -> bytes:
    names = b",".join(b"c%d" % number for number in range(drawn.choice([3000, 6000])))
    return b"user,query," + names + b"\n" + bytes(content) + b"x\n" * 3000


def deep_json(content: bytearray, drawn: random.Random) -> bytes:
    twice = b'{"user": "a", "user": "b", "query": "%s"}\n' % MARKER.encode()
    return bytes(content) + b'{"user": ' * 3000 + b"\n" + b"[" * 100_000 + b"\n" + twice * 100


def other_content(content: bytearray, drawn: random.Random) -> bytes:
    return drawn.choice([drawn.randbytes(5000), b"%PDF-1.4\n", b"PK\3\4" + bytes(100), b"<html>" * 500]) + content[-50:]


DAMAGES = [
    flipped,
    cut_off,
    repeated,
    with_odd_bytes,
    in_another_encoding,
    one_long_line,
    a_wide_header,
    deep_json,
    other_content,
]
