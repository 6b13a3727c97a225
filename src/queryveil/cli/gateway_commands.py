"""`queryveil gateway --engine-url TEMPLATE`: a search page on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from queryveil.cli import console
from queryveil.cli.mechanism_commands import command_for
from queryveil.cli.obfuscate_commands import say_if_slow
from queryveil.cli.search_commands import EngineUrl, Timeout, parse_address
from queryveil.mechanisms.obfuscate import Obfuscate


def gateway(
    mechanism: Obfuscate,
    engine_url: EngineUrl,
    limit: Annotated[
        float | None, typer.Option(help="refuse queries that would bring the session above this ε", show_default=False)
    ] = None,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Enter and the address bar send without showing first what goes out")
    ] = False,
    timeout: Timeout = 10.0,
    session: Annotated[
        Path | None,
        typer.Option(help="file that keeps the tally of what your queries have cost; in memory only unless given"),
    ] = None,
    port: Annotated[int, typer.Option(help="port to answer under; 0 for any free one")] = 8643,
) -> None:
    """Open a search page on this machine: see what would be sent, send it, get results ranked here. Ctrl-C stops it."""
    from queryveil.mechanisms.obfuscate import SearchSession, own_noise
    from queryveil.search.gateway import Gateway
    from queryveil.web.server import serve
    from queryveil.web.settings import Listening

    place = Gateway(
        mechanism,
        parse_address(engine_url),
        noise=own_noise(),
        tally=SearchSession(session),
        limit=limit,
        timeout=timeout,
    )
    settings = Listening(port=port)
    say_if_slow(mechanism)

    def application(settings: Listening, on_new_token: Any) -> Any:
        from queryveil.web.gateway import create

        place.prepare()
        return create(settings, place, on_new_token, at_once=at_once)

    serve(settings, console.say, application)


def command() -> Any:
    """The command."""
    return command_for(Obfuscate, gateway)
