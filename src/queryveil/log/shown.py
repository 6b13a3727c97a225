"""The results that were shown for a query, as the optional column `shown` holds them: a JSON list of texts, best first.

A text travels through every format that takes other columns, and means the same in each; JSON Lines and UBI have lists
of their own and use them. The first of the list has rank 1. A clicked result may lie below all that the list tells.

>>> as_text(["a.org", 7])
'["a.org","7"]'
>>> results(pl.Series(["[]", '["a.org","b.org"]', "a.org", None])).to_list()
[[], ['a.org', 'b.org'], None, None]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
import polars as pl

SHOWN: Final = "shown"
_DECODER = msgspec.json.Decoder(list[str])


def as_text(values: Iterable[str | int]) -> str:
    """The text that stands for a list of results."""
    return msgspec.json.encode([str(value) for value in values]).decode()


def results(texts: pl.Series) -> pl.Series:
    """The list that each text stands for; null where it stands for none."""
    distinct = texts.drop_nulls().unique().rename("text")
    lists = pl.Series("results", list(map(_decoded, distinct)), dtype=pl.List(pl.String))
    known = pl.DataFrame([distinct, lists])
    return texts.to_frame("text").join(known, on="text", how="left", maintain_order="left")["results"]


def is_no_list(column: str = SHOWN) -> pl.Expr:
    """True where a text is there and is not just what `as_text` would make of its list."""
    return pl.col(column).map_batches(_no_lists, return_dtype=pl.Boolean)


def _no_lists(texts: pl.Series) -> pl.Series:
    odd = [text for text in texts.drop_nulls().unique() if (found := _decoded(text)) is None or as_text(found) != text]
    return texts.is_in(odd).fill_null(False)


def _decoded(text: str) -> list[str] | None:
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
