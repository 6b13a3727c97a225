"""Given names and family names that are on public lists, by language.

The lists are those that Faker ships (MIT; the extra `detectors`): hundreds of the most frequent names of a country, so
that rare ones are missing. Of the people of the United States (Census of 1990) 44 % have a family name of the English
list, and 78 % of men and 64 % of women a given name: some 31 % have both, if one says nothing about the other. Family
names that are made up for synthetic logs are known too (`known_family_names`), since an attacker knows whom they look
for.

>>> "torvane" in given_names(("en",)), "arbackerson" in known_family_names()
(False, True)
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from queryveil.errors import UsageError
from queryveil.log._synthetic_text import RARE_LAST_NAMES
from queryveil.log._vocabulary import FREQUENT_LAST_NAMES

LOCALES: Final = {"en": ("en_US", "en_GB"), "de": ("de_DE", "de_AT", "de_CH"), "fr": ("fr_FR", "fr_CH")}


@cache
def given_names(languages: tuple[str, ...]) -> frozenset[str]:
    """Frequent given names, in lower case."""
    return _listed("first_names", languages)


@cache
def family_names(languages: tuple[str, ...]) -> frozenset[str]:
    """Frequent family names, in lower case."""
    return _listed("last_names", languages)


@cache
def known_family_names() -> frozenset[str]:
    """Family names of any language that can be told to be one: those of the lists, where they are installed, and those
    of synthetic logs."""
    invented = frozenset((*FREQUENT_LAST_NAMES, *RARE_LAST_NAMES))
    try:
        return invented | family_names(tuple(LOCALES))
    except UsageError:
        return invented


def _listed(kind: str, languages: tuple[str, ...]) -> frozenset[str]:
    locales = [locale for language in languages for locale in LOCALES[language]]
    try:
        lists = [import_module(f"faker.providers.person.{locale}").Provider for locale in locales]
    except ImportError:
        raise UsageError("lists of names need faker. Install it with: pip install 'queryveil[detectors]'") from None
    names = (str(name).casefold() for each in lists for name in getattr(each, kind))
    return frozenset(name for name in names if name.isalpha())
