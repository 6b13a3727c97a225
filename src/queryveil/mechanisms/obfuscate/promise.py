"""What an obfuscation promises, in words with every number filled in."""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache

import numpy as np

from queryveil.arrays import Longs
from queryveil.knowledge.embeddings import WordVectors
from queryveil.mechanisms.obfuscate.nearest import NearestWords
from queryveil.mechanisms.obfuscate.selecting import CustomisedWords
from queryveil.mechanisms.obfuscate.words import WordMechanism
from queryveil.privacy import Guarantee, MetricDP, NoGuarantee, PureDP
from queryveil.privacy.guarantee import COMPARED_RELEASES, COMPUTATIONAL, rounded_up
from queryveil.release.mechanism import Mode

SAMPLED_WORDS, ASKED_WORDS = 500, 100
AS_GOOD_AS_CERTAIN = 0.99
"""The chance of coming out unchanged from which it is warned: what others then have for the same output is 1 % or less.
No rounder number, since tem stops at 99.9 % however large ε is."""
NOT_PROTECTED = (
    "how many words a query has and in which order",
    "that a query is asked again (it gets the same obfuscations)",
    "when it is asked, from where, and what is clicked",
    "what several queries of one person tell together",
    *COMPARED_RELEASES,
)
ADDS_UP = (
    "a word that is in several different queries: each draws new noise for it, and the losses add up",
    "a word that is in a log released again, or in a query under another key: the noise is new, and the losses add up",
)


def of_words(words: WordMechanism, *, n: int, mode: Mode) -> Guarantee:
    """The promise for one word over n obfuscations."""
    one = words.guarantee()
    total = words.epsilon * n
    unknown = (
        "words outside the vocabulary: they count as one public word"
        if mode == "safe"
        else "that a query had words outside the vocabulary: they are dropped"
    )
    not_protected = (*NOT_PROTECTED, *ADDS_UP, unknown, *warnings(words))
    if isinstance(one, NoGuarantee):
        return dataclasses.replace(one, not_protected=(*NOT_PROTECTED, unknown))
    if isinstance(one, PureDP):
        return dataclasses.replace(
            one,
            epsilon=total,
            relation="two queries that differ in one word",
            assumptions=(COMPUTATIONAL,),
            not_protected=not_protected,
            detail=f"Local model, over all {n} obfuscations sent: the odds between any two words, however far apart "
            f"in meaning, change by at most e^{rounded_up(total)}{_in_figures(total)}; for a query of m words this "
            f"adds up to e^(m · {rounded_up(total)}).",
        )
    assert isinstance(one, MetricDP)
    slack = min(one.delta * n, 0.999)
    return dataclasses.replace(
        one,
        epsilon=total,
        delta=slack,
        relation="two queries of equal length; the distances of their words, place by place, add up",
        assumptions=(COMPUTATIONAL,),
        not_protected=not_protected,
        detail=(
            f"Local model: except with probability {rounded_up(slack)} for each word of a query, which is the share of "
            f"floating point, the {n} obfuscations sent are those of an ideal mechanism; for two queries of equal "
            f"length it keeps ln(P/P′) ≤ {n} · {rounded_up(words.epsilon)} · Σ d(w, w′). "
            f"{_of_near_words(words, total)} "
            f"{_of_far_words(words, n)}{one.detail and ' ' + one.detail}"
        ),
    )


def warnings(words: WordMechanism) -> tuple[str, ...]:
    """What anybody must know before sending or publishing: a fact of the vocabulary and the settings alone."""
    if isinstance(words, CustomisedWords) and words.most_unchanged < AS_GOOD_AS_CERTAIN:
        return ()
    sample, nearest = _nearest_of_sample(words.vectors)
    some = slice(None, None, math.ceil(len(sample) / ASKED_WORDS))
    certain = float(np.mean(words.chance_unchanged(sample[some], nearest[some]) >= AS_GOOD_AS_CERTAIN))
    if not certain:
        return ()
    return (
        f"words that come out as they went in: with these settings {certain:.0%} of the vocabulary (words sampled "
        f"evenly) do so with a chance of {AS_GOOD_AS_CERTAIN:.0%} or more, and then no other word is a plausible "
        "origin (deniability 1)",
    )


def of_baseline(name: str) -> NoGuarantee:
    """AED and FSH."""
    source = "a thesaurus" if name == "aed" else "a local collection"
    return NoGuarantee(
        reason=f"{name} makes other queries from {source} by fixed rules; who knows the rules may undo them",
        unit="query",
        assumptions=(),
        not_protected=("the topic of the query", *NOT_PROTECTED),
    )


def _of_near_words(words: WordMechanism, total: float) -> str:
    """What the numbers mean for a word and its nearest; for custext, for two words of one set."""
    if isinstance(words, CustomisedWords):  # without cutting the vocabulary into sets, which takes a minute
        return f"Two words of one set: the odds change by at most e^{rounded_up(total)}{_in_figures(total)}."
    median, most = neighbour_distances(words)
    return (
        f"Median distance to the nearest other word {median:.4g}, so for the median word replacing it by its nearest "
        f"changes the odds by at most e^{rounded_up(total * median)}{_in_figures(total * median)}; for nine words in "
        f"ten by at most e^{rounded_up(total * most)} (words sampled evenly from the vocabulary)."
    )


def neighbour_distances(words: WordMechanism) -> tuple[float, float]:
    """Of the distance to the nearest (Euclidean) other word the median and the 90 % point, over a sample of words."""
    sample, nearest = _nearest_of_sample(words.vectors)
    median, most = np.quantile(words.distances(sample, nearest), [0.5, 0.9], method="inverted_cdf")
    return float(median), float(most)


@lru_cache(maxsize=4)
def _nearest_of_sample(vectors: WordVectors) -> tuple[Longs, Longs]:
    matrix = vectors.matrix
    count = min(SAMPLED_WORDS, len(matrix))
    sample = np.linspace(0, len(matrix) - 1, count).astype(np.int64)
    found, _ = NearestWords(matrix).two(matrix[sample].astype(np.float64))
    return sample, np.where(found[:, 0] == sample, found[:, 1], found[:, 0])


def _of_far_words(words: WordMechanism, n: int) -> str:
    """What holds for any two words: a limit over all n obfuscations together, where distances are cut."""
    if math.isinf(words.diameter):
        return "Far-apart words may be told apart with certainty."
    most = rounded_up(n * words.epsilon * words.diameter)
    return (
        f"No two words, however far apart, differ by more than e^{most} in odds over the {n} obfuscations together; "
        f"for queries this adds up over their words, e^(m · {most}) for m."
    )


def _in_figures(odds: float) -> str:
    if odds > 40:
        return " (that is, no limit worth the name)"
    return f" = {rounded_up(math.exp(odds))}"
