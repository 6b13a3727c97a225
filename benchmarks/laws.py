"""The same budget, more use: the ball law beside the laws before it, and a ledger that adds up by kinds of loss.

    python benchmarks/laws.py [--part ball|ledger|sanitize]

Every figure of similarity stands beside its floor, what concepts drawn at random give. Real queries need the sample
data (QUERYVEIL_DATA); without it their row is left out. No text of theirs is shown.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import os
import platform
import time
from collections import Counter
from datetime import date
from fractions import Fraction
from pathlib import Path

import numpy as np

from _results import write_section
from queryveil.knowledge.wordnet import WordNet
from queryveil.log import read
from queryveil.mechanisms.distill.budget import Budget
from queryveil.mechanisms.semantic import Semantic
from queryveil.mechanisms.semantic.ball import BallLaw, ball, ranks_of
from queryveil.mechanisms.semantic.calibration import Certified, calibrate
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import ClassCounts, ClassLaw, draw
from queryveil.mechanisms.semantic.law_in_words import law_in_words
from queryveil.mechanisms.semantic.queries import asked
from queryveil.privacy import Charge, Concentrated, Noise
from queryveil.privacy.accounting import EPSILON_UNIT
from queryveil.privacy.calibration import analytic_gaussian_sigma
from queryveil.privacy.composition import Entry, basic, spent
from queryveil.privacy.joint_gaussian import zcdp_rho

SAMPLE = Path(os.environ.get("QUERYVEIL_DATA", "../shared/data")) / "aol" / "aol-1017-users.tsv.gz"
SPECIFIED = {
    ("disease", 1.0): (0.138, 0.146, 0.170),
    ("disease", 2.0): (0.138, 0.158, 0.219),
    ("disease", 4.0): (0.138, 0.208, 0.341),
    ("all nouns", 4.0): (0.099, 0.133, 0.269),
    ("real AOL queries, all nouns", 4.0): (0.070, 0.091, 0.173),
}
"""Concepts at random, the best of sqc1 and randomised response, the ball: from a script written apart."""
WEEKS = 52


def kept_for_each(certified: Certified) -> np.ndarray:
    """The expected similarity of every input by itself, from how many outputs of each class it has."""
    law = certified.law
    counts = ClassCounts.of(law.domain)
    similarity = law.domain.class_similarity[counts.classes]
    whole = np.bincount(counts.owners, counts.counts * similarity)
    if isinstance(law, ClassLaw):
        weights = law.weights[counts.part_of[counts.owners], counts.classes].astype(np.float64)
        return np.bincount(counts.owners, weights * counts.counts * similarity)[counts.row_of] / law.totals
    assert isinstance(law, BallLaw)
    order = np.lexsort((-ranks_of(law.domain)[counts.classes], counts.owners))
    how_many = counts.counts[order].astype(np.int64)
    before = np.cumsum(how_many) - how_many
    before -= np.repeat(before[counts.offsets[:-1]], np.diff(counts.offsets))
    inside = np.clip(law.size - before, 0, how_many)
    near = np.bincount(counts.owners, inside * similarity[order])
    return (((law.near - law.far) * near + law.far * whole) / law.total)[counts.row_of]


def floor_for_each(domain: Domain) -> np.ndarray:
    """The same for concepts drawn at random."""
    counts = ClassCounts.of(domain)
    sums = np.bincount(counts.owners, counts.counts * domain.class_similarity[counts.classes])
    return sums[counts.row_of] / len(domain)


def similarity_rows(name: str, domain: Domain, epsilon: float, inputs: np.ndarray | None = None) -> list[str]:
    laws = {one: calibrate(domain, one, epsilon) for one in ("sqc1", "nsqc")} | {"ball": ball(domain, epsilon)}
    chosen = slice(None) if inputs is None else inputs
    kept = {one: float(kept_for_each(law)[chosen].mean()) for one, law in laws.items()}
    floor = float(floor_for_each(domain)[chosen].mean())
    said = SPECIFIED.get((name, epsilon))
    told = " / ".join(f"{value:.3f}" for value in said) if said else "–"
    if said:
        assert kept["ball"] > said[2] - 0.01, (name, epsilon, kept["ball"])
    row = (
        f"| {name}, {epsilon:g} | {floor:.3f} | {kept['sqc1']:.3f} | {kept['nsqc']:.3f} | **{kept['ball']:.3f}** | "
        f"{laws['ball'].law.size:,} | {told} |"
    )
    print(row, flush=True)
    return [row]


def similarities() -> list[str]:
    """The table of the specification; *outside* is one of the concepts, as in a release."""
    nouns = WordNet.load().nouns
    disease = Domain.named(nouns, "disease", outside=True)
    everything = Semantic(epsilon=4.0, per="query", criterion="ball")
    rows = [row for epsilon in (1.0, 2.0, 4.0, 8.0) for row in similarity_rows("disease", disease, epsilon)]
    rows += similarity_rows("all nouns", everything.public_domain, 4.0)
    if SAMPLE.exists():
        domain = everything.public_domain
        inputs = everything.reader.concepts_of(asked(read(SAMPLE).frame)["query"])
        rows += similarity_rows("real AOL queries, all nouns", domain, 4.0, inputs)
        rows += similarity_rows("those of them with a noun", domain, 4.0, inputs[inputs != domain.outside])
    head = "| domain, ε | at random | sqc1 | randomised response | ball | m | specified: random / best before / ball |"
    return [head, "|---|---|---|---|---|---|---|", *rows]


def in_words() -> list[str]:
    """What people read, for all nouns."""
    domain = Semantic(epsilon=4.0, per="query", criterion="ball").public_domain
    laws = [(ball(domain, 4.0), 4.0), (calibrate(domain, "nsqc", 10.0), 10.0), (ball(domain, 10.0), 10.0)]
    return [f"- {law_in_words(law, epsilon)}" for law, epsilon in laws]


def draws() -> str:
    """CPU time of draws once a concept is prepared, and of preparing it."""
    domain = Semantic(epsilon=4.0, per="query", criterion="ball").public_domain
    law, dice = ball(domain, 4.0).law, np.random.default_rng(1)
    distinct = dice.permutation(len(domain)).astype(np.int32)
    stream = Noise.seeded(1).stream("x")
    draw(law, distinct[:10], stream)

    def cpu(inputs: np.ndarray) -> float:
        start = time.process_time()
        draw(law, inputs, stream)
        return time.process_time() - start

    few = distinct[:200]
    less, more = cpu(dice.choice(few, 500_000)), cpu(dice.choice(few, 4_500_000))
    rate, prepared = 4_000_000 / (more - less), cpu(distinct[:20_000])
    assert rate > 1_000_000
    return (
        f"Draws by the ball of {law.size:,} among {len(domain):,} nouns: {rate / 1e6:.1f} million a second and core; "
        f"20,000 distinct concepts prepared and drawn for once each: {prepared:.1f} s of CPU."
    )


def weekly(rho: float, *, slack: float = 0.0, gaussian: bool = True, delta: float = 1e-7) -> Entry:
    """A release of (1, δ) with this ρ."""
    more = Concentrated(rho=Fraction(rho), slack=Fraction(slack), gaussian=gaussian)
    return Entry.of(Charge.dataset(epsilon=1.0, delta=delta, concentrated=more))


def ledger_rows() -> list[str]:
    """What a year of weekly releases costs, by how each was made; at the δ of one where nothing is spent on slack."""
    textbook = 1 / (2 * 2 * math.log(1.25e7))  # σ = √(2 ln(1.25/δ)) / ε
    usual_zcdp = (math.sqrt(math.log(1e7) + 1) - math.sqrt(math.log(1e7))) ** 2  # ε = ρ + 2√(ρ ln 1/δ)
    exact = 1 / (2 * analytic_gaussian_sigma(epsilon=1.0, delta=1e-7, sensitivity=1.0) ** 2)
    distilled = Budget(1.0, 1e-8).concentrated
    distill = Entry.of(Charge.dataset(epsilon=1.0, delta=1e-8, concentrated=distilled))
    cases = [
        ("Gaussian (1, 1e-7), σ of the textbook", textbook, 1e-7),
        ("Gaussian (1, 1e-7), σ by ρ + 2√(ρ ln 1/δ)", usual_zcdp, 1e-7),
        ("Gaussian (1, 1e-7), σ by the best conversion of zCDP", zcdp_rho(epsilon=1.0, delta=1e-7), 1e-7),
        ("Gaussian (1, 1e-7), least σ", exact, 1e-7),
    ]
    rows = []
    for name, rho, delta in cases:
        found = [_epsilon({weekly(rho, gaussian=one): WEEKS}, delta) for one in (False, True)]
        rows.append(f"| {name} | {rho:.4f} | {delta:g} | {WEEKS} | {found[0]:.2f} | **{found[1]:.2f}** |")
    rho = float(distilled.rho)
    rows.append(f"| distill (1, 1e-8), δ of its thresholds included | {rho:.4f} | 1e-06 | {WEEKS} | – | "
                f"**{_epsilon({distill: WEEKS}, 1e-6):.2f}** |")  # fmt: skip
    pure = Entry.of(Charge.people(epsilon=0.1))
    rows.append(f"| pure ε = 0.1, 520 times | – | 1e-06 | 52 | **{_epsilon({pure: 520}, 1e-6):.2f}** | – |")
    head = "| releases | ρ of one | δ in all | ε added up | by moments (zCDP, advanced) | exact Gaussian |"
    return [head, "|---|---|---|---|---|---|", *rows]


def _epsilon(account: dict[Entry, int], delta: float) -> float:
    found = spent(Counter(account), round(delta * 10**18))
    assert found is not None and found <= basic(account).epsilon
    return found / EPSILON_UNIT


def measured_by(part: str) -> str:
    """When and how a section was made."""
    python = platform.python_version()
    return f"{date.today()}, `python benchmarks/laws.py --part {part}`, Python {python}, 2 shared cores."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["ball", "ledger", "sanitize"])
    given = parser.parse_args()
    if given.part in (None, "ball"):
        sections = ["## The ball law", measured_by("ball"), "",
                    "Mean similarity of a query and its replacement, beside that of concepts at random:", "",
                    *similarities(), "", draws(), "", "All nouns, in words:", "", *in_words()]  # fmt: skip
        write_section("laws-ball", "\n".join(sections))
    if given.part in (None, "ledger"):
        sections = ["## A ledger by kinds of loss", measured_by("ledger"), "",
                    "What a year of weekly releases costs everybody:", "", *ledger_rows(), "",
                    "Releases that use up their (ε, δ) cannot cost less than in the last column."]  # fmt: skip
        write_section("laws-ledger", "\n".join(sections))
        print("\n".join(sections))
    if given.part in (None, "sanitize") and importlib.util.find_spec("_laws_sanitize"):
        importlib.import_module("_laws_sanitize").main()


if __name__ == "__main__":
    main()
