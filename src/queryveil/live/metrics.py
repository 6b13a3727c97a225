"""What a live stream shows of itself: Prometheus metrics, health, and the same numbers in the terminal (`Monitor`).

The numbers change only when a round is committed, counts (of records and of rounds) are cut to whole hundreds, and
delays and pool sizes are shown as powers of two that bound quantiles of the last thousand releases or more. This is
coarse, but it is not a proof of privacy: some record is the one with which a count reaches the next hundred, and who
knows of all the others can tell that it came. So the numbers are for the holder of the log, on the loopback address.
Delay is counted in records, not in time.

`MetricsServer` answers on the loopback address only: `/metrics` for Prometheus and `/health`, which is 200 while rounds
are being made and 503 while something is away. The exposition is written here and not by `prometheus-client`: it is
thirty lines, takes its numbers from one consistent reading, and shows no label but the shard and the quantile.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt
from rich.markup import escape
from rich.table import Table

from queryveil.errors import UsageError, reason_of
from queryveil.live.event_log import EventWriter
from queryveil.live.shard import Round

GRAIN = 100
FEWEST_RELEASES = 1000
QUANTILES = (0.5, 0.9, 0.99)
SILENT_AFTER = 120.0
BITS = 64
COUNTED = ("read", "released", "dead", "suppressed", "pending", "withheld")


class PowersOfTwo:
    """Counts by power of two; forgets its older half now and then."""

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.int64] = np.zeros(BITS, np.int64)

    def add(self, values: npt.NDArray[np.integer]) -> None:
        """More values ≥ 0."""
        exponents = np.ceil(np.log2(np.maximum(values, 1))).astype(np.int64)
        self._counts += np.bincount(exponents, minlength=BITS)
        if self._counts.sum() > 100 * FEWEST_RELEASES:
            self._counts //= 2

    def quantile(self, share: float) -> int | None:
        """The least power of two that so large a share does not exceed; None while there are too few to tell."""
        total = self._counts.sum()
        if total < FEWEST_RELEASES:
            return None
        return 1 << int(np.searchsorted(np.cumsum(self._counts), share * total))


@dataclass(frozen=True)
class MeterReading:
    """All there is to see."""

    read: int
    released: int
    pending: int
    withheld: int
    suppressed: int
    dead: int
    rate: float
    delays: dict[float, int | None] = field(default_factory=dict)
    pools: dict[float, int | None] = field(default_factory=dict)
    commits: int = 0
    away: int = 0
    healthy: bool = True
    by_shard: dict[int, dict[str, int]] = field(default_factory=dict)
    """What is counted, of each shard that the worker holds."""

    @property
    def released_share(self) -> float | None:
        """Of the records read, how many came out."""
        return self.released / self.read if self.read else None


class Meters:
    """Numbers of all shards of a worker. Safe to read from other threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shards: dict[int, dict[str, int]] = {}
        self._away: set[int] = set()
        self._delays, self._pools = PowersOfTwo(), PowersOfTwo()
        self._recent: deque[tuple[float, int]] = deque(maxlen=30)
        self._commits = 0
        self._last_sign = time.monotonic()

    def add(self, shard: int, done: Round) -> None:
        """What a round did."""
        with self._lock:
            self._shards[shard] = {"read": done.header.taken, "dead": done.header.dead, **asdict(done.counts)}
            self._away.discard(shard)
            for part in done.result.emissions:
                self._delays.add(part.delays)
                self._pools.add(part.pool_owners)
            self._last_sign = time.monotonic()
            if done.read:
                self._commits += 1
                self._recent.append((self._last_sign, done.read))

    def away(self, shard: int) -> None:
        """A shard cannot go on now."""
        with self._lock:
            self._away.add(shard)

    def forget(self, shard: int) -> None:
        """Another worker counts this shard from now on."""
        with self._lock:
            self._shards.pop(shard, None)
            self._away.discard(shard)

    def reading(self) -> MeterReading:
        """The numbers as they may be shown."""
        with self._lock:
            now = time.monotonic()
            since = [(at, count) for at, count in self._recent if now - at < 30]
            rate = sum(count for _, count in since) / max(now - since[0][0], 1.0) if since else 0.0
            totals = {name: sum(counts[name] for counts in self._shards.values()) for name in COUNTED}
            return MeterReading(
                **_cut(totals),
                rate=round(rate, -2),
                delays={share: self._delays.quantile(share) for share in QUANTILES},
                pools={share: self._pools.quantile(share) for share in QUANTILES},
                commits=self._commits // GRAIN * GRAIN,
                away=len(self._away),
                healthy=not self._away and now - self._last_sign < SILENT_AFTER,
                by_shard={shard: _cut(counts) for shard, counts in sorted(self._shards.items())},
            )


