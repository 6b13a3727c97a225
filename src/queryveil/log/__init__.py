"""What comes in: the query log, the formats it is read from and written to, and synthetic logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryveil.log.formats.format import Problem, ReadReport
    from queryveil.log.query_log import COLUMNS, QueryLog
    from queryveil.log.reading import read, read_with_report, sniff
    from queryveil.log.writing import write
else:
    from queryveil._lazy import attach

    __getattr__, __dir__ = attach(
        __name__,
        {
            "COLUMNS": "queryveil.log.query_log",
            "Problem": "queryveil.log.formats.format",
            "QueryLog": "queryveil.log.query_log",
            "ReadReport": "queryveil.log.formats.format",
            "read": "queryveil.log.reading",
            "read_with_report": "queryveil.log.reading",
            "sniff": "queryveil.log.reading",
            "write": "queryveil.log.writing",
        },
    )

__all__ = ["COLUMNS", "Problem", "QueryLog", "ReadReport", "read", "read_with_report", "sniff", "write"]
