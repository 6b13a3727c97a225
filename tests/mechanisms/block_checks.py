"""What every mechanism that works block by block must pass: how its records lie and travel leaves no trace."""

import pickle

import polars as pl

from queryveil.log import QueryLog, query_log
from queryveil.log.query_log import LocalTable, blocks_for, in_canonical_order
from queryveil.privacy import Noise
from queryveil.release.mechanism import Mechanism
from queryveil.release.release import Release


def released(mechanism: Mechanism, log: QueryLog, monkeypatch, *, blocks: int, seed: int = 1) -> Release:
    """The release of a log that is cut into so many blocks."""
    monkeypatch.setattr(query_log, "RECORDS_PER_BLOCK", -(-len(log) // blocks))
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


class ScatteredTable(LocalTable):
    """Works as a cluster does: the work comes through a pickle, rows in some other order, and a task may run twice.

    What is done for any cut is done in three pieces and an empty one.
    """

    def __init__(self, frame: pl.DataFrame, blocks: int, collected: list[pl.DataFrame] | None = None) -> None:
        super().__init__(frame.sample(fraction=1, shuffle=True, seed=frame.height), blocks)
        self.collected = [] if collected is None else collected

    def map_blocks(self, key, work, schema, combine=None):
        def twice(block, rows):
            first, again = (sent(work)(block, part) for part in (rows, rows.reverse()))
            assert in_canonical_order(first).equals(in_canonical_order(again)), "the order of rows leaves a trace"
            return again

        return super().map_blocks(key, twice, schema, combine and sent(combine))

    def map_rows(self, work, schema, keeps=()):
        pieces = [self.frame[place::3] for place in range(3)] + [self.frame.clear()]
        made = [sent(work)(piece) for piece in pieces]
        for before, after in zip(pieces, made, strict=True):
            for column in keeps:
                assert after[column].is_in(before[column].implode()).all(), f"{column} is said to stay, and changes"
        return self._of(made, schema)

    def collect(self):
        self.collected.append(self.frame)
        return self.frame

    def _of(self, made, schema):
        return ScatteredTable(super()._of(made, schema).frame, self.blocks, self.collected)


class ScatteredLog(QueryLog):
    """A log whose records are not on this machine: only its table can be asked."""

    def __init__(self, frame: pl.DataFrame, blocks: int | None = None) -> None:
        self.collected: list[pl.DataFrame] = []
        self._similar_ids = "different"
        self._records, self._blocks = frame, blocks or blocks_for(frame.height)

    @property
    def frame(self):
        raise AssertionError("the records are elsewhere")

    def table(self):
        return ScatteredTable(self._records, self._blocks, self.collected)
