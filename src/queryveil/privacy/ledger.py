"""Who has spent how much privacy, across releases and mechanisms.

One SQLite file for one body of people. Each person may lose at most ε and δ over all releases. A release either spends
from the whole dataset (everybody loses the same, also people seen later) or from the people in it. The debit is
committed before the release is made: a crash may waste budget, and never overspends it. Where what the dataset has paid
leaves too little the release is refused; people whose own losses leave them too little are left out of it, even if that
is everybody. So whether a release is made never depends on who is in the log, nor on what one of them has paid.

The two kinds of loss are about different neighbours. A release charged to the dataset must look alike with a person
added or removed; one charged to people, who are known to be in it, with a person's records replaced by others. Only
replacing is covered by both: it is a removal and an addition, so a dataset's (ε, δ) counts as (2ε, (1 + e^ε)δ) for
whoever also pays for themselves. A person's loss is the dataset's so counted plus their own; for people without a loss
of their own it is the dataset's as it stands.

People are stored as HMAC-SHA256 under a key kept apart (`keys.py`). Ids that are written alike have one budget, whether
or not a release takes them for one person (`queryveil.log.identifying`): whatever is declared from release to release,
no id loses more than the budget. Ledgers of version 1 know ids as they were written.

Entries are append-only and chained under the same key; where one was changed, nothing more is spent. Losses are whole
numbers of 10^-9 (ε) and 10^-18 (δ), rounded up; a float counts as the decimal it prints as, so that ten times 0.1 is 1.
An entry keeps its kind: pure ε, (ε, δ), or by ρ, which stands behind the guarantee's model. What entries lose together
is the best that can be said of their kinds (`composition.py`). That holds for releases whose cost was fixed without
looking at what earlier ones published; where it was not, adding up by moments is not proved (`composition.md`).

>>> import tempfile, os
>>> os.environ["QUERYVEIL_KEYS"] = tempfile.mkdtemp()
>>> ledger = Ledger.create(os.path.join(tempfile.mkdtemp(), "ledger.db"), epsilon=1.0, delta=1e-6)
>>> entry = ledger.debit(Charge.people(epsilon=0.7), mechanism="semantic", people=["ann", "bob"])
>>> later = ledger.debit(Charge.people(epsilon=0.5), mechanism="semantic", people=["bob", "cleo"])
>>> later.left_out
frozenset({'bob'})
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import math
import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from queryveil.checks import real_number, require
from queryveil.errors import BudgetError, DataError, QueryVeilError, UsageError, system_error
from queryveil.log.identifying import represented
from queryveil.privacy import keys
from queryveil.privacy.accounting import DELTA_UNIT, EPSILON_UNIT, NO_LOSS, Loss
from queryveil.privacy.accounts import OwnAccounts, added, all_replaced, balances, dataset_account, own_accounts
from queryveil.privacy.composition import (
    MOST_TIMES,
    RHO_UNIT,
    Account,
    Entry,
    Kind,
    basic,
    fits,
    left,
    spent,
    times_left,
)
from queryveil.privacy.guarantee import LARGEST_EPSILON, Charge, Scope, decimal, rounded_down, rounded_up
from queryveil.privacy.keys import refuse_release_folders

SECONDS_TO_WAIT = 60
SCHEMA_VERSION = 2
KINDS_IN_WORDS: dict[Kind, str] = {
    "pure": "adds up by ε",
    "approx": "adds up by ε and δ",
    "zcdp": "adds up by ρ",
    "gaussian": "a Gaussian mechanism, which adds up by ρ",
}
MOST_SORTS = 8
"""Of how many sorts of releases it is told what one more would cost."""
IDS_AS_WRITTEN = 1
"""The version of ledgers that give each way of writing an id a budget of its own."""

SCHEMA = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE entry (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created TEXT NOT NULL, mechanism TEXT NOT NULL,
    model TEXT NOT NULL, scope TEXT NOT NULL CHECK (scope IN ('people', 'dataset', 'nothing')),
    epsilon INTEGER NOT NULL CHECK (epsilon >= 0), delta INTEGER NOT NULL CHECK (delta >= 0),
    people_digest TEXT NOT NULL, chain TEXT NOT NULL
);
CREATE TABLE debit (
    entry INTEGER NOT NULL REFERENCES entry, person BLOB NOT NULL, PRIMARY KEY (entry, person)
) WITHOUT ROWID;
CREATE TABLE balance (person BLOB PRIMARY KEY, epsilon INTEGER NOT NULL, delta INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE run (entry TEXT PRIMARY KEY, written INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER entry_stays BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER entry_remains BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;
CREATE TRIGGER debit_stays BEFORE UPDATE ON debit BEGIN SELECT RAISE(ABORT, 'debits are append-only'); END;
CREATE TRIGGER debit_remains BEFORE DELETE ON debit BEGIN SELECT RAISE(ABORT, 'debits are append-only'); END;
"""


