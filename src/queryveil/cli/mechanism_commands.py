"""`plan MECHANISM` and `release MECHANISM LOG`: one command for each mechanism, its options made from its parameters.

A mechanism's public parameters are the fields of its dataclass, with a line of help in their metadata. So a new
mechanism, also a third party's, has a command line without writing one.
"""

from __future__ import annotations

import dataclasses
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer
import typer.main

from queryveil.checks import parse_size, real_number, require, whole_number
from queryveil.cli import console
from queryveil.cli.log_options import AsJson, SimilarIds, option, reads_log, tell_reading, with_options
from queryveil.errors import UsageError
from queryveil.privacy.guarantee import Charge, rounded_up
from queryveil.progress import tell
from queryveil.release.mechanism import Mechanism, promise_in_short, texts_in_words

if TYPE_CHECKING:
    from queryveil.release import pipeline
    from queryveil.release.pipeline import Source

MODE_HELP = "safe keeps its promise; paper reproduces the publication, for public or synthetic data only"

ExcludeUsers = Annotated[
    Path | None,
    typer.Option(
        help="text file with user ids to leave out (erasure, opt-out), one a line; ids that differ from them only "
        "in blanks around, case, Unicode form or invisible characters are left out too"
    ),
]
BlockCategories = Annotated[
    Path | None,
    typer.Option(
        help="text file with WordNet categories, one a line: animal/young; a query with a word of such a sense "
        "is left out; misspellings, other languages and names that WordNet lacks (most drugs) are not found"
    ),
]


def plan(
    mechanism: Mechanism,
    times: Annotated[
        int | None, typer.Option(help="what so many releases of this sort cost the same people together")
    ] = None,
    total_delta: Annotated[float, typer.Option(help="δ for all of them together, with --times")] = 1e-6,
    json: AsJson = False,
) -> None:
    """Say what would be promised; no data is read."""
    require(
        None if times is None else whole_number("times", times, at_least=1, at_most=10_000, suggest=52),
        real_number("total_delta", total_delta, at_least=0, at_most=0.5, suggest=1e-6),
    )
    with console.steps("plan", 1):
        guarantee, charge = mechanism.guarantee(), mechanism.charge()
    together = None if times is None or charge.scope == "nothing" else _together(charge, times, total_delta)
    _warn(mechanism)
    if json:
        rho = float(charge.concentrated.rho) if charge.concentrated else None
        costs = {"scope": charge.scope, "epsilon": float(charge.epsilon), "delta": float(charge.delta), "rho": rho}
        content = {"mechanism": mechanism.name, "mode": mechanism.mode, "guarantee": guarantee.as_dict()}
        many = {} if times is None else {"times": times, "total_delta": total_delta, "together": together}
        console.show_json({**content, "charge": costs, **many})
        return
    console.show_promise(guarantee.as_dict())
    console.show("")
    console.show(guarantee.statement())
    if charge.scope != "nothing":
        payer = "everybody in the log" if charge.scope == "dataset" else "each person in the release"
        loss = f"ε = {rounded_up(float(charge.epsilon))}, δ = {rounded_up(float(charge.delta))}"
        more = charge.concentrated
        by_rho = f"; beside other releases it adds up by ρ = {rounded_up(float(more.rho))}" if more else ""
        console.show(f"Cost in a ledger: {loss} for {payer}{by_rho}.")
    if times is not None:
        console.show(_of_many(times, total_delta, together, free=charge.scope == "nothing"))


def _together(charge: Charge, times: int, delta: float) -> float | None:
    from queryveil.privacy.forecast import together

    return together(charge, times, delta)


def _of_many(times: int, delta: float, epsilon: float | None, *, free: bool) -> str:
    if free:
        return f"{times:,} of them cost no budget: nothing is promised that could add up."
    if epsilon is None:
        return f"{times:,} of them need more than δ = {rounded_up(delta)} together; give more of it, or less to each."
    return (
        f"{times:,} of them cost the same people ε = {rounded_up(epsilon)} together, at δ = {rounded_up(delta)}. "
        f"A ledger for them: queryveil ledger init FILE --epsilon {rounded_up(epsilon)} --delta {rounded_up(delta)}"
    )


