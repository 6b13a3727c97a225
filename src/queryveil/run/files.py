"""A release from file to folder on one machine.

The order of the steps is the privacy argument: everything that can be refused is refused before the log is read; the
ledger is debited before the mechanism runs; the folder appears last and whole. `on_step` is told each step as it ends
(the command line shows it, the kill tests die there).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from queryveil.checks import one_of
from queryveil.errors import UsageError
from queryveil.log import QueryLog, ReadReport, read_with_report
from queryveil.log.formats import FORMATS
from queryveil.mechanisms import certificate, secrets_file
from queryveil.mechanisms.mechanism import Mechanism, Release
from queryveil.privacy import Ledger, Noise


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the log comes from and how to read it."""

    path: Path
    format: str | None = None
    columns: dict[str, str] | None = None
    on_error: Literal["fail", "skip"] = "fail"
    exclude_users: Path | None = None
    block_categories: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where the release goes and what is kept beside it."""

    folder: Path
    format: str | None = None
    ledger: Path | None = None
    secrets: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run did. `kept` and `left_out` describe the original and are for the holder's eyes only."""

    release: Release
    report: ReadReport
    kept: float
    left_out: int
    ledger_entry: str | None = None
    folder: Path | None = None


def no_step(step: str) -> None:
    """For callers that do not follow along."""


def release(
    mechanism: Mechanism, source: Source, target: Target, noise: Noise, on_step: Callable[[str], None] = no_step
) -> Outcome:
    """Read, debit, protect, write."""
    certificate.check_free(target.folder)
    if target.secrets:
        secrets_file.check_place(target.secrets, target.folder)
    ledger = Ledger(target.ledger) if target.ledger else None
    on_step("checked")
    log, report = read_source(source)
    on_step("log read")
    entry, left_out = None, frozenset[str]()
    if ledger:
        people = log.users().to_list()
        model = mechanism.guarantee().model
        debit = ledger.debit(mechanism.charge(), mechanism=mechanism.name, model=model, people=people)
        entry, left_out = debit.entry, debit.left_out
        on_step("ledger debited")
    protected = mechanism.protect(log.without_users(left_out) if left_out else log, noise)
    on_step("protected")
    if target.secrets:
        protected.write_secrets(target.secrets, original=_original(log, source.path))
        on_step("secrets written")
    output_format = target.format or report.format
    folder = protected.write(target.folder, format=output_format, ledger_entry=entry, on_step=on_step)
    return Outcome(
        release=protected,
        report=report,
        kept=_share(protected, log),
        left_out=len(left_out),
        ledger_entry=entry,
        folder=folder,
    )


def dry_run(mechanism: Mechanism, source: Source, noise: Noise, on_step: Callable[[str], None] = no_step) -> Outcome:
    """What `release` would do, without spending or writing anything."""
    log, report = read_source(source)
    on_step("log read")
    protected = mechanism.protect(log, noise)
    on_step("protected")
    return Outcome(release=protected, report=report, kept=_share(protected, log), left_out=0)


def read_source(source: Source) -> tuple[QueryLog, ReadReport]:
    """The log to protect, without the people who opted out and the topics that are kept out."""
    log, report = read_with_report(source.path, format=source.format, columns=source.columns, on_error=source.on_error)
    if source.exclude_users:
        log = log.without_users(read_users(source.exclude_users))
    if source.block_categories:
        from queryveil.run.blocklist import without_categories  # loads WordNet: only who asks pays

        log = without_categories(log, source.block_categories)
    return log, report


def read_users(path: Path) -> list[str]:
    """User ids from a text file, one a line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"cannot read {path} as a text file with one user id a line.") from None
    return [line.strip("\r") for line in lines if line.strip()]


def known_format(name: str, value: str | None) -> str | None:
    """A finding unless the value is None or a format's name."""
    return one_of(name, value, FORMATS, suggest="csv", optional=True)


def _original(log: QueryLog, path: Path) -> dict[str, Any]:
    original: dict[str, Any] = {"records": len(log), "users": log.user_count()}
    if path.is_file():
        with path.open("rb") as file:
            original["sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return original


def _share(protected: Release, log: QueryLog) -> float:
    return len(protected.log) / len(log) if len(log) else 1.0
