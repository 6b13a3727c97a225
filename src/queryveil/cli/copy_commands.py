"""`copy FOLDER --to ADDRESS`: the log of a finished release as a table in a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from queryveil.cli import console


def copy(
    folder: Annotated[Path, typer.Argument(help="a release folder", show_default=False)],
    to: Annotated[
        str, typer.Option(help="database that gets it, such as duckdb:out.db?table=released", show_default=False)
    ],
) -> None:
    """Copy the log of a release into a database: whole or not at all, where nothing lies yet."""
    from queryveil.release.copies import copy as make_copy

    with console.steps("copy", 1) as step:
        make_copy(folder, to)
        step("copied")
    console.show("Copied. The folder stays the certificate: hand it on with the copy.")
