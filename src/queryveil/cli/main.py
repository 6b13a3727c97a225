"""The command line: a thin skin over the library.

Results go to stdout, progress and messages to stderr. Exit codes (`docs/exit-codes.md`): 0 done, 1 a problem in the
data or of the disk, 2 wrong usage, 3 refused for privacy, 70 a fault in QueryVeil, 130 stopped by the keyboard. Errors
never show data; an unexpected one shows only where it happened.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.markup import escape
from typer.core import TyperGroup

from queryveil.checks import did_you_mean
from queryveil.cli import (
    approve_commands,
    audit_commands,
    compare_commands,
    console,
    copy_commands,
    ledger_commands,
    rules_commands,
)
from queryveil.cli.log_options import AsJson, read_log, reads_log
from queryveil.cli.serve_commands import serve
from queryveil.errors import (
    DataError,
    QueryVeilError,
    RefusedError,
    UsageError,
    as_option,
    as_system_error,
    system_error,
)
from queryveil.version import __version__

if TYPE_CHECKING:
    from queryveil.log import QueryLog
    from queryveil.log.formats import Format
    from queryveil.release.pipeline import Source

INTERNAL_ERROR = 70
STOPPED_BY_KEYBOARD = 130
PARSER_ERROR: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""The parser's class for every wrong call; its classes are known by what they carry, not by where they live, which
changes between its versions."""
RULES: Final = {"integer": "a whole number", "number": "a number", "boolean": "yes or no"}

POLICY = "--policy"
LATE = {
    "gateway": "queryveil.cli.gateway_commands",
    "obfuscate": "queryveil.cli.obfuscate_commands",
    "search": "queryveil.cli.search_commands",
    "stream": "queryveil.cli.stream_commands",
}
"""Commands whose options come from a mechanism, which takes seconds to load: only who calls them waits for it."""


