"""`queryveil search "QUERY" --engine-url TEMPLATE`: send other queries, rank what comes back at home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from queryveil.cli import console
from queryveil.cli.log_options import AsJson
from queryveil.cli.mechanism_commands import command_for
from queryveil.cli.obfuscate_commands import SESSION_HELP, say_if_slow, tally
from queryveil.mechanisms.obfuscate import Obfuscate

if TYPE_CHECKING:
    from queryveil.search.private_search import EngineAddress

SHOWN = 10
EngineUrl = Annotated[
    str, typer.Option(help="https://host/search?q={query}&format=json (SearXNG or OpenSearch JSON)", show_default=False)
]
Timeout = Annotated[float, typer.Option(help="seconds to wait for each answer")]


def parse_address(engine_url: str) -> EngineAddress:
    """The engine's address; says so where others can read what is sent there."""
    from queryveil.search.private_search import EngineAddress

    address = EngineAddress.parse(engine_url)
    if address.readable_on_the_way:
        console.say("the engine's address is not https: whoever carries your queries can read them too.", "yellow")
    return address


def search(
    mechanism: Obfuscate,
    query: Annotated[str, typer.Argument(help="what you want to find; it is never sent as typed", show_default=False)],
    engine_url: EngineUrl,
    results: Annotated[int, typer.Option(help="how many results are shown")] = SHOWN,
    timeout: Timeout = 10.0,
    session: Annotated[Path | None, typer.Option(help=SESSION_HELP, show_default=False)] = None,
    seed: Annotated[int | None, typer.Option(help="repeatable noise, for science: it protects nothing")] = None,
    json: AsJson = False,
) -> None:
    """Search without sending your query: others go out, the results are pooled and ranked here."""
    from queryveil.checks import require, whole_number
    from queryveil.mechanisms.obfuscate import answer, own_noise
    from queryveil.privacy import Noise
    from queryveil.search import private_search

    require(whole_number("results", results, at_least=1, at_most=10_000, suggest=SHOWN))
    address = parse_address(engine_url)
    if seed is not None:
        console.say("NOT FOR REAL USE: made with a known seed, which undoes the noise.", "yellow")
    say_if_slow(mechanism)
    order = Noise.secure() if seed is None else Noise.seeded(seed)
    with console.steps("search", mechanism.n + 2) as step:
        noise = own_noise() if seed is None else Noise.seeded(seed)
        given = answer(mechanism, query, noise, tally(session, seed), deniable=False)
        step("drawn")
        found = private_search.search(query, given.queries, address, order=order, timeout=timeout, on_step=step)
    shown = found.hits[:results]
    if json:
        console.show_json(
            {
                "results": [{"url": hit.key, "title": hit.title, "text": hit.text} for hit in shown],
                "pooled": len(found.hits),
                "sent": found.sent,
                "ranked_by": found.ranked_by,
                "obfuscation": given.as_dict(),
            }
        )
        return
    for number, hit in enumerate(shown, 1):
        console.show(f"{number:>3}. {hit.title or hit.key}\n     {hit.key}")
    console.say(f"{len(found.sent)} queries sent, {len(found.hits)} results pooled, ranked here by {found.ranked_by}.")
    if found.ranked_by == private_search.BY_WORDS:
        console.say("Ranking by meaning finds more: pip install 'queryveil[neural]'")
    if given.unchanged:
        kept = f"{given.unchanged} of the {mechanism.n} kept every word of yours that the vocabulary knows"
        console.say(f"{kept}: at this setting little is hidden.", "yellow")
    for warning in mechanism.warnings():
        console.say(warning, "yellow")
    for alert in given.alerts:
        console.say(f"{alert}: what was sent may still tell it.", "yellow")
    console.show(given.guarantee.statement())


def command() -> Any:
    """The command."""
    return command_for(Obfuscate, search)
