"""Programs of others and ours on equal work in one run: ratios of CPU seconds, and no absolute figure.

    python benchmarks/peers.py --opendp PYTHON --pypantera PYTHON --presidio PYTHON --pipelinedp PYTHON --go "COMMAND"

Each PYTHON is an interpreter of an environment with that package from PyPI (`pip install opendp`, `pypantera`,
`presidio-analyzer`, `pipeline-dp`); what is not given is skipped and says so. COMMAND is how the Go program is called,
with `{k}`, `{depth}`, `{source}` and `{target}` for its parameters, input (tab separated: number, user, query,
time, category path) and output; the input is the log of `benchmarks/stream.py`. Peer and ours run in turn, three times
each; what counts is the least CPU time of either, measured inside the process once everything is loaded (of the Go
program: of the whole process).

What is compared:

- OpenDP: discrete Gaussian noise for as many counts (`make_gaussian` on a vector of whole numbers, exact) beside
  `NoiseStream.discrete_gaussian`, also exact; both from secure randomness.
- pyPANTERA: its CMP beside ours, as in `benchmarks/obfuscate.py`: one obfuscation of single words, random vectors.
- Presidio: its pattern recognisers for e-mail, telephone, IP, credit card, IBAN and URL, without a language model,
  beside `is_identifying`, which looks for fewer kinds of names and more ways to write them. The same texts.
- PipelineDP: `select_partitions` on its local backend, which releases the texts that enough users share, beside
  `sanitize`, which selects texts and releases records of them. The same (user, text) pairs, ε and δ.
- The Go program: the stream mechanism in paper mode from file to file, beside ours.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _results import write_section

ROUNDS = 3
COUNTS, SIGMA = 1_000_000, 10.0
TEXTS, USERS, RECORDS = 20_000, 500, 20_000
GO_SETTING = (3, 11)

OPENDP = """
import sys, time, opendp.prelude as dp
dp.enable_features("contrib")
count, sigma = int(sys.argv[1]), float(sys.argv[2])
space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
noise = dp.m.make_gaussian(*space, scale=sigma)
values = [0] * count
noise(values[:10])
begun = time.process_time()
noise(values)
print(time.process_time() - begun)
"""

PRESIDIO = """
import json, sys, time
import tldextract
tldextract.extract = tldextract.TLDExtract(suffix_list_urls=())  # the list it comes with; else it looks for a newer one
from presidio_analyzer.predefined_recognizers import (
    CreditCardRecognizer, EmailRecognizer, IbanRecognizer, IpRecognizer, PhoneRecognizer, UrlRecognizer)
texts = json.load(open(sys.argv[1]))
kinds = [kind() for kind in (CreditCardRecognizer, EmailRecognizer, IbanRecognizer, IpRecognizer, PhoneRecognizer,
                             UrlRecognizer)]
def look(texts):
    return [any(kind.analyze(text, kind.supported_entities, None) for kind in kinds) for text in texts]
look(texts[:20])
begun = time.process_time()
look(texts)
print(time.process_time() - begun)
"""

PIPELINEDP = """
import json, sys, time, pipeline_dp
pairs = [tuple(pair) for pair in json.load(open(sys.argv[1]))]
def select(pairs):
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=1e-7)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    read = pipeline_dp.DataExtractors(privacy_id_extractor=lambda p: p[0], partition_extractor=lambda p: p[1])
    found = engine.select_partitions(pairs, pipeline_dp.SelectPartitionsParams(max_partitions_contributed=20), read)
    budget.compute_budgets()
    return list(found)
