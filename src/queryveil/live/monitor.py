"""The terminal's view of a live stream: throughput, what waits, how long, how much comes out."""

from __future__ import annotations

from rich.markup import escape
from rich.table import Table

from queryveil.live.event_log import Journal
from queryveil.live.metrics import Meters, Reading


class Monitor:
    """Something that `rich.live.Live` can draw again and again."""

    def __init__(self, meters: Meters, journal: Journal) -> None:
        self._meters, self._journal = meters, journal

    def __rich__(self) -> Table:
        return drawn(self._meters.reading(), self._journal.last)


def drawn(reading: Reading, last_event: str = "") -> Table:
    """The numbers as a table, and what happened last."""
    share = reading.released_share
    status = "[green]running[/]" if reading.healthy else f"[yellow]waiting: {reading.away} shards away[/]"
    table = Table(title=f"queryveil stream: {status}", show_header=False, title_justify="left")
    for name, value in (
        ("records a second", f"{reading.rate:,.0f}"),
        ("read", f"{reading.read:,}"),
        ("released", f"{reading.released:,}" + (f" ({share:.0%})" if share is not None else "")),
        ("waiting", f"{reading.pending:,}, of which {reading.withheld:,} for others to ask the same"),
        ("suppressed", f"{reading.suppressed:,}"),
        ("no records", f"{reading.dead:,}"),
        ("delay in records", _quantiles(reading.delays)),
        ("people in a pool", _quantiles(reading.pools)),
        ("last event", escape(last_event)),
    ):
        table.add_row(name, value)
    return table


def _quantiles(values: dict[float, int | None]) -> str:
    known = [f"{share:.0%}: up to {value:,}" for share, value in values.items() if value is not None]
    return ", ".join(known) or "too few to tell"
