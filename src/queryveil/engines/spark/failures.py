"""What went wrong on Spark, in the house's words.

Spark's own texts run to pages of plan and stack and may quote values, so none of them is passed on. A block function's
failure is told by what it said itself, where that was made to be read (`arrow.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from queryveil import errors
from queryveil.engines.spark.arrow import END, FAILED

_TOLD = re.compile(rf"{re.escape(FAILED)}(\w+)(?:: )?(.*?){re.escape(END)}", re.DOTALL)
_UNREAD = re.compile(r"FAILED_READ_FILE[^\n]*? file (\S+?)[.:,]?\s")


@contextmanager
def in_plain_words() -> Iterator[None]:
    """Turn Spark's errors into the house's."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        found = _TOLD.search(str(error))
        kind = getattr(errors, found.group(1), None) if found else None
        unread = _UNREAD.search(str(error))
        if found and kind not in (None, errors.ParameterError):
            problem = kind(found.group(2))
        elif unread:
            name = unquote(unread.group(1)).rpartition("/")[2]
            problem = errors.FormatError(f"{name}: Spark cannot read it to its end: cut off, damaged or gone.")
        else:
            what = found.group(1) + found.group(2) if found else type(error).__name__
            problem = errors.EngineError(
                f"Spark could not finish the work ({what}). Nothing was released; its own logs say more."
            )
    else:
        return
    raise problem