select(pairs[:50])
begun = time.process_time()
select(pairs)
print(time.process_time() - begun)
"""


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of some work here."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def theirs(python: str, script: str, *arguments: object) -> float:
    """The CPU seconds that a script tells, run by an interpreter with the peer's package."""
    done = subprocess.run(
        [python, "-c", script, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    return float(done.stdout.splitlines()[-1])


def least(peer: Callable[[], float], ours: Callable[[], float]) -> tuple[float, float]:
    """The least of both, run in turn."""
    both = [(peer(), ours()) for _ in range(ROUNDS)]
    return min(one for one, _ in both), min(other for _, other in both)


def opendp(python: str) -> tuple[float, float]:
    """Discrete Gaussian noise."""
    from queryveil.privacy import Noise

    def ours() -> float:
        stream = Noise.secure().stream("peers")
        return timed(lambda: stream.discrete_gaussian(SIGMA, COUNTS))

    Noise.secure().stream("peers").discrete_gaussian(SIGMA, 10)
    return least(lambda: theirs(python, OPENDP, COUNTS, SIGMA), ours)


def pypantera(python: str) -> tuple[float, float]:
    """CMP; both tell words per CPU-second, so that a word's time is one over that."""
    import obfuscate

    case = next(iter(obfuscate.CASES))
    return least(lambda: 1 / obfuscate.pypantera_measured(case, python), lambda: 1 / obfuscate.measured(case)["cmp"])


def some_texts() -> list[str]:
    """Texts of a synthetic log, one in twenty with something that identifies."""
    import queryveil as qv

    texts = qv.synth(users=USERS, records=TEXTS, seed=1).frame["query"].to_list()
    return [f"{text} ann{i}@example.org" if i % 40 == 0 else f"{text} 555 123 {i:04}" if i % 40 == 1 else text
            for i, text in enumerate(texts)]  # fmt: skip


def presidio(python: str) -> tuple[float, float]:
    """Personal details in texts."""
    import polars as pl

    from queryveil.log.identifying import is_identifying

    texts = some_texts()
    frame = pl.DataFrame({"text": texts})
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(texts, file)
        file.flush()
        return least(
            lambda: theirs(python, PRESIDIO, file.name), lambda: timed(lambda: frame.select(is_identifying("text")))
        )


def pipelinedp(python: str) -> tuple[float, float]:
    """Texts that enough users share."""
    import queryveil as qv

    log = qv.synth(users=USERS, records=RECORDS, seed=1)
    made = qv.mechanism("sanitize", objective="frequent", epsilon=1.0, delta=1e-7)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(log.frame.select("user", "query").rows(), file)
        file.flush()
        return least(
            lambda: theirs(python, PIPELINEDP, file.name), lambda: timed(lambda: made.protect(log, qv.Noise.secure()))
        )


def go(command: str) -> tuple[float, float]:
    """The stream mechanism in paper mode, from file to file."""
    import stream

    k, depth = GO_SETTING
    source = stream.categorised_log(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out.tsv"

        def peer() -> float:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            called = [part.format(k=k, depth=depth, source=source, target=target) for part in shlex.split(command)]
            subprocess.run(called, check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

        def ours() -> float:
            return stream.in_a_process(Path(stream.__file__), k, depth, "paper", source, target)["cpu"]

        return least(peer, ours)


PEERS = {
    "opendp": ("OpenDP", f"discrete Gaussian noise for {COUNTS:,} counts, σ = {SIGMA:g}", opendp),
    "pypantera": ("pyPANTERA", "CMP, one obfuscation of single words", pypantera),
    "presidio": ("Presidio", f"personal details in {TEXTS:,} texts, patterns only", presidio),
    "pipelinedp": ("PipelineDP", f"private selection of texts among {RECORDS:,} records", pipelinedp),
    "go": ("the published Go program", "stream, paper mode, k = 3, ℓ = 11, from file to file", go),
}


def main() -> None:
    """All peers that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, (title, _, _) in PEERS.items():
        parser.add_argument(f"--{name}", metavar="COMMAND" if name == "go" else "PYTHON", help=f"where {title} is")
    given = vars(parser.parse_args())
    rows = []
    for name, (title, work, measure) in PEERS.items():
        if not given[name]:
            rows.append(f"| {title} | {work} | skipped: --{name} was not given |")
        else:
            try:
                peer, ours = measure(given[name])
                rows.append(f"| {title} | {work} | {peer / ours:.1f}× |")
            except (subprocess.CalledProcessError, FileNotFoundError) as error:
                rows.append(f"| {title} | {work} | skipped: it does not run here ({type(error).__name__}) |")
        print(rows[-1], flush=True)
    intro = (
        f"{date.today()}, `python benchmarks/peers.py`, load {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores. CPU "
        f"seconds of the peer over ours on equal work, in turn, the least of {ROUNDS} each; above 1 ours is faster. "
        "The script says what each pair does."
    )
    table = ["| peer | work | ours is faster by |", "|---|---|---|", *rows]
    write_section("peers", "\n".join(["## Beside programs of others", "", intro, "", *table]))


if __name__ == "__main__":
    main()
