"""`queryveil approve`: the decision of the person who may decide, signed into the release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from queryveil.cli import console
from queryveil.cli.log_options import AsJson


def approve(
    folder: Annotated[Path, typer.Argument(help="a release folder that was audited", show_default=False)],
    name: Annotated[str, typer.Option(help="who decides; published with the release", show_default=False)],
    decision: Annotated[
        Literal["approve", "conditions", "refuse"],
        typer.Option(help="approve, approve with conditions, or refuse"),
    ] = "approve",
    reason: Annotated[
        str, typer.Option(help="why; published with the release, and needed above the limit or to refuse")
    ] = "",
    conditions: Annotated[str, typer.Option(help="on what condition; published with the release")] = "",
    json: AsJson = False,
) -> None:
    """Decide on an audited release: approve it, with conditions or without, or refuse it; signed into its manifest."""
    from queryveil.release.decision import Choice
    from queryveil.report.approval import decide
    from queryveil.report.page import internal_folder

    choices: dict[str, Choice] = {"approve": "approve", "conditions": "approve with conditions", "refuse": "refuse"}
    choice = choices["conditions" if conditions and decision == "approve" else decision]
    internal = internal_folder(folder)
    made = decide(folder, choice, internal=internal, name=name, reason=reason, conditions=conditions)
    if json:
        console.show_json(asdict(made) | {"folder": folder})
        return
    console.show(made.in_words)
    console.show(f"Signed into {folder}; the sheet with the decision is {internal / 'sheet.html'}")
