"""What people kept aside learn from distill and from everything else that is private per person, at equal (ε, δ).

Value kept is 0 for public knowledge alone and 1 for the raw log (`queryveil.audit.held_out`). On the AOL sample against
ε, with a fifth of the people kept aside; on synthetic logs against the number of people, at ε = 4. Beside them two that
are not private in this sense: withholding what fewer than five users ask, and the rule of 30 users in 13 months.

One draw of the noise decides a few of a hundred queries, so everything private is made several times over, each time
with other noise: shown are the mean and its standard error over the draws. How much the judges themselves vary is no
part of it; that is the same for all of them.

python benchmarks/distill_beside_others.py [--quick]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np

import queryveil
from _distill_folds import DATA
from _results import write_section
from _small_multiples import write_plot
from queryveil import mechanisms
from queryveil.audit.held_out.splitting import hold_out
from queryveil.audit.held_out.values import held_out_values
from queryveil.experiments import policies
from queryveil.log import QueryLog
from queryveil.log.query_log import cores
from queryveil.log.synthetic import synth
from queryveil.mechanisms.distill import contributions, estimation
from queryveil.mechanisms.distill.budget import UNIT
from queryveil.mechanisms.distill.shape import USUAL
from queryveil.mechanisms.distill.texts import Asked, vocabulary
from queryveil.privacy import Noise
from queryveil.privacy.calibration import analytic_gaussian_sigma
from queryveil.release.release import Release

DELTA = 1e-8
EPSILONS = (1.0, 2.0, 4.0, 8.0)
SIZES = (1_000, 4_000, 16_000, 64_000)
PLOTS = Path(__file__).parents[1] / "docs" / "plots"
AOL_USERS, SYNTH_USERS = 10_000, 60_000
SYNTH_SEED = 2026
"""Of logs that no constant was chosen by."""
AOL_DRAWS, SYNTH_DRAWS = 4, 2
"""How often everything private is made."""
DRAWN = 300_000
"""Synthetic users (of AOL's people and of synthetic ones, who ask less), and texts drawn from noisy word counts: what
is drawn costs no privacy, however much it is."""


Maker = Callable[[QueryLog, int], QueryLog | Release]
"""What makes a release of a log, by a seed."""
Found = dict[str, dict[str, tuple[float, float]]]
"""By maker and measure: the mean value kept, and its standard error."""


def word_counts_alone(log: QueryLog, epsilon: float, seed: int) -> QueryLog:
    """All of the budget for one table, how many people ask each word; texts of words drawn from it, one by one."""
    asked = Asked.of(log.frame)
    noise = Noise.seeded(seed)
    sigma = round(analytic_gaussian_sigma(epsilon=epsilon, delta=DELTA, sensitivity=1.0) * UNIT)
    counted = contributions.sums(asked)["words"]
    noisy = counted + noise.stream("words").discrete_gaussian(sigma, len(counted))
    shares = estimation.rake_words(noisy, estimation.prior_words(), sigma=sigma)
    lengths = np.random.default_rng(5).choice(len(USUAL["lengths"]), DRAWN, p=USUAL["lengths"]) + 1
    known = shares[:-1] / shares[:-1].sum()
    drawn = np.random.default_rng(6).choice(len(known), int(lengths.sum()), p=known)
    words = np.array(vocabulary().words.to_list(), dtype=object)[drawn]
    texts = [" ".join(part) for part in np.split(words, np.cumsum(lengths)[:-1])]
    return QueryLog.of([(f"s{number // 20}", text) for number, text in enumerate(texts)])


def of(name: str, **parameters: object) -> Maker:
    """A mechanism at a setting."""
    return lambda log, seed: mechanisms.make(name, **parameters).protect(log, Noise.seeded(seed))


def rule(name: str, **parameters: object) -> Maker:
    """A rule at a setting."""
    return lambda log, seed: policies.make(name, **parameters).protect(log, Noise.seeded(seed)).log


def private(epsilon: float, users: int) -> dict[str, Maker]:
    """Everything that is private per person at (ε, δ)."""
    return {
        "distill": of("distill", epsilon=epsilon, delta=DELTA, users=users),
        "sanitize": of("sanitize", epsilon=epsilon, delta=DELTA),
        "word counts alone": lambda log, seed: word_counts_alone(log, epsilon, seed),
        "noisy threshold": rule("noisy-threshold", epsilon=epsilon, delta=DELTA, contribution=20),
        "semantic": of("semantic", epsilon=epsilon, per="user"),
    }


OTHERS = {
    "suppress, 5 users": of("suppress", k_text=5),
    "30 users in 13 months": rule("console", users=30, days=396, every=91),
}


def judged(log: QueryLog, makers: dict[str, Maker], draws: int) -> Found:
    """Value kept by each maker for each measure; what is not private is the same in every draw, and made once."""
    train, judges = hold_out(log, 0.2)
    seen: dict[str, dict[str, list[float]]] = {name: {} for name in makers}
    for draw in range(draws):
        releases = {}
        for name, make in makers.items():
            if draw == 0 or name not in OTHERS:
                started = time.time()
                releases[name] = make(train, 7 + draw)
                print(f"  {name}: {time.time() - started:.0f} s", flush=True)
        started = time.time()
        for name, values in held_out_values(train, releases, judges).items():
            for key, one in values.items():
                seen[name].setdefault(key, []).append(one.value)
        print(f"  judged: {time.time() - started:.0f} s", flush=True)
    return {name: {key: _mean(values) for key, values in by.items()} for name, by in seen.items()}


def _mean(values: list[float]) -> tuple[float, float]:
    """The mean and its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(error)


def table(found: dict[str, Found], heads: list[str]) -> list[str]:
    """Rows by measure and maker; a column for each head."""
    keys = list(dict.fromkeys(key for by in found.values() for values in by.values() for key in values))
    names = list(dict.fromkeys(name for by in found.values() for name in by))
    lines = ["| measure | | " + " | ".join(heads) + " |", "|---|---|" + "---|" * len(heads)]
    for key in keys:
        for name in names:
            shown = [_shown(found[head].get(name, {}).get(key)) for head in heads]
            lines.append(f"| {key} | {name} | " + " | ".join(shown) + " |")
    return lines


def _shown(cell: tuple[float, float] | None) -> str:
    """In per cent; a standard error below half a point is left out."""
    if cell is None:
        return "–"
    mean, error = 100 * cell[0], 100 * cell[1]
    return f"{mean:.0f} ± {error:.0f}" if error >= 0.5 else f"{mean:.0f}"


def panels(found: dict[str, Found], names: list[str]) -> dict[str, dict[str, list]]:
    """For each measure a line for each name."""
    keys = list(dict.fromkeys(key for by in found.values() for values in by.values() for key in values))
    return {
        key: {
            name: [(place, by[name][key][0]) for place, by in enumerate(found.values()) if key in by.get(name, {})]
            for name in names
        }
        for key in keys
    }


def main() -> None:
    """Measure, plot and write the section."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="one ε and one size; prints and writes nothing")
    quick = parser.parse_args().quick
    began = time.time()
    log = queryveil.read(DATA, format="aol")
    by_epsilon = {}
    for epsilon in EPSILONS[2:3] if quick else EPSILONS:
        print(f"ε = {epsilon:g}", flush=True)
        by_epsilon[f"ε = {epsilon:g}"] = judged(
            log, private(epsilon, AOL_USERS) | (OTHERS if epsilon == 4 else {}), AOL_DRAWS
        )
    by_people = {}
    for people in SIZES[1:2] if quick else SIZES:
        print(f"{people:,} people", flush=True)
        by_people[f"{people:,}"] = judged(
            synth(users=people, records=12 * people, seed=SYNTH_SEED), private(4.0, SYNTH_USERS), SYNTH_DRAWS
        )
    one, other = table(by_epsilon, list(by_epsilon)), table(by_people, list(by_people))
    print("\n".join([*one, "", *other]))
    if quick:
        return
    names = list(private(4.0, AOL_USERS))
    write_plot(PLOTS / "distill-epsilon.svg", panels(by_epsilon, names), ticks=[f"{e:g}" for e in EPSILONS], across="ε")
    write_plot(PLOTS / "distill-people.svg", panels(by_people, names), ticks=list(by_people), across="people, ε = 4")
    train, judges = hold_out(log, 0.2)
    text = (
        f"## distill beside others\n\n`python benchmarks/distill_beside_others.py`, {date.today()}, "
        f"{time.time() - began:.0f} s on {cores()} cores at a load of {os.getloadavg()[0]:.0f}. Value kept, in % of "
        f"the way from public knowledge to the raw log, by people kept aside; δ = {DELTA:g} per user for all that are "
        f"private per person. Mean of {AOL_DRAWS} draws of the noise, {SYNTH_DRAWS} on synthetic logs, ± its "
        "standard error over them where that is half a point or more. "
        f"AOL sample, {train.user_count()} people, judged by {judges.user_count()} others. "
        "Shares by the number of people and weights of the mixture were chosen on folds of the training people and on "
        "synthetic logs of another seed; the form of the estimation and its older constants while looking at these "
        "judges, too, several times over: small differences mean nothing.\n\n"
        + "\n".join(one)
        + "\n\nSynthetic logs of a seed that nothing was chosen by, ε = 4, by the number of people; a fifth judge:\n\n"
        + "\n".join(other)
    )
    write_section("distill-beside-others", text)


if __name__ == "__main__":
    main()
