"""Accounts of a ledger: what everybody paid, and what each person paid beside it, read from its database."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection

from queryveil.privacy.accounting import Loss
from queryveil.privacy.composition import Account, Entry, replaced


class OwnAccounts:
    """What each person paid for themselves. People who paid for the same share a state, of which there are few."""

    def __init__(self) -> None:
        self.states: list[Counter[Entry]] = [Counter()]
        self.state_of: dict[bytes, int] = {}
        self._next: dict[tuple[int, Entry], int] = {}
        self._known: dict[frozenset[tuple[Entry, int]], int] = {frozenset(): 0}

    def add(self, person: bytes, entry: Entry) -> None:
        """One more entry of a person."""
        before = self.state_of.get(person, 0)
        after = self._next.get((before, entry))
        if after is None:
            content = self.states[before] + Counter({entry: 1})
            after = self._known.setdefault(frozenset(content.items()), len(self.states))
            if after == len(self.states):
                self.states.append(content)
            self._next[before, entry] = after
        self.state_of[person] = after


def own_accounts(connection: sqlite3.Connection) -> OwnAccounts:
    """Of the people that `balances` was asked for before, on the same connection."""
    accounts = OwnAccounts()
    kinds = {
        number: Entry.read(Loss(epsilon, delta), model)
        for number, epsilon, delta, model in connection.execute("SELECT number, epsilon, delta, model FROM entry")
    }
    for number, person in connection.execute("SELECT entry, person FROM debit JOIN asked USING (person)"):
        accounts.add(person, kinds[number])
    return accounts


def dataset_account(connection: sqlite3.Connection) -> Counter[Entry]:
    """What everybody paid."""
    rows = connection.execute("SELECT epsilon, delta, model FROM entry WHERE scope = 'dataset'").fetchall()
    return Counter(Entry.read(Loss(epsilon, delta), model) for epsilon, delta, model in rows)


def all_replaced(everybody: Account) -> Counter[Entry]:
    """What everybody paid as it counts beside a loss of people's own."""
    account = Counter[Entry]()
    for entry, times in everybody.items():
        account[replaced(entry)] += times
    return account


def added(account: Account, entry: Entry) -> Counter[Entry]:
    """An account with one more entry."""
    return Counter(account) + Counter({entry: 1})


def balances(connection: sqlite3.Connection, people: Collection[bytes]) -> dict[bytes, Loss]:
    """What these people paid for themselves, plainly added up; who paid nothing is not among them."""
    connection.execute("CREATE TEMP TABLE asked (person BLOB PRIMARY KEY) WITHOUT ROWID")
    connection.executemany("INSERT INTO asked VALUES (?)", ((person,) for person in people))
    rows = connection.execute("SELECT person, epsilon, delta FROM asked JOIN balance USING (person)").fetchall()
    return {person: Loss(epsilon, delta) for person, epsilon, delta in rows}
