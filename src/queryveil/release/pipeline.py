"""A release from file to folder on one machine.

The order of the steps is the privacy argument: everything that can be refused is refused before the log is read; the
ledger is debited before the mechanism runs; the folder appears last and whole. `on_step` is told each step as it ends
(the command line shows it, the kill tests die there).
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import polars as pl

from queryveil.checks import one_of, require
from queryveil.errors import FormatError, QueryVeilError, RefusedError, Remedy, UsageError
from queryveil.log import QueryLog, ReadReport
from queryveil.log.formats import FORMATS
from queryveil.log.identifying import ids_meant, merged
from queryveil.log.query_log import SimilarIds
from queryveil.log.reading import (
    Reading,
    address_of,
    database_at,
    format_by_structure,
    open_log,
    text_size,
    without_credentials,
)
from queryveil.privacy import ApproxDP, Ledger, MetricDP, NoGuarantee, Noise, PureDP
from queryveil.privacy.guarantee import CHOOSERS, ChosenBy
from queryveil.release import manifest, secrets
from queryveil.release.mechanism import Mechanism, refuse_free_promises
from queryveil.release.release import Release

if TYPE_CHECKING:
    from queryveil.log.databases.database import Database, DatabaseReading
    from queryveil.log.spill import Spill
    from queryveil.release.blocklist import Blocklist

LONGEST_PURPOSE = 2000
SIMILAR_IDS: tuple[SimilarIds, ...] = ("same", "different")
USUAL_SIMILAR_IDS: dict[str, SimilarIds] = {"safe": "same", "paper": "different", "rule": "same"}
"""What is taken for granted about similar ids, by mode: a publication's algorithm takes ids as they are."""
IN_MEMORY = 8
"""A log is worked on in memory where its text takes at most this part of it."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the log comes from and how to read it."""

    path: Path
    format: str | None = None
    columns: dict[str, str] | None = None
    encoding: str | None = None
    user_field: str = "client_id"
    extras: tuple[str, ...] = ()
    on_error: Literal["skip", "fail"] = "skip"
    exclude_users: Path | None = None
    similar_ids: SimilarIds | None = None
    """Whether ids that differ only in blanks, case or Unicode form (`queryveil.log.identifying`) are one person's or
    those of different people. Where nothing is declared, they are one person's; in paper mode ids are as they are."""
    block_categories: Path | None = None
    address: str | None = None
    """The log's address as it was given where it has a scheme (`s3a://…`): a path would lose a slash of it."""

    @classmethod
    def of(cls, place: str, **given: Any) -> Source:
        """The source at a path or an address; of a database, `path` is a name for people, and for folders beside."""
        found = database_at(place)
        path, address = (Path(place), address_of(place)) if found is None else (Path(found.title), place)
        return cls(path=path, address=address, **given)

    @property
    def database(self) -> Database | None:
        """The database that the address is of, if it is of one."""
        return database_at(self.address)

    @property
    def place(self) -> str:
        """Where the log is, as it was given."""
        return self.address or str(self.path)

    def beside(self, path: Path) -> Source:
        """A file that is read as this source is."""
        return dataclasses.replace(self, path=path, address=None)


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where the release goes and what is kept beside it."""

    folder: Path
    format: str | None = None
    ledger: Path | None = None
    secrets: Path | None = None
    copy: str | None = None
    """The address of a database that gets a copy of the released log once the folder is there."""


@dataclass(frozen=True, kw_only=True)
class ReleaseOutcome:
    """What a run did. `kept`, `left_out` and `unknown_users` (asked to be excluded, but not in the log) are for the
    holder's eyes only: they describe the original."""

    release: Release
    report: ReadReport
    kept: float
    left_out: int
    unknown_users: int
    ledger_entry: str | None = None
    folder: Path | None = None


