"""The texts of synthetic queries, composed from public words; `synthetic` calls it with integers only.

A need is a 64-bit key: it picks what kind of thing a person asks for (a well-known site, a common query of one of their
topics, something only they would ask, or something about themselves), a template and the words that fill it.
The well-known sites and common queries belong to a public world that is the same for every seed.

Integer arithmetic and exact string work only, so the same keys give the same text on every machine.
Cost: linear, one pass per template.

>>> ann = np.zeros(1, dtype=np.uint64)
>>> compose(person=ann, need=ann + np.uint64(1)).text.to_list() == compose(person=ann, need=ann).text.to_list()
False
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from queryveil.log._numbers import I64, U64, below, fraction, head_first, mixed, pick, zipf
from queryveil.log._vocabulary import (
    ASPECTS,
    FIRST_NAMES,
    FREQUENT_FIRST_NAMES,
    FREQUENT_LAST_NAMES,
    ILLNESSES,
    LAST_NAME_ENDINGS,
    LAST_NAMES,
    MODIFIERS,
    TOPICS,
    TOWNS,
    single_words,
    two_words,
)

SITES_PER_TOPIC = 256
COMMON_PER_TOPIC = 1500
FAVOURITE_TOPICS = (0.45, 0.65, 0.75)  # cumulative: first, second, third favourite; beyond, any topic
AREAS = ("202", "303", "404", "505", "606", "707", "808", "909")
LOCAL = 0.6  # how often a place is the person's own town
FREQUENT_FIRST, FREQUENT_LAST = 0.5, 0.17  # of people have one of the frequent names, where there are details

# The kinds of need, and how many of a thousand are of each; docs/synthetic.md shows what they were chosen to match.
SITE, COMMON, PERSONAL, ABOUT_ME = range(4)
KINDS = (55, 78, 857, 10)
KINDS_OF_FOLLOWERS = (480, 250, 265, 5)
FOLLOWERS = 0.12  # people who mostly ask what everybody asks
FORMS: tuple[dict[str, int], ...] = (
    {"{site}": 60, "www.{site}.example": 25, "{site}.example": 15},
    {
        "{modifier} {noun}": 30,
        "{noun} {aspect}": 30,
        "{noun} {companion}": 15,
        "{modifier} {noun} {aspect}": 10,
        "{aspect} of {noun}": 8,
        "{pair} {aspect}": 7,
    },
    {
        "{noun}{family}": 45,
        "www.{noun}{family}.example": 25,
        "{noun}{family}.example": 20,
        "{noun} {other}": 80,
        "{noun} {town}": 120,
        "{other} {aspect}": 30,
        "{modifier} {other}": 15,
        "{family} {other}": 40,
        "{modifier} {noun} {aspect}": 60,
        "{noun} {companion} {aspect}": 60,
        "{modifier} {noun} {town}": 60,
        "{pair} {town}": 40,
        "{noun} and {other}": 30,
        "{noun} {aspect} in {town}": 80,
        "{modifier} {pair} {aspect}": 45,
        "{modifier} {noun} and {companion}": 40,
        "{modifier} {noun} {aspect} in {town}": 65,
        "{aspect} of {pair} {other}": 30,
        "what is the {aspect} of {family} {other}": 12,
        "{modifier} {noun} for {other} in {town}": 45,
        "how to find {modifier} {noun} in {town}": 12,
        "{noun} or {other} for {modifier} {companion} in {town}": 9,
        "where can i find a {noun} {aspect} in {town}": 6,
        "what is the best {noun} for a {modifier} {other} {aspect}": 4,
        "how do i find the {aspect} of a {modifier} {noun} for my {other}": 5,
    },
    {
        "{first} {last}": 30,
        "{first} {last} {town}": 20,
        "{illness} {town}": 15,
        "{first} {last} {illness}": 10,
        "{first}.{last}@example.org": 15,
        "{digits}": 10,
    },
)
DETAILED: tuple[dict[str, int], ...] = (
    {},
    {},
    {"{noun} {year}": 25, "isbn {isbn}": 4, "24 hour {noun} drive {town}": 4},  # numbers that identify nobody
    {"{house} {street} street {town}": 15, "{first} {last} {phone}": 6, "{phone}": 6},
)
"""What is asked as well in a log with details."""
NAME, RARE_NAME = "name", "rare name"
"""A name is rare where its given or its family name is an invented one, which is on no list of names."""
PLANTED = {
    "{first} {last}": NAME,
    "{first} {last} {town}": NAME,
    "{first} {last} {illness}": NAME,
    "{first} {last} {phone}": "phone",
    "{first}.{last}@example.org": "mail",
    "{digits}": "number",
    "{house} {street} street {town}": "address",
    "{phone}": "phone",
}
"""The texts that identify by themselves, and what each plants."""
# The most common queries of a topic are its nouns as they stand, every fifth of two words.
_FORMS = {
    False: FORMS,
    True: tuple({**usual, **more} for usual, more in zip(FORMS, DETAILED, strict=True)),
}
_TEMPLATES = {
    details: ("{noun}", "{pair}", *(form for forms in chosen for form in forms)) for details, chosen in _FORMS.items()
}
_HEAD = 50

_SINGLE = pl.Series([word for topic in TOPICS for word in single_words(topic)])
_DOUBLE = pl.Series([words for topic in TOPICS for words in two_words(topic)])
_PER_TOPIC = len(_SINGLE) // len(TOPICS)
_PAIRS_PER_TOPIC = len(_DOUBLE) // len(TOPICS)


@dataclass(frozen=True)
class Composed:
    """Query texts, and for each text the site that is its first result (a row of `site_names`)."""

    text: pl.Series
    first_result: I64
    planted: pl.Series
    """What identifies somebody in each text: a kind of `PLANTED`, or null."""


def compose(*, person: U64, need: U64, details: bool = False) -> Composed:
    """The text of each (person, need), both given as keys; equal pairs give equal texts.

    With details there are addresses, telephone numbers and numbers that only look like one, and some people have one of
    the frequent names of the United States.
    """
    follows = fraction(mixed(person, 24)) < FOLLOWERS
    kind = np.where(follows, pick(mixed(need, 1), KINDS_OF_FOLLOWERS), pick(mixed(need, 1), KINDS))
    topic = _topic(person, need)
    site = pick(mixed(need, 2), zipf(len(TOPICS) * SITES_PER_TOPIC))
    common = np.where(kind == COMMON, pick(mixed(need, 3), zipf(COMMON_PER_TOPIC)), COMMON_PER_TOPIC)
    # What many people ask takes its words from the public world, everything else from the need itself.
    public = mixed((topic * COMMON_PER_TOPIC + common).astype(np.uint64), 4)
    key = np.where(kind == COMMON, public, need)
    asked = _Asked(person=person, key=key, topic=topic, site=site, common=common)

    template, templates = _template(kind, asked, details), _TEMPLATES[details]
    order = np.argsort(template, kind="stable")
    bounds = np.searchsorted(template[order], np.arange(len(templates) + 1))
    parts = [
        _filled(form, asked.only(order[start:end]), _DETAILED_PARTS if details else _PARTS)
        for form, start, end in zip(templates, bounds[:-1], bounds[1:], strict=True)
        if end > start
    ]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    text = pl.concat(parts, rechunk=True).gather(place).alias("query")
    result = head_first(mixed(key, 5), SITES_PER_TOPIC) * len(TOPICS) + topic
    planted = pl.Series([PLANTED.get(form) for form in templates], dtype=pl.String).gather(template)
    frequent = pl.Series((fraction(mixed(person, 50)) < FREQUENT_FIRST) & (fraction(mixed(person, 60)) < FREQUENT_LAST))
    rare = pl.repeat(RARE_NAME, len(planted), eager=True)
    planted = planted.zip_with((planted != NAME).fill_null(True) | frequent, rare)
    return Composed(text, _one_per_text(text, np.where(kind == SITE, site, result)), planted)


@cache
def site_names() -> pl.Series:
    """The public site list, the best known first: two words of one topic run together; site i is of topic i mod 16."""
    by_topic = [
        [nouns[i % len(nouns)] + nouns[(i + 1 + i // len(nouns)) % len(nouns)] for i in range(SITES_PER_TOPIC)]
        for nouns in map(single_words, TOPICS)
    ]
    return pl.Series([name for names in zip(*by_topic, strict=True) for name in names], dtype=pl.String)


def result_sites(first_result: I64, rank: I64) -> pl.Series:
    """The result at each rank of a query, given its first one: another site of the same topic."""
    place = (first_result // len(TOPICS) + (rank - 1) * 97) % SITES_PER_TOPIC  # 97 is odd: 256 different sites
    return _site_urls().gather(place * len(TOPICS) + first_result % len(TOPICS))


@cache
def _site_urls() -> pl.Series:
    return "http://www." + site_names() + ".example"


@dataclass(frozen=True)
class _Asked:
    """What the templates are filled from, one entry per query."""

    person: U64
    key: U64
    topic: I64
    site: I64
    common: I64  # rank among the common queries of the topic; COMMON_PER_TOPIC where it is none of them

    def only(self, rows: I64) -> _Asked:
        return _Asked(self.person[rows], self.key[rows], self.topic[rows], self.site[rows], self.common[rows])


def _topic(person: U64, need: U64) -> I64:
    """One of the person's three favourite topics, or any."""
    choice = np.searchsorted(FAVOURITE_TOPICS, fraction(mixed(need, 6)), side="right")
    favourite = below(mixed(mixed(person, 7) + choice.astype(np.uint64), 8), len(TOPICS))
    return np.where(choice == len(FAVOURITE_TOPICS), below(mixed(need, 9), len(TOPICS)), favourite)


