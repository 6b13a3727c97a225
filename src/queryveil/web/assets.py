"""The page's script: htmx, taken as a file from the package that carries it, never imported, checked before use.

The wheel of `django-htmx` holds htmx unchanged. Nothing of Django is needed or loaded; only the file is read. A file of
another content is refused, because it would run in the browser beside the data.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Final

from queryveil.errors import UsageError

DISTRIBUTION: Final = "django-htmx"
FILE: Final = "django_htmx/static/django_htmx/htmx-2.min.js"
SHA256: Final = "71ea67185bfa8c98c39d31717c6fce5d852370fcdfd129db4543774d3145c0de"  # htmx 2.0.10
REMEDY: Final = "Install it with: pip install 'queryveil[web]'"


@cache
def htmx() -> bytes:
    """The script, exactly the one we know."""
    try:
        path = Path(str(metadata.distribution(DISTRIBUTION).locate_file(FILE)))
        content = path.read_bytes()
    except (metadata.PackageNotFoundError, OSError):
        raise UsageError(f"the page's script (htmx, in the package {DISTRIBUTION}) is missing. {REMEDY}") from None
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise UsageError(f"the page's script in the package {DISTRIBUTION} is not the one expected. {REMEDY}")
    return content


@cache
def own(name: str) -> bytes:
    """A file of our own: the style sheet, the icon."""
    return files("queryveil.web").joinpath("static", name).read_bytes()
