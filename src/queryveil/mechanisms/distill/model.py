"""The distilled log as a model: for people who want more than a log.

It is computed from the noisy tables of a release, so whatever is asked of it costs no privacy.

    model = Model.load("release")                # verifies the folder first
    model.probability("throat cancer symptoms")
    model.complete("throat c")
    model.next("throat cancer")
    model.sample(10)
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from queryveil.arrays import Floats, Longs
from queryveil.checks import require, whole_number
from queryveil.errors import DataError
from queryveil.mechanisms.distill import _synthesis_kernel as kernel
from queryveil.mechanisms.distill.budget import FOLLOWS, LENGTHS
from queryveil.mechanisms.distill.contributions import classes_of_words
from queryveil.mechanisms.distill.published import load
from queryveil.mechanisms.distill.synthesis import Synthesis
from queryveil.mechanisms.distill.tables import NoisyTables
from queryveil.mechanisms.distill.texts import Texts, numbers_of, plain, vocabulary, words_of
from queryveil.privacy import Noise

LETTERS, OTHER_CHARACTERS, ONE_MORE = 36.0, 65536.0, 7 / 8
"""How words outside all lists are spelled: letters and digits evenly, one more with this probability."""


class Model:
    """A query log's language under differential privacy."""

    def __init__(self, tables: NoisyTables) -> None:
        self._synthesis = Synthesis.of(tables)
        self._language = self._synthesis.language

    @classmethod
    def load(cls, folder: str | Path, key: str | Path | None = None) -> Model:
        """The model of a release folder, which is verified first; `key` as in `queryveil.verify`."""
        return cls(load(folder, key))

    def probability(self, query: str) -> float:
        """P(query): how likely a query of the log is this one. Over all texts this adds up to at most 1."""
        text, words = _split(query)
        if not words:
            raise DataError("a query without letters and digits has no probability.")
        head = self._synthesis.head
        found = head.texts.index_of(text) if len(head.texts) else None
        chances = self.word_probabilities(query) if len(words) > 1 else self._single(words[0])
        composed = float(np.prod(chances)) * self._length(len(words)) * self._kept(words)
        return (1 - head.often) * composed + (head.often * float(head.shares[found]) if found is not None else 0.0)

    def _kept(self, words: list[str]) -> float:
        """How often a text that words make up is drawn, and not another one because fewer people ask it than that."""
        numbers = numbers_of(pl.Series(words))
        if not 1 < len(words) <= LENGTHS or (numbers == self._language.other).any():
            return 1.0
        row = np.full((1, LENGTHS), kernel.NOTHING, np.int64)
        row[0, : len(words)] = numbers
        return float(self._synthesis.how_often_kept(row)[0])

    def _single(self, word: str) -> float:
        """P(word) in a query of one word."""
        number = int(numbers_of(pl.Series([word]))[0])
        spelled = self._spelling(word, self._synthesis.own_words_alone) if number == self._language.other else 1.0
        return float(self._synthesis.head.single[number]) * spelled

    def word_probabilities(self, query: str) -> Floats:
        """P(word | word before) of each word of a query."""
        words = _split(query)[1]
        numbers = numbers_of(pl.Series(words, dtype=pl.String))
        before = np.concatenate([[self._language.start], numbers[:-1]]).astype(np.int64)
        own = self._synthesis.own_words
        spelled = [
            self._spelling(word, own) if n == self._language.other else 1.0
            for word, n in zip(words, numbers, strict=True)
        ]
        chances: Floats = self._language.probability(before, numbers) * np.array(spelled)
        return chances

    def complete(self, prefix: str, n: int = 10) -> list[tuple[str, float]]:
        """The likeliest ways to finish the last word of what was typed, with P(word | words before) of each."""
        require(whole_number("n", n, at_least=1, at_most=10_000, suggest=10))
        typed, words = _split(prefix)
        if prefix.endswith(" ") or not words:
            words = [*words, ""]
        candidates = self._starting_with(words[-1])
        before = int(numbers_of(pl.Series(words[-2:-1]))[0]) if len(words) > 1 else self._language.start
        likely = self._language.probability(np.full(len(candidates), before), candidates)
        best = candidates[np.argsort(-likely, kind="stable")[:n]]
        kept = typed.removesuffix(words[-1]) if words[-1] else f"{typed} ".lstrip()
        chances = np.sort(-likely, kind="stable")[:n]
        return [
            (kept + vocabulary().words[int(word)], -float(chance)) for word, chance in zip(best, chances, strict=True)
        ]

    def next(self, query: str, n: int = 10) -> list[tuple[str, float]]:
        """What may follow a query in its session: it with a word more, or a published query on a related topic."""
        require(whole_number("n", n, at_least=1, at_most=10_000, suggest=10))
        text, words = _split(query)
        if not words:
            raise DataError("a query without letters and digits has nothing that follows it.")
        kinds = self._synthesis.shape.follows.sum(axis=1)
        added = float(kinds[FOLLOWS.index("word added")] / kinds.sum())
        scored = {longer: added * chance for longer, chance in self.complete(f"{text} ", n)}
        head = self._synthesis.head
        keys = head.texts
        if len(keys):
            here = classes_of_words()[0][Texts.of(pl.Series([text])).rarest()[0]]
            topics = classes_of_words()[0][Texts.of(keys).rarest()]
            related = self._synthesis.successions[here][topics] / self._topic_shares[topics]
            fresh = kinds[FOLLOWS.index("new")] / kinds.sum() * head.often * head.shares * related
            for key, score in zip(keys.to_list(), fresh.tolist(), strict=True):
                if key != text:
                    scored[key] = scored.get(key, 0.0) + score
        return sorted(scored.items(), key=lambda item: (-item[1], item[0]))[:n]

    def sample(self, n: int, noise: Noise | None = None) -> list[str]:
        """Queries drawn from the model."""
        require(whole_number("n", n, at_least=1, at_most=10**8, suggest=100))
        drawn, *_ = self._synthesis.queries(n, (noise or Noise.secure()).stream("distill: sample"))
        return drawn.to_list()

    @cached_property
    def _sorted_words(self) -> tuple[list[str], Longs]:
        words = vocabulary().words.to_list()
        order = sorted(range(len(words)), key=words.__getitem__)
        return [words[n] for n in order], np.array(order)

    @cached_property
    def _topic_shares(self) -> Floats:
        return np.maximum(self._synthesis.interests[0] ** 2, 1e-9)

    def _starting_with(self, prefix: str) -> Longs:
        words, numbers = self._sorted_words
        return numbers[bisect_left(words, prefix) : bisect_left(words, prefix + "\U0010ffff")]

    def _length(self, words: int) -> float:
        """P(so many words); the last cell holds all longer ones, each half as likely as the one before."""
        shares = self._synthesis.head.lengths
        return float(shares[words - 1]) if words < LENGTHS else float(shares[-1]) * 0.5 ** (words - LENGTHS + 1)

    def _spelling(self, word: str, own: Floats) -> float:
        """P(this word | a word outside the vocabulary), with the shares of published ones."""
        spelled = (1 - ONE_MORE) / ONE_MORE
        for character in word:
            spelled *= ONE_MORE / (2 * (LETTERS if character.isascii() else OTHER_CHARACTERS))
        listed = np.flatnonzero((self._synthesis.tables.unions["own_words"]["key"] == word).to_numpy())
        mine = float(own[listed].sum())
        return mine + (1 - float(own.sum())) * spelled


def _split(query: str) -> tuple[str, list[str]]:
    """The plain text of a query, and its words."""
    frame = (
        pl.DataFrame({"query": [query]})
        .select(plain("query").alias("text"))
        .with_columns(words_of("text").alias("words"))
    )
    return frame["text"][0], frame["words"][0].to_list()