class ReleaseEngine(Protocol):
    """Where a release is made: this machine, or a cluster (`queryveil.engines.spark`)."""

    def refuse(self, mechanism: Mechanism) -> None:
        """Refuse, before any data is read, what this engine cannot do."""

    def read(self, source: Source) -> tuple[QueryLog, ReadReport, int]:
        """The log to protect; see `read_source`."""


class ThisMachine:
    """One machine, which can do everything. A context manager: what lies on disk is deleted at the end.

    A log whose text is small beside the memory is read whole, and so is any log for a mechanism that needs it whole.
    Records of other logs wait on disk while a few groups of people are worked on (`queryveil.log.spill`). The release
    is the same, byte for byte with the same noise, so which way is taken is nobody's choice but the memory's.
    """

    def __init__(self, memory: float = math.inf) -> None:
        """`memory`: how many bytes the work may take; see `Spill`."""
        self._memory = memory
        self._by_blocks = False
        self._files = ExitStack()

    def __enter__(self) -> ThisMachine:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def refuse(self, mechanism: Mechanism) -> None:
        """Nothing to refuse; a mechanism that does not work block by block gets the whole log."""
        self._by_blocks = bool(getattr(mechanism, "on_cluster", False))

    def holds(self, size: int) -> bool:
        """Whether so many bytes of text can be worked on in memory."""
        return size * IN_MEMORY <= self._memory

    @cached_property
    def spill(self) -> Spill:
        """The folder for what outgrows the memory."""
        from queryveil.log.spill import Spill

        return self._files.enter_context(Spill(int(self._memory)))

    def read(self, source: Source) -> tuple[QueryLog, ReadReport, int]:
        """See `read_source`."""
        size = text_size(source.path) if self._by_blocks and not source.address else 0
        return read_source(source) if self.holds(size) else self.read_to_disk(source)

    def read_to_disk(self, source: Source) -> tuple[QueryLog, ReadReport, int]:
        """The same, with the records on disk in groups of people."""
        from queryveil.log.spilled_log import DistinctUsers, SpilledLog

        spill = self.spill
        admission, reading, records, written = Admission.of(source), open_source(source), 0, DistinctUsers()

        def pieces() -> Iterator[QueryLog]:
            nonlocal records
            for piece in reading.pieces():
                records += len(piece)
                written.add(piece)
                yield admission.admit(piece)

        groups = spill.groups_for(text_size(source.path))
        log = SpilledLog.from_pieces(spill, pieces(), groups, similar_ids="same" if merges(source) else "different")
        users = written.found()
        return log, reading.report(records, users), admission.unknown(users)


def no_step(step: str) -> None:
    """For callers that do not follow along."""


def release(
    mechanism: Mechanism,
    source: Source,
    target: Target,
    noise: Noise,
    on_step: Callable[[str], None] = no_step,
    engine: ReleaseEngine | None = None,
    *,
    chosen_by: ChosenBy = "holder",
    purpose: str = "",
) -> ReleaseOutcome:
    """Read, debit, protect, write.

    `chosen_by` says who chose the mechanism's parameters: `holder` without looking at the log; `advise` and `compare`
    look at it, and the release then does not claim otherwise. `purpose` is published with the release.
    """
    engine = engine or ThisMachine()
    if len(purpose) > LONGEST_PURPOSE:
        raise UsageError(f"the purpose has at most {LONGEST_PURPOSE:,} characters. Say it in fewer.")
    source = _checked(mechanism, source, engine, chosen_by, target.format)
    refuse_free_promises(mechanism)
    ledger = _checked_target(mechanism, source, target)
    refuse_guessed_format(mechanism, source)
    refuse_nobody(mechanism, source)
    on_step("checked")

    log, report, unknown_users = engine.read(source)
    output_format = target.format or _own_format(source, report.format)
    refuse_lost_times(mechanism, output_format)
    on_step("log read")

    entry, left_out, people = None, frozenset[str](), pl.Series(dtype=pl.String)
    if ledger:
        people = log.users()
        model = mechanism.guarantee().model
        debit = ledger.debit(
            mechanism.charge(), mechanism=mechanism.name, model=model, people=people.to_list(), awaited=True
        )
        entry, left_out = debit.entry, debit.left_out
        on_step("ledger debited")

    protected = mechanism.protect(log.without_users(left_out) if left_out else log, noise)
    protected = protected.declared(similar_ids=log.similar_ids, chosen_by=chosen_by, purpose=purpose)
    protected.refuse_original_users(log)
    if ledger:
        protected.refuse_unpaid(people, left_out)
    on_step("protected")

    rows = _digest_for_copy(protected.log, target.copy) if target.copy else None
    if target.secrets:
        protected.write_secrets(target.secrets, original=_original(log, source))
        on_step("secrets written")
    try:
        manifest.write(
            protected, target.folder, format=output_format, ledger_entry=entry, on_step=on_step, rows_sha256=rows
        )
    except BaseException:
        if target.secrets:
            target.secrets.unlink(missing_ok=True)  # secrets of a release that was never made
        raise
    if ledger and entry:
        ledger.note_written(entry)
    if target.copy:
        _copied(target.folder, target.copy)
        on_step("copied")
    return ReleaseOutcome(
        release=protected,
        report=report,
        kept=_share(protected, log),
        left_out=len(left_out),
        unknown_users=unknown_users,
        ledger_entry=entry,
        folder=target.folder,
    )