def release(
    mechanism: Mechanism,
    source: Source,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="folder for the release; must not exist yet", show_default=False),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="database that gets a copy of the released log as a new table, such as duckdb:out.db?table=released",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="repeatable noise, for science; such a release may not be published")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="ledger that pays for the release")] = None,
    secrets: Annotated[
        Path | None, typer.Option(help="file for what only you may have (true owners); needed by some audits")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="show the guarantee and how much would go out; write nothing")
    ] = False,
    engine: Annotated[
        Literal["local", "spark"],
        typer.Option(help="where the work is done: this machine, or Apache Spark for logs that outgrow it"),
    ] = "local",
    memory: Annotated[
        str,
        typer.Option(
            help="about how much memory the work on this machine may take, such as 4GiB or 900MiB; the records of a "
            "log that needs more wait in a private folder on disk (TMPDIR says where), and the release is the same"
        ),
    ] = "4GiB",
    format: Annotated[  # noqa: A002
        str | None, typer.Option(help=f"format of the release, as the log's if not given: {_formats()}")
    ] = None,
    chosen_by: Annotated[
        Literal["holder", "advise", "compare"],
        typer.Option(
            help="who chose the mechanism's settings: you, without looking at this log, or a command that looked at "
            "it, which the release then says"
        ),
    ] = "holder",
    purpose: Annotated[
        str, typer.Option(help="what the release is for, in a sentence; published in its manifest and report")
    ] = "",
    json: AsJson = False,
) -> None:
    """Protect a log and write the signed release."""
    from queryveil.privacy import Noise
    from queryveil.release import pipeline

    if output is None and not dry_run:
        raise UsageError("say where the release goes with -o FOLDER, or look first with --dry-run.")
    require(pipeline.known_format("format", format))
    room = parse_size("memory", memory)
    noise = Noise.secure() if seed is None else Noise.seeded(seed)
    with (
        console.steps("dry run" if dry_run else "release", 2 if dry_run else 9 + (to is not None)) as step,
        _open(engine, mechanism, room) as place,
    ):
        if dry_run or output is None:
            if ledger is not None:
                _require_room(ledger, mechanism)
            outcome = pipeline.dry_run(mechanism, source, noise, on_step=step, engine=place, chosen_by=chosen_by)
        else:
            target = pipeline.Target(folder=output, format=format, ledger=ledger, secrets=secrets, copy=to)
            outcome = pipeline.release(
                mechanism, source, target, noise, on_step=step, engine=place, chosen_by=chosen_by, purpose=purpose
            )
        outcome.release.log.user_count()  # a log in parts counts while its parts are there, and remembers
    if dry_run and getattr(mechanism, "state", None) is not None:
        console.say(
            "A dry run leaves the state alone: it looks at a release without one, in which nobody has to wait for "
            "others. The release may keep less.",
            "yellow",
        )
    tell_reading(source.path.name, outcome.report)
    _warn(mechanism)
    _tell(mechanism, outcome, source, json=json)
    if to is not None and outcome.folder and not json:
        console.show_command(
            f"Its log was copied. To check the copy: queryveil verify {output} --copy {shlex.quote(to)}"
        )


def _require_room(ledger: Path, mechanism: Mechanism) -> None:
    """A dry run ends as the release would where the ledger does not pay for it."""
    from queryveil.errors import BudgetError
    from queryveil.privacy.ledger import Ledger

    if not Ledger(ledger).affords(mechanism.charge()):
        raise BudgetError("the ledger does not pay for this release: its budget does not suffice. Spend less.")


def _warn(mechanism: Mechanism) -> None:
    for warning in getattr(mechanism, "warnings", tuple)():
        console.say(warning, "yellow")


