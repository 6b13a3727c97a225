"""The likelihood attack on word obfuscation: which word most likely gave these outputs?

The attacker knows the mechanism, its parameters and the vocabulary (all public), sees N obfuscations of one word, and
takes the word under which they are likeliest. A mechanism may hardly ever answer with the true word and still give it
away: what matters is how the laws of different words differ, and N outputs show it N times.

P(output | word) comes from what the mechanism declares (`_word_law.py`): exactly, over the whole vocabulary, where the
law can be written down; by importance sampling in the outputs' cells where it is noise around vectors; and by running
the mechanism where it tells nothing. Two attackers are tried, and the better one counts: for one all words are alike
before anything is seen, the other expects words that occur in a log of this size by Zipf's law (vocabularies list
frequent words first).

Reported is the share of words recovered from as many obfuscations as the release publishes of one query, with an exact
interval, beside the share of single outputs that are the true word (what an attacker gets who believes what he reads);
and, outside the release's risk, what 5 and 20 would tell if the same word were asked so often. `bayes_vulnerability` is
the exact chance of the best guess from one output where the whole law is known.

>>> bayes_vulnerability(np.array([[0.9, 0.1], [0.3, 0.7]]))
0.8
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.arrays import Floats, Longs
from queryveil.audit.attacks._learned_law import guess_by_running
from queryveil.audit.attacks._noise_law import guess_by_noise
from queryveil.audit.attacks._word_law import KnownLaw, KnownNoise, ReplacesWords, guess_by_law
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    CANNOT_BE_MADE_AGAIN,
    Finding,
    Found,
    LeftOut,
    Question,
    Success,
    risk,
)
from queryveil.checks import require, whole_number
from queryveil.errors import QueryVeilError
from queryveil.privacy import Noise

COUNTS = (1, 5, 20)
SHORTLIST, DRAWS = 48, 300
WORDS_TRIED, IF_ASKED_OFTEN = 200, 100
QUICK_SHORTLIST, QUICK_DRAWS = 8, 50
"""Where the mechanism tells nothing of its law: every draw is a run of it."""
WORD = r"[\p{L}\p{N}]+"


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What an attacker gets from obfuscations of single words."""

    by_count: dict[int, Success]
    """Words recovered from the first N outputs, for each N, by the prior that does best."""
    kept: Success
    """Single outputs that are the true word."""


def recovery(
    mechanism: ReplacesWords,
    words: Longs,
    noise: Noise,
    *,
    counts: Sequence[int] = COUNTS,
    shortlist: int = SHORTLIST,
    draws: int = DRAWS,
    log_priors: Floats | None = None,
) -> Recovery:
    """Obfuscate each word as often as the largest count and attack it with the first N outputs for each count N."""
    _check(counts, shortlist, draws)
    most = max(counts)
    outputs = mechanism.replace(np.repeat(words, most), noise.stream("likelihood attack: outputs"))
    outputs = outputs.reshape(len(words), most)
    guesses = guess_words(
        mechanism, outputs, noise, counts=counts, shortlist=shortlist, draws=draws, log_priors=log_priors
    )
    return Recovery(
        by_count={n: Success(int((found == words).sum(axis=1).max()), len(words)) for n, found in guesses.items()},
        kept=Success(int((outputs == words[:, None]).sum()), outputs.size),
    )


def guess_words(
    mechanism: ReplacesWords,
    outputs: Longs,
    noise: Noise,
    *,
    counts: Sequence[int] = COUNTS,
    shortlist: int = SHORTLIST,
    draws: int = DRAWS,
    log_priors: Floats | None = None,
) -> dict[int, Longs]:
    """For each count N the likeliest word behind the first N outputs of each row, a row of guesses for each prior.

    `log_priors` has a row for each prior, ln of every word's weight; without, all words are alike. `shortlist` and
    `draws` have no effect where the law is known.
    """
    _check(counts, shortlist, draws)
    priors = np.zeros((1, len(mechanism.vectors))) if log_priors is None else log_priors
    if isinstance(mechanism, KnownLaw):
        return guess_by_law(mechanism, outputs, counts, priors)
    if isinstance(mechanism, KnownNoise):
        return guess_by_noise(mechanism, outputs, counts, priors, noise, shortlist=shortlist, draws=draws)
    return guess_by_running(mechanism, outputs, counts, priors, noise, shortlist=shortlist, draws=draws)