class MainGroup(TyperGroup):
    """All commands; of the late ones only name and help are known until they are called."""

    def make_context(self, *given: Any, **named: Any) -> Any:
        """The parser reads what stands before the command."""
        return explained(super().make_context, *given, **named)

    def invoke(self, ctx: Any) -> Any:
        """The parser reads the rest, and the command is called."""
        return explained(super().invoke, ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order of this module, the long-running one last."""
        return sorted(super().list_commands(ctx), key=lambda name: name == "stream")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, import_module(LATE[name]).command() if name in LATE else command, rest


class MechanismGroup(TyperGroup):
    """A group with one command for each mechanism, loaded when it is asked for; `--policy NAME` asks for a rule."""

    lists = "mechanism"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The rule that `--policy` names stands where the mechanism would, wherever the option was written."""
        for place, word in enumerate(args):
            if word == POLICY and place + 1 < len(args):
                args = [f"{POLICY}={args[place + 1]}", *args[:place], *args[place + 2 :]]
            elif word.startswith(f"{POLICY}=") and place:
                args = [word, *args[:place], *args[place + 1 :]]
            else:
                continue
            break
        if args and args[0].startswith(f"{POLICY}="):
            args = ["--", *args]  # what looks like an option is the name of the command
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """The mechanisms there are."""
        from queryveil import mechanisms

        return mechanisms.names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of one mechanism, or None where there is none of that name."""
        if cmd_name.startswith(f"{POLICY}="):
            from queryveil.cli.policy_commands import policy_command

            return policy_command(str(self.name), cmd_name.removeprefix(f"{POLICY}="))
        return _mechanism_command(str(self.name), cmd_name)


@cache
def _mechanism_command(group: str, name: str) -> Any:
    from queryveil import mechanisms
    from queryveil.cli.mechanism_commands import command_in

    return command_in(group, mechanisms.load(name)) if name in mechanisms.names() else None


app = typer.Typer(
    name="queryveil",
    cls=MainGroup,
    help="Publish, keep and send search queries without giving away who searched for what. Start with: queryveil demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(ledger_commands.app, name="ledger")
app.add_typer(
    typer.Typer(cls=MechanismGroup, no_args_is_help=True),
    name="plan",
    help="What a mechanism would promise, in words, before any data is read. Of today's rules: plan --policy NAME.",
)
app.add_typer(
    typer.Typer(cls=MechanismGroup, no_args_is_help=True),
    name="release",
    help="Protect a log with a mechanism and write a signed release. By one of today's rules, which promise nothing: "
    "release --policy commission LOG -o FOLDER.",
)


@app.command(
    help="Replace the words of a query by random words near them. Make other queries to send in place of yours, and "
    "say what they promise."
)
def obfuscate() -> None:
    """See `obfuscate_commands.obfuscate`."""


@app.command(
    help="Replace the words of a query by random words near them. Search without sending your query: others go out, "
    "the results are pooled and ranked here."
)
def search() -> None:
    """See `search_commands.search`."""


@app.command(
    help="Replace the words of a query by random words near them. Open a search page on this machine: see what would "
    "be sent, send it, get results ranked here. Ctrl-C stops it."
)
def gateway() -> None:
    """See `gateway_commands.gateway`."""


app.command()(serve)


@app.command(
    help="Release each query under the name of somebody from a pool of more than `k` people with like interests. "
    "Run until the input ends or SIGTERM comes; start it again and it goes on where it stopped."
)
def stream() -> None:
    """See `stream_commands.stream`."""


@app.callback(invoke_without_command=True)
def version(
    show_version: Annotated[bool, typer.Option("--version", help="print the version and stop", is_eager=True)] = False,
) -> None:
    """Publish, keep and send search queries without giving away who searched for what."""
    if show_version:
        console.show(f"queryveil {__version__}")
        raise typer.Exit


@app.command()
def demo(
    output: Annotated[Path | None, typer.Option("--output", "-o", help="folder for what it makes")] = None,
) -> None:
    """The whole tour on a synthetic log: make one, look at it, protect it, verify the release."""
    console.show(
        "A tour of half a minute, of little more than one the first time: somebody is found in a log, then protected."
    )
    from queryveil.cli.demo import tour

    tour(output)


@app.command()
def synth(
    output: Annotated[Path, typer.Option("--output", "-o", help="file to write, e.g. log.tsv", show_default=False)],
    users: Annotated[int, typer.Option(help="how many users")] = 1000,
    records: Annotated[int, typer.Option(help="how many records")] = 50_000,
    seed: Annotated[int, typer.Option(help="the same seed gives the same log")] = 1,
    details: Annotated[
        bool,
        typer.Option("--details", help="place, device, language and results shown too; addresses among the texts"),
    ] = False,
    format: Annotated[str | None, typer.Option(help="guessed from the file's name if not given")] = None,  # noqa: A002
) -> None:
    """Make a realistic log from a seed, to try things on without touching real people's data."""
    from queryveil.log import write
    from queryveil.log.formats import FORMATS
    from queryveil.log.reading import format_of_name
    from queryveil.log.synthetic import synth as make

    chosen = format or format_of_name(output)
    with console.steps("synth", 2) as step:
        log = make(users=users, records=records, seed=seed, details=details)
        step("made")
        write(_fitting(log, FORMATS.get(chosen or "")), output, format=chosen)
        step("written")
    console.show(f"{len(log):,} records of {log.user_count():,} users written to {output}")


def _fitting(log: QueryLog, chosen: Format | None) -> QueryLog:
    """What the format has columns for; those that take any take details too."""
    return (
        log
        if chosen is None
        else log.keeping([*chosen.columns, *chosen.optional, *(log.extra_columns if chosen.extras else ())])
    )


@app.command()
@reads_log()
def inspect(source: Source, json: AsJson = False) -> None:
    """What is in a log: users, records, uniqueness, risk at a glance. Shows no query and no user."""
    from queryveil.log.statistics import describe
    from queryveil.report.log_facts import facts_in_words

    with console.steps("inspect", 2) as step:
        found, report = read_log(source)
        step("read")
        statistics = describe(found)
        step("counted")
    if json:
        console.show_json({"format": report.format, "bad lines": report.problem_count, **statistics.as_dict()})
        return
    facts = {"Format": report.format, "Bad lines": f"{report.problem_count:,}"}
    console.show_table(source.path.name, facts | facts_in_words(statistics.as_dict()))


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="a release folder", show_default=False)],
    key: Annotated[
        str | None, typer.Option(help="the signer's public key: a PEM file or 64 hexadecimal digits")
    ] = None,
    copy: Annotated[
        str | None, typer.Option(help="a copy in a database that must hold the same rows: duckdb:out.db?table=released")
    ] = None,
    json: AsJson = False,
) -> None:
    """Check a release: its files, its hash, its signature; and a copy of its log."""
    from queryveil.release.decision import decision_in_words, is_refused
    from queryveil.release.manifest import verify as check

    checked = check(folder, key)
    if copy is not None:
        from queryveil.release.copies import verify_copy

        verify_copy(folder, copy)
    if json:
        found = {"whole": True, "signer_known": checked.trusted, "public_key": checked.public_key}
        said = {name: checked.manifest.get(name) for name in ("parameters_chosen_by", "decision", "earlier_decisions")}
        console.show_json({**found, **said})
        if is_refused(checked.manifest):
            raise RefusedError("the release is whole, and whoever decided on it has refused it.")
        return
    signer = "by the key you gave" if checked.trusted else f"by {checked.public_key}"
    console.show(f"The release is whole and signed {signer}.")
    if copy is not None:
        console.show("The copy holds the same rows and no others.")
    if not checked.trusted:
        console.say("Who owns that key is for you to find out: compare it with the holder's, or pass --key.", "yellow")
    console.show(decision_in_words(checked.manifest) or "Nobody has signed a decision on it.")
    console.show_promise(checked.manifest["guarantee"])
    console.show("")
    console.show(str(checked.manifest["guarantee"]["statement"]))
    if is_refused(checked.manifest):
        raise RefusedError("the release is whole, and whoever decided on it has refused it.")


