"""Make the public page on today's rules: on a synthetic log, so that everybody may see it and make it again.

    python docs/site/rules_page.py               (`make site` does it; a few minutes)
    python docs/site/rules_page.py --users 200   a small one, to see that the page can be made

It goes to build/rules/, from where `build.py` takes it into the site. No real data is read.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from queryveil.experiments.rule_bench import bench
from queryveil.experiments.sweep import Sweep
from queryveil.log.synthetic import synth
from queryveil.report.rules_page import write_rules

FOLDER = Path(__file__).resolve().parent.parent.parent / "build" / "rules"
USERS, RECORDS_OF_ONE, SEED = 5000, 20, 5


def main() -> None:
    """Try every rule on the log and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=USERS)
    users = parser.parse_args().users
    records = users * RECORDS_OF_ONE
    log = synth(users=users, records=records, seed=SEED, details=True)
    found = bench(log, Sweep.beside_rules().settings, on_outcome=lambda one: print(one.setting.label, flush=True))
    FOLDER.mkdir(parents=True, exist_ok=True)
    subject = f"A synthetic log of {users:,} people and {records:,} records (seed {SEED})"
    print(write_rules(found, FOLDER, subject=subject, edition="synthetic"))


if __name__ == "__main__":
    main()