def _template(kind: I64, asked: _Asked, details: bool) -> NDArray[np.uint8]:
    template = np.empty(len(kind), dtype=np.uint8)
    first = len(_TEMPLATES[details]) - sum(map(len, _FORMS[details]))
    for number, forms in enumerate(_FORMS[details]):
        rows = np.flatnonzero(kind == number)
        template[rows] = first + pick(mixed(asked.key[rows], 10), tuple(forms.values()))
        first += len(forms)
    head = asked.common < _HEAD
    template[head] = asked.common[head] % 5 == 4
    return template


def _filled(form: str, asked: _Asked, fillers: dict[str, _Part]) -> pl.Series:
    """Every row of one template, its parts filled in."""
    pieces = [piece for piece in re.split(r"(\{\w+\})", form) if piece]
    columns = [fillers[piece[1:-1]](asked) if piece[0] == "{" else pl.lit(piece) for piece in pieces]
    return pl.select(pl.concat_str(columns)).to_series()


def _one_per_text(text: pl.Series, result: I64) -> I64:
    """One first result for each text: two needs may end in the same words, and a search engine sees only the words."""
    return (
        pl.DataFrame({"text": text, "result": result}).select(pl.col("result").min().over("text"))["result"].to_numpy()
    )


def _noun(asked: _Asked) -> pl.Series:
    at = below(mixed(asked.key, 11), _PER_TOPIC)
    at = np.where(asked.common < _HEAD, asked.common - (asked.common + 1) // 5, at)
    return _SINGLE.gather(asked.topic * _PER_TOPIC + at)


def _pair(asked: _Asked) -> pl.Series:
    at = below(mixed(asked.key, 12), _PAIRS_PER_TOPIC)
    at = np.where(asked.common < _HEAD, asked.common // 5, at)
    return _DOUBLE.gather(asked.topic * _PAIRS_PER_TOPIC + at)


def _town(asked: _Asked) -> pl.Series:
    anywhere = below(mixed(asked.key, 13), len(_TOWNS))
    home = below(mixed(asked.person, 14), len(_TOWNS))
    return _TOWNS.gather(np.where(fraction(mixed(asked.key, 15)) < LOCAL, home, anywhere))


def _digits(asked: _Asked) -> pl.Series:
    # Leading zeros keep the number out of every range in which real account or identity numbers are given out.
    return pl.Series(mixed(asked.key, 16) % np.uint64(10**9)).cast(pl.String).str.zfill(12)


def _phone(asked: _Asked) -> pl.Series:
    """A number of the person's own in one of four ways to write it; 555-01xx is set aside for fiction."""
    area = pl.Series(AREAS).gather(below(mixed(asked.person, 26), len(AREAS)))
    last = "01" + pl.Series(below(mixed(asked.person, 27), 100)).cast(pl.String).str.zfill(2)
    ways = [f.format for f in ("{}-555-{}", "({}) 555 {}", "+1 {} 555 {}", "{}555{}")]
    way = below(mixed(asked.key, 28), len(ways))
    return pl.Series([ways[w](a, n) for w, a, n in zip(way, area, last, strict=True)], dtype=pl.String)


def _numbered(salt: int, of: Literal["key", "person"], first: int, limit: int) -> _Part:
    return lambda asked: pl.Series(first + below(mixed(getattr(asked, of), salt), limit)).cast(pl.String)


def _by_zipf(words: U64, limit: int) -> I64:
    return pick(words, zipf(limit))


def _drawn(words: Iterable[str], salt: int, of: Literal["key", "person"], draw: Callable[[U64, int], I64]) -> _Part:
    names = pl.Series(words)
    return lambda asked: names.gather(draw(mixed(getattr(asked, of), salt), len(names)))


def _frequent_or(
    frequent: Sequence[str], share: float, others: Sequence[str], salt: int, of: Literal["key", "person"]
) -> _Part:
    """One of the frequent names for a share of all, the first of them likelier; else one of the others."""
    names, first = pl.Series([*frequent, *others]), len(frequent)

    def drawn(asked: _Asked) -> pl.Series:
        words = getattr(asked, of)
        head = head_first(mixed(words, salt + 1), first)
        rest = first + below(mixed(words, salt + 2), len(others))
        return names.gather(np.where(fraction(mixed(words, salt)) < share, head, rest))

    return drawn


RARE_LAST_NAMES = tuple(name + ending for name in LAST_NAMES for ending in LAST_NAME_ENDINGS)
_TOWNS = pl.Series(TOWNS)
_Part = Callable[[_Asked], pl.Series]
_PARTS: dict[str, _Part] = {
    "noun": _noun,
    "pair": _pair,
    "town": _town,
    "digits": _digits,
    "site": lambda asked: site_names().gather(asked.site),
    "companion": lambda asked: _SINGLE.gather(asked.topic * _PER_TOPIC + below(mixed(asked.key, 17), _PER_TOPIC)),
    "other": _drawn(_SINGLE, 18, "key", below),
    "modifier": _drawn(MODIFIERS, 19, "key", head_first),
    "aspect": _drawn(ASPECTS, 20, "key", head_first),
    "illness": _drawn(ILLNESSES, 21, "key", below),
    "first": _drawn(FIRST_NAMES, 22, "person", below),
    "last": _drawn(LAST_NAMES, 23, "person", below),
    "family": _drawn(LAST_NAMES, 25, "key", below),
}
_DETAILED_PARTS: dict[str, _Part] = {
    **_PARTS,
    "first": _frequent_or(FREQUENT_FIRST_NAMES, FREQUENT_FIRST, FIRST_NAMES, 50, "person"),
    "last": _frequent_or(FREQUENT_LAST_NAMES, FREQUENT_LAST, RARE_LAST_NAMES, 60, "person"),
    "family": _frequent_or(FREQUENT_LAST_NAMES, FREQUENT_LAST, RARE_LAST_NAMES, 70, "key"),
    "phone": _phone,
    "house": _numbered(29, "person", 1, 240),
    "street": _drawn(LAST_NAMES, 30, "person", _by_zipf),
    "year": _numbered(31, "key", 1990, 37),
    "isbn": _numbered(32, "key", 9_780_000_000_000, 10**9),
}
