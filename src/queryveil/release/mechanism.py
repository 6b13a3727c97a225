"""The protocol every protector follows, and `Release`, the only way to publish.

A mechanism is a frozen dataclass of public parameters with a `mode`: `safe` (the default) or `paper`. Its guarantee is
known before any data is read; `protect` turns a log and noise into a release.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeAlias, runtime_checkable

from queryveil.display import table
from queryveil.errors import RefusedError
from queryveil.privacy import Charge, Guarantee
from queryveil.privacy.guarantee import ChosenBy, about_choice, about_ids

if TYPE_CHECKING:  # what a mechanism promises is told without loading what the work needs
    import polars as pl

    from queryveil.log import QueryLog
    from queryveil.log.query_log import SimilarIds
    from queryveil.log.table import Table
    from queryveil.privacy import Noise

Mode: TypeAlias = Literal["safe", "paper"]
MODES: tuple[Mode, ...] = ("safe", "paper")

DROPPED = "dropped"
PSEUDONYM = "replaced by a fresh random pseudonym"


@runtime_checkable
class Mechanism(Protocol):
    """A frozen, validated dataclass of public parameters that can protect a log.

    It may declare more; what it does not declare has the value given here:

    - `title` (the name): what it does, in one line;
    - `citation` (none): the publication it comes from, in short;
    - what `declares` lists (False): `replaces_texts`, `synthetic_users` and others that an audit asks for;
    - `on_cluster` (False): `protect` works on a log that lies in parts, wherever they are;
    - `reads_columns` (none): the columns that it needs beside the canonical ones.
    """

    name: ClassVar[str]

    @property
    def mode(self) -> Mode:
        """`safe`, or `paper` to reproduce the publication."""

    def guarantee(self) -> Guarantee:
        """What the release will promise; needs no data."""

    def charge(self) -> Charge:
        """What the release costs the people in it, for the ledger; needs no data."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """The protected log with everything a recipient may know about it."""


def declares(mechanism: object, name: str, mode: str | None) -> bool:
    """Whether a mechanism, or its class, declares a property that other parts ask for: always, or in this mode.

    All are optional and false where they are not declared; a value is true, or the modes in which it holds:

    - `replaces_texts`: a released record does not hold the text that was asked;
    - `replaces_words`: word by word, by the law of `words` (see `queryveil.audit.attacks.likelihood`);
    - `publishes_labels`: every released text is a label of public knowledge, whoever asked it;
    - `synthetic_users`: nobody is behind a released user;
    - `reassigns_records`: a record carries the name of somebody from a pool of people;
    - `owner_in_pool`: who asked may be the one whose name it carries;
    - `withholds_rare_texts`: what fewer than `k_text` users asked is not released;
    - `one_record_per_query`: a query has one record however many clicks it had.

    A method `canaries(noises)` makes the canaries that test a claim of differential privacy in one run.

    >>> class Labels:
    ...     publishes_labels = ("safe",)
    >>> declares(Labels, "publishes_labels", "safe"), declares(Labels, "publishes_labels", "paper")
    (True, False)
    """
    declared = getattr(mechanism, name, False)
    return mode in declared if isinstance(declared, tuple) else bool(declared)


def parameters_of(mechanism: Mechanism) -> dict[str, Any]:
    """The public parameters of a mechanism by name, for the manifest."""
    import numpy as np

    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]  # a protocol cannot demand a dataclass
    values = {field.name: getattr(mechanism, field.name) for field in fields if field.name != "mode"}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}


def _is_path(value: object) -> bool:
    """Whether a value leads to a place on this machine; a separator alone, or one within a name, does not."""
    if isinstance(value, os.PathLike):
        return True
    if not isinstance(value, str) or len(value.strip()) < 2 or "\0" in value:
        return False
    if value.startswith(("~", "./", "../", "file:")) or re.match(r"[A-Za-z]:[\\/]", value):
        return True
    path = Path(value)
    try:
        return path.is_absolute() or ((os.sep in value or bool(path.suffix)) and path.exists())
    except OSError:  # too long to be a name: a text
        return False


@dataclass(frozen=True)
class _Choosing:
    """Keeps the named columns of rows."""

    columns: tuple[str, ...]

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.select(self.columns)


@dataclass(frozen=True)
class Release:
    """A protected log with its guarantee.

    `owners` (who really asked each record) and `receivers` (whose pseudonym it carries) never leave with it; a log in
    parts has them in its parts (`people`).
    """

    log: QueryLog
    guarantee: Guarantee
    mechanism: str
    mode: Mode
    parameters: Mapping[str, Any]
    columns: Mapping[str, str]
    noise_mode: Literal["secure", "seeded"]
    owners: pl.Series | None = dataclasses.field(default=None, repr=False)
    receivers: pl.Series | None = dataclasses.field(default=None, repr=False)
    similar_ids: SimilarIds | None = None
    """What was declared about ids of the original that are written alike; None where nobody was asked."""
    chosen_by: ChosenBy = "holder"
    """Who chose the parameters; its holder did without looking at the log."""

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
    ) -> Release:
        """Close a mechanism's work.

        `columns` says what was done to each column that is kept; a column it does not name is dropped here, extra ones
        included. `pseudonyms` (columns `user`, `pseudonym`) replaces the users. `owners` holds the true user of each
        record where the mechanism moved records between users, `receivers` whose name it got where the mechanism gave
        the pseudonyms itself. Unless the order of records is itself protected (`keep_order`), records are shuffled and
        then sorted by user and time, so that their order tells nothing.
        """
        import polars as pl

        from queryveil.log import COLUMNS, QueryLog

        frame = log.frame.select(name if name in columns else pl.lit(None).alias(name) for name in COLUMNS)
        if pseudonyms is not None:
            receivers = frame["user"]
        owners = receivers if owners is None else owners
        hidden = {"\0owner": owners, "\0receiver": receivers}  # cannot collide: the frame holds canonical columns only
        frame = frame.with_columns(people.alias(name) for name, people in hidden.items() if people is not None)
        if pseudonyms is not None:
            mapping = pl.col("user").replace_strict(pseudonyms["user"], pseudonyms["pseudonym"], return_dtype=pl.String)
            frame = frame.with_columns(mapping)
        if not keep_order:
            shuffled = frame[noise.stream("release order").permutation(frame.height)]
            frame = shuffled.sort("user", "time", maintain_order=True)
        true_owners, true_receivers = (frame[name] if name in frame.columns else None for name in hidden)
        return cls._made(
            mechanism, QueryLog(frame.drop(*hidden, strict=False)), noise, columns, true_owners, true_receivers
        )

    @classmethod
    def _made(
        cls,
        mechanism: Mechanism,
        log: QueryLog,
        noise: Noise,
        columns: Mapping[str, str],
        owners: pl.Series | None,
        receivers: pl.Series | None,
    ) -> Release:
        from queryveil.log import COLUMNS

        noise.refuse_reuse()
        return cls(
            log=log,
            guarantee=mechanism.guarantee(),
            mechanism=mechanism.name,
            mode=mechanism.mode,
            parameters=parameters_of(mechanism),
            columns={name: columns.get(name, DROPPED) for name in COLUMNS} | {"any other column": DROPPED},
            noise_mode=noise.mode,
            owners=owners,
            receivers=receivers,
        )

    @classmethod
    def of_table(cls, mechanism: Mechanism, table: Table, *, noise: Noise, columns: Mapping[str, str]) -> Release:
        """Close a mechanism's work on a table whose users have fresh names and whose hidden columns tell the true ones.

        As in `of`, only the columns that `columns` names are kept, and records are sorted by user and time, those that
        tie at random (`Renaming`).
        """
        from queryveil.log import QueryLog
        from queryveil.log.parted import PartedLog
        from queryveil.release.pseudonyms import HIDDEN, ORDER, OWNER, RECEIVER

        schema = {name: dtype for name, dtype in table.schema.items() if name in columns or name in HIDDEN}
        log = table.map_rows(_Choosing(tuple(schema)), schema).in_order(
            [name for name in ("user", "time", ORDER) if name in schema]
        )
        if isinstance(log, PartedLog):
            return cls._made(mechanism, log, noise, columns, None, None)
        owners = log.frame[OWNER]
        receivers = log.frame[RECEIVER] if RECEIVER in schema else owners
        shown = QueryLog(log.frame.drop(HIDDEN, strict=False))
        return cls._made(mechanism, shown, noise, columns, owners, receivers)

    def _repr_html_(self) -> str:
        """In a notebook: what was made, how, and what it promises."""
        made = ("mechanism", f"{self.mechanism}, {self.mode} mode"), ("records", f"{len(self.log):,}")
        parameters = [(name, value) for name, value in self.parameters.items() if value is not None]
        return table([*made, *parameters, ("promise", self.statement())], title="Release")

    def declared(self, *, similar_ids: SimilarIds, chosen_by: ChosenBy) -> Self:
        """The release with what was declared about its log and its parameters, also in its promise."""
        promise = about_choice(about_ids(self.guarantee, similar_ids), chosen_by)
        return dataclasses.replace(self, similar_ids=similar_ids, chosen_by=chosen_by, guarantee=promise)

    def people(self) -> pl.LazyFrame:
        """For the holder: the true `user` of each record, its `pseudonym`, and the `receiver` whom that stands for.

        Where users are made up, nobody is behind them and the columns are empty.
        """
        import polars as pl

        from queryveil.log.parted import PartedLog
        from queryveil.release.pseudonyms import OWNER, RECEIVER

        if isinstance(self.log, PartedLog):
            hidden = self.log.hidden()
            receiver = RECEIVER if RECEIVER in hidden.collect_schema() else OWNER
            return hidden.select(
                pl.col(OWNER).alias("user"), pl.col("user").alias("pseudonym"), pl.col(receiver).alias("receiver")
            )
        nobody = pl.Series("user", [None] * len(self.log), dtype=pl.String)
        owners, receivers = (nobody if people is None else people for people in (self.owners, self.receivers))
        names = owners.alias("user"), self.log.frame["user"].alias("pseudonym"), receivers.alias("receiver")
        return pl.DataFrame(names).lazy()

    @property
    def publishable(self) -> bool:
        """Whether this release may leave the house: only with secure noise."""
        return self.noise_mode == "secure"

    def statement(self) -> str:
        """The guarantee in plain words, with what the mode and the noise take from it."""
        parts = [self.guarantee.statement()]
        if self.mode == "paper":
            parts.insert(0, "Paper mode, for science on public or synthetic data; no guarantee beyond this statement.")
        if not self.publishable:
            parts.insert(0, "NOT FOR PUBLICATION: made with a known seed, which undoes the noise.")
        return " ".join(parts)

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
        from queryveil.release import manifest

        for name, value in self.parameters.items():
            if _is_path(value):
                raise RefusedError(
                    f"{name} is a path on this machine, which a manifest must not tell. "
                    "The mechanism has to publish the file's name or digest in its place."
                )
        return manifest.write(self, Path(folder), format=format, ledger_entry=ledger_entry, on_step=on_step)

    def write_secrets(self, path: str | Path, *, original: Mapping[str, Any] | None = None) -> Path:
        """Write what only the holder may have: who really asked each record, and the original's counts and digest."""
        from queryveil.release import secrets

        return secrets.write(self, Path(path), original=original or {})
