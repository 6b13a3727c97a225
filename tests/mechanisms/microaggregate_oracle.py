"""Slow twins of the microaggregation, with dictionaries and a dense matrix, and a toy world."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import polars as pl

from queryveil.knowledge._arrays import Lists
from queryveil.knowledge.categories import CategoryTree, Classifier
from queryveil.log import QueryLog
from queryveil.mechanisms.microaggregate.profiles import CountedLog, TextReading, Vocabulary
from vectors.microaggregate import DIRECTORY, QUERIES


class Dictionary(Classifier):
    """A classifier that knows the paths written down for it."""

    name = "dictionary"
    digest = "0"

    def __init__(self, paths: dict[str, list[str]]) -> None:
        flat = [(term, tuple(path.split(":"))) for term, known in paths.items() for path in known]
        self.tree, numbers = CategoryTree.of(path for _, path in flat)
        self._known: dict[str, list[int]] = {}
        for (term, _), number in zip(flat, numbers, strict=True):
            self._known.setdefault(term, []).append(number)

    def categories(self, queries, at_most=1):
        return Lists.of([self._known.get(query, [])[:at_most] for query in queries])


class ToyReading(TextReading):
    """Reads with the toy directory."""

    @property
    def classifier(self):
        return TOY_CLASSIFIER


TOY_CLASSIFIER = Dictionary(DIRECTORY)
TOY_READING = ToyReading("toy", "0", categories=5, levels=2)


def frame_of(queries: dict[str, list[str]]) -> pl.DataFrame:
    rows = [(user, query) for user, asked in queries.items() for query in asked]
    return pl.DataFrame(rows, schema={"user": pl.String, "query": pl.String}, orient="row")


def toy(categories: int, levels: int = 2):
    """The profiles of the toy users, with the log and the vocabulary they come from."""
    log = CountedLog.of(frame_of(QUERIES))
    vocabulary = Vocabulary.of(log.texts, Dictionary(DIRECTORY), categories=categories, levels=levels)
    return log, vocabulary, vocabulary.profiles(log)


def toy_log(users: int = 9) -> QueryLog:
    """Three topics, each the interest of a third of the users; shared texts, own texts, an address."""
    rows = []
    for user in range(users):
        topic = ["puppies", "chess", "aspirin"][user % 3]
        rows += [(f"u{user}", topic)] * 4 + [(f"u{user}", "weather"), (f"u{user}", f"my {topic} {user}")]
        rows.append((f"u{user}", f"u{user}@example.org"))
    return QueryLog.of(rows)


def slow_profile(queries: list[str], paths: dict[str, list[str]], categories: int, levels: int) -> list[Counter[str]]:
    """Algorithm 1 for one user: a counter of path prefixes for each level."""
    matrices = [Counter() for _ in range(levels)]
    for query in queries:
        for term in query.split():
            for path in paths.get(term, [])[:categories]:
                names = path.split(":")
                for level in range(1, min(levels, len(names)) + 1):
                    matrices[level - 1][":".join(names[:level])] += 1
    return matrices


def slow_similarity(one: list[Counter[str]], other: list[Counter[str]]) -> int:
    """Algorithm 2 for two users."""
    return sum((a & b).total() for a, b in zip(one, other, strict=True))


def slow_greedy(matrix: list[list[int]], k: int) -> list[list[int]]:
    """Algorithms 3 and 4 on the dense matrix; members in the order they joined."""
    free = list(range(len(matrix)))
    groups = []
    while len(free) >= k:
        pairs = [(-matrix[i][j], i, j) for i in free for j in free if i != j]
        _, first, second = min(pairs)
        group = [first, second]
        while len(group) < k:
            others = [u for u in free if u not in group]
            group.append(min(others, key=lambda u: (-sum(matrix[u][m] for m in group), u)))
        groups.append(group)
        free = [u for u in free if u not in group]
    return groups


def groups_of(numbers) -> list[list[int]]:
    """Groups as lists of users, by group number."""
    members: dict[int, list[int]] = {}
    for user, number in enumerate(numbers):
        if number >= 0:
            members.setdefault(int(number), []).append(user)
    return [members[number] for number in sorted(members)]


def expected_walk(counts: list[int], share: Fraction, quota: Fraction) -> dict[int, Fraction]:
    """The exact law of how many records Algorithm 5 adds for a user: walk the list until the quota is met."""
    law = {0: Fraction(1)}
    for count in sorted(counts, reverse=True):
        after: dict[int, Fraction] = {}
        for added, chance in law.items():
            if added >= quota:
                after[added] = after.get(added, Fraction(0)) + chance
                continue
            whole, rest = divmod(share * count, 1)
            for more, part in ((int(whole), 1 - rest), (int(whole) + 1, rest)):
                if part:
                    after[added + more] = after.get(added + more, Fraction(0)) + chance * part
        law = after
    return law
