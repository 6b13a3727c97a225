"""How to read a log: the options of every command that reads one, and what each of them says about reading it.

What was left out, and why, is for the holder: it goes to stderr, by line number and reason and never by content, also
where the result is JSON.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from queryveil.checks import require
from queryveil.cli import console
from queryveil.errors import UsageError

if TYPE_CHECKING:
    from queryveil.log import QueryLog, ReadReport
    from queryveil.release.pipeline import Source

LogFormat = Annotated[str | None, typer.Option(help="format of the log, guessed if not given")]
Columns = Annotated[str | None, typer.Option(help="names of your columns, for example user=uid,query=text")]
Encoding = Annotated[str | None, typer.Option(help="encoding of the log, if it is not UTF-8: latin-1")]
UserField = Annotated[
    Literal["client_id", "user_id"], typer.Option(help="which field of a UBI log says who it was; for ubi only")
]
OnError = Annotated[
    Literal["skip", "fail"],
    typer.Option(
        help="lines that cannot be read: leave them out and say how many and why; or stop, so that one line of one "
        "person decides whether there is a release"
    ),
]


def source_from(
    log: str | Path,
    *,
    format: str | None,  # noqa: A002 -- the name of the library's parameter
    columns: str | None,
    encoding: str | None,
    user_field: Literal["client_id", "user_id"],
    on_error: Literal["skip", "fail"],
    format_option: str = "format",
    **more: Any,
) -> Source:
    """The log and how to read it, from the options above; `format_option` is the name of the command's own."""
    from queryveil.release.pipeline import Source, address_of, known_format

    require(known_format(format_option, format))
    return Source(
        path=Path(log),
        address=address_of(str(log)),
        format=format,
        columns=parsed_columns(columns),
        encoding=encoding,
        user_field=user_field,
        on_error=on_error,
        **more,
    )


def read_log(source: Source) -> tuple[QueryLog, ReadReport]:
    """The log of a command that makes no release, with what was left out of it told."""
    from queryveil.release.pipeline import read_source

    log, report, _ = read_source(source)
    tell_reading(source.path.name, report)
    return log, report


def tell_reading(name: str, report: ReadReport) -> None:
    """Say what was left out of a log and what is worth knowing about it."""
    from queryveil.log.problems import listed_problems

    if report.problem_count:
        console.say(
            f"{name}: {report.problem_count:,} of {report.lines:,} lines cannot be read as {report.format} and were "
            "left out.",
            "yellow",
        )
        for problem in listed_problems(report.problems, report.problem_count if report.problems else 0):
            console.say(f"  {problem}", "yellow")
    for note in report.notes:
        console.say(f"Note: {note}", "yellow")
    if not report.records:
        console.say(f"{name}: the log is empty, it has no record.", "yellow")


def parsed_columns(text: str | None) -> dict[str, str] | None:
    """`user=uid,query=text` as a mapping from our names to theirs."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise UsageError("columns must look like user=uid,query=text.")
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