def dry_run(
    mechanism: Mechanism,
    source: Source,
    noise: Noise,
    on_step: Callable[[str], None] = no_step,
    engine: ReleaseEngine | None = None,
    *,
    chosen_by: ChosenBy = "holder",
) -> ReleaseOutcome:
    """What `release` would do, without spending or writing anything.

    State that a mechanism keeps from release to release is left alone: nothing of this run is published, so nothing has
    to be remembered of it.
    """
    engine = engine or ThisMachine()
    source = _checked(mechanism, source, engine, chosen_by)
    refuse_guessed_format(mechanism, source)
    refuse_nobody(mechanism, source)
    if getattr(mechanism, "state", None) is not None:
        mechanism = dataclasses.replace(mechanism, state=None)  # type: ignore[type-var]
    log, report, unknown = engine.read(source)
    on_step("log read")
    protected = mechanism.protect(log, noise).declared(similar_ids=log.similar_ids, chosen_by=chosen_by)
    on_step("protected")
    return ReleaseOutcome(
        release=protected, report=report, kept=_share(protected, log), left_out=0, unknown_users=unknown
    )


def _checked(
    mechanism: Mechanism,
    source: Source,
    engine: ReleaseEngine,
    chosen_by: ChosenBy,
    output_format: str | None = None,
) -> Source:
    """The source as it is read for the mechanism: with the extra columns that it asks for, and with a choice about
    similar ids, the declared one or the one of the mode.

    What can be refused before the log is read is refused here, so that it tells nothing about who is in the log.
    """
    engine.refuse(mechanism)
    require(
        known_format("format", output_format),
        known_format("input_format", source.format),
        one_of("similar_ids", source.similar_ids, SIMILAR_IDS, suggest="same", optional=True),
        one_of("chosen_by", chosen_by, CHOOSERS, suggest="holder"),
    )
    refuse_broken_counts(mechanism, source)
    return dataclasses.replace(
        source,
        similar_ids=source.similar_ids or USUAL_SIMILAR_IDS[mechanism.mode],
        extras=(*source.extras, *getattr(mechanism, "reads_columns", ())),
    )


def _checked_target(mechanism: Mechanism, source: Source, target: Target) -> Ledger | None:
    """The ledger to debit, if any; nothing lies yet where something will be written."""
    manifest.check_free(target.folder)
    if target.copy:
        from queryveil.release.copies import database_for_copy

        refuse_lost_times(mechanism, database_for_copy(target.copy).file_format)
        database_for_copy(target.copy).check_free()
    if target.secrets:
        secrets.check_place(target.secrets, target.folder)
    if not target.ledger:
        return None
    ledger = Ledger(target.ledger)
    refuse_ids_of_old_ledgers(ledger, mechanism, source)
    return ledger


