"""A mechanism tried out on a log: protected in memory, attacked and measured, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from queryveil.log import QueryLog
from queryveil.mechanisms.mechanism import Mechanism, Release
from queryveil.mechanisms.secrets_file import Secrets
from queryveil.privacy import Noise
from queryveil.report.findings import Audit


def trial(
    mechanism: Mechanism, log: QueryLog, noise: Noise, on_step: Callable[[str], None] | None = None
) -> tuple[Release, Audit]:
    """Protect and audit, with everything that the holder knows: the true owners where the mechanism tells them."""
    from queryveil.report.audit import audit

    release = mechanism.protect(log, noise)
    known = None if release.owners is None else Secrets(release.owners, release.log.frame["user"], {})
    return release, audit(log, release.log, manifest=description(release), secrets=known, on_step=on_step)


def description(release: Release) -> dict[str, Any]:
    """What a manifest would say of a release that is not written."""
    return {
        "mechanism": release.mechanism,
        "mode": release.mode,
        "parameters": dict(release.parameters),
        "guarantee": release.guarantee.as_dict() | {"statement": release.statement()},
        "columns": dict(release.columns),
        "noise": {"mode": release.noise_mode, "publishable": release.publishable},
    }
