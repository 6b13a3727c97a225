"""What every mechanism that works block by block must pass: how its records lie and travel leaves no trace."""

import pickle

import polars as pl

from queryveil.log import QueryLog, table
from queryveil.mechanisms.mechanism import Mechanism, Release
from queryveil.privacy import Noise


def released(mechanism: Mechanism, log: QueryLog, monkeypatch, *, blocks: int, seed: int = 1) -> Release:
    """The release of a log that is cut into so many blocks."""
    monkeypatch.setattr(table, "RECORDS_PER_BLOCK", -(-len(log) // blocks))
    assert log.table().blocks == blocks
    return mechanism.protect(log, Noise.seeded(seed))


def depends_on_the_order_of_rows(mechanism: Mechanism, log: QueryLog, monkeypatch, *, blocks: int = 8) -> bool:
    """Whether the same records in another order give another release for the same noise."""
    first = whole(released(mechanism, log, monkeypatch, blocks=blocks))
    orders = [QueryLog(log.frame.sample(fraction=1.0, shuffle=True, seed=seed)) for seed in (1, 2)]
    return any(not first.equals(whole(released(mechanism, other, monkeypatch, blocks=blocks))) for other in orders)


def whole(release: Release) -> pl.DataFrame:
    """The released records with what only the holder may know."""
    return release.log.frame.with_columns(__owner=release.owners, __receiver=release.receivers)


def sent(work):
    """A piece of work as a worker gets it."""
    return pickle.loads(pickle.dumps(work))
