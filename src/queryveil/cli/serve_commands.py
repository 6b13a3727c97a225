"""`queryveil serve`: the page, on this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from queryveil.cli import console

PASSWORD_VARIABLE = "QUERYVEIL_WEB_PASSWORD"


def serve(
    host: Annotated[str, typer.Option(help="address to answer under; other than loopback needs a password")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="port to answer under; 0 for any free one")] = 8642,
    folder: Annotated[
        Path | None, typer.Option(help="where uploads, jobs and releases are kept, readable by you only")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="the ledger that pays; the page makes one in its folder if there is none")
    ] = None,
    keep_hours: Annotated[float, typer.Option(help="delete uploaded logs after so many hours")] = 24.0,
    job_hours: Annotated[
        float, typer.Option(help="end a job that takes longer; reading a log has an eighth of it")
    ] = 4.0,
    job_memory: Annotated[
        str | None, typer.Option(help="end a job that needs more, such as 4GiB; 3/4 of the machine's if not given")
    ] = None,
) -> None:
    """Open the page: upload a log, see the risk, choose a protection, download a signed release. Ctrl-C stops it."""
    import platformdirs

    from queryveil.checks import parse_size
    from queryveil.web.server import serve as run
    from queryveil.web.settings import WebSettings

    place = folder or Path(platformdirs.user_data_dir("queryveil", appauthor=False)) / "page"
    password = os.environ.get(PASSWORD_VARIABLE) or None  # set to nothing is not set
    settings = WebSettings(
        host=host,
        port=port,
        folder=place,
        ledger=ledger,
        password=password,
        keep_hours=keep_hours,
        longest_job=3600 * job_hours,
        longest_reading=3600 * job_hours / 8,
        **({} if job_memory is None else {"most_memory": parse_size("job_memory", job_memory)}),
    )
    run(settings, console.say)