def _digest_for_copy(log: QueryLog, address: str) -> str:
    from queryveil.release.copies import database_for_copy, rows_digest

    database_for_copy(address).refuse_what_is_lost(log)
    return rows_digest(log)


def _copied(folder: Path, address: str) -> None:
    from queryveil.release.copies import copy

    try:
        copy(folder, address)
    except QueryVeilError as error:
        error.message += " Nothing of it was copied. The release itself is whole, and can be copied later."
        raise


def merges(source: Source) -> bool:
    """Whether similar ids are one person's; where nobody declared it, they are as in a release in safe mode."""
    return (source.similar_ids or USUAL_SIMILAR_IDS["safe"]) == "same"


def read_source(source: Source) -> tuple[QueryLog, ReadReport, int]:
    """The log to protect, without the people who opted out and the topics that are kept out.

    The last value is how many of those who opted out are not in the log, which may be a misspelling.
    """
    admission, reading = Admission.of(source), open_source(source)
    log = QueryLog(reading.whole())
    users = log.users()
    return admission.admit(log), reading.report(len(log), users), admission.unknown(users)


def open_source(source: Source) -> Reading | DatabaseReading:
    """The file or database of a source, to be read whole or in pieces."""
    if source.address and not source.database:
        raise UsageError(
            f"{without_credentials(source.address)}: an address like this is read on Spark only, and only where "
            "Parquet lies there. Anything else: give the path of a file on this machine.",
            remedy=Remedy("engine", "spark"),
        )
    try:
        return open_log(
            source.address or source.path,
            format=source.format,
            columns=source.columns,
            encoding=source.encoding,
            user_field=source.user_field,
            extras=source.extras,
            on_error=source.on_error,
        )
    except FormatError as error:
        if error.remedy and error.remedy.parameter == "format":  # which is the output's here
            error.remedy = Remedy("input_format", error.remedy.value)
        raise


@dataclass(frozen=True)
class Admission:
    """What may be protected of a log: each record is judged, and its user renamed, by itself.

    Without the people who opted out and the topics that are kept out; similar ids are one person's where that is so.
    """

    excluded: frozenset[str]
    blocked: Blocklist | None
    merge: bool

    @classmethod
    def of(cls, source: Source) -> Admission:
        """What was declared of a source."""
        blocked = None
        if source.block_categories:
            from queryveil.release.blocklist import Blocklist  # loads WordNet: only who asks pays

            blocked = Blocklist.load(source.block_categories)
        excluded = read_users(source.exclude_users) if source.exclude_users else frozenset[str]()
        return cls(excluded, blocked, merges(source))

    def admit(self, log: QueryLog) -> QueryLog:
        """What may be protected of a log, or of a piece of one."""
        if self.excluded:
            log = log.without_users(ids_meant(log.users(), self.excluded)[0])
        if self.blocked:
            log = self.blocked.without(log)
        return merged(log) if self.merge else log

    def unknown(self, users: pl.Series) -> int:
        """How many of those who opted out are not among the users, which may be a misspelling."""
        return ids_meant(users, self.excluded)[1] if self.excluded else 0


