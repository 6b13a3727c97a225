"""The page's script, htmx, which comes with this package, and files of our own: the style sheet, the icon.

A script of another content is refused, because it would run in the browser beside the data.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from queryveil.packaged import packaged

SHA256: Final = "71ea67185bfa8c98c39d31717c6fce5d852370fcdfd129db4543774d3145c0de"  # htmx 2.0.10


@cache
def htmx() -> bytes:
    """The script, exactly the one we know."""
    return packaged("htmx/htmx.min.js", SHA256)


@cache
def own(name: str) -> bytes:
    """A file of our own: the style sheet, the icon."""
    return files("queryveil.web").joinpath("static", name).read_bytes()