def _check(counts: Sequence[int], shortlist: int, draws: int) -> None:
    require(
        whole_number("shortlist", shortlist, at_least=1, at_most=10_000, suggest=SHORTLIST),
        whole_number("draws", draws, at_least=1, at_most=10**7, suggest=DRAWS),
        *(whole_number("counts", count, at_least=1, at_most=10_000, suggest=20) for count in counts),
    )


def bayes_vulnerability(law: npt.ArrayLike) -> float:
    """The chance that the best guess from one output is right, all words being equally likely before.

    `law[w, u]` is P(output u | word w).
    """
    table = np.asarray(law, np.float64)
    return float(table.max(axis=0).sum() / len(table))


def log_chance_of_occurring(vocabulary: int, words: int) -> Floats:
    """ln of the chance that each word is in a log of so many words, the r-th word having the share (1/r) / Σ 1/i."""
    ranks = np.arange(1.0, vocabulary + 1)
    return np.asarray(np.log(-np.expm1(-words / (ranks * (1 / ranks).sum()))))


class WordLikelihood:
    """Which words obfuscations came from, for releases that replace words one by one."""

    key: ClassVar[str] = "likelihood"
    title: ClassVar[str] = "Words recovered by likelihood"
    question: ClassVar[Question] = "inference"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not context.declares("replaces_words"):
            return
        title = self.title
        try:
            mechanism: Any = context.made_again()
        except QueryVeilError:
            yield LeftOut(title=title, reason=CANNOT_BE_MADE_AGAIN, required=True, by_settings=True)
            return
        if mechanism.guarantee().model != "metric-dp":
            yield LeftOut(title=title, reason="the release does not replace words one by one", by_settings=True)
            return
        numbers = mechanism.vectors.numbers
        typed = _words_of(context.original.frame["query"].unique()).unique().sort()
        known = np.array([numbers[word] for word in typed.to_list() if word in numbers], np.int64)
        if not len(known):
            yield LeftOut(title=title, reason="no word of the raw log is in the vocabulary")
            return
        law, noise = mechanism.words, context.fresh_noise()
        declared = isinstance(law, KnownLaw | KnownNoise)
        options = {} if declared else {"shortlist": QUICK_SHORTLIST, "draws": QUICK_DRAWS}
        tried = known[np.sort(noise.stream("attack: words").permutation(len(known))[:WORDS_TRIED])]
        often = np.sort(noise.stream("attack: words asked often").permutation(len(tried))[:IF_ASKED_OFTEN])
        words = max(1, len(_words_of(context.released.frame["query"])))
        priors = np.stack([np.zeros(len(numbers)), log_chance_of_occurring(len(numbers), words)])
        own = int(getattr(mechanism, "outputs_of_a_query", 1))
        for counts, some in (((own,), tried), (tuple(n for n in COUNTS if n > own), tried[often])):
            if not counts:
                continue
            with np.errstate(divide="ignore"):  # what a word cannot give has no chance, and a logarithm of −∞
                found = recovery(law, some, context.fresh_noise(), counts=counts, log_priors=priors, **options)
            for count, success in found.by_count.items():
                yield self._finding(count, own, success, found.kept, _how(law), len(numbers), len(priors))

    def _finding(
        self, count: int, own: int, success: Success, kept: Success, how: str, vocabulary: int, attackers: int
    ) -> Finding:
        """Only what the release itself shows counts toward its risk."""
        times = f"{count} obfuscation{'' if count == 1 else 's'}"
        title = f"Words recovered from {times}" if count == own else f"Words recovered if asked {count} times"
        found = risk(
            f"likelihood-{count}", title, "likelihood", "inference", success,
            f"Share of words of the raw log, of those that the vocabulary knows, that are the likeliest behind {times} "
            f"of them, for an attacker who knows the mechanism and {how}.",
            raw=1.0, chance=1 / vocabulary, confidence=1 - 0.05 / attackers,
            detail=f"{success.right:,} of {success.tried:,} words; {kept.share:.1%} of single outputs are the word.",
        )  # fmt: skip
        return dataclasses.replace(found, counts_toward_risk=count == own)


def _how(law: ReplacesWords) -> str:
    if isinstance(law, KnownLaw):
        return "computes its law over the whole vocabulary"
    if isinstance(law, KnownNoise):
        return "estimates from its noise how likely each word near what came out gives it"
    return "runs it on words near what came out"


def _words_of(texts: pl.Series) -> pl.Series:
    return texts.str.to_lowercase().str.extract_all(WORD).explode().drop_nulls()