@app.command()
def doctor(json: AsJson = False) -> None:
    """Check this installation and say what is missing and how to fix it."""
    from queryveil.cli.doctor import examine

    findings = examine()
    if json:
        console.show_json({"findings": [vars(finding) for finding in findings]})
    else:
        for finding in findings:
            mark = "[green]ok  [/]" if finding.good else "[yellow]miss[/]" if finding.optional else "[red]BAD [/]"
            console.results.print(mark, escape(finding.what), escape(f"({finding.remedy})") if finding.remedy else "")
    if any(not finding.good and not finding.optional for finding in findings):
        raise DataError("something that QueryVeil cannot do without is missing; see above.")


app.command()(audit_commands.audit)
app.command()(approve_commands.approve)
app.command()(copy_commands.copy)
app.command()(compare_commands.compare)
app.command()(compare_commands.advise)
app.command()(rules_commands.rules)


def main() -> None:
    """Run the command line; turn every error into a message and an exit code."""
    try:
        app()
    except BrokenPipeError:  # whoever reads the results has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except QueryVeilError as error:
        for line in error.describe(as_option).splitlines():
            console.say(f"error: {line}", "red")
        sys.exit(error.exit_code)
    except SystemExit as stop:
        if stop.code == STOPPED_BY_KEYBOARD:
            console.say("stopped; nothing half-written was left behind.", "yellow")
        raise
    except Exception as error:
        if (found := as_system_error(error)) is not None:
            told = system_error(found, Path(str(found.filename)).name if found.filename else "a file", "used")
            console.say(f"error: {told}", "red")
            sys.exit(told.exit_code)
        # The text of a foreign error may quote data, so only its kind and place are told.
        place = traceback.extract_tb(error.__traceback__)[-1]
        console.say(
            f"internal error: {type(error).__name__} in {Path(place.filename).name}, line {place.lineno}.", "red"
        )
        console.say("This is a fault in QueryVeil. Set QUERYVEIL_DEBUG=1 to see all, data included.", "red")
        if os.environ.get("QUERYVEIL_DEBUG") == "1":
            raise
        sys.exit(INTERNAL_ERROR)


