"""Addresses of databases: `KIND:PLACE?name=value&name=value`, and last, as it is written, `query=SQL`.

An address is shown in messages, in shell histories and by `ps`, so one with a password is refused.

>>> Address.parse("duckdb:logs.db?table=queries")
Address(kind='duckdb', place='logs.db', options={'table': 'queries'})
>>> Address.parse("postgres:?service=shop&query=SELECT a&b FROM t WHERE q LIKE '%25+1'").options["query"]
"SELECT a&b FROM t WHERE q LIKE '%25+1'"
>>> Address.parse("postgres://ann:secret@host/shop?table=queries")
Traceback (most recent call last):
queryveil.errors.UsageError: the address holds a password, which others can see. Take it out, and change it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote

from queryveil.errors import UsageError

_QUERY = re.compile(r"(?:(.*?)&)?query=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Address:
    """What an address says, percent-escapes undone in the values; the SQL of `query` stays as it is."""

    kind: str
    place: str
    options: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Address:
        """The parts of an address, or `UsageError`."""
        kind, _, rest = text.partition(":")
        place, _, asked = rest.partition("?")
        sql = _QUERY.fullmatch(asked)
        options = {"query": sql[2]} if sql else {}
        for part in filter(None, ((sql[1] or "") if sql else asked).split("&")):
            name, _, value = part.partition("=")
            if name in options:
                raise UsageError(f"{kind}: the address gives {_shown(name)} twice. Give it once.")
            options[name] = unquote(value)
        if any("password" in name.lower() for name in options) or re.match(r"(?:[a-z]+:)?//[^/]*:[^/]*@", place):
            raise UsageError("the address holds a password, which others can see. Take it out, and change it.")
        return cls(kind, place, options)

    def only(self, known: Collection[str]) -> None:
        """Refuse options other than these, and empty ones."""
        for name, value in self.options.items():
            if name not in known or not value:
                problem = "is not known" if name not in known else "is empty"
                raise UsageError(f"{self.kind}: {_shown(name)} {problem}. An address may give: {', '.join(known)}.")


def _shown(name: str) -> str:
    return name if name.isidentifier() and len(name) <= 40 else "an option"
