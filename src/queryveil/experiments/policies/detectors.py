r"""Identifiers in a text, and the standard form of each: what several people write in several ways is one thing.

A `Detector` says where in a text its identifiers are and what each is in its standard form. `hint` is a regular
expression that matches every text in which it may find something, so that most texts are never looked at one by one.
None claims to be complete: docs/rules.md has what each finds of the identifiers planted in a synthetic log.

Names of people are not found here: that takes lists of names (`library_detectors`), and a rare name is on none.

>>> [(found.kind, found.standard) for found in detect("call 555-123 4567 or Ann@Example.org", USUAL)]
[('number', '5551234567'), ('mail', 'ann@example.org')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

MAIL: Final = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
NUMBER: Final = re.compile(r"\+?\d(?:[\s.,;:_\-/()]*\d){6,}")
BOOK: Final = re.compile(r"97[89]\d{10}")
COUNTED: Final = (
    "hours?|hrs?|days?|weeks?|months?|years?|minutes?|inch|inches|feet|foot|ft|miles?|piece|pc|pack|percent|wheel|door"
)
"""What a number counts is no street: a 24 hour pharmacy, a 4 wheel drive."""
STREETS: Final = {
    "en": "street|st|road|rd|avenue|ave|lane|ln|drive|dr|court|ct|boulevard|blvd|place|square|terrace|way",
    "de": "straße|strasse|str|weg|platz|allee|gasse|ring",
    "fr": "rue|chemin|impasse",
}
"""Words that make a house number and a name an address, by language: behind the name, or as its ending in German."""


@dataclass(frozen=True)
class Identifier:
    """An identifier in a text: where it is, what it is, and its standard form."""

    start: int
    end: int
    kind: str
    standard: str


class Detector(Protocol):
    """Finds one kind of identifier."""

    kind: ClassVar[str]

    @property
    def hint(self) -> str:
        """A regular expression (of Rust's kind) that matches wherever there may be one."""

    def find(self, text: str) -> Iterator[Identifier]:
        """Every identifier of this kind, in the order of the text."""


@dataclass(frozen=True)
class Mail:
    """Mail addresses; their standard form is in lower case."""

    kind: ClassVar[str] = "mail"
    hint: ClassVar[str] = "@"

    def find(self, text: str) -> Iterator[Identifier]:
        """See `Detector`."""
        for match in MAIL.finditer(text):
            yield Identifier(match.start(), match.end(), self.kind, match[0].casefold())


@dataclass(frozen=True)
class Number:
    """Seven digits or more with nothing but blanks and marks between: telephones, accounts, identity cards.

    Numbers of books are none: thirteen digits from 978 or 979 on.
    """

    kind: ClassVar[str] = "number"
    hint: ClassVar[str] = r"\d(?:[\s.,;:_\-/()]*\d){6}"

    def find(self, text: str) -> Iterator[Identifier]:
        """See `Detector`."""
        for match in NUMBER.finditer(text):
            digits = re.sub(r"\D", "", match[0])
            if not BOOK.fullmatch(digits):
                yield Identifier(match.start(), match.end(), self.kind, digits)


@dataclass(frozen=True)
class Address:
    """A house number and a street, by the words of some languages; the standard form has single blanks."""

    kind: ClassVar[str] = "address"
    languages: tuple[str, ...] = ("en",)

    @property
    def hint(self) -> str:
        """See `Detector`."""
        return rf"(?i)\d.*(?:{'|'.join(STREETS[each] for each in self.languages)})|(?:straße|strasse|rue).*\d"

    def find(self, text: str) -> Iterator[Identifier]:
        """See `Detector`."""
        for each in self.languages:
            for match in _ADDRESS[each].finditer(text):
                yield Identifier(match.start(), match.end(), self.kind, " ".join(match[0].casefold().split()))


_ADDRESS: Final = {
    "en": re.compile(rf"(?i)\b\d{{1,5}}\s+(?!(?:{COUNTED})\b)(?:[^\W\d]+\s+){{1,3}}(?:{STREETS['en']})\b"),
    "de": re.compile(rf"(?i)\b[^\W\d]+\s?(?:{STREETS['de']})\s+\d{{1,4}}\b"),
    "fr": re.compile(rf"(?i)\b\d{{1,4}}\s+(?:{STREETS['fr']})\s+[^\W\d]+(?:\s+[^\W\d]+)?"),
}

USUAL: Final[tuple[Detector, ...]] = (Mail(), Number(), Address())


SETS: Final = ("patterns", "libraries")


def load(name: str = "patterns", languages: str = "en") -> tuple[Detector, ...]:
    """The detectors of a set for some languages, separated by commas: patterns alone, or libraries before them."""
    chosen = tuple(languages.split(","))
    own = (Mail(), Number(), Address(chosen))
    if name == "patterns":
        return own
    from queryveil.experiments.policies.library_detectors import Checked, Name, Phone

    return (Mail(), Checked(), Phone(chosen), Number(), Address(chosen), Name(chosen))


def check_languages(name: str, value: object) -> str | None:
    """A finding unless the value is a list of known languages."""
    known = isinstance(value, str) and all(each in STREETS for each in value.split(","))
    return None if known else f"{name} must be languages of {', '.join(STREETS)}, separated by commas. Try en."


def detect(text: str, detectors: Sequence[Detector]) -> list[Identifier]:
    """The identifiers of a text from left to right; where two overlap, the one of the earlier detector stands."""
    found: list[Identifier] = []
    for detector in detectors:
        for one in detector.find(text):
            if all(one.end <= other.start or other.end <= one.start for other in found):
                found.append(one)
    return sorted(found, key=lambda one: one.start)
