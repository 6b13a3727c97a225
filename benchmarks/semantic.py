"""Semantic release: exact calibration of a large domain, draws a second, a million queries end to end, utility gained.

python benchmarks/semantic.py [--records 1000000]

Times are CPU time unless called wall; each large job runs in a process of its own, so that peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np

from _results import write_section
from queryveil.knowledge.wordnet import WordNet
from queryveil.log.query_log import QUERY
from queryveil.mechanisms.semantic.ball import Nearest, ball
from queryveil.mechanisms.semantic.calibration import calibrate
from queryveil.mechanisms.semantic.composition import calibrate_repeated
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import ClassLaw, draw, printed_exponents
from queryveil.mechanisms.semantic.optimum import choose
from queryveil.privacy import Noise

SOURCE = Path(__file__).resolve().parents[1] / "src"
ABSTRACTION = "abstraction.n.06"
MEASURED = """
import json, resource, time
start, cpu = time.perf_counter(), time.process_time()
{work}
used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps([time.perf_counter() - start, time.process_time() - cpu, used, *told]))
"""
CALIBRATION = """
from queryveil.mechanisms.semantic import Semantic
mechanism = Semantic(epsilon=10.0, per="query", domain="{domain}", criterion="{criterion}")
certified = mechanism.certified
told = [certified.epsilon, certified.digest[:16], len(mechanism.public_domain)]
"""
RELEASE = """
from pathlib import Path
from queryveil.mechanisms.semantic import Semantic
from queryveil.privacy import Noise
from queryveil.release import pipeline
mechanism = Semantic(epsilon=10.0, per="query", domain="{domain}", criterion="sqc1", max_queries=100000)
folder = Path("{folder}")
source, target = pipeline.Source(path=folder / "{log}"), pipeline.Target(folder=folder / "{log}.out")
outcome = pipeline.release(mechanism, source, target, Noise.secure())
told = [len(outcome.release.log)]
"""


def in_a_process(work: str, cache: str) -> list:
    """Wall seconds, CPU seconds, peak GiB, and what the work tells."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "QUERYVEIL_CACHE": cache}
    code = MEASURED.format(work=work)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def calibrations(cache: str) -> list[str]:
    lines = ["| law at ε = 10 | concepts | first time, wall s | CPU s | peak GiB | later, wall s | exact loss |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    in_a_process(CALIBRATION.format(domain="sport", criterion="sqc1"), cache)  # compiles WordNet and the kernels
    for domain, criterion in ((ABSTRACTION, "sqc1"), (ABSTRACTION, "sqc2"), (ABSTRACTION, "auto"), ("all", "auto")):
        first = in_a_process(CALIBRATION.format(domain=domain, criterion=criterion), cache)
        later = in_a_process(CALIBRATION.format(domain=domain, criterion=criterion), cache)
        lines.append(
            f"| {criterion} on {domain} | {first[5]:,} | {first[0]:.1f} | {first[1]:.1f} | {first[2]:.2f} | "
            f"{later[0]:.1f} | {first[3]:.9f} |"
        )
        print(lines[-1], flush=True)
    return lines


def draws() -> list[str]:
    """CPU time of preparing distinct concepts, of draws once prepared, and of drawing as NumPy would."""
    domain = Domain.named(WordNet.load().nouns, ABSTRACTION, outside=True)
    dice = np.random.default_rng(1)
    distinct = dice.permutation(len(domain))[:20_000].astype(np.int32)
    law = ClassLaw.of(domain, "sqc1", 9.0, inputs=distinct)
    stream = Noise.seeded(1).stream("x")
    draw(law, distinct[:10], stream)
    prepared = _cpu(lambda: draw(law, distinct, stream))
    few = distinct[:200]
    less = _cpu(lambda: draw(law, dice.choice(few, 500_000), stream))
    more = _cpu(lambda: draw(law, dice.choice(few, 2_500_000), stream))
    rate = 2_000_000 / (more - less)
    probabilities = np.array([float(p) for p in law.probabilities(int(few[0]))])
    naive = 200 / _cpu(lambda: [dice.choice(len(domain), p=probabilities) for _ in range(200)])
    return [
        f"20,000 distinct concepts of *abstraction* prepared and drawn for once each: {prepared:.1f} s. Once a concept "
        f"is prepared: {rate:,.0f} draws/s on one core, {rate / naive:,.0f} times as many as NumPy's choice over "
        f"the same {len(domain):,} probabilities ({naive:,.0f}/s).",
    ]


def _cpu(work) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def end_to_end(records: int, cache: str) -> list[str]:
    from queryveil.log import write
    from queryveil.log.synthetic import synth

    lines = ["| records of a log | wall s, file to signed folder | CPU s | µs of CPU per record | peak GiB |",
             "|---|---|---|---|---|"]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for size in (records // 4, records):
            name = f"log{size}.parquet"
            log = synth(users=max(1, size // 50), records=size)
            write(log, Path(folder) / name)
            found = in_a_process(RELEASE.format(domain=ABSTRACTION, folder=folder, log=name), cache)
            assert found[3] == log.frame.select(QUERY).n_unique()
            lines.append(
                f"| {size:,} | {found[0]:.1f} | {found[1]:.1f} | {found[1] / size * 1e6:.0f} | {found[2]:.2f} |"
            )
            print(lines[-1], flush=True)
    return lines


def utility() -> list[str]:
    nouns = WordNet.load().nouns
    lines = ["| domain | ε per query | at random | sqc1 as printed | sqc1 calibrated | nsqc calibrated (KRR) | ball | "
             "chosen |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for name in ("disease", "science.n.01", "sport", "social_event", "contact_sport"):
        domain = Domain.named(nouns, name, outside=True)
        for epsilon in (1.0, 4.0, 10.0):
            printed = ClassLaw.of(domain, "sqc1", printed_exponents(domain, "sqc1", epsilon).max())
            best = choose(domain, epsilon)
            values = [
                Nearest.of(domain).floor,
                printed.expected_similarity(),
                *(calibrate(domain, c, epsilon).law.expected_similarity() for c in ("sqc1", "nsqc")),
                ball(domain, epsilon).law.expected_similarity(),
            ]
            shown = " | ".join(f"{value:.3f}" for value in values)
            lines.append(f"| {name} | {epsilon:g} | {shown} | {best.criterion}, {best.law.expected_similarity():.3f} |")
    return lines


def with_delta() -> list[str]:
    nouns = WordNet.load().nouns
    lines = ["| domain | law | ε per query, δ = 0 | δ = 1e-6 | ratio |", "|---|---|---|---|---|"]
    for name, criterion in (("sport", "sqc1"), ("disease", "sqc1"), ("disease", "nsqc"), (ABSTRACTION, "nsqc")):
        found = calibrate_repeated(Domain.named(nouns, name, outside=True), criterion, 10.0, 1e-6, 100)
        lines.append(f"| {name} | {criterion} | 0.1 | {found.epsilon:.3f} | {found.epsilon / 0.1:.1f} |")
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["QUERYVEIL_CACHE"] = cache
        sections = [
            "## Semantic release",
            f"{date.today()}, `python benchmarks/semantic.py --records {given.records}`, "
            f"Python {platform.python_version()}, 2 cores shared with other work (wall times suffer, CPU times less).",
            "",
            *calibrations(cache),
            "",
            *draws(),
            "",
            *end_to_end(given.records, cache),
            "",
            "Expected similarity of a query and its replacement (equally likely inputs, *outside* included), beside "
            "that of concepts drawn at random:",
            "",
            *utility(),
            "",
            "A user's 100 queries within ε = 10 in all:",
            "",
            *with_delta(),
        ]
    write_section("semantic", "\n".join(sections))
    print("\n".join(sections))


if __name__ == "__main__":
    main()
