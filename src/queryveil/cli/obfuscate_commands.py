"""`queryveil obfuscate "QUERY"`: the queries to send, what they promise and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queryveil.cli import console
from queryveil.cli.log_options import AsJson
from queryveil.cli.mechanism_commands import command_for
from queryveil.mechanisms.obfuscate import Obfuscate
from queryveil.mechanisms.obfuscate.words import MOST_EXAMINED
from queryveil.privacy.guarantee import rounded_up

if TYPE_CHECKING:
    from queryveil.mechanisms.obfuscate import SearchSession
    from queryveil.mechanisms.obfuscate.session import Losses

SESSION_HELP = "file that keeps the tally of what your queries have cost; in the key folder unless given, or none"
NO_SESSION = "none"


def tally(session: Path | None, seed: int | None) -> SearchSession | None:
    """The tally to charge: the one given, else the searcher's own. Seeded noise is no real query and counts nowhere."""
    from queryveil.mechanisms.obfuscate import SearchSession

    if session is not None:
        return None if str(session) == NO_SESSION else SearchSession(session)
    return SearchSession.load() if seed is None else None


def _so_far(losses: Losses) -> str:
    if losses.session is None or losses.worst_word is None:
        return "; no tally is kept, so what earlier queries cost is not in these numbers"
    return f", {rounded_up(losses.session)} in your tally so far (its most used word: {rounded_up(losses.worst_word)})"


def obfuscate(
    mechanism: Obfuscate,
    query: Annotated[str, typer.Argument(help="what you want to search for", show_default=False)],
    session: Annotated[Path | None, typer.Option(help=SESSION_HELP, show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="repeatable noise, for science: it protects nothing")] = None,
    json: AsJson = False,
) -> None:
    """Make other queries to send in place of yours, and say what they promise."""
    from queryveil.mechanisms.obfuscate import answer, own_noise
    from queryveil.privacy import Noise

    noise = own_noise() if seed is None else Noise.seeded(seed)
    say_if_slow(mechanism)
    given = answer(mechanism, query, noise, tally(session, seed))
    for warning in given.warnings(mechanism):
        console.say(warning, "yellow")
    if seed is not None:
        console.say("NOT FOR REAL USE: made with a known seed, which undoes the noise.", "yellow")
    if json:
        console.show_json(given.as_dict())
        return
    for sent in given.queries:
        console.show(sent)
    console.show("")
    console.show(given.guarantee.statement())
    if given.losses is None:
        return
    losses = given.losses
    console.show(
        f"Loss, for each unit of distance: ε = {rounded_up(losses.per_obfuscation)} a word and obfuscation, "
        f"{rounded_up(losses.per_word)} a word over {mechanism.n}, {rounded_up(losses.per_query)} this query"
        f"{_so_far(losses)}."
    )
    for place, count in enumerate(given.deniability, 1):
        others = f"{count.words:,} words, yours included, are" if count.words > 1 else "only your word itself is"
        console.show(f"Deniability of word {place}: {others} at least half as likely as yours ({count.how}).")
    if len(given.deniability) == MOST_EXAMINED:
        console.show(f"Deniability is counted for the first {MOST_EXAMINED} words of a query only.")


def say_if_slow(mechanism: Obfuscate) -> None:
    """Before a first use that takes long: why, and that it is not for ever."""
    if not mechanism.words_prepared:
        console.say(
            f"Cutting the vocabulary of {len(mechanism.vectors):,} words into sets of near words. This takes a minute "
            "or two for GloVe, and is kept: the next time it is there."
        )


def command() -> Any:
    """The command."""
    return command_for(Obfuscate, obfuscate)
