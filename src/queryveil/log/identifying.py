"""Texts that name a person or open a door by themselves, however many people typed them.

>>> import polars as pl
>>> pl.Series(["tulip bulbs", "call 555 123 4567"]).str.contains(LONG_NUMBER).to_list()
[False, True]
"""

from __future__ import annotations

from typing import Final

import polars as pl

EMAIL: Final = r"[^\s@＠]\s?[@＠]\s?[^\s@＠]+\.[^\s@＠]"
LONG_NUMBER: Final = r"\d(?:[\s.,_\-‐-―/()+]{0,3}\d){6}"  # seven digits, as in telephone, account and identity numbers
CREDENTIALS: Final = (
    r"(?i)[a-z][a-z0-9+.-]*://[^/\s]*@"
    r"|[?&;#][\w.-]*(?:pass\w*|pwd|token|key|secret|auth|sid|sess\w*)="
)


def is_identifying(column: str) -> pl.Expr:
    """Whether a text holds an e-mail address, a long number or credentials in a URL."""
    return pl.any_horizontal(pl.col(column).str.contains(pattern) for pattern in (EMAIL, LONG_NUMBER, CREDENTIALS))
