"""All that held-out people say about releases of one log, for benchmarks and plots.

    train, judges = hold_out(log, 0.2)
    found = held_out_values(train, {"a": release, "b": other_log}, judges)
    found["a"]["language"].value, found["a"]["language"].low, found["a"]["language"].high

A `Release` is read with the tables that it publishes, a plain log by its records alone. Values are as they are, below 0
and above 1 included; what cannot be said is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queryveil.audit.auditing import described, fingerprint
from queryveil.audit.context import AuditContext
from queryveil.audit.held_out.judgement import Judged, JudgedByOthers, Judgement
from queryveil.audit.held_out.splitting import check_apart
from queryveil.audit.measure import measures
from queryveil.audit.raw_side import RawSide
from queryveil.log import QueryLog
from queryveil.release.release import Release


def held_out_values(
    raw: QueryLog, releases: Mapping[str, QueryLog | Release], held_out: QueryLog
) -> dict[str, dict[str, Judgement]]:
    """For each release, by its name, the judgement of each measure by its key."""
    check_apart(raw, held_out)
    side = RawSide(raw, held_out=held_out)
    return {name: _values(side, release) for name, release in releases.items()}


def _values(raw: RawSide, release: QueryLog | Release) -> dict[str, Judgement]:
    published: dict[str, Any] = {"manifest": {}, "released": release}
    if isinstance(release, Release):
        published = {"manifest": described(release), "released": release.log, "tables": release.tables}
    context = AuditContext(
        original=raw.log, held_out=raw.held_out, raw=raw, secrets=None, digest=fingerprint(published["released"]),
        **published,
    )  # fmt: skip
    found: dict[str, Judgement] = {}
    for measure in measures():
        if isinstance(measure, JudgedByOthers):
            context.begin(measure.key)
            judged = measure.judged(context)
            found |= {item.key: item.judgement for item in judged if isinstance(item, Judged)}
    return found