@dataclass(frozen=True)
class Debit:
    """What came of a debit: the entry's random id, and who had too little left to take part."""

    entry: str
    left_out: frozenset[str] = field(repr=False)  # people do not show in a notebook or a log


class Ledger:
    """An open ledger. Safe for several processes at once; each call opens and closes its own connection."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        refuse_release_folders(self.path)
        if not self.path.is_file():
            raise UsageError(f"no ledger at {self.path}. Make one with `queryveil ledger init`.")
        settings = self._settings()
        if settings.get("version") not in (str(IDS_AS_WRITTEN), str(SCHEMA_VERSION)):
            raise DataError(f"{self.path} is not a QueryVeil ledger of version {SCHEMA_VERSION}.")
        self.merges_ids = settings["version"] != str(IDS_AS_WRITTEN)
        self.id = settings["id"]
        self.epsilon_budget = int(settings["epsilon"])
        self.delta_budget = int(settings["delta"])
        self._key = keys.load(f"ledger-{self.id}.key")
        if hashlib.sha256(self._key).hexdigest() != settings["key_check"]:
            raise DataError(f"the key of ledger {self.id} is not the one it was made with. Restore the right one.")
        if settings.get("seal") != _seal(self._key, settings):
            raise DataError(f"the settings of ledger {self.id} were changed after it was made; it cannot be trusted.")
        self._seen = 0, self._first_link()
        """The last entry up to which the chain was followed, and its link."""

    @classmethod
    def create(cls, path: str | Path, *, epsilon: float, delta: float = 0.0) -> Ledger:
        """Make a new ledger with a budget per person; its key goes to the key folder."""
        require(
            real_number("epsilon", epsilon, above=0, at_most=LARGEST_EPSILON, suggest=10.0),
            real_number("delta", delta, at_least=0, below=1, suggest=1e-6),
        )
        path = Path(path)
        refuse_release_folders(path)
        if path.exists():
            raise UsageError(f"{path} is there already; a ledger is never overwritten.")
        if not path.parent.is_dir():
            raise UsageError(f"the folder {path.parent} does not exist.")
        identity, key = secrets.token_hex(8), secrets.token_bytes(32)
        keys.keep(f"ledger-{identity}.key", key)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with _disk_told_of(path), closing(sqlite3.connect(draft)) as connection, connection:
                connection.executescript(SCHEMA)
                settings = {
                    "version": str(SCHEMA_VERSION),
                    "id": identity,
                    "epsilon": str(math.floor(decimal(epsilon) * EPSILON_UNIT)),  # a budget is rounded down
                    "delta": str(math.floor(decimal(delta) * DELTA_UNIT)),
                    "key_check": hashlib.sha256(key).hexdigest(),
                    "created": _now(),
                }
                settings["seal"] = _seal(key, settings)
                connection.executemany("INSERT INTO setting VALUES (?, ?)", settings.items())
            os.link(draft, path)
        except OSError as error:
            raise system_error(error, path.name) from None
        finally:
            draft.unlink(missing_ok=True)
        return cls(path)

    def debit(
        self,
        charge: Charge,
        *,
        mechanism: str,
        model: str = "pure-dp",
        people: Collection[str] = (),
        awaited: bool = False,
    ) -> Debit:
        """Spend before releasing. Refuses, or says who must be left out; commits before it returns.

        `awaited` says that `note_written` will follow once the release is in place: until then the entry is shown as
        one of a run that was stopped or is still at work. That is a note for people; it gives no budget back.
        """
        entry = Entry.of(charge)
        with self._transaction() as connection:
            left_out: frozenset[str] = frozenset()
            charged: list[bytes] = []
            self._follow_chain(connection)
            if charge.scope != "nothing":
                everybody = dataset_account(connection)
                counted = all_replaced(everybody) if charge.scope == "people" else everybody
                if not fits(self._budget, added(counted, entry)):
                    raise BudgetError(self._too_little(charge, left(self._budget, counted)))
                names: dict[bytes, list[str]] = {}
                for person, name in zip(self._persons(people), people, strict=True):
                    names.setdefault(person, []).append(name)
                own = entry if charge.scope == "people" else None
                before = counted if own else all_replaced(added(everybody, entry))
                short = self._short(connection, names, before, own)
                left_out = frozenset(name for person in short for name in names[person])
                if charge.scope == "people":
                    charged = sorted(names.keys() - short)
            identity = self._append(connection, charge.scope, entry, mechanism, model, charged)
            if awaited and self._notes_runs(connection):
                connection.execute("INSERT INTO run VALUES (?, 0)", (identity,))
        return Debit(identity, left_out)

    def note_written(self, entry: str) -> None:
        """Note that the release that an entry paid for is in place; a disk that takes no note stops nothing."""
        with suppress(QueryVeilError, sqlite3.Error), self._transaction() as connection:
            if self._notes_runs(connection):
                connection.execute("UPDATE run SET written = 1 WHERE entry = ?", (entry,))

    @staticmethod
    def _notes_runs(connection: sqlite3.Connection) -> bool:
        """Whether the ledger was made by a version that keeps such notes."""
        return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'run'").fetchone() is not None

    def _short(
        self, connection: sqlite3.Connection, people: Collection[bytes], everybody: Account, own: Entry | None
    ) -> set[bytes]:
        """Who has too little left, having paid for themselves before, beside what everybody paid and one more entry."""
        counted = added(everybody, own) if own else everybody
        room = self._budget - basic(counted)
        paid = {person: loss for person, loss in balances(connection, people).items() if not room.covers(loss)}
        if not paid or not self._budget.delta:
            return set(paid)  # plainly added up they have, and without δ there is no other way
        accounts = own_accounts(connection)
        enough: dict[int, bool] = {}
        for person in paid:
            state = accounts.state_of[person]
            if state not in enough:
                enough[state] = fits(self._budget, Counter(counted) + Counter(accounts.states[state]))
        return {person for person in paid if not enough[accounts.state_of[person]]}

    def person(self, name: str) -> bytes:
        """How the ledger knows a person."""
        return self._persons([name])[0]

    def _persons(self, names: Collection[str]) -> list[bytes]:
        known_as = represented(list(names)) if self.merges_ids else names
        return [hmac.digest(self._key, name.encode("utf-8", "surrogatepass"), "sha256") for name in known_as]

    def entries(self) -> pl.DataFrame:
        """Every entry, oldest first: number, id, created, mechanism, model, scope, ε, δ, people, kind, ρ and written.

        `written` is false where no release came of it, or none yet, and null where nobody noted that.
        """
        with self._connection() as connection:
            noted = self._notes_runs(connection)
            runs = dict(connection.execute("SELECT entry, written FROM run")) if noted else {}
            rows = connection.execute(
                "SELECT number, id, created, mechanism, model, scope, epsilon, delta,"
                " (SELECT count(*) FROM debit WHERE debit.entry = entry.number) FROM entry ORDER BY number"
            ).fetchall()
        names = ["number", "id", "created", "mechanism", "model", "scope", "epsilon", "delta", "people"]
        types = [pl.Int64, *[pl.String] * 5, *[pl.Int64] * 3]
        kept = [Entry.read(Loss(row[6], row[7]), row[4]) for row in rows]
        frame = pl.DataFrame(rows, schema=dict(zip(names, types, strict=True)), orient="row")
        return frame.with_columns(
            pl.col("model").str.split(";").list.first(),
            pl.col("epsilon") / EPSILON_UNIT,
            pl.col("delta") / DELTA_UNIT,
            pl.Series("kind", [entry.kind for entry in kept], pl.String),
            pl.Series("rho", [entry.rho / RHO_UNIT if entry.rho else None for entry in kept], pl.Float64),
            pl.Series("written", [bool(runs[row[1]]) if row[1] in runs else None for row in rows], pl.Boolean),
        )

    def remaining(self, scope: Scope = "dataset") -> tuple[float, float]:
        """(ε, δ) that a release that charges so may still cost, rounded down; who has less left is left out of it.

        Where people are charged it is less: what everybody lost counts for more there (see above). A release by ρ may
        fit though its own ε and δ are above this: `affords` knows.
        """
        found = left(self._budget, self._account(scope))
        return found.epsilon / EPSILON_UNIT, found.delta / DELTA_UNIT

    def affords(self, charge: Charge) -> bool:
        """Whether a release would be made, whoever is left out of it."""
        return charge.scope == "nothing" or fits(self._budget, added(self._account(charge.scope), Entry.of(charge)))

    def spent(self, scope: Scope = "dataset") -> float | None:
        """The ε that everybody lost at the ledger's δ, rounded up; None where only their plain sum tells."""
        found = spent(self._account(scope), self.delta_budget)
        return None if found is None else found / EPSILON_UNIT

    def next_costs(self) -> list[NextCost]:
        """What one more release of each sort that was made before would cost, the newest first."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT mechanism, scope, epsilon, delta, model, max(number) FROM entry WHERE scope != 'nothing'"
                " GROUP BY mechanism, scope, epsilon, delta, model ORDER BY max(number) DESC LIMIT ?",
                (MOST_SORTS,),
            ).fetchall()
        found = []
        for mechanism, scope, epsilon, delta, model, _ in rows:
            entry, account = Entry.read(Loss(epsilon, delta), model), self._account(scope)
            before, after = (spent(one, self.delta_budget) for one in (account, added(account, entry)))
            more = None if before is None or after is None else (after - before) / EPSILON_UNIT
            own = (epsilon / EPSILON_UNIT, delta / DELTA_UNIT)
            found.append(NextCost(mechanism, scope, entry.kind, *own, more, times_left(self._budget, account, entry)))
        return found

    def _account(self, scope: Scope) -> Account:
        with self._connection() as connection:
            self._follow_chain(connection)
            everybody = dataset_account(connection)
        return all_replaced(everybody) if scope == "people" else everybody

    @property
    def _budget(self) -> Loss:
        return Loss(self.epsilon_budget, self.delta_budget)

    def verify(self, published: Iterable[str] = ()) -> list[str]:
        """What is wrong with the ledger; nothing if it is sound.

        Entries cut off at the end leave no gap in the chain. They are found when the entry ids of published releases
        (the field `ledger` of a manifest) are given.
        """
        problems = [f"entry {entry} of a published release is missing" for entry in self._missing(published)]
        with self._connection() as connection:
            if connection.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
                problems.append("the database file is damaged")
            previous = self._first_link()
            totals: dict[bytes, Loss] = {}
            everybody, accounts, overspent = Counter[Entry](), OwnAccounts(), False
            for row in connection.execute(f"SELECT {', '.join(_LINKED)}, chain FROM entry ORDER BY number").fetchall():
                number, chain = row[0], row[-1]
                charged = _charged(connection, number)
                if _digest(charged) != row[_LINKED.index("people_digest")]:
                    problems.append(f"entry {number}: its people were changed")
                previous = self._link(previous, row[:-1])
                if chain != previous:
                    problems.append(f"entry {number}: it, or one before it, was changed or removed")
                    previous = chain
                loss = Loss(row[_LINKED.index("epsilon")], row[_LINKED.index("delta")])
                try:
                    entry = Entry.read(loss, row[_LINKED.index("model")])
                except DataError:
                    problems.append(f"entry {number}: what it cost cannot be read")
                    continue
                if row[_LINKED.index("scope")] == "dataset":
                    everybody[entry] += 1
                    overspent |= not fits(self._budget, everybody)
                for person in charged:
                    totals[person] = totals.get(person, NO_LOSS) + loss
                    accounts.add(person, entry)
                states = {accounts.state_of[person] for person in charged}
                counted = all_replaced(everybody) if states else Counter()
                overspent |= not all(fits(self._budget, counted + Counter(accounts.states[state])) for state in states)
            kept = {p: Loss(e, d) for p, e, d in connection.execute("SELECT person, epsilon, delta FROM balance")}
            if kept != totals:
                problems.append("the balances do not follow from the entries")
            if overspent:
                problems.append("somebody's budget is overspent")
        return problems

    def _missing(self, published: Iterable[str]) -> list[str]:
        with self._connection() as connection:
            known = {identity for (identity,) in connection.execute("SELECT id FROM entry")}
        return sorted(set(published) - known)

    def _follow_chain(self, connection: sqlite3.Connection) -> None:
        """Refuse to add up entries that are not as they were written; those seen before are not looked at again.

        Entries that were cut off at the end, and the people of an entry, are for `verify`.
        """
        number, link = self._seen
        last = connection.execute("SELECT chain FROM entry WHERE number = ?", (number,)).fetchone()
        intact = last == ((link,) if number else None)
        query = f"SELECT {', '.join(_LINKED)}, chain FROM entry WHERE number > ? ORDER BY number"
        for *row, chain in connection.execute(query, (number,)):
            link = self._link(link, tuple(row))
            intact = intact and chain == link
            number = row[0]
        if not intact:
            raise DataError(f"entries of ledger {self.id} were changed after they were written; it cannot be trusted.")
        self._seen = number, link

    def _append(
        self,
        connection: sqlite3.Connection,
        scope: Scope,
        entry: Entry,
        mechanism: str,
        model: str,
        charged: list[bytes],
    ) -> str:
        last = connection.execute("SELECT number, chain FROM entry ORDER BY number DESC LIMIT 1").fetchone()
        number, previous = (last[0] + 1, last[1]) if last else (1, self._first_link())
        identity = secrets.token_hex(16)
        kept = (entry.as_text(model), scope, entry.epsilon, entry.delta, _digest(charged))
        row = (number, identity, _now(), mechanism, *kept)
        connection.execute(f"INSERT INTO entry VALUES ({', '.join('?' * 10)})", (*row, self._link(previous, row)))
        connection.executemany("INSERT INTO debit VALUES (?, ?)", ((number, person) for person in charged))
        connection.executemany(
            "INSERT INTO balance VALUES (?, ?, ?) ON CONFLICT (person) DO UPDATE"
            " SET epsilon = epsilon + excluded.epsilon, delta = delta + excluded.delta",
            ((person, entry.epsilon, entry.delta) for person in charged),
        )
        return identity

    def _too_little(self, charge: Charge, left: Loss) -> str:
        counted = (
            " (what everybody lost counts twice beside a loss of people's own)" if charge.scope == "people" else ""
        )
        return (
            f"the budget does not suffice: this release costs ε = {rounded_up(float(charge.epsilon))}, "
            f"δ = {rounded_up(float(charge.delta))}; left are "
            f"ε = {rounded_down(max(0, left.epsilon) / EPSILON_UNIT)}, "
            f"δ = {rounded_down(max(0, left.delta) / DELTA_UNIT)}{counted}. "
            "Spend less. A new ledger for the same people would promise them nothing about both together."
        )

    def _first_link(self) -> str:
        return hashlib.sha256(f"{self.id} {self.epsilon_budget} {self.delta_budget}".encode()).hexdigest()

    def _link(self, previous: str, row: tuple[Any, ...]) -> str:
        return hmac.digest(self._key, json.dumps([previous, *row], default=repr).encode(), "sha256").hex()

    def _settings(self) -> dict[str, str]:
        try:
            with self._connection() as connection:
                return dict(connection.execute("SELECT name, value FROM setting").fetchall())
        except sqlite3.DatabaseError:
            raise DataError(f"{self.path} is not a QueryVeil ledger.") from None

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with _disk_told_of(self.path):
            connection = sqlite3.connect(self.path, timeout=SECONDS_TO_WAIT, isolation_level=None)
            try:
                connection.execute("PRAGMA synchronous = FULL")
                yield connection
            finally:
                connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")  # one writer at a time, from the first read on
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite may have taken it back itself, where the disk is full
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


OF_SQLITE = {
    "SQLITE_FULL": errno.ENOSPC,
    "SQLITE_READONLY": errno.EROFS,
    "SQLITE_CANTOPEN": errno.EACCES,
    "SQLITE_IOERR": errno.EIO,
}


@contextmanager
def _disk_told_of(path: Path) -> Iterator[None]:
    """A full, failing or read-only disk under a ledger is told as everywhere; what was not committed is not spent."""
    try:
        yield
    except sqlite3.OperationalError as error:
        kind = "_".join(error.sqlite_errorname.split("_")[:2])  # without what tells its subkinds apart
        if kind == "SQLITE_BUSY":
            raise DataError(f"{path.name} is in use by another process for longer than {SECONDS_TO_WAIT} s.") from None
        if kind not in OF_SQLITE:
            raise
        raise system_error(OSError(OF_SQLITE[kind], os.strerror(OF_SQLITE[kind])), path.name) from None


_LINKED = ("number", "id", "created", "mechanism", "model", "scope", "epsilon", "delta", "people_digest")


def _seal(key: bytes, settings: Mapping[str, str]) -> str:
    sealed = sorted((name, value) for name, value in settings.items() if name != "seal")
    return hmac.digest(key, json.dumps(sealed).encode(), "sha256").hex()


class NextCost(NamedTuple):
    """One more release of a sort that was made before; where people pay, for somebody who did not pay yet."""

    mechanism: str
    scope: Scope
    kind: Kind
    epsilon: float
    delta: float
    cost: float | None
    """By how much it raises the ε that is spent at the ledger's δ."""
    times: int
    """How many such releases fit."""

    def in_words(self) -> str:
        """For people, losses rounded up."""
        sort = f"ε = {rounded_up(self.epsilon)}, δ = {rounded_up(self.delta)}, {KINDS_IN_WORDS[self.kind]}"
        payer = "everybody" if self.scope == "dataset" else "somebody who did not pay for themselves yet"
        more = "too much" if self.cost is None else f"ε = {rounded_up(self.cost)}"
        room = f"{self.times:,}" if self.times < MOST_TIMES else f"{MOST_TIMES:,} or more"
        return (
            f"One more {self.mechanism} ({sort}) costs {payer} {more} beside what is spent; it fits {room} more times."
        )


def _charged(connection: sqlite3.Connection, entry: int) -> list[bytes]:
    rows = connection.execute("SELECT person FROM debit WHERE entry = ? ORDER BY person", (entry,))
    return [person for (person,) in rows]


def _digest(people: list[bytes]) -> str:
    return hashlib.sha256(b"".join(people)).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
