"""Whom to cite for a release: the paper behind its mechanism, and this program.

>>> print(bibtex("suppress").splitlines()[0])
@misc{queryveil,
"""

from __future__ import annotations

from queryveil import mechanisms
from queryveil.version import __version__


def bibtex(*names: str) -> str:
    """The program and the papers that these mechanisms declare, as BibTeX; other names are left out."""
    program = f"""@misc{{queryveil,
  title = {{QueryVeil: publish, keep and send search queries without giving away who searched for what}},
  note  = {{Version {__version__}}}
}}"""
    known = [mechanisms.load(name) for name in dict.fromkeys(names) if name in mechanisms.names()]
    return "\n\n".join([program, *(found.citation for found in known if hasattr(found, "citation"))]) + "\n"
