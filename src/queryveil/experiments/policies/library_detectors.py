"""Detectors that are a library's work: telephone numbers of the world, numbers with check digits, and frequent names.

`phonenumbers` (a port of Google's libphonenumber) knows how every country writes its numbers, and gives their
international form; `python-stdnum` knows the check digits of IBANs and of cards; `faker` has lists of frequent names
(`queryveil.knowledge.names`). All come with the extra `detectors`.

What has no valid form in the given regions is left to the patterns of `detectors`, which see any long number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from queryveil.errors import UsageError
from queryveil.experiments.policies.detectors import BOOK, Identifier, Number
from queryveil.knowledge.names import family_names, given_names

IBAN: Final = re.compile(r"(?i)\b[a-z]{2}\d{2}(?:\s?[a-z0-9]){11,30}\b")
WORD: Final = re.compile(r"[^\W\d_]+")
CARD: Final = re.compile(r"\b\d(?:[ -]?\d){12,18}\b")
REGIONS: Final = {"en": ("US", "GB"), "de": ("DE", "AT", "CH"), "fr": ("FR", "BE")}
"""Where numbers without a country's prefix may be from, by language."""


@dataclass(frozen=True)
class Phone:
    """Telephone numbers of some regions, and of any where the country's prefix is written; in E.164."""

    kind: ClassVar[str] = "phone"
    hint: ClassVar[str] = Number.hint
    languages: tuple[str, ...] = ("en",)

    def find(self, text: str) -> Iterator[Identifier]:
        """See `Detector`."""
        library = _library("phonenumbers")
        for region in (region for language in self.languages for region in REGIONS[language]):
            for match in library.PhoneNumberMatcher(text, region):
                form = library.format_number(match.number, library.PhoneNumberFormat.E164)
                yield Identifier(match.start, match.end, self.kind, form)


@dataclass(frozen=True)
class Name:
    """A frequent given name with a frequent family name behind it, an initial between them or not.

    Either alone is no name of a person: rose, king and park are words.
    """

    kind: ClassVar[str] = "name"
    languages: tuple[str, ...] = ("en",)

    @property
    def hint(self) -> str:
        """See `Detector`."""
        given, family = ("|".join(sorted(each(self.languages))) for each in (given_names, family_names))
        return rf"(?i)\b(?:{given})\s+(?:\pL\.?\s+)?(?:{family})\b"

    def find(self, text: str) -> Iterator[Identifier]:
        """See `Detector`."""
        given, family = given_names(self.languages), family_names(self.languages)
        words = [(match, match[0].casefold()) for match in WORD.finditer(text)]
        for place, (first, word) in enumerate(words[:-1]):
            initial = len(words[place + 1][1]) == 1 and place + 2 < len(words)
            last, name = words[place + 2 if initial else place + 1]
            if word in given and name in family:
                yield Identifier(first.start(), last.end(), self.kind, f"{word} {name}")


@dataclass(frozen=True)
class Checked:
    """IBANs and card numbers whose check digits are right, without blanks."""

    kind: ClassVar[str] = "checked number"
    hint: ClassVar[str] = r"\d{2}(?:[ -]?[A-Za-z0-9]){11}"

    def find(self, text: str) -> Iterator[Identifier]:
        """See `Detector`."""
        for pattern, module in ((IBAN, "stdnum.iban"), (CARD, "stdnum.luhn")):
            valid: Callable[[str], bool] = _library(module).is_valid
            for match in pattern.finditer(text):
                found = match[0]
                while found and not valid(_plain(found)):  # words behind an IBAN look like a part of it
                    found = found.rpartition(" ")[0]
                if found and not BOOK.fullmatch(_plain(found)):
                    yield Identifier(match.start(), match.start() + len(found), self.kind, _plain(found))


def _plain(number: str) -> str:
    return re.sub(r"[ -]", "", number).upper()


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise UsageError(
            f"these detectors need {name.partition('.')[0]}. Install it with: pip install 'queryveil[detectors]'"
        ) from None
