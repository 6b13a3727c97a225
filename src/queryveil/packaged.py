"""Data files that come with this package: WordNet, MiniLM's word pieces, htmx (`build_data.py` puts them there).

>>> packaged("wordnet/LICENSE.txt").startswith(b"WordNet Release 3.0")
True
"""

from __future__ import annotations

import hashlib
from importlib.resources import files

from queryveil.errors import KnowledgeError

REMEDY = "Install QueryVeil again with pip."


def packaged(name: str, sha256: str | None = None) -> bytes:
    """The content of a data file; where a SHA-256 is given, that very content or an error."""
    try:
        content = files("queryveil").joinpath("data", *name.split("/")).read_bytes()
    except OSError:
        raise KnowledgeError(f"this installation lacks its file {name}. {REMEDY}") from None
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise KnowledgeError(f"the file {name} of this installation is not the one expected. {REMEDY}")
    return content