def explained(work: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Do a part of the parser's work; what it refuses becomes an error of ours."""
    try:
        return work(*given, **named)
    except PARSER_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help is the answer
            raise
        raise UsageError(f"{_sentence(error)}{_where_to_read_on(error)}") from None


def _sentence(error: Any) -> str:
    param = getattr(error, "param", None)
    if type(error).__name__ == "MissingParameter" and param is not None:
        return f"{_name(param)} is missing{_help(param)}."
    if param is not None:
        return _wrong_value(error, param)
    if hasattr(error, "possibilities"):
        known = [option for one in error.ctx.command.params for option in one.opts] if error.ctx else []
        return _ended(f"there is no option {error.option_name}{did_you_mean(error.option_name, known)}")
    if hasattr(error, "option_name"):
        return f"{error.option_name} needs a value after it."
    message = str(error.format_message())
    if found := re.match(r"No such command '(.*?)'", message):
        return _no_such_command(found[1], error.ctx)
    if "unexpected extra argument" in message:  # which may be words of a query, so they are not told
        return "there are more arguments than it takes. Put quotes around words that belong together."
    return message[:1].lower() + message[1:]


def _no_such_command(name: str, context: Any) -> str:
    names = context.command.list_commands(context) if context else []
    what = getattr(context.command, "lists", "command") if context else "command"
    nearest = did_you_mean(name, names) or f". Choose one of {', '.join(names)}"
    return _ended(f"there is no {what} “{name}”{nearest}")


def _wrong_value(error: Any, param: Any) -> str:
    message = str(error.message)
    given = _given(param)
    got = f"; got {given!r}" if given else ""
    if "not one of" in message:
        choices = re.findall(r"'([^']*)'", message.split("not one of", 1)[1])
        return _ended(f"{_name(param)} must be one of {', '.join(choices)}{got}{did_you_mean(given, choices)}")
    for word, rule in RULES.items():
        if f"valid {word}" in message:
            share = given.rstrip("% ").replace(".", "", 1).isdecimal() and given.endswith("%")
            remedy = f" Try {float(given.rstrip('% ')) / 100:g}." if share and word == "number" else ""
            return f"{_name(param)} must be {rule}{got}.{remedy}"
    return f"{_name(param)}: {message[:1].lower()}{message[1:].rstrip('.')}{got}."


def _ended(words: str) -> str:
    return words if words.endswith("?") else f"{words}."


def _given(param: Any) -> str:
    """What was written after an option; an argument may be of the data, and is not told."""
    words = sys.argv
    for option in getattr(param, "opts", ()):
        for place, word in enumerate(words):
            if option.startswith("-") and word == option and place + 1 < len(words):
                return words[place + 1]
            if option.startswith("--") and word.startswith(f"{option}="):
                return word.removeprefix(f"{option}=")
    return ""


def _name(param: Any) -> str:
    options = [option for option in getattr(param, "opts", ()) if option.startswith("-")]
    return max(options, key=len) if options else str(param.name).upper()


def _help(param: Any) -> str:
    said = str(getattr(param, "help", None) or "").strip().rstrip(".")
    return f": {said}" if said else ""


def _where_to_read_on(error: Any) -> str:
    context = getattr(error, "ctx", None)
    words = context.command_path.split()[1:] if context else []
    return f" See {' '.join(['queryveil', *words, '--help'])}."
