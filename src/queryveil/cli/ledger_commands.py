"""`ledger init`, `ledger show` and `ledger verify`: who has spent how much privacy across releases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from queryveil.cli import console
from queryveil.cli.log_options import AsJson
from queryveil.errors import DataError

app = typer.Typer(no_args_is_help=True, help="Who has spent how much privacy across releases.")
LedgerPath = Annotated[Path, typer.Argument(help="the ledger's file", show_default=False)]


@app.command("init")
def init(
    file: LedgerPath,
    epsilon: Annotated[float, typer.Option(help="what each person may lose over all releases", show_default=False)],
    delta: Annotated[float, typer.Option(help="the same for δ")] = 0.0,
) -> None:
    """Make a new ledger with a budget per person."""
    from queryveil.privacy import Ledger, keys

    made = Ledger.create(file, epsilon=epsilon, delta=delta)
    console.show(
        f"Ledger {made.id} written to {file}; its key is in {keys.key_folder()}: back it up apart from the data."
    )
    if not delta:
        console.say("Its δ is 0, so it pays for no release that has one; --delta 1e-6 is usual.", "yellow")


@app.command("show")
def show(file: LedgerPath, json: AsJson = False) -> None:
    """What was spent, release by release, what everybody has left, and what one more release would cost."""
    from queryveil.privacy import Ledger
    from queryveil.privacy.accounting import DELTA_UNIT
    from queryveil.privacy.guarantee import rounded_down, rounded_up

    ledger = Ledger(file)
    left, own = ledger.remaining("dataset"), ledger.remaining("people")
    entries, spent, more = ledger.entries(), ledger.spent(), ledger.next_costs()
    if json:
        budgets = {"left_where_everybody_is_charged": left, "left_where_people_are_charged": own}
        named = {name: {"epsilon": epsilon, "delta": delta} for name, (epsilon, delta) in budgets.items()}
        together = {"spent": spent, "next": [one._asdict() for one in more]}
        console.show_json({"ledger": ledger.id, **named, **together, "entries": entries.to_dicts()})
        return
    for row in entries.iter_rows(named=True):
        who = {"dataset": "everybody", "people": f"{row['people']:,} people", "nothing": "nobody"}[row["scope"]]
        by_rho = f", ρ = {rounded_up(row['rho'])}" if row["rho"] else ""
        cost = f"ε = {row['epsilon']:g}, δ = {row['delta']:g}{by_rho} from {who}"
        stopped = "; no finished release was noted: stopped, or still at work" if row["written"] is False else ""
        console.show(f"{row['number']:>4}  {row['created']}  {row['mechanism']}: {cost}{stopped}  [{row['id']}]")
    rest, rest_of_own = (f"ε = {rounded_down(epsilon)}, δ = {rounded_down(delta)}" for epsilon, delta in (left, own))
    console.show(f"{entries.height} debits. The next release may cost at most {rest}, where it charges everybody.")
    console.show(f"Where it charges people one by one, at most {rest_of_own}.")
    plain = float(entries.filter(scope="dataset")["epsilon"].sum())
    if spent is not None and spent < plain:
        budget = rounded_up(ledger.delta_budget / DELTA_UNIT)
        console.show(
            f"Together the releases cost everybody ε = {rounded_up(spent)} at δ = {budget}; their ε add up to "
            f"{rounded_up(plain)}. That holds where no cost was chosen by what an earlier release published."
        )
    for one in more:
        console.show(one.in_words())
    if more:
        console.show(
            "Releases may cost less together than their sum: more of them can fit than the first figure tells."
        )
    console.show("Whoever has less left is left out of a release; whether it is made does not depend on anybody.")


@app.command("verify")
def verify(
    file: LedgerPath,
    releases: Annotated[
        list[Path] | None, typer.Argument(help="published releases that must be in the ledger", show_default=False)
    ] = None,
) -> None:
    """Check that no entry was changed and nobody's budget is overspent; with releases, also that none was cut off."""
    from queryveil.privacy import Ledger
    from queryveil.release.manifest import verify as check

    published = [check(folder).manifest["ledger"] for folder in releases or []]
    problems = Ledger(file).verify(str(entry) for entry in published)
    if problems:
        raise DataError("the ledger is not sound: " + "; ".join(problems) + ".")
    console.show("The ledger is sound.")
