"""A small neural language model with differentially private training beside distill's tables, at equal ε.

Three steps, since the training wants an accelerator and the rest wants QueryVeil:

python benchmarks/neural_baseline.py prepare     # the sample's folds as numbers, into benchmarks/out/neural
python benchmarks/neural_baseline.py train       # needs PyTorch and NumPy only; writes benchmarks/out/neural/found.json
python benchmarks/neural_baseline.py write       # the section of RESULTS.md, beside what distill keeps

Settings are chosen on three folds and judged by a fourth, at no cost of ε, which favours the neural model.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from datetime import date
from pathlib import Path

import numpy as np

OUT = Path(__file__).with_name("out") / "neural"
EPSILONS = (1.0, 2.0, 4.0, 8.0)
DELTA = 1e-8
LARGER = (1, 5, 80)
"""Noise as for 814, 4,000 and 65,000 people."""
TESTED, OTHERS = (0, 1), [2, 3, 4]
"""Folds whose people judge, each with settings that the other one chose; and those that both are trained on."""


def prepare() -> None:
    """Folds, public features and the noise of one step, as numbers."""
    from _distill_folds import read_folds
    from distill import Nested, fitted, prior_parts
    from queryveil.knowledge.embeddings import WordVectors
    from queryveil.mechanisms.distill import estimation
    from queryveil.mechanisms.distill.contributions import classes_of_words
    from queryveil.mechanisms.distill.language import Pairs
    from queryveil.mechanisms.distill.texts import vocabulary
    from queryveil.mechanisms.distill.unions import pair_base
    from queryveil.privacy.calibration import analytic_gaussian_sigma

    OUT.mkdir(parents=True, exist_ok=True)
    folds = read_folds()
    prior = vocabulary()
    vectors = WordVectors.load(vocabulary="all")
    row = {word: number for number, word in enumerate(vectors.words.to_list())}
    rows = np.array([row.get(word, -1) for word in prior.words.to_list()])
    shown = np.where(rows[:, None] >= 0, np.asarray(vectors.matrix)[rows.clip(0)], 0.0)
    shown /= np.maximum(np.linalg.norm(shown, axis=1, keepdims=True), 1e-9)
    first = np.where(prior.pair_first == len(prior), pair_base() - 1, prior.pair_first).astype(np.int64)
    value = prior.pair_counts.astype(np.float64) ** estimation.PAIR_TEMPER
    pairs = Pairs.of(first, prior.pair_second.astype(np.int64), value, np.ones(pair_base()))
    data = {
        "vectors": np.rint(shown * 127).astype(np.int8),
        "prior_words": estimation.prior_words(),
        "classes": classes_of_words()[0],
        "pair_start": pairs.start,
        "pair_second": pairs.key % pair_base(),
        "pair_share": pairs.share,
        "mix": fitted([prior_parts(fold) for fold in folds]),
        "sigma": np.array([analytic_gaussian_sigma(epsilon=e, delta=DELTA, sensitivity=1.0) for e in EPSILONS]),
    }
    for number, fold in enumerate(folds):
        data |= {f"before_{number}": fold.before, f"word_{number}": fold.word, f"person_{number}": fold.person}
        data[f"prior_{number}"] = prior_parts(fold)[:, :-1]
    np.savez_compressed(OUT / "data.npz", **data)
    marks = []
    for number in TESTED:
        nested = Nested(folds, number)
        kept = {f"{e:g}": nested.value(e, None)[0] for e in EPSILONS}
        marks.append({"prior": nested.prior, "raw": nested.raw, "distill": kept})
        print(marks[-1], flush=True)
    (OUT / "marks.json").write_text(json.dumps(marks))


def train(quick: bool = False) -> None:
    """Choose settings without the test people, then let the test people judge."""
    import torch

    from _neural_training import DEVICE, People, Public, Setting, trained

    data = dict(np.load(OUT / "data.npz"))
    public = Public(data)

    def people_of(folds: list[int]) -> People:
        offset, parts = 0, []
        for fold in folds:
            person = np.unique(data[f"person_{fold}"], return_inverse=True)[1]
            parts.append((data[f"before_{fold}"], data[f"word_{fold}"], person + offset))
            offset += person.max() + 1
        columns = (np.concatenate(column) for column in zip(*parts, strict=True))
        return People(*(torch.tensor(column, dtype=torch.long, device=DEVICE) for column in columns))

    def parts_of(model, fold: int) -> np.ndarray:
        public_parts = data[f"prior_{fold}"]
        base = public_parts @ data["mix"]
        return np.column_stack([public_parts, model.ratios(people_of([fold])) * base])

    def bits(parts: np.ndarray, weights: np.ndarray) -> float:
        return float(-np.log2(parts @ weights).mean())

    def fitted(parts: np.ndarray, rounds: int = 40) -> np.ndarray:
        weights = np.full(parts.shape[1], 1 / parts.shape[1])
        for _ in range(rounds):
            share = parts * weights
            weights = (share / share.sum(axis=1, keepdims=True)).mean(axis=0)
        return weights

    shapes = [("bias", True), ("linear", True), ("hidden", True)]
    tried = [
        Setting(*shape, steps, 2.0, rate)
        for shape, steps, rate in itertools.product(shapes, (6, 24, 60), (0.2, 0.4, 1.0))
    ]
    sigmas = dict(zip(EPSILONS, data["sigma"], strict=True))
    cases = [(e, 1) for e in EPSILONS] + [(8.0, larger) for larger in LARGER[1:]]
    found: dict[str, list[float]] = {}
    chosen: dict[str, list[str]] = {}
    began = time.time()
    for epsilon, larger in cases[:1] if quick else cases:
        sigma = sigmas[epsilon]
        name = f"{epsilon:g} x{larger}"
        grown = 4 / 3  # three folds have so many times fewer people than the four that are judged
        scores: dict[int, list] = {judge: [] for judge in TESTED}
        for setting in tried[:: 4 if quick else 1]:
            model = trained(public, people_of(OTHERS), setting, sigma, larger * grown, seed=3)
            for judge in TESTED:
                parts = parts_of(model, judge)
                scores[judge].append((bits(parts, fitted(parts)), setting, fitted(parts)))
        for test in TESTED:
            (judge,) = set(TESTED) - {test}
            best = sorted(scores[judge], key=lambda item: item[0])[:3]
            print(name, f"{time.time() - began:.0f} s", [(round(s, 4), str(x)) for s, x, _ in best], flush=True)
            _, setting, weights = best[0]
            chosen.setdefault(name, []).append(str(setting))
            model = trained(public, people_of([*OTHERS, judge]), setting, sigma, larger, seed=test)
            found.setdefault(name, []).append(bits(parts_of(model, test), weights))
        print(name, [round(value, 3) for value in found[name]], flush=True)
        device = torch.cuda.get_device_name() if DEVICE == "cuda" else "a CPU"
        result = {"found": found, "chosen": chosen, "device": device}
        result["seconds"] = time.time() - began
        for folder in (OUT, Path(os.environ.get("OUT", OUT))):
            (folder / "found.json").write_text(json.dumps(result))


def write() -> None:
    """The section of RESULTS.md."""
    from _results import write_section

    marks = json.loads((OUT / "marks.json").read_text())
    result = json.loads((OUT / "found.json").read_text())

    def kept(values: list[float]) -> str:
        shares = [
            100 * (mark["prior"] - value) / (mark["prior"] - mark["raw"])
            for mark, value in zip(marks, values, strict=True)
        ]
        return f"{np.mean(shares):.1f}"

    lines = ["| value kept, % | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |", "|---|" + "---|" * len(EPSILONS)]
    tables = [[mark["distill"][f"{e:g}"] for mark in marks] for e in EPSILONS]
    lines.append("| distill | " + " | ".join(f"{np.mean(v):.1f}" for v in tables) + " |")
    lines.append("| neural, same ε | " + " | ".join(kept(result["found"][f"{e:g} x1"]) for e in EPSILONS) + " |")
    larger = ", ".join(f"{814 * many:,} people {kept(result['found'][f'8 x{many}'])}" for many in LARGER[1:])
    text = (
        f"## distill beside a neural model with private training\n\n`python benchmarks/neural_baseline.py`, "
        f"{date.today()}, trained on {result['device']} in {result['seconds']:.0f} s. The AOL sample, two of five "
        f"folds by person judge; δ = {DELTA:g} per user, everybody in every step, exact Gaussian accounting. The "
        "neural model moves the public prior by the vector and class of the next word given the word before (bias, "
        "linear map or a hidden layer; settings chosen on other people, at no cost of ε).\n\n"
        + "\n".join(lines)
        + f"\n\nNeural at ε = 8 with noise as for {larger}: more people hardly help a model of this size."
    )
    write_section("neural-baseline", text)
    print(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("step", choices=["prepare", "train", "write"])
    parser.add_argument("--quick", action="store_true", help="a few settings of one case, to see that it runs")
    asked = parser.parse_args()
    {"prepare": prepare, "train": lambda: train(asked.quick), "write": write}[asked.step]()