def read_users(path: Path) -> frozenset[str]:
    """User ids from a text file, one a line; blanks around them are kept, since ids may have some in the log."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"cannot read {path} as a text file with one user id a line.") from None
    return frozenset(line.removesuffix("\r") for line in lines) - {""}


def refuse_broken_counts(mechanism: Mechanism, source: Source) -> None:
    """Differential privacy for a text replaced by another takes for granted that each record stays a record.

    Leaving records out by what they say would break that: one query replaced by a blocked one changes the count. Only a
    promise for all records of a person added or removed, which the whole dataset pays for, covers it.
    """
    private = isinstance(mechanism.guarantee(), PureDP | ApproxDP | MetricDP)
    if source.block_categories and private and mechanism.charge().scope != "dataset":
        raise RefusedError(
            f"a blocklist drops records by their text, which {mechanism.name} does not cover. "
            "A mechanism that charges the whole log does.",
            remedy=Remedy("block_categories"),
        )


def refuse_guessed_format(mechanism: Mechanism, source: Source) -> None:
    """Under a promise to each person, no record decides in which format all are read; see `format_by_structure`."""
    promised = mechanism.mode == "safe" and isinstance(mechanism.guarantee(), PureDP | ApproxDP | MetricDP)
    declared = source.format or source.address or source.path.is_dir()  # a folder is UBI's, or a cluster's Parquet
    if promised and not declared and format_by_structure(source.path) is None:
        raise RefusedError(
            f"{source.path.name}: its format could only be guessed from a record, and {mechanism.name} promises each "
            f"person that their records decide nothing for others. The formats are: {', '.join(FORMATS)}.",
            remedy=Remedy("input_format", "NAME"),
        )


def refuse_nobody(mechanism: Mechanism, source: Source) -> None:
    """A log that names nobody carries no promise to a person: what stands for users in it, people may have many of."""
    guarantee = mechanism.guarantee()
    by_itself = isinstance(guarantee, PureDP | ApproxDP | MetricDP) and guarantee.unit != "user"  # no people counted
    nothing = mechanism.mode == "paper" and isinstance(guarantee, NoGuarantee)
    if by_itself or nothing or (not source.address and source.path.is_dir()):
        return
    if taken := open_source(source).stands_for_user:
        raise RefusedError(
            f"{source.path.name}: nothing in it says who asked, so that each {taken} would be taken for a person, and "
            f"{mechanism.name} promises something to each person. Use a mechanism that protects each query by itself, "
            "or a log that names its users; where this one does, declare it with columns.",
        )


def refuse_lost_times(mechanism: Mechanism, output_format: str) -> None:
    """Some formats cannot be written, some not without times; say so before budget is spent.

    A mechanism that keeps times in some form has a parameter `time`; without one, or with `drop`, there are none.
    """
    if FORMATS[output_format].read_only:
        raise UsageError(f"{output_format} is read and not written.", remedy=Remedy("format", "csv"))
    if FORMATS[output_format].needs_time and getattr(mechanism, "time", "drop") == "drop":
        message = f"the format {output_format} needs times, and there will be none."
        raise UsageError(message, remedy=Remedy("format", "jsonl"))


def refuse_ids_of_old_ledgers(ledger: Ledger, mechanism: Mechanism, source: Source) -> None:
    """A ledger that knows people by their ids as they were written cannot say what a merged person has spent."""
    if mechanism.charge().scope != "nothing" and merges(source) and not ledger.merges_ids:
        raise RefusedError(
            f"the ledger {ledger.path} was made when ids were taken as they are written, and does not know what people "
            "spent whose ids are merged now. Start a ledger for data of other people, or, where the mechanism takes "
            "it, say that such ids are different people.",
            remedy=Remedy("similar_ids", "different"),
        )


def _own_format(source: Source, read_as: str) -> str:
    """What a release is written as where nothing was wished: as its log, where that can be written."""
    if source.database:
        return source.database.file_format
    return "csv" if FORMATS[read_as].read_only else read_as


def known_format(name: str, value: str | None) -> str | None:
    """A finding unless the value is None or a format's name."""
    return one_of(name, value, FORMATS, suggest="csv", optional=True)


def _original(log: QueryLog, source: Source) -> dict[str, Any]:
    original: dict[str, Any] = {"records": len(log), "users": log.user_count(), "similar_ids": log.similar_ids}
    if source.address is None and source.path.is_file():
        with source.path.open("rb") as file:
            original["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return original


def _share(protected: Release, log: QueryLog) -> float:
    return len(protected.log) / len(log) if len(log) else 1.0
