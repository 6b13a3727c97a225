"""`python -m queryveil.testing.harness redis --kills 100`: see the package."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from queryveil.errors import QueryVeilError, UsageError
from queryveil.testing.harness.ends import ENDS, OwnServer, open_end
from queryveil.testing.harness.trial import Events, Trial, TrialVerdict
from queryveil.testing.harness.workers import Zygote

if TYPE_CHECKING:
    from queryveil.testing.harness.spark_trial import ReleaseVerdict

SPARK = "spark"


def main(arguments: list[str] | None = None) -> int:
    """Run a trial; 0 where nothing was violated, 1 where something was, 2 where it could not be tried."""
    parser = argparse.ArgumentParser(
        prog="python -m queryveil.testing.harness", description="A kill test for operators."
    )
    parser.add_argument("connector", choices=[*ENDS, SPARK], help="spark: releases whose driver is killed")
    parser.add_argument("--url", help="the broker, or a folder for files and spark; else one on this machine")
    parser.add_argument("--kills", type=int, default=100, help="with spark by SIGTERM as well, each half a minute")
    parser.add_argument("--freezes", type=int, default=10)
    parser.add_argument("--set-backs", type=int, default=5, help="with files and Redis")
    parser.add_argument("--full-disks", type=int, default=5, help="no file may grow for a moment")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same events")
    given = parser.parse_args(arguments)
    events = Events(given.kills, given.freezes, given.set_backs, given.full_disks)
    try:
        if given.connector == SPARK:
            verdict: TrialVerdict | ReleaseVerdict = tried_on_spark(given.url, given.kills, given.seed)
        else:
            verdict = tried(given.connector, given.url, events, given.seed)
    except QueryVeilError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(verdict.in_words())
    return 1 if verdict.problems else 0


def tried(
    connector: str,
    url: str | None,
    events: Events,
    seed: int,
    workers: Zygote | None = None,
    server: OwnServer | None = None,
) -> TrialVerdict:
    """The verdict of a trial with keys, names and records of its own, of which nothing is left.

    Where the whole `server` may be set back, that is tried as well.
    """
    if workers is None:
        workers = Zygote()
        try:
            return tried(connector, url, events, seed, workers, server)
        finally:
            workers.close()
    with keys_of_its_own():
        end = open_end(connector, url, f"harness-{secrets.token_hex(4)}", server)
        try:
            return Trial(end, workers, events, seed).run(_say)
        finally:
            end.close()


def tried_on_spark(folder: str | None, kills: int, seed: int) -> ReleaseVerdict:
    """The verdict of a trial of releases on Spark."""
    try:
        from queryveil.testing.harness.spark_trial import SparkTrial, drawn_blows
    except ModuleNotFoundError:
        raise UsageError("spark needs another package: pip install 'queryveil[spark]'.") from None
    with keys_of_its_own(), tempfile.TemporaryDirectory(prefix="harness-", dir=folder) as place:
        return SparkTrial(Path(place)).run(drawn_blows(kills, seed), _say)


@contextmanager
def keys_of_its_own() -> Iterator[None]:
    """A new folder for keys, as long as this lasts."""
    before = os.environ.get("QUERYVEIL_KEYS")
    with tempfile.TemporaryDirectory() as keys:
        os.environ["QUERYVEIL_KEYS"] = keys
        try:
            yield
        finally:
            os.environ.pop("QUERYVEIL_KEYS")
            if before is not None:
                os.environ["QUERYVEIL_KEYS"] = before


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