def _formats() -> str:
    from queryveil.log.formats import FORMATS

    return ", ".join(FORMATS)


@contextmanager
def _open(engine: Literal["local", "spark"], mechanism: Mechanism, memory: int) -> Iterator[pipeline.ReleaseEngine]:
    """The engine of a name; Spark takes seconds to start and is imported only for those who ask for it."""
    if engine == "local":
        from queryveil.release.pipeline import ThisMachine

        with ThisMachine(memory) as machine:
            yield machine
        return
    from queryveil.engines.spark.cluster import Cluster

    Cluster.refuse(mechanism)  # before Spark starts, which takes seconds
    tell("starting Spark", 0)
    with Cluster() as cluster, cluster.watched():
        yield cluster


def _tell(mechanism: Mechanism, outcome: pipeline.ReleaseOutcome, source: Source, *, json: bool) -> None:
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
                    "records": texts_in_words(mechanism),
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
        share = f"{outcome.kept:.1%} as many records as in the log"
        console.say(f"{share}, {texts_in_words(mechanism)} (a figure for you, not for the recipient).")
    else:
        console.say("The release is empty: with these settings nothing of this log may be published.", "yellow")
    promise = protected.guarantee.as_dict() | {"statement": protected.statement()}
    console.show(protected.statement())
    console.show("")
    for mark in protected.marks():
        console.show(mark)
    console.show_promise(promise)
    person, query = promise_in_short(promise, mechanism.charge)
    console.show(f"For a person: {person}.")
    console.show(f"For a query: {query}.")
    if outcome.folder:
        console.show(f"Release of {len(protected.log):,} records written to {outcome.folder}")
        console.show_command(f"May it be published? queryveil audit {shlex.quote(source.place)} {outcome.folder}")


def command_in(group: str, mechanism: type[Any], given: Mapping[str, Any] | None = None) -> Any:
    """`queryveil plan …` or `queryveil release …` of one mechanism; only the latter needs to know formats.

    `given` are parameters that stand in place of the mechanism's own defaults.
    """
    if group == "plan":
        return command_for(mechanism, plan, given)
    reading = reads_log(
        "input_format", exclude_users=ExcludeUsers, similar_ids=SimilarIds, block_categories=BlockCategories
    )
    return command_for(mechanism, reading(release), given)


def command_for(mechanism: type[Any], work: Callable[..., None], given: Mapping[str, Any] | None = None) -> Any:
    """A command that makes the mechanism from its options and hands it to `work` with the other options."""
    fields = {field.name: field for field in dataclasses.fields(mechanism)}
    own_hints, hints = get_type_hints(mechanism), get_type_hints(work, include_extras=True)

    def command(**options: Any) -> None:
        parameters = {name: options.pop(name) for name in fields}
        work(mechanism=mechanism(**parameters), **options)

    _, *shared = inspect.signature(work).parameters.values()
    options = [option(parameter.name, hints[parameter.name], parameter.default) for parameter in shared]
    options += [_option(field, own_hints[name], given or {}) for name, field in fields.items()]
    command.__doc__ = f"{(mechanism.__doc__ or '').strip()} {(work.__doc__ or '').strip()}"
    app = typer.Typer(add_completion=False)
    app.command(name=mechanism.name)(with_options(command, options))
    return typer.main.get_command(app)


def _option(field: dataclasses.Field[Any], hint: Any, given: Mapping[str, Any]) -> inspect.Parameter:
    help_text = MODE_HELP if field.name == "mode" else field.metadata.get("help", "")
    name = field.name.rstrip("_").replace("_", "-")  # a field cannot be called lambda, an option can
    flags = [f"--{name}", *([f"-{name}"] if len(name) == 1 else [])]
    default = given.get(field.name, field.default)
    default = inspect.Parameter.empty if default is dataclasses.MISSING else default
    return option(field.name, Annotated[hint, typer.Option(*flags, help=help_text)], default)
