"""The mechanism of Sánchez et al. again, slowly, with dictionaries and fractions, and without any of our code."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

from hypothesis import strategies as st

from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.mechanisms.semantic.domain import Domain

TOY = {"R": [], "H": ["R"], "S": ["R"], "flu": ["H"], "asthma": ["H"], "tennis": ["S"]}
TOPIC = {"R": None, "H": "H", "flu": "H", "asthma": "H", "S": "S", "tennis": "S"}
ORDER = list(TOY)


@st.composite
def parent_lists(draw):
    """A random rooted graph: each concept's parents."""
    size = draw(st.integers(2, 25))
    return {
        str(n): [str(p) for p in draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3, unique=True))]
        if n
        else []
        for n in range(size)
    }


def built(parents: dict[str, list[str]]) -> Taxonomy:
    keys = list(parents)
    return Taxonomy.build(keys, [[keys.index(p) for p in parents[k]] for k in keys], [[k] for k in keys])


def toy_taxonomy() -> Taxonomy:
    return built(TOY)


def toy_domain(*, outside: bool = False, topics: bool = False) -> Domain:
    taxonomy = toy_taxonomy()
    numbers = taxonomy.topics([taxonomy.concept("H"), taxonomy.concept("S")]) if topics else None
    return Domain.of([taxonomy], outside=outside, topics=numbers)


def place(domain: Domain, name: str) -> int:
    return next(c for c in range(len(domain)) if domain.name_of(c) == name)


def in_order(domain: Domain, values: list) -> list[float]:
    """Values per concept of the domain, in the order of the specification."""
    return [float(values[place(domain, name)]) for name in ORDER]


def subsumers(parents: dict[str, list[str]], concept: str, *, itself: bool = True) -> set[str]:
    above = set().union(*(subsumers(parents, p) for p in parents[concept]))
    return above | {concept} if itself else above


def similarity(parents: dict[str, list[str]], one: str, other: str, *, itself: bool = True) -> float:
    a, b = subsumers(parents, one, itself=itself), subsumers(parents, other, itself=itself)
    return 1 - math.log2(1 + Fraction(len(a | b) - len(a & b), len(a | b)))


def exponential(scores: list[float], exponent: float) -> list[float]:
    weights = [math.exp(exponent * score) for score in scores]
    return [weight / sum(weights) for weight in weights]


def permute_and_flip(scores: list[float], exponent: float) -> list[float]:
    """By brute force over all orders in which candidates may be tried."""
    best = max(scores)
    heads = [math.exp(exponent * (score - best)) for score in scores]
    total = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        still = 1.0
        for candidate in order:
            total[candidate] += still * heads[candidate]
            still *= 1 - heads[candidate]
    return [value / len(orders) for value in total]


def worst_ratio(rows: list[list[Fraction]]) -> Fraction:
    return max(max(column) / min(column) for column in zip(*rows, strict=True))
