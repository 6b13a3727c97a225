"""One release on Spark in a process of its own, which a blow may end: `spark_trial` starts many.

The argument is a JSON object: `log`, `folder`, `ledger` and `mechanism` say what to release; `shared` where parts lie,
if not in `TMPDIR`; `blow` is a `Blow`, or null. A signal comes at the n-th pass of a label, or some seconds after it,
in the middle of what Spark does then.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from queryveil.engines.spark.cluster import QUIET, STAGING, Cluster
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.release import pipeline

SEED = 5
QUICK_START = f"-Dlog4j2.configurationFile={QUIET.as_uri()} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that compiles little and collects in one thread: enough for small logs."""


def release(told: dict[str, Any], cluster: Cluster | None, on_step: Any = pipeline.no_step) -> None:
    """That release; without a cluster on this machine."""
    target = pipeline.Target(folder=Path(told["folder"]), ledger=Path(told["ledger"]), format="csv")
    source = pipeline.Source(path=Path(told["log"]))
    pipeline.release(make(told["mechanism"]), source, target, Noise.seeded(SEED), on_step, engine=cluster)


def main() -> None:
    """Make the release that the argument describes."""
    told = json.loads(sys.argv[1])
    blow = told["blow"] or {"label": None}
    left = blow.get("number", 0)

    def on_step(step: str) -> None:
        nonlocal left
        if step != blow["label"]:
            return
        left -= 1
        if left:
            return
        if blow["seconds"]:
            threading.Timer(blow["seconds"], os.kill, (os.getpid(), blow["signal"])).start()
        else:
            os.kill(os.getpid(), blow["signal"])

    os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK_START)
    settings = {"spark.sql.shuffle.partitions": "4"} | ({STAGING: told["shared"]} if told["shared"] else {})
    with Cluster("local[2]", settings, on_step=on_step) as cluster:
        release(told, cluster, on_step)


if __name__ == "__main__":
    main()
