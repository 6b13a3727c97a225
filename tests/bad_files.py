"""Files with something wrong, of every kind, and what becomes of them; for tests of reading and the command line."""

from __future__ import annotations

import bz2
import gzip
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import zstandard

from queryveil.errors import FormatError, ParameterError, QueryVeilError, UsageError

CANARY = "zanzibar divorce lawyer"
HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n"
GOOD = f"7\t{CANARY}\t2006-03-01 07:17:12\t\t\n"
COMBINED = '1.2.3.4 - - [01/Mar/2006:07:17:12 +0000] "GET /?q=%s HTTP/1.1" 200 5 "-" "curl"\n'
AOL = HEADER + GOOD


def parquet_of(frame: pl.DataFrame) -> bytes:
    out = io.BytesIO()
    frame.write_parquet(out)
    return out.getvalue()


@dataclass(frozen=True)
class Bad:
    """A file that is refused, has bad lines, or holds nothing: its name, content, and what has to be said of it."""

    name: str
    content: bytes | str
    says: str
    """Of the refusal, or of a bad line; nothing where no line is bad."""
    error: type[QueryVeilError] = FormatError
    options: dict[str, Any] = field(default_factory=dict)
    records: int | None = None
    """How many records it has besides its bad lines; None where it is refused whole, whatever `on_error` says."""

    def write(self, folder: Path) -> Path:
        """The file."""
        path = folder / self.name
        path.write_bytes(self.content if isinstance(self.content, bytes) else self.content.encode())
        return path


many_lines = (AOL + "".join(f"{number}{GOOD}" for number in range(5000))).encode()
packed = gzip.compress(many_lines, mtime=0)
zipped = zstandard.ZstdCompressor(write_checksum=True).compress(many_lines)

