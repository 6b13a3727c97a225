"""`queryveil compare` and `queryveil advise`: read the log, try the settings, show what came of them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from queryveil.cli import console
from queryveil.cli.log_options import AsJson, HeldOut, HoldOut, SimilarIds, read_log, reads_log
from queryveil.errors import RefusedError

if TYPE_CHECKING:
    from queryveil.experiments.comparison import Comparison, Outcome
    from queryveil.experiments.sweep import Setting, Sweep
    from queryveil.release.pipeline import Source

Config = Annotated[
    Path | None,
    typer.Option(help="TOML file with the settings to try; a usual choice if not given", show_default=False),
]
Results = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="folder for the results; one that was stopped goes on", show_default=False),
]
Workers = Annotated[int, typer.Option(help="how many processes try settings side by side")]
WIDEST_LABEL = 44


@reads_log(similar_ids=SimilarIds)
def compare(
    source: Source,
    config: Config = None,
    output: Results = None,
    policies: Annotated[
        bool, typer.Option("--policies", help="today's rules beside one setting of each mechanism: a quick look")
    ] = False,
    held_out: HeldOut = None,
    hold_out: HoldOut = 0.1,
    workers: Workers = 2,
    json: AsJson = False,
) -> None:
    """Try mechanisms, settings and today's rules on a log: what each promises, what an attacker gets, what is kept."""
    from queryveil.report.comparison_page import commands_for_best, write_comparison

    sweep = _sweep(config, policies=policies)
    log = source.path
    folder = output or log.with_name(f"{log.name.split('.')[0]}-comparison")
    found = try_all(source, sweep, folder, workers, held_out, hold_out)
    commands = commands_for_best(found, _arguments(source))
    page = write_comparison(found, folder, subject=log.name, sweep=sweep, commands=commands)
    if json:
        console.show_json({"report": page, "settings": found.settings.to_dicts(), "commands": commands})
        return
    show(found)
    for task, command in commands.items():
        console.show(f"The release for {task}:")
        console.show_command(command)
    console.show(f"Report for you alone, with exact figures of the log: {page}")


@reads_log(similar_ids=SimilarIds)
def advise(
    source: Source,
    task: Annotated[str, typer.Option(help="what the release is for: profiling, frequency …", show_default=False)],
    max_risk: Annotated[
        float, typer.Option(help="what the worst attack may get at most, from 0 to 1: 0.05", show_default=False)
    ],
    config: Config = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="keep what was tried, or go on from it", show_default=False)
    ] = None,
    held_out: HeldOut = None,
    hold_out: HoldOut = 0.1,
    workers: Workers = 2,
    json: AsJson = False,
) -> None:
    """The setting that meets a stated risk and keeps most for a task, and why."""
    from queryveil.experiments.advise import advise as advice_on
    from queryveil.experiments.advise import checked_request
    from queryveil.experiments.command import release_command
    from queryveil.report.formatting import percent

    task = checked_request(task, max_risk)  # before the sweep, which takes minutes
    sweep = _sweep(config, policies=False)
    console.say(
        "Advice looks at this log, and no budget pays for that; advice on a synthetic or an earlier log costs nothing.",
        "yellow",
    )
    with tempfile.TemporaryDirectory(prefix="queryveil-advise-") as temporary:
        found = try_all(source, sweep, output or Path(temporary) / "comparison", workers, held_out, hold_out)
    advice = advice_on(found, task=task, max_risk=max_risk)
    chosen = advice.chosen
    command = "" if chosen is None else release_command(chosen.setting, _arguments(source), chosen_by="advise")
    if json:
        details = {} if chosen is None else {"risk": chosen.risk, "utility": found.utility(chosen), "command": command}
        if chosen is not None and chosen.verdict is not None:
            details["publish"] = chosen.verdict.answer
        made = None if chosen is None else {"mechanism": chosen.setting.name, **chosen.setting.parameters}
        console.show_json({"setting": made, **details, "reasons": advice.reasons})
    else:
        if chosen is not None:
            console.show_command(f"Take: {command}")
        for reason in advice.reasons:
            console.show(f"- {reason}")
    if chosen is None:
        raise RefusedError(f"no setting tried may be published and keeps every attack at {percent(max_risk)} or below.")


