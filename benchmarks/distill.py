"""What a distilled log keeps of real people's language, by five folds of people with nested tuning.

Bits per word of people whom nothing was learned from, between two marks: the public prior (0 %) and the raw log's own
model (100 %). For each fold of test people the constants are chosen on the other four alone: a few settings of the
estimation and the weights of each mixture, those of both marks included, by training on three folds and judging by the
fourth. "As for N people" divides the noise, not the people: what these people know, with the noise that a log of N has.

python benchmarks/distill.py [--quick | --speed]
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date

import numpy as np
import polars as pl

from _distill_folds import FOLDS, Fold, ScaledBudget, noisy_tables, plain_tables, read_folds
from _results import write_section
from queryveil.log.query_log import cores
from queryveil.log.synthetic import synth
from queryveil.mechanisms.distill import Distill, estimation, language
from queryveil.mechanisms.distill.language import Language, Pairs
from queryveil.mechanisms.distill.synthesis import Synthesis
from queryveil.mechanisms.distill.texts import Texts, plain, vocabulary
from queryveil.mechanisms.distill.unions import pair_base
from queryveil.privacy import Noise

DELTA = 1e-8
EPSILONS = (1.0, 2.0, 4.0, 8.0)
SIZES = (4_000, 65_000, 650_000)
SETTINGS = [
    {"CLEAR": clear, "DISCOUNT": discount, "LUMP": lump}
    for clear, discount, lump in itertools.product((3.0, 3.5), (0.75, 0.9), (0.5, 1.0))
]
TUNED_AT = ((1.0, None), (8.0, None), (8.0, 65_000))
"""Where the settings are compared: ε and the number of people, None for as many as there are."""
COMPLETED = 1_200
AMONG = (20_000, 50_000, 100_000, 10**9)
"""Of how many words a completion is chosen."""
GOALS = {8.0: 55, 4.0: 47, 2.0: 40, 1.0: 32}

Parts = np.ndarray
"""P(word | before) of each test word by each part of a mixture; the last column is not weighted."""


@contextmanager
def setting(values: dict[str, float]) -> Iterator[None]:
    """The estimation with other constants."""
    old = estimation.CLEAR, language.DISCOUNT, dict(estimation.LUMP)
    estimation.CLEAR, language.DISCOUNT = values["CLEAR"], values["DISCOUNT"]
    estimation.LUMP.update({name: lump * values["LUMP"] for name, lump in old[2].items()})
    try:
        yield
    finally:
        estimation.CLEAR, language.DISCOUNT = old[:2]
        estimation.LUMP.update(old[2])


def fitted(parts: list[Parts], rounds: int = 40) -> np.ndarray:
    """The weights that make the test words likeliest (expectation maximisation)."""
    every = np.concatenate(parts)
    mixed, fixed = every[:, :-1], every[:, -1]
    weights = np.full(mixed.shape[1], 1 / mixed.shape[1])
    for _ in range(rounds):
        mine = mixed * weights
        share = mine / (mine.sum(axis=1) + fixed)[:, None]
        weights = share.sum(axis=0) / share.sum()
    return weights


def bits(parts: Parts, weights: np.ndarray) -> float:
    """Bits per word."""
    return float(-np.log2(parts[:, :-1] @ weights + parts[:, -1]).mean())


def prior_parts(test: Fold) -> Parts:
    """The public counts alone: words and pairs."""
    prior = vocabulary()
    first = np.where(prior.pair_first == len(prior), pair_base() - 1, prior.pair_first).astype(np.int64)
    value = prior.pair_counts.astype(np.float64) ** estimation.PAIR_TEMPER
    pairs = Pairs.of(first, prior.pair_second.astype(np.int64), value, np.ones(pair_base()))
    words = estimation.prior_words()[test.word]
    listed = np.where(pairs.weight[test.before] > 0, pairs.probability(test.before, test.word), words)
    return np.column_stack([words, listed, np.zeros(len(words))])


def count_parts(before: np.ndarray, word: np.ndarray, test: Fold) -> Parts:
    """A log's own counts of words and pairs, beside the prior: what anybody would make of a log."""
    shares = np.bincount(word, minlength=len(vocabulary()) + 1) / len(word)
    keys, counts = np.unique(before * pair_base() + word, return_counts=True)
    pairs = Pairs.of(keys // pair_base(), keys % pair_base(), counts.astype(np.float64), np.ones(pair_base()))
    words = shares[test.word]
    listed = np.where(pairs.weight[test.before] > 0, pairs.probability(test.before, test.word), words)
    prior = prior_parts(test)
    return np.column_stack([prior[:, :-1], words, listed, np.zeros(len(words))])


def raw_parts(train: list[Fold], test: Fold) -> Parts:
    """The raw log's own model."""
    return count_parts(np.concatenate([f.before for f in train]), np.concatenate([f.word for f in train]), test)


def model_parts(made: Language, test: Fold) -> Parts:
    """The distilled model."""
    shown = made.published_pairs
    weight = shown.weight[test.before]
    mixed = made.parts(test.before, test.word) * (1 - weight)[:, None]
    return np.column_stack([mixed, weight * shown.probability(test.before, test.word)])


def distilled(train: list[Fold], epsilon: float, people: int | None, seed: int, base: int | None = None) -> Language:
    """The model of these people, with noise as for a log of `people`, or of the `base` people of the whole training."""
    there = sum(fold.people for fold in train)
    wanted = people or base or there
    return Language.of(noisy_tables(train, ScaledBudget(epsilon, DELTA, larger=wanted / there), seed))


def inner(folds: list[Fold], test: int) -> list[tuple[list[Fold], Fold]]:
    """Two ways to train on three folds and judge by a fourth, without the test people."""
    others = [k for k in range(FOLDS) if k != test]
    return [([folds[k] for k in others if k != judge], folds[judge]) for judge in others[:2]]


class Nested:
    """All figures of one fold of test people, with everything chosen on the others."""

    def __init__(self, folds: list[Fold], test: int) -> None:
        self.test, self.number = folds[test], test
        self.train = [fold for k, fold in enumerate(folds) if k != test]
        self.inner = inner(folds, test)
        self.people = sum(fold.people for fold in self.train)
        self.prior = self._judged(lambda train, judge: prior_parts(judge))
        self.raw = self._judged(raw_parts)
        self.setting = min(SETTINGS, key=self._inner_bits)

    def _judged(self, parts: Callable[[list[Fold], Fold], Parts]) -> float:
        weights = fitted([parts(train, judge) for train, judge in self.inner])
        return bits(parts(self.train, self.test), weights)

    def _inner_parts(self, epsilon: float, people: int | None) -> list[Parts]:
        return [
            model_parts(distilled(train, epsilon, people, 100 + k, self.people), judge)
            for k, (train, judge) in enumerate(self.inner)
        ]

    def _inner_bits(self, values: dict[str, float]) -> float:
        with setting(values):
            tried = [self._inner_parts(epsilon, people) for epsilon, people in TUNED_AT]
            return sum(bits(part, fitted(parts)) for parts in tried for part in parts)

    def weights(self, epsilon: float, people: int | None) -> np.ndarray:
        """The mixture's weights, from the inner folds."""
        with setting(self.setting):
            return fitted(self._inner_parts(epsilon, people))

    def language(self, epsilon: float, people: int | None) -> Language:
        """The model that the test people judge."""
        with setting(self.setting):
            return distilled(self.train, epsilon, people, 7 + self.number)

    def kept(self, value: float) -> float:
        """Bits per word as a share of the way from the prior to the raw log's model, in %."""
        return 100 * (self.prior - value) / (self.prior - self.raw)

    def value(self, epsilon: float, people: int | None) -> tuple[float, float]:
        """Value kept with nested weights, and with the constants that the package ships."""
        made = self.language(epsilon, people)
        parts = model_parts(made, self.test)
        shipped = bits(parts, np.array(list(made.mixture.values())))
        return self.kept(bits(parts, self.weights(epsilon, people))), self.kept(shipped)

    def stronger_ceiling(self) -> float:
        """Bits per word of the raw log where each mixture's weights go by how often the word before occurs."""
        total = 0.0
        mine = raw_parts(self.train, self.test), _how_often(self.train, self.test)
        tried = [(raw_parts(train, judge), _how_often(train, judge)) for train, judge in self.inner]
        for often in np.unique(mine[1]):
            here = mine[1] == often
            total += bits(mine[0][here], fitted([parts[which == often] for parts, which in tried])) * here.sum()
        return total / len(mine[1])

    def synthetic_value(self, epsilon: float, users: int) -> tuple[float, float, int]:
        """Value kept by a synthetic log read by its counts of words and pairs, and by the package's estimation from its
        plain counts, as any log can be; and how many texts it has."""
        with setting(self.setting):
            train, judge = self.inner[0]
            tried = synthetic_words(train, epsilon, self.people, users, 3)
            drawn = synthetic_words(self.train, epsilon, self.people, users, 4)
        counted = bits(count_parts(*drawn, self.test), fitted([count_parts(*tried, judge)]))
        estimated = bits(model_parts(read_log(*drawn), self.test), fitted([model_parts(read_log(*tried), judge)]))
        return self.kept(counted), self.kept(estimated), int((drawn[0] == pair_base() - 1).sum())


def _how_often(train: list[Fold], test: Fold) -> np.ndarray:
    """A bucket for each test word by how often the word before occurs in the training; the start has its own."""
    counts = np.bincount(np.concatenate([fold.before for fold in train]), minlength=pair_base())
    bucket = np.searchsorted((1, 30, 1000), counts[test.before], side="right")
    return np.where(test.before == pair_base() - 1, 9, bucket)


def read_log(before: np.ndarray, word: np.ndarray) -> Language:
    """The package's estimation from a log's plain counts, each of which is one lump."""
    old = dict(estimation.LUMP)
    estimation.LUMP.update(dict.fromkeys(old, 1.0))
    try:
        return Language.of(plain_tables(before, word))
    finally:
        estimation.LUMP.update(old)


def synthetic_words(
    train: list[Fold], epsilon: float, base: int, users: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The words of a synthetic log and those before them."""
    there = sum(fold.people for fold in train)
    made = Synthesis.of(noisy_tables(train, ScaledBudget(epsilon, DELTA, larger=base / there), seed))
    drawn = pl.concat(made.records(users, Noise.seeded(seed + 50)))
    frame = drawn.unique(["user", "query"])  # as texts of real people count
    texts = Texts.of(frame.select(plain("query"))["query"])
    return texts.before(start=pair_base() - 1), texts.numbers


def reciprocal_rank(probability: Callable[[np.ndarray, np.ndarray], np.ndarray], test: Fold, among: int) -> float:
    """MRR@10 of the word that was meant after its first two letters, among the most frequent public words."""
    words = vocabulary().words.to_list()[:among]
    by_letters: dict[str, list[int]] = {}
    for number, word in enumerate(words):
        by_letters.setdefault(word[:2], []).append(number)
    known = np.flatnonzero(test.word < len(words))
    chosen = known[np.random.default_rng(3).permutation(len(known))[:COMPLETED]]
    total = 0.0
    for place in chosen:
        candidates = np.array(by_letters[words[test.word[place]][:2]])
        likely = probability(np.full(len(candidates), test.before[place]), candidates)
        rank = 1 + int((likely > likely[candidates == test.word[place]][0]).sum())
        total += 1 / rank if rank <= 10 else 0.0
    return total / len(chosen)


def by_parts(parts: Callable[[Fold], Parts], weights: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """P(word | before) for any pairs, from what makes parts for a fold."""

    def probability(before: np.ndarray, word: np.ndarray) -> np.ndarray:
        made = parts(Fold(0, {}, None, None, before, word, word))  # type: ignore[arg-type]
        return made[:, :-1] @ weights + made[:, -1]

    return probability


def completion(nested: Nested) -> dict[str, list[float]]:
    """MRR@10 of prior, distilled models and raw log for one fold of test people, among so many words."""
    fit_prior = fitted([prior_parts(judge) for _, judge in nested.inner])
    fit_raw = fitted([raw_parts(train, judge) for train, judge in nested.inner])
    asked = {"public prior": _cached_prior(fit_prior)}
    for epsilon in EPSILONS:
        made, weights = nested.language(epsilon, None), nested.weights(epsilon, None)
        asked[f"ε = {epsilon:g}"] = by_parts(lambda fold, m=made: model_parts(m, fold), weights)
    asked["raw log's model"] = _cached_raw(nested.train, fit_raw)
    return {name: [reciprocal_rank(one, nested.test, among) for among in AMONG] for name, one in asked.items()}


def _cached_prior(weights: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    prior = vocabulary()
    first = np.where(prior.pair_first == len(prior), pair_base() - 1, prior.pair_first).astype(np.int64)
    value = prior.pair_counts.astype(np.float64) ** estimation.PAIR_TEMPER
    pairs = Pairs.of(first, prior.pair_second.astype(np.int64), value, np.ones(pair_base()))
    shares = estimation.prior_words()

    def probability(before: np.ndarray, word: np.ndarray) -> np.ndarray:
        words = shares[word]
        listed = np.where(pairs.weight[before] > 0, pairs.probability(before, word), words)
        return words * weights[0] + listed * weights[1]

    return probability


def _cached_raw(train: list[Fold], weights: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    public = _cached_prior(weights[:2])
    word = np.concatenate([f.word for f in train])
    before = np.concatenate([f.before for f in train])
    shares = np.bincount(word, minlength=len(vocabulary()) + 1) / len(word)
    keys, counts = np.unique(before * pair_base() + word, return_counts=True)
    pairs = Pairs.of(keys // pair_base(), keys % pair_base(), counts.astype(np.float64), np.ones(pair_base()))

    def probability(before: np.ndarray, word: np.ndarray) -> np.ndarray:
        words = shares[word]
        listed = np.where(pairs.weight[before] > 0, pairs.probability(before, word), words)
        return public(before, word) + words * weights[2] + listed * weights[3]

    return probability


def time_release(users: int = 18_000, records: int = 1_000_000) -> None:
    """How long a release of a synthetic log takes, and what it needs; writes a section of its own."""
    log = synth(users=users, records=records, seed=3)
    mechanism = Distill(epsilon=4.0)
    mechanism.protect(synth(users=50, records=1_000, seed=1), Noise.seeded(1))  # compiles the kernels
    wall, cpu = time.time(), time.process_time()
    release = mechanism.protect(log, Noise.seeded(2))
    wall, cpu = time.time() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    text = (
        f"## distill: time\n\n`python benchmarks/distill.py --speed`, {date.today()}. {records:,} records of {users:,} "
        f"people in, {len(release.log):,} synthetic ones out: {cpu:.1f} s of CPU time, {wall:.1f} s by the clock on "
        f"{cores()} cores with a load of {os.getloadavg()[0]:.1f}; {peak:.1f} GiB at most, reading and writing not "
        "counted."
    )
    write_section("distill-speed", text)
    print(text)


def main() -> None:
    """Measure and write the section."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two folds; prints and writes nothing")
    parser.add_argument("--speed", action="store_true", help="only time a release of a million records")
    asked = parser.parse_args()
    if asked.speed:
        time_release()
        return
    quick = asked.quick
    began = time.time()
    folds = read_folds()
    nested = [Nested(folds, k) for k in range(2 if quick else FOLDS)]
    people = round(float(np.mean([one.people for one in nested])))
    lines = [
        f"Bits per word: public prior {np.mean([n.prior for n in nested]):.2f}, "
        f"raw log's model {np.mean([n.raw for n in nested]):.2f}. Value kept, in %, "
        "nested weights (in brackets: with the weights that the package ships for such a log, which were fixed on this "
        "sample):",
        "",
        "| noise as for | " + " | ".join(f"ε = {e:g}" for e in EPSILONS) + " |",
        "|---|" + "---|" * len(EPSILONS),
    ]
    bits_of: dict[float, list[float]] = {}
    for size in (None, *SIZES):
        row = []
        for epsilon in EPSILONS:
            values = np.array([one.value(epsilon, size) for one in nested])
            if size is None:
                bits_of[epsilon] = [
                    n.prior - v / 100 * (n.prior - n.raw) for n, v in zip(nested, values[:, 0], strict=True)
                ]
            mean, shipped = values.mean(axis=0)
            row.append(f"{mean:.1f} ± {values[:, 0].std(ddof=1):.1f} ({shipped:.1f})")
        lines.append(f"| {size or people:,} people | " + " | ".join(row) + " |")
        print(lines[-1], flush=True)
    goals = ", ".join(f"{goal} % at ε = {e:g}" for e, goal in GOALS.items())
    lines += ["", f"Goals at this size: {goals}; ± is the standard deviation between folds.", ""]
    strong = [one.stronger_ceiling() for one in nested]
    against = {
        epsilon: np.mean(
            [100 * (n.prior - b) / (n.prior - s) for n, b, s in zip(nested, bits_of[epsilon], strong, strict=True)]
        )
        for epsilon in EPSILONS
    }
    lines += [
        f"A raw model whose weights go by how often the word before occurs has {np.mean(strong):.2f} bits; against "
        "that stronger mark "
        + ", ".join(f"{value:.1f} % are kept at ε = {epsilon:g}" for epsilon, value in against.items())
        + f" with {people} people.",
        "",
        "A synthetic log itself, read by its counts of words and pairs beside the prior / read by the package's "
        "estimation from its plain counts, in % (mean of two folds):",
        "",
        "| synthetic log | ε = 2 | ε = 8 |",
        "|---|---|---|",
    ]
    own = [[n.kept(b) for n, b in zip(nested[:2], bits_of[epsilon], strict=False)] for epsilon in (2.0, 8.0)]
    lines.append("| the model itself, by the same people | " + " | ".join(f"{np.mean(row):.1f}" for row in own) + " |")
    for users in (people, 5 * people, 20 * people, 160 * people):
        made = [[one.synthetic_value(epsilon, users) for one in nested[:2]] for epsilon in (2.0, 8.0)]
        texts = round(float(np.mean([count for row in made for *_, count in row])), -3)
        means = [np.mean(row, axis=0) for row in made]
        shown = " | ".join(f"{counted:.1f} / {estimated:.1f}" for counted, estimated, _ in means)
        lines.append(f"| {users:,} users, {texts:,.0f} texts | {shown} |")
        print(lines[-1], flush=True)
    found = [completion(one) for one in nested[:2]]
    sizes = [f"{min(among, len(vocabulary())):,}" for among in AMONG]
    lines += [
        "",
        "Autocompletion after two letters: MRR@10 of "
        f"{2 * COMPLETED:,} words of two folds among the most frequent so many public words, which they are of:",
        "",
        "| among | " + " | ".join(sizes) + " |",
        "|---|" + "---|" * len(AMONG),
    ]
    for name in found[0]:
        mean = np.mean([one[name] for one in found], axis=0)
        lines.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in mean) + " |")
        print(lines[-1])
    print([one.setting for one in nested])
    head = (
        f"## distill: value kept\n\n`python benchmarks/distill.py`, {date.today()}, {time.time() - began:.0f} s. "
        f"AOL sample, {FOLDS} folds by person, δ = {DELTA:g}, distinct texts of each person; words outside the public "
        "vocabulary count as one word. Weights of mixtures and three constants are chosen without the test people; the "
        "form of the estimation and its other constants were found on this sample, people of all folds included.\n\n"
    )
    if not quick:
        write_section("distill", head + "\n".join(lines))


if __name__ == "__main__":
    main()