BAD_FILES = {
    # whole files
    "an empty file": Bad("log.tsv", b"", "", records=0),
    "an empty file of no known name": Bad("log", b"", "Try format=NAME."),
    "an empty gzip": Bad("log.tsv.gz", gzip.compress(b"", mtime=0), "", records=0),
    "only a byte order mark": Bad("log.csv", b"\xef\xbb\xbf", "", records=0),
    "only an AOL header": Bad("log.tsv", HEADER, "", records=0),
    "only a CSV header": Bad("log.csv", "user,query\n", "", records=0),
    "only blank lines": Bad("log.jsonl", "\n\n\n", "", records=0),
    "an access log without searches": Bad("a.access.log", COMBINED.replace("?q=%s", ""), "", records=0),
    "a cut off gzip": Bad("log.tsv.gz", packed[:-200], "cut off or damaged"),
    "a cut off gzip trailer": Bad("log.tsv.gz", packed[:-3], "cut off or damaged"),
    "a gzip with a wrong checksum": Bad("log.tsv.gz", packed[:-8] + bytes(4) + packed[-4:], "cut off or damaged"),
    "a gzip with garbage inside": Bad("log.tsv.gz", packed[:40] + b"\xff" * 60 + packed[100:], "cut off or damaged"),
    "a cut off zstd": Bad("log.tsv.zst", zipped[:-30], "cut off or damaged"),
    "a zstd with garbage inside": Bad("log.tsv.zst", zipped[:60] + b"\xff" * 60 + zipped[120:], "cut off or damaged"),
    "plain text named gz": Bad("log.tsv.gz", AOL, "named .gz but not"),
    "plain text named zst": Bad("log.tsv.zst", AOL, "named .zst but not"),
    "a zip archive": Bad("log.tsv", b"PK\x03\x04\x14\0" + AOL.encode(), "zip"),
    "a bzip2 file": Bad("log.tsv", bz2.compress(AOL.encode()), "bzip2"),
    "an xz file": Bad("log.tsv", b"\xfd7zXZ\x00" + AOL.encode(), "xz"),
    "an image": Bad("log.png", b"\x89PNG\r\n\x1a\n" + bytes(50), "Try format=NAME."),
    "UTF-32": Bad("log.tsv", AOL.encode("utf-32"), "UTF-32"),
    "half a character of UTF-16": Bad(
        "log.tsv", AOL.encode("utf-16")[:-1], "line 2: a NUL byte, or bytes that", records=0
    ),
    "UTF-16 without a mark": Bad("log.tsv", AOL.encode("utf-16-le"), "line 1: a NUL byte, or bytes"),
    "bytes of no Latin text read as UTF-16": Bad("l.tsv", AOL + "x", "utf-16", options={"encoding": "utf-16"}),
    # lines of AOL
    "Latin-1 without being told": Bad(
        "log.tsv", AOL.encode() + "1\tseñal\t\n".encode("latin-1"), "line 3: not valid UTF-8", records=1
    ),
    "a NUL byte": Bad("log.tsv", AOL + f"1\t{CANARY}\0\t2006-03-01 07:17:12\t\t\n", "line 3: a NUL byte", records=1),
    "two columns": Bad("log.tsv", AOL + f"1\t{CANARY}\n", "line 3: not 3 or 5 columns", records=1),
    "four columns": Bad(
        "log.tsv", AOL + f"1\t{CANARY}\t2006-03-01 07:17:12\t4\n", "line 3: not 3 or 5 columns", records=1
    ),
    "six columns": Bad("log.tsv", AOL + GOOD.rstrip("\n") + "\tx\n", "line 3: not 3 or 5 columns", records=1),
    "old Macintosh line ends": Bad("log.tsv", AOL.replace("\n", "\r"), "line 1"),
    "a carriage return inside": Bad("log.tsv", AOL + GOOD.replace(" ", "\r", 1), "a carriage return inside", records=1),
    "a time in words": Bad("log.tsv", AOL + f"1\tx\t{CANARY}\t\t\n", "line 3, column time: not a time like", records=1),
    "a 30th of February": Bad(
        "log.tsv", AOL + GOOD.replace("03-01", "02-30"), "column time: not a time like", records=1
    ),
    "an hour 24": Bad("log.tsv", AOL + GOOD.replace("07:17", "24:17"), "column time: not a time like", records=1),
    "the year 0": Bad("log.tsv", AOL + GOOD.replace("2006", "0000"), "column time: not a time like", records=1),
    "a one-digit month": Bad(
        "log.tsv", AOL + GOOD.replace("03-01 ", "3-01  "), "column time: not a time like", records=1
    ),
    "an empty user": Bad("log.tsv", AOL + GOOD[1:], "line 3, column user: the user is empty", records=1),
    "an empty query": Bad(
        "log.tsv", AOL + "7\t\t2006-03-01 07:17:12\t\t\n", "column query: the query is empty", records=1
    ),
    "a rank in words": Bad(
        "log.tsv", AOL + GOOD.replace("\t\t\n", f"\t{CANARY}\tu\n"), "column rank: not a whole", records=1
    ),
    "a negative rank": Bad("log.tsv", AOL + GOOD.replace("\t\t\n", "\t-1\tu\n"), "column rank: not a whole", records=1),
    "a rank of 2^32": Bad(
        "log.tsv", AOL + GOOD.replace("\t\t\n", "\t4294967296\tu\n"), "column rank: not a whole", records=1
    ),
    "a query of 10 MB": Bad(
        "log.tsv", AOL + GOOD.replace(CANARY, CANARY * 450_000), "the query is longer than", records=1
    ),
    "a line of 40 MB": Bad("log.tsv", AOL + "x" * (40 << 20) + "\n" + GOOD, "line 3: longer than", records=2),
    # columns
    "no user column in CSV": Bad("log.csv", f"query,count\n{CANARY},3\n", "already summed up over its users"),
    "no user column in TSV": Bad("log.tsv", f"Query\tcount\n{CANARY}\t3\n", "already summed up over its users"),
    "no user key in JSONL": Bad("log.jsonl", f'{{"query": "{CANARY}", "count": 3}}', "column user: the user is"),
    "no user column in Parquet": Bad("l.parquet", parquet_of(pl.DataFrame({"query": [CANARY]})), "already summed up"),
    "no query column": Bad("log.csv", f"user,page\nann,{CANARY}\n", "no column for query"),
    "CSV without a header": Bad("log.csv", f"ann,{CANARY}\nbob,x\n", "names may be data"),
    "CSV without a header, one word": Bad("log.csv", "zanzibar,lawyer\nbob,x\n", "names may be data"),
    "a mapped column that is not there": Bad(
        "log.csv", f"user,query\nann,{CANARY}\n", "names uid, which", options={"columns": {"user": "uid"}}
    ),
    "two columns of one name": Bad("log.csv", f"user,query,query\nann,{CANARY},x\n", "the same name"),
    # lines of CSV
    "too few cells": Bad("log.csv", f"user,query,url\nann,{CANARY}\n", "line 2: not 3 columns", records=0),
    "too many cells": Bad("log.csv", f"user,query\nann,x\nann,{CANARY},x\n", "line 3: not 2 columns", records=1),
    "a quote never closed": Bad(
        "log.csv", f'user,query\nann,x\nann,"{CANARY}\nbob,x\n', "line 3: a quote is opened", records=2
    ),
    "text after a closing quote": Bad(
        "log.csv", f'user,query\nann,"{CANARY}"x\n', "line 2: quotes that do not", records=0
    ),
    "a return outside quotes": Bad(
        "log.csv", f"user,query\nann,a\rb{CANARY}\n", "a carriage return outside quotes", records=0
    ),
    "a NUL in a quoted second line": Bad(
        "l.multiline.csv", f'user,query\nann,"x\n{CANARY}\0"\n', "line 2: a NUL byte", records=0
    ),
    "a NUL in the header": Bad("log.csv", f"user,query,\0\nann,{CANARY},x\n", "in the header"),
    "a date of another country": Bad(
        "log.csv", f"user,query,time\nann,{CANARY},1.3.2006\n", "line 2, column time", records=0
    ),
    # lines of JSONL
    "JSON cut off": Bad(
        "log.jsonl", f'{{"user": "ann", "query": "{CANARY}"}}\n{{"user": "b', "line 2: not valid JSON", records=1
    ),
    "a JSON array": Bad("log.jsonl", f'["{CANARY}"]\n', "line 1: not a JSON object"),
    "a lone surrogate": Bad("log.jsonl", '{"user": "ann", "query": "\\ud800"}\n', "line 1: not valid JSON"),
    "a query that is a list": Bad("log.jsonl", f'{{"user": 1, "query": ["{CANARY}"]}}\n', "neither text nor null"),
    "a user that is true": Bad("log.jsonl", f'{{"user": true, "query": "{CANARY}"}}\n', "neither text nor null"),
    "a rank with decimals": Bad("l.jsonl", f'{{"user": 1, "query": "{CANARY}", "rank": 1.5}}\n', "column rank"),
    "a number for a time": Bad("l.jsonl", f'{{"user": 1, "query": "{CANARY}", "time": 9}}\n', "column time"),
    "JSON nested too deep": Bad(
        "l.jsonl", '{"user": 1, "query": "x", "z": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "line 1: not valid JSON"
    ),
    # Parquet
    "Parquet cut off": Bad("l.parquet", parquet_of(pl.DataFrame({"user": [CANARY] * 9}))[:-9], "not a whole Parquet"),
    "not Parquet": Bad("log.parquet", f"PAR1{CANARY}", "not a whole Parquet"),
    "a Parquet query of numbers": Bad(
        "l.parquet", parquet_of(pl.DataFrame({"user": ["x"], "query": [[1.5]]})), "column query has the type List"
    ),
    "an empty user in Parquet": Bad(
        "l.parquet",
        parquet_of(pl.DataFrame({"user": ["x", ""], "query": [CANARY] * 2})),
        "line 2, column user",
        records=1,
    ),
    # UBI
    "UBI without a user": Bad("l.ubi.jsonl", f'{{"user_query": "{CANARY}"}}\n', "line 1, column user: no client_id"),
    "UBI that is neither kind": Bad("l.ubi.jsonl", f'{{"message": "{CANARY}"}}\n', "neither user_query nor"),
    "a UBI click astray": Bad(
        "l.ubi.jsonl",
        f'{{"user_query": "x", "client_id": "{CANARY}"}}\n'
        f'{{"action_name": "click", "query_id": "{CANARY}", "client_id": "b"}}\n',
        "line 2: a click on a query that its user did not ask here",
        records=1,
    ),
    "a UBI query_id twice": Bad(
        "l.ubi.jsonl",
        f'{{"user_query": "{CANARY}", "client_id": "a", "query_id": "1"}}\n' * 2,
        "line 2: a query_id",
        records=1,
    ),
    "a UBI time in words": Bad(
        "l.ubi.jsonl", f'{{"user_query": "x", "client_id": "a", "timestamp": "{CANARY}"}}\n', "line 1, column time"
    ),
    "a UBI ordinal in words": Bad(
        "l.ubi.jsonl",
        '{"user_query": "x", "client_id": "a", "query_id": "1"}\n'
        '{"action_name": "click", "query_id": "1", "client_id": "a", '
        f'"event_attributes": {{"position": {{"ordinal": "{CANARY}"}}}}}}\n',
        "line 2, column rank",
        records=1,
    ),
    # access logs and Excite
    "a line that is no access log": Bad(
        "a.access.log", COMBINED % "x" + CANARY + "\n", "line 2: not a line of", records=1
    ),
    "an access log with hosts": Bad("a.access.log", "shop.example:443 " + COMBINED % "x", "line 1: not a line of"),
    "an access log time": Bad("a.access.log", (COMBINED % "x").replace("Mar", "Mrz"), "line 1, column time"),
    "a Latin-1 query in a URL": Bad("a.access.log", COMBINED % "se%F1al", "encoding latin-1"),
    "two columns of Excite": Bad("e.excite.log", f"AB12\t{CANARY}\n", "line 1: not 3 columns"),
    "an Excite time of 13 digits": Bad("e.excite.log", f"AB12\t9709161203040\t{CANARY}\n", "line 1, column time"),
    "an Excite month 13": Bad("e.excite.log", f"AB12\t971316120304\t{CANARY}\n", "line 1, column time"),
    "an empty Excite query": Bad("e.excite.log", f"{CANARY}\t970916120304\t\n", "line 1, column query"),
    # wrong calls
    "an unknown format": Bad("log.tsv", AOL, "format must be one of", ParameterError, {"format": "xml"}),
    "an unknown encoding": Bad("log.tsv", AOL, "encoding must be one of", ParameterError, {"encoding": "ebcdic"}),
    "an unknown on_error": Bad("log.tsv", AOL, "on_error must be", ParameterError, {"on_error": "ignore"}),
    "a limit of no problems": Bad("log.tsv", AOL, "most_problems must be", ParameterError, {"most_problems": 0}),
    "an unknown canonical name": Bad("l.csv", AOL, "columns must be", ParameterError, {"columns": {"who": "uid"}}),
    "columns for AOL": Bad("log.tsv", AOL, "whose columns are fixed", UsageError, {"columns": {"user": "uid"}}),
}
