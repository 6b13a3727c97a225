"""`queryveil stream --from URL --to URL`: run the stream mechanism beside a live log."""

from __future__ import annotations

import dataclasses
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.live import Live

from queryveil.cli import console
from queryveil.cli.log_options import parse_columns
from queryveil.cli.mechanism_commands import command_for
from queryveil.release.mechanism import Mechanism

NOT_SETTINGS = ("config", "watch")


def stream(
    mechanism: Mechanism,
    context: typer.Context,
    from_: Annotated[
        str | None, typer.Option("--from", help="where records come from: a file, - or redis://…", show_default=False)
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="where released records go: a file, - or redis://…", show_default=False)
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="name of the run: its key and state go by it", show_default=False)
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with the settings; flags win over it")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="show throughput, delay and what waits, live")] = False,
    from_checkpoint: Annotated[
        Path | None, typer.Option(help="go on from this checkpoint instead of the last committed one")
    ] = None,
    join: Annotated[
        bool,
        typer.Option(
            "--join",
            help="one more worker of a run whose key was made elsewhere; needed once. It cannot tell "
            "that a broker lost what others committed",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="file for the state (files, stdout), or for a copy of it at the end (brokers); {shard} in its name "
            "where there are several"
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        str | None, typer.Option(help="format of the input: jsonl, aol, csv, access, excite; guessed from the name")
    ] = None,
    output_format: Annotated[str | None, typer.Option(help="format of the output: jsonl or aol")] = None,
    columns: Annotated[str | None, typer.Option(help="names of your fields, for example user=uid,query=text")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="wait for more at the end of a file")] = False,
    shards: Annotated[
        int, typer.Option(help="parts of the stream, by top-level category; the same in all workers")
    ] = 1,
    shard: Annotated[int | None, typer.Option(help="work on this shard only; else the workers share them out")] = None,
    route: Annotated[bool, typer.Option("--route", help="only send each record to the shard of its category")] = False,
    batch: Annotated[
        int | None,
        typer.Option(
            help="records taken in between two commits; 100,000 with files and 20,000 with brokers if not given"
        ),
    ] = None,
    wait: Annotated[float, typer.Option(help="seconds to wait for records before looking again")] = 1.0,
    most_pending: Annotated[int, typer.Option(help="end the epoch early when more records wait")] = 5_000_000,
    longest: Annotated[int, typer.Option(help="bytes of the longest record that is read")] = 1 << 20,
    most_memory: Annotated[int, typer.Option(help="MiB the process may hold")] = 4096,
    on_stop: Annotated[
        Literal["keep", "suppress"],
        typer.Option(
            help="what becomes of waiting records at SIGTERM, also in the mix: kept in the state, or suppressed"
        ),
    ] = "keep",
    metrics: Annotated[
        int | None,
        typer.Option(help="port on the loopback address for /metrics and /health; 0: a free one, which is printed"),
    ] = None,
) -> None:
    """Run until the input ends or SIGTERM comes; start it again and it goes on where it stopped."""
    from queryveil.live.config import read_config, settings_from
    from queryveil.live.event_log import EventWriter, log_event
    from queryveil.live.metrics import MetricsServer, Monitor
    from queryveil.live.worker import Worker

    declared = read_config(config) if config else {}
    given = _given(context)
    parameters = {field.name for field in dataclasses.fields(type(mechanism))}  # type: ignore[arg-type]
    ours = {name: getattr(mechanism, name) for name in given if name in parameters}
    declared |= {name.strip("_"): value for name, value in given.items() if name not in (*parameters, *NOT_SETTINGS)}
    if columns is not None:
        declared["columns"] = parse_columns(columns)
    declared["mechanism"] = declared.get("mechanism", {}) | ours
    settings = settings_from(declared)
    with ExitStack() as stack:
        # While the monitor has the screen, it shows the last event.
        events = stack.enter_context(EventWriter(None if watch else sys.stderr))
        worker = Worker(settings)
        worker.stop_on_signals()
        if settings.metrics is not None:
            server = MetricsServer(worker.meters, settings.metrics)
            stack.callback(server.close)
            log_event("metrics_served", address="loopback", port=server.port)
        if watch:
            shown = Monitor(worker.meters, events)
            stack.enter_context(Live(shown, console=console.messages, refresh_per_second=4))
        worker.run()
    reading = worker.meters.reading()
    console.say(
        f"about {reading.read:,} read, {reading.released:,} released, {reading.pending:,} waiting, "
        f"{reading.suppressed:,} left out, {reading.dead:,} no records."
    )
    for left in worker.unread:
        console.say(left)


def _given(context: typer.Context) -> dict[str, Any]:
    """The options that were given, not those left at their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name: context.params[name] for name, source in sources.items() if source and "DEFAULT" not in source.name}


def command() -> Any:
    """The command, made from the mechanism's parameters and the options above."""
    from queryveil.mechanisms import load

    return command_for(load("stream"), stream)
