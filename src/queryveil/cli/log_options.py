"""How to read a log: the options of every command that reads one, and what each of them says about reading it.

What was left out, and why, is for the holder: it goes to stderr, by line number and reason and never by content, also
where the result is JSON.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from queryveil.checks import require
from queryveil.cli import console
from queryveil.errors import UsageError

if TYPE_CHECKING:
    from queryveil.log import QueryLog, ReadReport
    from queryveil.release.pipeline import Source

AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object")]
LogPath = Annotated[
    str,
    typer.Argument(
        help="a query log, or the address of a database; the format is guessed if not given", show_default=False
    ),
]
LogFormat = Annotated[str | None, typer.Option(help="format of the log, guessed if not given")]
Columns = Annotated[str | None, typer.Option(help="names of your columns, for example user=uid,query=text")]
Encoding = Annotated[str | None, typer.Option(help="encoding of the log, if it is not UTF-8: latin-1, gb18030")]
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
SimilarIds = Annotated[
    Literal["same", "different"] | None,
    typer.Option(
        help="whether user ids that differ only in blanks around, case, Unicode form or invisible characters are one "
        "person's or those of different people: same if not given, different in paper mode",
        show_default=False,
    ),
]
HeldOut = Annotated[
    Path | None,
    typer.Option(
        help="a log of people whom the mechanism never saw: they judge what a release teaches about others; read like "
        "the original",
        show_default=False,
    ),
]
HoldOut = Annotated[
    float,
    typer.Option(
        help="share of the people who are kept aside before anything is tried, to judge every setting; nobody with 0, "
        "or where there are fewer than 200"
    ),
]
OPTIONS: dict[str, tuple[Any, Any]] = {
    "columns": (Columns, None),
    "encoding": (Encoding, None),
    "user_field": (UserField, "client_id"),
    "on_error": (OnError, "skip"),
}


def reads_log(format_option: str = "format", **more: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command over a `source` has the argument LOG and the options above in its place.

    `format_option` is the name of the format's option; `more` are further parameters of the source, with the types of
    their options.
    """
    options = {format_option: (LogFormat, None), **OPTIONS, **{name: (kind, None) for name, kind in more.items()}}

    def decorate(work: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(work)
        def command(*, log: str, **given: Any) -> None:
            reading = {name: given.pop(name) for name in options}
            work(source=_source(log, format_option, **reading), **given)

        hints = get_type_hints(work, localns={"Source": Any}, include_extras=True)
        shown = {}
        for name, parameter in inspect.signature(work).parameters.items():
            if name == "source":
                shown["log"] = (LogPath, inspect.Parameter.empty)
            else:
                shown[name] = (hints[name], parameter.default)
        return with_options(command, (option(name, *given) for name, given in (shown | options).items()))

    return decorate


def option(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """An option of a command as a parameter of its function."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def with_options(command: Callable[..., None], options: Iterable[inspect.Parameter]) -> Callable[..., None]:
    """The function as if it were written with these parameters, which become the options of its command."""
    signature = inspect.Signature(list(options))
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
    return command


def _source(log: str, format_option: str, columns: str | None, **given: Any) -> Source:
    from queryveil.release.pipeline import Source, known_format

    chosen = given.pop(format_option)
    require(known_format(format_option, chosen))
    mapping = None if columns is None else parse_columns(columns)
    return Source.of(log, format=chosen, columns=mapping, **given)


def read_log(source: Source) -> tuple[QueryLog, ReadReport]:
    """The log of a command that makes no release, with what was left out of it told."""
    from queryveil.release.pipeline import read_source

    log, report, _ = read_source(source)
    tell_reading(source.path.name, report)
    return log, report


def tell_reading(name: str, report: ReadReport) -> None:
    """Say what was left out of a log and what is worth knowing about it."""
    from queryveil.log.formats.format import listed_problems

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


def parse_columns(text: str) -> dict[str, str]:
    """`user=uid,query=text` as a mapping from our names to theirs."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(ours.strip() and theirs.strip() for ours, _, theirs in pairs):
        raise UsageError("columns must look like user=uid,query=text.")
    return {ours.strip(): theirs.strip() for ours, _, theirs in pairs}
