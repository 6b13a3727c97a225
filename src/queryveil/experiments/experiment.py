"""A mechanism or a rule tried out on a log: protected in memory, attacked and measured, nothing written."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from queryveil.audit.auditing import audit, described, secrets_of
from queryveil.audit.finding import Audit
from queryveil.audit.raw_side import RawSide
from queryveil.log import QueryLog
from queryveil.privacy import Noise
from queryveil.release.mechanism import Mechanism
from queryveil.release.secrets import Secrets

OnStep = Callable[[str], None]


def tried(
    mechanism: Mechanism,
    log: QueryLog,
    noise: Noise,
    on_step: OnStep | None = None,
    raw: RawSide | None = None,
    *,
    held_out: QueryLog | None = None,
) -> tuple[QueryLog, Audit]:
    """Protect and audit, with everything that the holder knows; `raw` is what earlier audits made of the log.

    `held_out` are people who are not in the log; those of `raw` where they are not given.
    """
    held_out = held_out if raw is None else raw.held_out
    release = mechanism.protect(log, noise)
    known = secrets_of(release) or nobody(release.log)
    found = audit(
        log, release.log, manifest=described(release), secrets=known, tables=release.tables, mechanism=mechanism,
        scenarios=False, held_out=held_out, raw=raw, on_step=on_step,
    )  # fmt: skip
    return release.log, found


def nobody(log: QueryLog) -> Secrets:
    """Secrets of a release whose users are made up: nobody is behind any of them."""
    nobody = pl.Series("user", [None] * len(log), dtype=pl.String)
    return Secrets(nobody, log.frame["user"], nobody, {})
