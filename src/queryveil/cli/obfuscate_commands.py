"""`queryveil obfuscate "QUERY"`: the queries to send, what they promise and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queryveil.cli import console
from queryveil.cli.mechanism_commands import MODE_HELP, AsJson, single_command
from queryveil.mechanisms.obfuscate import Obfuscate
from queryveil.mechanisms.obfuscate.obfuscation import GLOVE, Choice
from queryveil.mechanisms.obfuscate.words import MOST_EXAMINED
from queryveil.privacy.guarantee import rounded_up
from queryveil.release.mechanism import Mode

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
    query: Annotated[str, typer.Argument(help="what you want to search for", show_default=False)],
    mechanism: Annotated[Choice, typer.Option(help="how words are replaced")] = "cmp",
    epsilon: Annotated[
        float | None,
        typer.Option(help="loss for each unit of distance: over all n queries (safe), or for each (paper)"),
    ] = None,
    n: Annotated[int, typer.Option("--n", "-n", help="how many queries to send in place of yours")] = 1,
    t: Annotated[float, typer.Option(help="vkr-…: leaning to the second nearest word, 0 to 1")] = 0.75,
    lambda_: Annotated[
        float | None, typer.Option("--lambda", help="mhl, vkr-mhl: share of the covariance in the noise")
    ] = None,
    embedding: Annotated[str, typer.Option(help="word vectors: glove, or a file of vectors")] = GLOVE,
    corpus: Annotated[str | None, typer.Option(help="fsh: folder of a local collection in BEIR layout")] = None,
    mode: Annotated[Mode, typer.Option(help=MODE_HELP)] = "safe",
    session: Annotated[Path | None, typer.Option(help=SESSION_HELP, show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="repeatable noise, for science: it protects nothing")] = None,
    json: AsJson = False,
) -> None:
    """Make other queries to send in place of yours, and say what they promise."""
    from queryveil.mechanisms.obfuscate import answer, own_noise
    from queryveil.privacy import Noise

    made = Obfuscate(
        mechanism=mechanism, epsilon=epsilon, n=n, t=t, lambda_=lambda_, embedding=embedding, corpus=corpus, mode=mode
    )
    noise = own_noise() if seed is None else Noise.seeded(seed)
    say_if_slow(made)
    given = answer(made, query, noise, tally(session, seed))
    for alert in given.alerts:
        console.say(f"{alert}: think again before you send anything like it.", "yellow")
    if given.unchanged:
        kept = f"{given.unchanged} of {n} keep every word of yours that the vocabulary knows"
        console.say(f"{kept}: chance does that where ε is large.", "yellow")
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
        f"{rounded_up(losses.per_word)} a word over {n}, {rounded_up(losses.per_query)} this query{_so_far(losses)}."
    )
    for place, count in enumerate(given.deniability, 1):
        others = f"{count.words:,} words, yours included, are" if count.words > 1 else "only your word itself is"
        console.show(f"Deniability of word {place}: {others} at least half as likely as yours ({count.how}).")
    if len(given.deniability) == MOST_EXAMINED:
        console.show(f"Deniability is counted for the first {MOST_EXAMINED} words of a query only.")


def say_if_slow(made: Obfuscate) -> None:
    """Before a first use that takes long: why, and that it is not for ever."""
    if made.mechanism == "custext" and not made.words_prepared:
        console.say(
            f"Cutting the vocabulary of {len(made.vectors):,} words into sets of near words. This takes a minute or "
            "two for GloVe, and is kept: the next time it is there."
        )


def command() -> Any:
    """The command."""
    return single_command("obfuscate", obfuscate)
