"""`Release`: a protected log with its guarantee, the only way out of the package."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import polars as pl

from queryveil.display import table
from queryveil.errors import RefusedError
from queryveil.log.identifying import representatives
from queryveil.log.query_log import COLUMNS, QueryLog, Schema, SimilarIds, exactly, in_canonical_order
from queryveil.privacy.guarantee import (
    ABOUT_SIMILAR_IDS,
    FIXED_PARAMETERS,
    ONE_ID_ONE_PERSON,
    ChosenBy,
    Guarantee,
    in_short,
)
from queryveil.privacy.noise import NoiseStreams, random_names
from queryveil.release import manifest, secrets
from queryveil.release.mechanism import DROPPED, Mechanism, Mode, parameters_of

if TYPE_CHECKING:
    from queryveil.log.query_log import Table
    from queryveil.privacy import Noise

OWNER, RECEIVER, ORDER = "__owner", "__receiver", "__order"
HIDDEN: Mapping[str, pl.DataType] = {OWNER: pl.String(), RECEIVER: pl.String(), ORDER: pl.Int64()}
"""What only the holder may know, in columns that a finished log hides: whose record it is, whom its name stands for
where that is somebody else, and a random number that orders records of one name and time."""


@dataclass(frozen=True)
class Release:
    """A protected log with its guarantee. Who is behind its records (`people`) never leaves with it."""

    log: QueryLog
    guarantee: Guarantee
    mechanism: str
    mode: Mode
    parameters: Mapping[str, Any]
    columns: Mapping[str, str]
    noise_mode: Literal["secure", "seeded"]
    behind: pl.LazyFrame | None = dataclasses.field(default=None, repr=False)
    """What `people` tells; None where users are made up and nobody is behind them."""
    similar_ids: SimilarIds | None = None
    """What was declared about ids of the original that are written alike; None where nobody was asked."""
    tables: Mapping[str, pl.DataFrame] = dataclasses.field(default_factory=dict, repr=False)
    """What is published beside the log, by name; part of what the guarantee is about."""
    chosen_by: ChosenBy = "holder"
    """Who chose the parameters; its holder did without looking at the log."""
    purpose: str = ""
    """What the release is for, in the holder's own words; published with it."""

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        log: QueryLog,
        *,
        noise: Noise,
        columns: Mapping[str, str],
        pseudonyms: pl.DataFrame | None = None,
        owners: pl.Series | None = None,
        receivers: pl.Series | None = None,
        keep_order: bool = False,
        tables: Mapping[str, pl.DataFrame] | None = None,
    ) -> Release:
        """Close a mechanism's work.

        `columns` says what was done to each column that is kept; a column it does not name is dropped here, extra ones
        included. `pseudonyms` (columns `user`, `pseudonym`) replaces the users. `owners` holds the true user of each
        record where the mechanism moved records between users, `receivers` whose name it got where the mechanism gave
        the pseudonyms itself. Unless the order of records is itself protected (`keep_order`), records are shuffled and
        then sorted by user and time, so that their order tells nothing. `tables` are published beside the log.
        """
        extras = [name for name in log.extra_columns if name in columns]
        frame = log.frame.select(
            *(name if name in columns else pl.lit(None).alias(name) for name in COLUMNS), *map(exactly, extras)
        )
        if pseudonyms is not None:
            receivers = frame["user"]
            names = pl.col("user").replace_strict(pseudonyms["user"], pseudonyms["pseudonym"], return_dtype=pl.String)
            frame = frame.with_columns(names)
        known = {OWNER: receivers if owners is None else owners, RECEIVER: receivers}
        frame = frame.with_columns(people.alias(name) for name, people in known.items() if people is not None)
        if not keep_order:
            shuffled = frame[noise.stream("release order").permutation(frame.height)]
            frame = shuffled.sort("user", "time", maintain_order=True)
        made = cls._of(mechanism, QueryLog([frame.lazy()]), noise, columns)
        return dataclasses.replace(made, tables=tables or {})

    @classmethod
    def of_table(cls, mechanism: Mechanism, table: Table, *, noise: Noise, columns: Mapping[str, str]) -> Release:
        """Close a mechanism's work on a table whose users have fresh names and whose hidden columns tell the true ones.

        As in `of`, only the columns that `columns` names are kept, and records are sorted by user and time, those that
        tie at random (`Renaming`).
        """
        schema = {name: dtype for name, dtype in table.schema.items() if name in columns or name in HIDDEN}
        by = [name for name in ("user", "time", ORDER) if name in schema]
        return cls._of(mechanism, table.map_rows(_same, schema).in_order(by), noise, columns)

    @classmethod
    def of_invented(
        cls,
        mechanism: Mechanism,
        log: QueryLog,
        *,
        noise: Noise,
        columns: Mapping[str, str],
        tables: Mapping[str, pl.DataFrame],
    ) -> Release:
        """Close a log whose users are made up, which may lie in parts; its order is drawn like all of it."""
        return dataclasses.replace(cls._of(mechanism, log, noise, columns), tables=tables)

    @classmethod
    def _of(cls, mechanism: Mechanism, log: QueryLog, noise: Noise, columns: Mapping[str, str]) -> Release:
        noise.refuse_reuse()
        hidden = log.hidden()
        known = hidden.collect_schema().names()
        receiver = RECEIVER if RECEIVER in known else OWNER
        return cls(
            log=log,
            guarantee=mechanism.guarantee(),
            mechanism=mechanism.name,
            mode=mechanism.mode,
            parameters=parameters_of(mechanism),
            columns={**dict.fromkeys(COLUMNS, DROPPED), **columns, "any other column": DROPPED},
            noise_mode=noise.mode,
            behind=hidden.select(user=OWNER, pseudonym="user", receiver=receiver) if OWNER in known else None,
        )

    def _repr_html_(self) -> str:
        """In a notebook: what was made, how, and what it promises."""
        made = ("mechanism", f"{self.mechanism}, {self.mode} mode"), ("records", f"{len(self.log):,}")
        parameters = [(name, value) for name, value in self.parameters.items() if value is not None]
        promise = [
            ("promise" if not number else "", line) for number, line in enumerate(in_short(self.guarantee.as_dict()))
        ]
        return table([*made, *parameters, *promise], title="Release")

    def declared(self, *, similar_ids: SimilarIds, chosen_by: ChosenBy, purpose: str = "") -> Self:
        """The release with what was declared about it, its log and its parameters, also in its promise."""
        promise = about_choice(about_ids(self.guarantee, similar_ids), chosen_by)
        return dataclasses.replace(
            self, similar_ids=similar_ids, chosen_by=chosen_by, guarantee=promise, purpose=purpose.strip()
        )

    def people(self) -> pl.LazyFrame:
        """For the holder: the true `user` of each record, its `pseudonym`, and the `receiver` whom that stands for.

        Where users are made up, nobody is behind them and the columns are empty.
        """
        if self.behind is not None:
            return self.behind
        nobody = pl.lit(None, dtype=pl.String)
        return self.log.lazy().select(user=nobody, pseudonym="user", receiver=nobody)

    @cached_property
    def owners(self) -> pl.Series | None:
        """Who really asked each record, in memory."""
        return None if self.behind is None else self.behind.select("user").collect()["user"]

    @cached_property
    def receivers(self) -> pl.Series | None:
        """Whom the pseudonym of each record stands for, in memory."""
        return None if self.behind is None else self.behind.select("receiver").collect()["receiver"]

    def refuse_original_users(self, log: QueryLog) -> None:
        """Neither safe mode nor a rule publishes a user id of the original log, whatever the mechanism did."""
        if self.mode == "paper":
            return
        # Representatives find an id in whatever way it is written; those of merged ids are these themselves.
        users = log.users() if log.similar_ids == "same" else representatives(log.users())
        users = users.implode()
        if any(representatives(part.frame["user"].unique()).is_in(users).any() for part in self.log.parts()):
            raise RefusedError("a user id of the original is among the released ones; only paper mode publishes one.")

    def refuse_unpaid(self, people: pl.Series, left_out: frozenset[str]) -> None:
        """Nobody is behind a record who was not debited, whatever the mechanism and the engine did."""
        owners = self.people().select(pl.col("user").unique().drop_nulls()).collect()["user"]
        if not owners.is_in(people.implode()).all() or owners.is_in(list(left_out)).any():
            raise RefusedError("a record is of somebody whom the ledger was not debited for. Nothing was released.")

    @property
    def publishable(self) -> bool:
        """Whether this release may be published: only with secure noise."""
        return self.noise_mode == "secure"

    def statement(self) -> str:
        """The guarantee in plain words, with what the mode and the noise take from it."""
        return " ".join([*self.marks(), self.guarantee.statement()])

    def marks(self) -> list[str]:
        """What the noise and the mode take from the guarantee, a sentence each; said before it."""
        seeded = "NOT FOR PUBLICATION: made with a known seed, which undoes the noise."
        paper = "Paper mode, for science on public or synthetic data; no guarantee beyond this statement."
        return [*([] if self.publishable else [seeded]), *([paper] if self.mode == "paper" else [])]

    def write(
        self,
        folder: str | Path,
        *,
        format: str = "csv",  # noqa: A002  # the word every user of the table knows
        ledger_entry: str | None = None,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> Path:
        """Write log, manifest and signature as one folder that appears whole or not at all.

        A parameter that is a path is refused: the manifest is public, and a path tells about the holder's machine. A
        mechanism that reads a file tells its name or digest instead.
        """
        manifest.check_free(Path(folder))
        return manifest.write(self, Path(folder), format=format, ledger_entry=ledger_entry, on_step=on_step)

    def write_secrets(self, path: str | Path, *, original: Mapping[str, Any] | None = None) -> Path:
        """Write what only the holder may have: who really asked each record, and the original's counts and digest."""
        return secrets.write(self, Path(path), original=original or {})


@dataclass(frozen=True)
class Renaming:
    """The last step over a block of users: fresh names, and an order that tells nothing.

    Block by block, so that one machine and a cluster give the same names to the same people.

    >>> from queryveil.privacy import Noise
    >>> rows = pl.DataFrame({"user": ["ann", "bob", "ann"], "query": ["tulips", "tea", "bulbs"]})
    >>> renamed = Renaming.of(Noise.seeded(1), blocks=1)(0, rows)
    >>> renamed["__owner"].to_list(), renamed["user"].n_unique()
    (['ann', 'ann', 'bob'], 2)
    """

    names: NoiseStreams
    order: NoiseStreams

    @classmethod
    def of(cls, noise: Noise, blocks: int) -> Renaming:
        """The renaming of one release."""
        return cls(noise.streams("pseudonyms", blocks), noise.streams("release order", blocks))

    @staticmethod
    def schema(before: Schema) -> Schema:
        """The columns that renaming makes of these."""
        return {**before, OWNER: pl.String(), ORDER: pl.Int64()}

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of a block of users, renamed, in an order that does not depend on how they came."""
        rows = in_canonical_order(rows)
        named = random_names(rows["user"], self.names[block])
        return rows.with_columns(
            pl.col("user").alias(OWNER),
            pl.col("user").replace_strict(named["user"], named["pseudonym"], return_dtype=pl.String),
            pl.Series(ORDER, self.order[block].permutation(rows.height)),
        )


def _same(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


def about_ids(promise: Guarantee, similar_ids: SimilarIds) -> Guarantee:
    """The promise with what it takes for granted about similar ids, where it takes one for granted about ids at all.

    >>> from queryveil.privacy import KAnonymity
    >>> about_ids(KAnonymity(k=3), "different").assumptions[-1].endswith("is protected for each apart")
    True
    """
    if ONE_ID_ONE_PERSON not in promise.assumptions:
        return promise
    at = promise.assumptions.index(ONE_ID_ONE_PERSON) + 1
    assumptions = (*promise.assumptions[:at], ABOUT_SIMILAR_IDS[similar_ids], *promise.assumptions[at:])
    return dataclasses.replace(promise, assumptions=assumptions)


def about_choice(promise: Guarantee, chosen_by: ChosenBy) -> Guarantee:
    """The promise of a release whose parameters were chosen so: what looking at the log told is not covered by it.

    >>> from queryveil.privacy import PureDP
    >>> promise = PureDP(epsilon=1.0, assumptions=(FIXED_PARAMETERS,))
    >>> about_choice(promise, "holder") is promise
    True
    >>> chosen = about_choice(promise, "advise")
    >>> FIXED_PARAMETERS in chosen.assumptions, chosen.not_protected[0].partition(":")[0]
    (False, 'what the choice of the parameters tells about the log')
    """
    if chosen_by == "holder":
        return promise
    looked = f"the promise is about the release alone: its parameters were chosen by {chosen_by}, on this very log"
    tells = "what the choice of the parameters tells about the log"
    return dataclasses.replace(
        promise,
        assumptions=tuple(looked if assumed == FIXED_PARAMETERS else assumed for assumed in promise.assumptions),
        not_protected=(
            *promise.not_protected,
            f"{tells}: {chosen_by} tried settings on this very log, and no budget paid for it",
        ),
    )