def _cut(counts: dict[str, int]) -> dict[str, int]:
    return {name: count // GRAIN * GRAIN for name, count in counts.items()}


def prometheus(reading: MeterReading) -> str:
    """The numbers in Prometheus' text format.

    Counts are shown shard by shard: when a shard goes to another worker, its series goes with it, and sums over all
    workers count nothing twice.

    >>> counts = dict.fromkeys(COUNTED, 0) | {"read": 1200}
    >>> print(prometheus(MeterReading(1200, 0, 0, 0, 0, 0, 50.0, by_shard={3: counts})).splitlines()[2])
    queryveil_records_read_total{shard="3"} 1200
    """
    lines: list[str] = []

    def add(name: str, kind: str, text: str, values: Mapping[str, float]) -> None:
        lines.extend([f"# HELP queryveil_{name} {text}", f"# TYPE queryveil_{name} {kind}"])
        lines.extend(f"queryveil_{name}{label} {value:g}" for label, value in values.items())

    for name, kind, text, which in (
        ("records_read_total", "counter", "records taken in", "read"),
        ("records_released_total", "counter", "records released", "released"),
        ("records_dead_total", "counter", "lines that were no records", "dead"),
        ("records_suppressed_total", "counter", "records suppressed for good", "suppressed"),
        ("records_pending", "gauge", "records that wait", "pending"),
        ("records_withheld", "gauge", "of these, records whose text is too rare", "withheld"),
    ):
        counts = {f'{{shard="{number}"}}': counted[which] for number, counted in reading.by_shard.items()}
        add(name, kind, f"{text}, cut to hundreds", counts)
    add("commits_total", "counter", "rounds committed, cut to hundreds", {"": reading.commits})
    add("shards_away", "gauge", "shards that wait for something that is away", {"": reading.away})
    for name, text, quantiles in (
        ("delay_records", "records that came while one waited in its pool, as a power of two", reading.delays),
        ("pool_people", "people in the pool of a release, as a power of two", reading.pools),
    ):
        add(name, "gauge", text, {f'{{quantile="{q:g}"}}': v for q, v in quantiles.items() if v is not None})
    return "\n".join(lines) + "\n"


class MetricsServer:
    """`/metrics` and `/health` on the loopback address, in a thread of its own."""

    def __init__(self, meters: Meters, port: int) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                reading = meters.reading()
                if self.path == "/metrics":
                    self._answer(200, "text/plain; version=0.0.4", prometheus(reading))
                elif self.path == "/health":
                    status = "ok" if reading.healthy else "waiting"
                    self._answer(200 if reading.healthy else 503, "application/json", json.dumps({"status": status}))
                else:
                    self._answer(404, "text/plain", "see /metrics and /health\n")

            def _answer(self, code: int, kind: str, text: str) -> None:
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the library's name
                """Who asks is nobody's business."""

        try:
            self._server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as error:
            raise UsageError(f"port {port} cannot be used ({reason_of(error)}).") from None
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Monitor:
    """Something that `rich.live.Live` can draw again and again."""

    def __init__(self, meters: Meters, events: EventWriter) -> None:
        self._meters, self._events = meters, events

    def __rich__(self) -> Table:
        return draw(self._meters.reading(), self._events.last)


def draw(reading: MeterReading, last_event: str = "") -> Table:
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
