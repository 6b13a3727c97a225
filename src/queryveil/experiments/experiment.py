"""A mechanism or a rule tried out on a log: protected in memory, attacked and measured, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from queryveil.audit.auditing import audit, described, secrets_of
from queryveil.audit.finding import Audit
from queryveil.experiments.policies import Rule
from queryveil.log import QueryLog
from queryveil.privacy import Noise
from queryveil.release.mechanism import Mechanism
from queryveil.release.secrets import Secrets


def tried(
    mechanism: Mechanism, log: QueryLog, noise: Noise, on_step: Callable[[str], None] | None = None
) -> tuple[QueryLog, Audit]:
    """Protect and audit, with everything that the holder knows."""
    release = mechanism.protect(log, noise)
    known = secrets_of(release) or _nobody(release.log)
    manifest = described(release)
    found = audit(
        log, release.log, manifest=manifest, secrets=known, mechanism=mechanism, scenarios=False, on_step=on_step
    )
    return release.log, found


def tried_rule(rule: Rule, log: QueryLog, noise: Noise) -> tuple[QueryLog, Audit]:
    """Apply a rule and audit what it publishes."""
    published = rule.published(log, noise)
    manifest: dict[str, Any] = {"mechanism": None, "mode": "rule", "guarantee": rule.promise()}
    return published, audit(log, published, manifest=manifest, secrets=_nobody(published))


def _nobody(log: QueryLog) -> Secrets:
    """Secrets of a release whose users are made up: nobody is behind any of them."""
    nobody = pl.Series("user", [None] * len(log), dtype=pl.String)
    return Secrets(nobody, log.frame["user"], nobody, {})
