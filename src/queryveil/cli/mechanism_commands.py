"""`plan MECHANISM` and `release MECHANISM LOG`: one command for each mechanism, its options made from its parameters.

A mechanism's public parameters are the fields of its dataclass, with a line of help in their metadata. So a new
mechanism, also a third party's, has a command line without writing one.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_type_hints

import typer
import typer.main
from typer.core import TyperGroup

from queryveil import mechanisms
from queryveil.checks import require
from queryveil.cli import console
from queryveil.cli.log_options import Columns, Encoding, LogFormat, OnError, UserField, source_from, tell_reading
from queryveil.errors import UsageError
from queryveil.privacy.guarantee import rounded_up
from queryveil.progress import tell
from queryveil.release.mechanism import Mechanism

if TYPE_CHECKING:
    from queryveil.release import pipeline

MODE_HELP = "safe keeps its promise; paper reproduces the publication, for public or synthetic data only"


AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object")]
SimilarIds = Annotated[
    Literal["same", "different"] | None,
    typer.Option(
        help="whether user ids that differ only in blanks around, case, Unicode form or invisible characters are one "
        "person's or those of different people: same if not given, different in paper mode",
        show_default=False,
    ),
]


def plan(mechanism: Mechanism, json: AsJson = False) -> None:
    """Say what would be promised; no data is read."""
    with console.steps("plan", 1):
        guarantee, charge = mechanism.guarantee(), mechanism.charge()
    if json:
        costs = {"scope": charge.scope, "epsilon": float(charge.epsilon), "delta": float(charge.delta)}
        content = {"mechanism": mechanism.name, "mode": mechanism.mode, "guarantee": guarantee.as_dict()}
        console.show_json({**content, "charge": costs})
        return
    console.show(guarantee.statement())
    if charge.scope != "nothing":
        payer = "everybody in the log" if charge.scope == "dataset" else "each person in the release"
        loss = f"ε = {rounded_up(float(charge.epsilon))}, δ = {rounded_up(float(charge.delta))}"
        console.show(f"Cost in a ledger: {loss} for {payer}.")


def release(
    mechanism: Mechanism,
    log: Annotated[str, typer.Argument(help="the query log to protect", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="folder for the release; must not exist yet", show_default=False),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="repeatable noise, for science; such a release may not be published")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="ledger that pays for the release")] = None,
    secrets: Annotated[
        Path | None, typer.Option(help="file for what only you may have (true owners); needed by some audits")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show the guarantee and how much would survive; write nothing")
    ] = False,
    engine: Annotated[
        Literal["local", "spark"],
        typer.Option(help="where the work is done: this machine, or Apache Spark for logs that outgrow it"),
    ] = "local",
    format: Annotated[  # noqa: A002
        str | None, typer.Option(help=f"format of the release, as the log's if not given: {_formats()}")
    ] = None,
    input_format: LogFormat = None,
    columns: Columns = None,
    encoding: Encoding = None,
    user_field: UserField = "client_id",
    on_error: OnError = "skip",
    exclude_users: Annotated[
        Path | None,
        typer.Option(
            help="text file with user ids to leave out (erasure, opt-out), one a line; ids that differ from them only "
            "in blanks around, case, Unicode form or invisible characters are left out too"
        ),
    ] = None,
    similar_ids: SimilarIds = None,
    chosen_by: Annotated[
        Literal["holder", "advise", "compare"],
        typer.Option(
            help="who chose the mechanism's settings: you, without looking at this log, or a command that looked at "
            "it, which the release then says"
        ),
    ] = "holder",
    block_categories: Annotated[
        Path | None,
        typer.Option(
            help="text file with WordNet categories, one a line: animal/young; a query with a word of such a sense "
            "is left out; misspellings, other languages and names that WordNet lacks (most drugs) are not found"
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Protect a log and write the signed release."""
    from queryveil.privacy import Noise
    from queryveil.release import pipeline

    if output is None and not dry_run:
        raise UsageError("say where the release goes with -o FOLDER, or look first with --dry-run.")
    require(pipeline.known_format("format", format), pipeline.known_format("input_format", input_format))
    source = source_from(
        log,
        format=input_format,
        columns=columns,
        encoding=encoding,
        user_field=user_field,
        on_error=on_error,
        format_option="input_format",
        exclude_users=exclude_users,
        similar_ids=similar_ids,
        block_categories=block_categories,
    )
    noise = Noise.secure() if seed is None else Noise.seeded(seed)
    looking = dry_run or output is None
    with (
        console.steps("dry run" if looking else "release", 2 if looking else 9) as step,
        _opened(engine, mechanism) as place,
    ):
        if looking:
            outcome = pipeline.dry_run(mechanism, source, noise, on_step=step, engine=place, chosen_by=chosen_by)
        else:
            target = pipeline.Target(folder=cast(Path, output), format=format, ledger=ledger, secrets=secrets)
            outcome = pipeline.release(
                mechanism, source, target, noise, on_step=step, engine=place, chosen_by=chosen_by
            )
        outcome.release.log.user_count()  # a log in parts counts while its parts are there, and remembers
    if looking and getattr(mechanism, "state", None) is not None:
        console.say(
            "A dry run leaves the state alone: it looks at a release without one, in which nobody has to wait for "
            "others. The release may keep less.",
            "yellow",
        )
    tell_reading(source.path.name, outcome.report)
    _tell(mechanism, outcome, json=json)


