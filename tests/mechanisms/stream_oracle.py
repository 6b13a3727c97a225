"""The stream algorithm written plainly, with lists and dictionaries: what the fast kernel must agree with.

Categories are tuples of names, users are any values, records are any values. `draw(n)` gives a whole number below n.
The order of every list is part of the state, because a draw is an index: a removed entry is replaced by the last one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

Path = tuple[str, ...]


def from_words(words: Iterator[int]) -> Callable[[int], int]:
    """Lemire's uniform draw from 64-bit words, in plain arithmetic."""

    def draw(limit: int) -> int:
        while True:
            high, low = divmod(next(words) * limit, 2**64)
            if low >= 2**64 % limit:
                return high

    return draw


@dataclass
class Emission:
    record: Any
    owner: Any
    receiver: Any
    category: Path
    users: int
    owners: int
    owners_of_queries: int
    arrival: int


@dataclass
class Oracle:
    k: int
    draw: Callable[[int], int]
    branches: bool = True
    exclude_owner: bool = True
    distinct: bool = False
    cap: int = 0
    strict: bool = False
    most: int = 2
    tries: int = 16

    tokens: dict[Path, list[Any]] = field(default_factory=lambda: defaultdict(list))  # U[v]
    queries: dict[Path, list[tuple[Any, Any]]] = field(default_factory=lambda: defaultdict(list))  # Q[v]: record, owner
    places: dict[tuple[Path, Any], list[int]] = field(default_factory=lambda: defaultdict(list))  # where U[v] has u
    owned: dict[tuple[Path, Any], list[Any]] = field(default_factory=lambda: defaultdict(list))  # newest first
    users: dict[Path, list[Any]] = field(default_factory=lambda: defaultdict(list))  # distinct in the branch
    owners: dict[Path, list[Any]] = field(default_factory=lambda: defaultdict(list))
    children: dict[tuple[Path, Any], list[Path]] = field(default_factory=dict)  # where else a user is, newest first
    queued: dict[tuple[Path, Any], list[Any]] = field(default_factory=lambda: defaultdict(list))
    out: list[Emission] = field(default_factory=list)
    arrival: int = -1

    # A user's copy of the tree

    def _make_nodes(self, category: Path, user: Any) -> None:
        child: Path | None = None
        for depth in range(len(category), 0, -1):
            here = category[:depth]
            existed = (here, user) in self.children
            below = self.children.setdefault((here, user), [])
            if child is not None:
                below.insert(0, child)
            if existed:
                return
            child = here

    def _drop_nodes(self, category: Path, user: Any) -> None:
        for depth in range(len(category), 0, -1):
            here = category[:depth]
            if user not in self.users[here] and user not in self.owners[here] and (here, user) in self.children:
                del self.children[here, user]
                if depth > 1:
                    self.children[here[:-1], user].remove(here)

    def _vertices(self, category: Path, user: Any, held: dict[tuple[Path, Any], list[Any]]) -> list[Path]:
        """The vertices at and below `category` where the user holds something, in the order of the copy."""
        mine = [category] if held[category, user] else []
        for child in self.children[category, user]:
            mine += self._vertices(child, user, held)
        return mine

    # Sets and lists

    @staticmethod
    def _swap_out(listed: list[Any], place: int) -> None:
        listed[place] = listed[-1]
        listed.pop()

    def _add_token(self, category: Path, user: Any) -> None:
        self._make_nodes(category, user)
        first = not self.places[category, user]
        self.places[category, user].append(len(self.tokens[category]))
        self.tokens[category].append(user)
        if first:
            for depth in range(len(category), 0, -1):
                if user not in self.users[category[:depth]]:
                    self.users[category[:depth]].append(user)

    def _drop_token(self, category: Path, place: int) -> None:
        listed = self.tokens[category]
        user = listed[place]
        mine = self.places[category, user]
        mine[mine.index(place)] = mine[-1]  # tokens of one user are alike: the topmost goes
        mine.pop()
        last = len(listed) - 1
        if place != last:
            moved = self.places[category, listed[last]]
            moved[moved.index(last)] = place
        self._swap_out(listed, place)
        if not mine:
            self._leave(category, user, self.users, self.places)

    def _leave(self, category: Path, user: Any, sets: Any, held: Any) -> None:
        for depth in range(len(category), 0, -1):
            here = category[:depth]
            if not self._vertices(here, user, held):
                self._swap_out(sets[here], sets[here].index(user))
        self._drop_nodes(category, user)

    def _add_query(self, category: Path, record: Any, owner: Any) -> None:
        self.queries[category].append((record, owner))
        if self.distinct:
            first = not self.owned[category, owner]
            self.owned[category, owner].insert(0, record)
            if first:
                for depth in range(len(category), 0, -1):
                    if owner not in self.owners[category[:depth]]:
                        self.owners[category[:depth]].append(owner)

    def _drop_query(self, category: Path, place: int) -> None:
        record, owner = self.queries[category][place]
        self._swap_out(self.queries[category], place)
        if self.distinct:
            self.owned[category, owner].remove(record)
            if not self.owned[category, owner]:
                self._leave(category, owner, self.owners, self.owned)

    # Gates

    def own_users(self, category: Path) -> int:
        return len(set(self.tokens[category]))

    def own_owners(self, category: Path) -> int:
        return len({owner for _, owner in self.queries[category]})

    def _enough_here(self, category: Path) -> bool:
        return self.own_users(category) > self.k and (not self.distinct or self.own_owners(category) > self.k)

    def _enough_in_branch(self, category: Path) -> bool:
        return len(self.users[category]) > self.k and (not self.distinct or len(self.owners[category]) > self.k)

    # Draws

    def _token_place_but_not_of(self, category: Path, owner: Any) -> int:
        listed = self.tokens[category]
        for _ in range(self.tries):
            place = self.draw(len(listed))
            if listed[place] != owner:
                return place
        others = [u for u in self.users[category] if u != owner and self.places[category, u]]
        steps = self.draw(sum(len(self.places[category, u]) for u in others))
        for user in others:
            if steps < len(self.places[category, user]):
                return self.places[category, user][-1]
            steps -= len(self.places[category, user])
        raise AssertionError

    def _token_place_of_a_user(self, category: Path) -> int:
        listed = self.tokens[category]
        for _ in range(self.tries):
            place = self.draw(len(listed))
            alike = len(self.places[category, listed[place]])
            if alike == 1 or self.draw(alike) == 0:
                return place
        here = [u for u in self.users[category] if self.places[category, u]]
        return self.places[category, here[self.draw(len(here))]][-1]

    def _query_place_of_an_owner(self, category: Path) -> int:
        listed = self.queries[category]
        for _ in range(self.tries):
            place = self.draw(len(listed))
            alike = len(self.owned[category, listed[place][1]])
            if alike == 1 or self.draw(alike) == 0:
                return place
        here = [o for o in self.owners[category] if self.owned[category, o]]
        return self._query_place_of(category, here[self.draw(len(here))])

    def _query_place_of(self, category: Path, owner: Any) -> int:
        record = self.owned[category, owner][self.draw(len(self.owned[category, owner]))]
        return self.queries[category].index((record, owner))

    # The algorithm

    def push(self, user: Any, record: Any, category: Path) -> None:
        self.arrival += 1
        if self.cap and len(self.owned[category, user]) >= self.cap:
            self.queued[category, user].append(record)
        else:
            self._add_token(category, user)
            self._add_query(category, record, user)
        vertex, emissions = category, self.most
        if self.branches and not self._enough_here(category):
            emissions = 0
            above = [category[:depth] for depth in range(len(category), 0, -1)]
            branch = next((here for here in above if self._enough_in_branch(here)), None)
            if branch is not None and (not self.strict or self.own_owners(category) > self.k):
                vertex, emissions = self._branch_step(category, branch), 1
        while emissions and vertex is not None and self._enough_here(vertex):
            emissions -= 1
            here = vertex
            place = self._query_place_of_an_owner(here) if self.distinct else self.draw(len(self.queries[here]))
            owner = self.queries[here][place][1]
            if self.exclude_owner:
                token = self._token_place_but_not_of(here, owner)
            elif self.distinct:
                token = self._token_place_of_a_user(here)
            else:
                token = self.draw(len(self.tokens[here]))
            receiver = self.tokens[here][token]
            self._emit(here, place, receiver, here, self.own_users(here), self.own_owners(here))
            self._drop_token(here, token)

    def _branch_step(self, category: Path, branch: Path) -> Path | None:
        users = self.users[branch]
        if self.distinct and self.strict:
            query_vertex = category
            place = self._query_place_of_an_owner(category)
        elif self.distinct:
            owner = self.owners[branch][self.draw(len(self.owners[branch]))]
            vertices = self._vertices(branch, owner, self.owned)
            query_vertex = vertices[self.draw(len(vertices))]
            place = self._query_place_of(query_vertex, owner)
        else:
            chosen = users[self.draw(len(users))]
            vertices = self._vertices(branch, chosen, self.places)
            query_vertex = vertices[self.draw(len(vertices))]
            place = self.draw(len(self.queries[query_vertex]))
        owner = self.queries[query_vertex][place][1]
        drawn = self.draw(len(users))
        if self.exclude_owner and users[drawn] == owner:
            drawn = (drawn + 1 + self.draw(len(users) - 1)) % len(users)
        receiver = users[drawn]
        vertices = self._vertices(branch, receiver, self.places)
        user_vertex = vertices[self.draw(len(vertices))]
        owners = self.own_owners(category) if self.strict else len(self.owners[branch])
        token = self.places[user_vertex, receiver][-1]
        self._emit(query_vertex, place, receiver, branch, len(users), owners)
        if query_vertex != user_vertex:
            moved = self.draw(len(self.tokens[query_vertex]))
            user = self.tokens[query_vertex][moved]
            alike = self.places[user_vertex, receiver].index(token)
            self._add_token(user_vertex, user)
            self._drop_token(query_vertex, moved)
            token = self.places[user_vertex, receiver][alike]
        self._drop_token(user_vertex, token)
        return user_vertex if query_vertex != user_vertex else None

    def _emit(self, vertex: Path, place: int, receiver: Any, label: Path, users: int, owners: int) -> None:
        record, owner = self.queries[vertex][place]
        self.out.append(Emission(record, owner, receiver, label, users, owners, self.own_owners(vertex), self.arrival))
        if self.queued[vertex, owner]:
            waiting = self.queued[vertex, owner].pop(0)
            self._add_token(vertex, owner)
            self._add_query(vertex, waiting, owner)
        self._drop_query(vertex, place)


