"""Pseudonyms that are a public function of the user: hashed ids can be looked up by hashing every id again.

The attacker knows the ids of people (they are often numbers, so all of them can be tried) and the usual ways to make
pseudonyms of them without a key: MD5, SHA-1, SHA-256 and CRC-32, in hexadecimal digits or base 64, whole or cut to some
length, with the same letters before each; or the id itself. A pseudonym is *undone* where such a value of one id is the
pseudonym, and the pseudonym stands for that person; where the holder does not tell who is behind, a value must be at
least twelve characters long, since shorter ones meet by chance. Fresh random names withstand this whatever is tried.

Cost: a few hashes of every id of the raw log.

>>> public_values("ann")["sha256"][:8]
'49915e0d'
>>> undone(pl.Series(["x49915e0d", "x81b637d8"]), pl.Series(["ann", "bob"]), pl.Series(["ann", "bob"]))
Success(right=2, tried=2)
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import replace
from typing import ClassVar, Final

import polars as pl

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, Question, Success, risk

DIGESTS: Final = ("md5", "sha1", "sha256")
SHORTEST, SHORTEST_BLIND = 6, 12


def public_values(user: str) -> dict[str, str]:
    """What an id becomes in each of the usual ways."""
    content = user.encode("utf-8", "surrogatepass")
    raw = {name: hashlib.new(name, content, usedforsecurity=False).digest() for name in DIGESTS}
    raw["crc32"] = zlib.crc32(content).to_bytes(4, "big")
    values = {"id": user}
    for name, digest in raw.items():
        coded = base64.b64encode(digest).decode("ascii").rstrip("=")
        values[name] = digest.hex()
        values[f"{name} in capitals"] = digest.hex().upper()
        values[f"{name} in base 64"] = coded
        values[f"{name} in base 64 for URLs"] = coded.replace("+", "-").replace("/", "_")
    return values


def undone(names: pl.Series, users: pl.Series, people: pl.Series | None) -> Success:
    """How many of the distinct pseudonyms `names` are a public value of an id; `people` tells who is behind each."""
    behind = dict(zip(names.to_list(), [None] * len(names) if people is None else people.to_list(), strict=True))
    shortest = SHORTEST_BLIND if people is None else SHORTEST
    tables = [{name.rstrip("="): name for name in behind}]
    if before := _same_start(min(behind), max(behind)) if len(behind) > 1 else "":
        tables.append({name[len(before) :].rstrip("="): name for name in behind})
    lengths = [sorted({len(value) for value in bare if len(value) >= shortest}) for bare in tables]
    found: set[str] = set()
    for user in users:
        for way, whole in public_values(user).items():
            for bare, cuts in zip(tables, lengths, strict=True):
                for value in [whole] if way == "id" else [whole[:cut] for cut in cuts if cut <= len(whole)]:
                    name = bare.get(value)
                    if name is not None and (people is None or behind[name] == user):
                        found.add(name)
    return Success(len(found), len(behind))


def _same_start(first: str, last: str) -> str:
    """What the first and the last of sorted texts, and so all of them, begin with."""
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:same]


class PublicPseudonyms:
    """Pseudonyms undone by hashing every known id."""

    key: ClassVar[str] = "pseudonym-hash"
    title: ClassVar[str] = "Pseudonyms undone by hashing ids"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True
    counts_in_blocks: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """One finding, or what is missing."""
        if not len(context.released):
            yield LeftOut(title=self.title, reason="the release is empty")
            return
        names, behind = context.released.users(), context.behind_pseudonyms()
        people = None if behind is None else behind["person"]
        found = risk(
            self.key, self.title, "pseudonyms", self.question, undone(names, context.users, people),
            "Share of pseudonyms that are their person's id, or its MD5, SHA-1, SHA-256 or CRC-32, in hexadecimal "
            "digits or base 64, whole or cut.",
            bound=0.0 if context.promise else None, chance=0.0, population="pseudonyms",
        )  # fmt: skip
        # That random names withstand it says nothing of other attacks; its many trials make up for none of theirs.
        yield replace(found, counts_toward_risk=found.value > 0)