def _formats() -> str:
    from queryveil.log.formats import FORMATS

    return ", ".join(FORMATS)


@contextmanager
def _opened(engine: Literal["local", "spark"], mechanism: Mechanism) -> Iterator[pipeline.ReleaseEngine]:
    """The engine of a name; Spark takes seconds to start and is imported only for those who ask for it."""
    from queryveil.release import pipeline

    if engine == "local":
        yield pipeline.ThisMachine()
        return
    from queryveil.engines.spark.cluster import Cluster

    Cluster.refuse(mechanism)  # before Spark starts, which takes seconds
    tell("starting Spark", 0)
    with Cluster() as cluster, cluster.watched():
        yield cluster


def _tell(mechanism: Mechanism, outcome: pipeline.ReleaseOutcome, *, json: bool) -> None:
    protected = outcome.release
    if json:
        console.show_json(
            {
                "mechanism": mechanism.name,
                "mode": mechanism.mode,
                "folder": outcome.folder,
                "records": len(protected.log),
                "users": protected.log.user_count(),
                "publishable": protected.publishable,
                "ledger": outcome.ledger_entry,
                "guarantee": protected.guarantee.as_dict() | {"statement": protected.statement()},
                "for_your_eyes_only": {
                    "share_of_records_kept": outcome.kept,
                    "people_left_out": outcome.left_out,
                    "excluded_users_not_in_the_log": outcome.unknown_users,
                    "bad_lines": outcome.report.problem_count,
                    "notes": list(outcome.report.notes),
                },
            }
        )
        return
    if outcome.unknown_users:
        console.say(f"{outcome.unknown_users:,} users to leave out are not in the log: check their ids.", "yellow")
    if outcome.left_out:
        console.say(f"{outcome.left_out:,} people were left out: their budget is spent.", "yellow")
    if len(protected.log):
        console.say(f"{outcome.kept:.1%} of the records survive (a figure for you, not for the recipient).")
    else:
        console.say("The release is empty: with these settings nothing of this log may be published.", "yellow")
    console.show(protected.statement())
    if outcome.folder:
        console.show(f"Release of {len(protected.log):,} records written to {outcome.folder}")


class MechanismGroup(TyperGroup):
    """A group with one command for each mechanism, loaded when it is asked for."""

    work: Callable[..., None]

    def list_commands(self, ctx: Any) -> list[str]:
        """The mechanisms there are."""
        return mechanisms.names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of one mechanism, or None where there is none of that name."""
        return command_for(mechanisms.load(cmd_name), type(self).work) if cmd_name in mechanisms.names() else None


class PlanGroup(MechanismGroup):
    """`queryveil plan …`."""

    work = staticmethod(plan)


class ReleaseGroup(MechanismGroup):
    """`queryveil release …`."""

    work = staticmethod(release)


def command_for(mechanism: type[Any], work: Callable[..., None]) -> Any:
    """A command that makes the mechanism from its options and hands it to `work` with the other options."""
    fields = {field.name: field for field in dataclasses.fields(mechanism)}
    hints = get_type_hints(mechanism)

    def command(**given: Any) -> None:
        parameters = {name: given.pop(name) for name in fields}
        work(cast(Mechanism, mechanism(**parameters)), **given)

    made = [_option(field, hints[name]) for name, field in fields.items()]
    shared = [
        parameter.replace(
            kind=inspect.Parameter.KEYWORD_ONLY, annotation=get_type_hints(work, include_extras=True)[name]
        )
        for name, parameter in list(inspect.signature(work).parameters.items())[1:]
    ]
    if work is plan:
        json_option = Annotated[bool, typer.Option("--json", help="print one JSON object")]
        shared = [parameter.replace(annotation=json_option, default=False) for parameter in shared]
    command.__signature__ = inspect.Signature([*shared, *made])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in [*shared, *made]}
    command.__doc__ = f"{(mechanism.__doc__ or '').strip()} {(work.__doc__ or '').strip()}"
    return single_command(mechanism.name, command)


def single_command(name: str, function: Callable[..., None]) -> Any:
    """A function as a command of its own, made when it is asked for."""
    app = typer.Typer(add_completion=False)
    app.command(name=name)(function)
    return typer.main.get_command(app)


def _option(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    help_text = MODE_HELP if field.name == "mode" else field.metadata.get("help", "")
    required = field.default is dataclasses.MISSING
    name = field.name.rstrip("_").replace("_", "-")  # a field cannot be called lambda, an option can
    flags = [f"--{name}", *([f"-{name}"] if len(name) == 1 else [])]
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if required else field.default,
        annotation=Annotated[hint, typer.Option(*flags, help=help_text)],
    )
