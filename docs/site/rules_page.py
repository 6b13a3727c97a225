"""Make the public page on today's rules: on a synthetic log, so that everybody may see it and make it again.

    python docs/site/rules_page.py        (`make site` does it; a few minutes)

It goes to build/rules/, from where `build.py` takes it into the site. No real data is read.
"""

from __future__ import annotations

from pathlib import Path

from queryveil.experiments.rule_bench import bench
from queryveil.experiments.sweep import Sweep
from queryveil.log.synthetic import synth
from queryveil.report.rules_page import write_rules

FOLDER = Path(__file__).resolve().parent.parent.parent / "build" / "rules"
USERS, RECORDS, SEED = 5000, 100_000, 5


def main() -> None:
    """Try every rule on the log and write the page."""
    log = synth(users=USERS, records=RECORDS, seed=SEED, details=True)
    found = bench(log, Sweep.beside_rules().settings, on_outcome=lambda one: print(one.setting.label, flush=True))
    FOLDER.mkdir(parents=True, exist_ok=True)
    subject = f"A synthetic log of {USERS:,} people and {RECORDS:,} records (seed {SEED})"
    print(write_rules(found, FOLDER, subject=subject, edition="synthetic"))


if __name__ == "__main__":
    main()