def show(found: Comparison) -> None:
    """One line for each setting, what their labels mean, then the best for each task."""
    from queryveil.experiments.sweep import notes
    from queryveil.report.comparison_page import best_settings

    heads = ["", "promise", "publish?", "worst attack", "texts published", "tail kept"]
    console.show_grid("settings", heads, map(_line, found.outcomes))
    for note in notes(outcome.setting for outcome in found.outcomes):
        console.show(f"  {note}")
    console.show("Which keeps most, with no attack above 5 %?")
    for task, chosen in best_settings(found).items():
        console.show(f"- {task}: {chosen}")
    for outcome in found.outcomes:
        if outcome.problem:
            console.say(f"{outcome.setting.label} could not be tried: {outcome.problem}", "yellow")


def _line(outcome: Outcome) -> list[str]:
    from queryveil.report.formatting import percent
    from queryveil.report.page import promise_in_short

    promise = None if outcome.audit is None else outcome.audit.released.get("guarantee")
    survived = outcome.survival
    volume, tail = (None, None) if survived is None else (survived.volume, survived.tail)
    return [
        outcome.setting.label,
        promise_in_short(promise),
        _answer(outcome),
        *(percent(share) for share in (outcome.risk, volume, tail)),
    ]


def _answer(outcome: Outcome) -> str:
    return "–" if outcome.verdict is None else outcome.verdict.answer


def _sweep(config: Path | None, *, policies: bool) -> Sweep:
    from queryveil.experiments.sweep import Sweep

    sweep = Sweep.usual() if config is None else Sweep.read(config)
    return sweep.at_a_glance() if policies else sweep


def _arguments(source: Source) -> list[str]:
    """The log of a release, read as it was read here, and a folder beside it."""
    log = source.path
    given = {
        "--input-format": source.format,
        "--columns": ",".join(f"{ours}={theirs}" for ours, theirs in (source.columns or {}).items()),
        "--encoding": source.encoding,
        "--user-field": source.user_field if source.user_field != "client_id" else None,
        "--on-error": source.on_error if source.on_error != "skip" else None,
        "--similar-ids": source.similar_ids,
    }
    options = [part for option, value in given.items() if value for part in (option, value)]
    return [source.place, "-o", str(log.with_name(f"{log.name.split('.')[0]}-release")), *options]


def try_all(
    source: Source, sweep: Sweep, folder: Path, workers: int, held_out: Path | None, hold_out: float
) -> Comparison:
    """Read the log, try every setting of a sweep on it, and show a table that fills meanwhile."""
    from queryveil.audit.held_out.splitting import require_share
    from queryveil.experiments.compare import compare as compare_settings
    from queryveil.experiments.compare import effort, folder_for_comparison, require_workers

    require_workers(workers)
    require_share(hold_out)
    folder_for_comparison(folder)
    source = replace(source, extras=(*source.extras, *sweep.reads_columns))
    label = min(WIDEST_LABEL, max(len(setting.label) for setting in sweep.settings))
    heads, widths = ("setting", "time", "publish?", "worst attack", "texts published"), (label, 8, 11, 12, 15)
    whole = sum(effort(setting) for setting in sweep.settings)
    with console.growing_table("compare", heads, widths, whole) as table:

        def on_progress(setting: Setting, what: str, share: float) -> None:
            table.doing(setting.label, what, share)

        def on_outcome(outcome: Outcome) -> None:
            table.done(outcome.setting.label, _row(outcome, label), effort(outcome.setting))

        with table.before("reading"):
            log, _ = read_log(source)
            judges = None if held_out is None else read_log(source.beside(held_out))[0]
        return compare_settings(
            log, folder, sweep, held_out=judges, hold_out=hold_out, workers=workers, on_progress=on_progress,
            on_outcome=on_outcome,
        )  # fmt: skip


def _row(outcome: Outcome, width: int) -> list[str]:
    """One line of the table that fills while settings are tried."""
    from queryveil.report.formatting import percent

    label, kept = outcome.setting.label, outcome.survival
    return [
        label if len(label) <= width else f"{label[: width - 1]}…",
        "kept" if outcome.from_before else f"{outcome.seconds:.1f} s",
        "cannot try" if outcome.problem else _answer(outcome),
        percent(outcome.risk),
        percent(None if kept is None else kept.volume),
    ]
