"""One file a format, each with `sniff`, `read` and `write`; `FORMATS` lists them by name.

>>> list(FORMATS)
['aol', 'csv', 'csv-multiline', 'jsonl', 'parquet', 'ubi', 'access', 'excite']
"""

from queryveil.log.formats import access_log, aol, delimited, excite, json_lines, parquet, ubi
from queryveil.log.formats.format import Declared, Format

FORMATS: dict[str, Format] = {
    known.name: known
    for known in (
        aol.FORMAT,
        delimited.FORMAT,
        delimited.MULTILINE,
        json_lines.FORMAT,
        parquet.FORMAT,
        ubi.FORMAT,
        access_log.FORMAT,
        excite.FORMAT,
    )
}

SNIFFED_IN_ORDER = ("parquet", "ubi", "jsonl", "access", "excite", "aol", "csv")
"""Which format is asked first whether a file is its own: the strictest to the most lenient."""

__all__ = ["FORMATS", "SNIFFED_IN_ORDER", "Declared", "Format"]