class _NeedsMoreError(Exception):
    pass


def every_outcome(run: Callable[[Callable[[int], int]], Any]) -> Iterator[tuple[Fraction, Any]]:
    """Run once for every possible sequence of draws; yields the exact probability and what came out."""
    stack: list[list[tuple[int, int]]] = [[]]
    while stack:
        script = stack.pop()
        position = 0

        def draw(limit: int, script: list[tuple[int, int]] = script) -> int:
            nonlocal position
            if limit == 1:
                return 0
            if position == len(script):
                stack.extend([*script, (value, limit)] for value in range(limit))
                raise _NeedsMoreError
            value, known = script[position]
            assert known == limit
            position += 1
            return value

        try:
            result = run(draw)
        except _NeedsMoreError:
            continue
        probability = Fraction(1)
        for _, limit in script:
            probability /= limit
        yield probability, result


@dataclass
class GateOracle:
    """The window over texts, counted anew for every record."""

    k_text: int
    window: int
    seen: list[tuple[Any, Any, Any]] = field(default_factory=list)  # user, text, record
    waiting: list[tuple[Any, Any, Any]] = field(default_factory=list)
    expired: list[Any] = field(default_factory=list)

    def push(self, user: Any, text: Any, record: Any) -> list[tuple[Any, Any]]:
        """The (user, record) pairs that may enter now."""
        self.seen.append((user, text, record))
        recent = self.seen[-self.window :]
        in_window = {recorded for _, _, recorded in recent}
        self.expired += [r for _, _, r in self.waiting if r not in in_window]
        self.waiting = [w for w in self.waiting if w[2] in in_window]
        if len({u for u, t, _ in recent if t == text}) < self.k_text:
            self.waiting.append((user, text, record))
            return []
        entering = [(u, r) for u, t, r in self.waiting if t == text]
        self.waiting = [w for w in self.waiting if w[1] != text]
        return [*entering, (user, record)]
