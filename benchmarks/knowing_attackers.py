"""What the audit's attackers get who know the past, on real people, beside attacks that were written apart.

    python benchmarks/knowing_attackers.py LOG       writes the section of RESULTS.md
    python benchmarks/knowing_attackers.py LOG --noise   releases of noise only: every attack at chance

LOG is AOL's sample in its own format. It is cut in time where half of its records were made: the attacker knows what
everybody asked before, releases are made of the rest. The last column is what attacks written apart from this project
got on other logs, with the same settings; it is told for comparison only, since the people are others. Some of those
logs had a hundred busy people: `busiest` rows are of the hundred people with most records on both sides.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator
from datetime import date
from typing import Any

import polars as pl

from queryveil.audit.attack import attacks
from queryveil.audit.auditing import described, fingerprint, secrets_of
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Finding
from queryveil.audit.formatting import between, format_figure
from queryveil.audit.past import Past
from queryveil.log import QueryLog, read
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.release.secrets import Secrets

BUSIEST = 100
SETTINGS: tuple[tuple[str, dict[str, Any], bool, tuple[str, ...], str], ...] = (
    ("suppress", {"k_text": 5}, False, ("found-all-1", "found-all-2"), "45 to 67 %; two pairs 90 to 100 %"),
    ("stream", {"k": 5}, False, ("past-authors-in-pool",), "25 to 28 %"),
    ("stream", {"k": 30}, False, ("past-authors-in-pool",), "7.6 %"),
    ("stream", {"k": 30, "k_text": 2}, False,
     ("past-authors-in-pool", "past-authors-in-pool-asked-before"), "19 to 21 %"),
    ("semantic", {"epsilon": 10.0, "per": "query"}, False, ("past-law", "past-law-busy"), "68 of 100"),
    ("semantic", {"epsilon": 10.0, "per": "query"}, True, ("past-law",), "68 of 100"),
    ("obfuscate", {"epsilon": 2.0, "mechanism": "custext"}, False,
     ("past-pseudonyms-words", "past-law", "past-law-busy"), "58 to 64 %"),
    ("obfuscate", {"epsilon": 2.0, "mechanism": "custext"}, True, ("past-pseudonyms-words", "past-law"), "58 to 64 %"),
    ("microaggregate", {"k": 10}, False,
     ("past-authors-in-group", "past-authors-in-group-asked-before"), "28 to 38 %"),
    ("microaggregate", {"k": 10}, False, ("sybils",), "6 of 12"),
    ("obfuscate", {"epsilon": 10.0, "mechanism": "custext"}, False, ("likelihood-5",), "96.7 %"),
    ("obfuscate", {"epsilon": 10.0, "mechanism": "vkr-cmp"}, False, ("likelihood-20",), "95 %"),
)  # fmt: skip


def busiest(log: QueryLog, past: Past) -> tuple[QueryLog, Past]:
    """The hundred people with most records on both sides."""
    later = past.later(log).group_by("user").len("after")
    both = past.log.frame.group_by("user").len("before").join(later, on="user")
    most = both.select("user", least=pl.min_horizontal("before", "after")).sort("least", "user", descending=True)
    chosen = pl.col("user").is_in(most["user"].head(BUSIEST).implode())
    return QueryLog(log.frame.filter(chosen)), Past(QueryLog(past.log.frame.filter(chosen)), past.told, past.until)


def audited(original: QueryLog, release: Any, past: Past, keys: tuple[str, ...]) -> Iterator[Finding]:
    """The findings of these keys."""
    context = AuditContext(
        original=original, released=release.log, manifest=described(release), secrets=secrets_of(release),
        past=Past(past.log, "what everybody asked before"), digest=fingerprint(release.log),
    )  # fmt: skip
    for attack in attacks():
        if any(key.startswith(attack.key) or (key.startswith("found") and attack.key == "uniqueness") for key in keys):
            context.begin(attack.key)
            yield from (item for item in attack.run(context) if isinstance(item, Finding) and item.key in keys)


def noise(log: QueryLog, past: Past) -> None:
    """Five releases of noise: texts and days of the later half dealt out anew."""
    later = past.later(log)
    for seed in range(5):
        mixed = Noise.seeded(seed).stream("benchmark: noise").permutation(later.height)
        shown = later.select(("name of " + pl.col("user")).alias("user"), later["query"][mixed])
        context = AuditContext(
            original=QueryLog(later), released=QueryLog(shown), manifest={}, past=Past(past.log, "the past"),
            secrets=Secrets(later["user"], shown["user"], later["user"], {}), digest=str(seed),
        )  # fmt: skip
        for attack in attacks():
            if attack.key.startswith(("past", "simattack")):
                context.begin(attack.key)
                for item in attack.run(context):
                    if isinstance(item, Finding) and item.chance is not None and item.low is not None:
                        held = "holds" if item.low <= item.chance else "ABOVE"
                        print(f"{seed} {item.key}: {item.successes} of {item.trials}, chance {item.chance:.4f}: {held}")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("log")
    arguments.add_argument("--dry", action="store_true")
    arguments.add_argument("--noise", action="store_true")
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    log = read(given.log, format="aol")
    past = Past.of(log)
    if given.noise:
        noise(log, past)
        return
    rows = []
    for name, parameters, few, keys, apart in SETTINGS:
        if given.only not in name:
            continue
        people, known = busiest(log, past) if few else (log, past)
        original = QueryLog(known.later(people))
        release = make(name, **parameters).protect(original, Noise.seeded(1))
        setting = " ".join([name, *(f"{key}={value}" for key, value in parameters.items())])
        for item in audited(original, release, known, keys):
            chance = "" if item.chance is None else format_figure(item.chance, "share")
            rows.append(
                f"| {setting}{', busiest 100' if few else ''} | {item.title} | {item.successes:,} of {item.trials:,}: "
                f"{format_figure(item.value, 'share')} ({between(item)}) | {chance} | {apart} |"
            )
            print(rows[-1], flush=True)
    if not given.dry:
        from _results import write_section

        load = os.getloadavg()[1]
        write_section("knowing", "\n".join([HEAD.format(date.today(), platform.machine(), load), *rows]))


HEAD = """## Attackers who know the past

{}, {}, load {:.1f}; `python benchmarks/knowing_attackers.py LOG` on AOL's sample of 1,017 people, cut in time where
half of its records were made: the attacker knows the first half, releases are of the second. The last column is what
attacks written apart got on other logs.

| setting | attack | got | chance | elsewhere |
|---|---|---|---|---|"""


if __name__ == "__main__":
    main()
