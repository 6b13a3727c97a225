"""One file a format, each with `sniff`, `read` and `write`; `FORMATS` lists them by name.

>>> list(FORMATS)
['aol', 'csv', 'jsonl', 'parquet']
"""

from queryveil.log.formats import aol, delimited, json_lines, parquet
from queryveil.log.formats.format import Format

FORMATS: dict[str, Format] = {
    each.name: each for each in (aol.FORMAT, delimited.FORMAT, json_lines.FORMAT, parquet.FORMAT)
}

SNIFFED_IN_ORDER = ("parquet", "jsonl", "aol", "csv")
"""Which format is asked first whether a file is its own: the strictest to the most lenient."""

__all__ = ["FORMATS", "SNIFFED_IN_ORDER", "Format"]
