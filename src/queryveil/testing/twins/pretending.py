"""How a twin passes off what it made as the real mechanism's."""

from __future__ import annotations

import dataclasses
from typing import Any

import polars as pl

from queryveil.log import QueryLog
from queryveil.release.mechanism import Mechanism, parameters_of
from queryveil.release.release import Release


def claiming(mechanism: Mechanism, release: Release, **changes: Any) -> Release:
    """A release passed off as the mechanism's own."""
    return dataclasses.replace(
        release, guarantee=mechanism.guarantee(), parameters=parameters_of(mechanism), mode=mechanism.mode, **changes
    )


def only(release: Release, keep: pl.Series) -> dict[str, Any]:
    behind = release.people().collect().filter(keep).lazy()
    return {"log": QueryLog(release.log.frame.filter(keep)), "behind": behind}
