"""Whole queries by how often they are asked: known ones (`known_queries`) and published ones (the union `head`).

Queries of one word are drawn by themselves: people ask for names of sites and not for "the". Their shares are those of
words at the start of a query, moved by the noisy table; a word that has no cell there is asked at most as often as what
was not published, since many know it as part of longer queries alone. Sites and pairs of words are moved likewise,
sites from the shares of their words; what a query is asked more often than words make it up comes out as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from queryveil.arrays import Floats, Longs
from queryveil.mechanisms.distill.budget import LENGTHS
from queryveil.mechanisms.distill.contributions import greatest_weight
from queryveil.mechanisms.distill.estimation import LUMP
from queryveil.mechanisms.distill.known_queries import (
    KNOWN_WORDS,
    OTHER_WORD,
    PAIR,
    SITE,
    WORD,
    begins,
    known_names,
    known_pairs,
)
from queryveil.mechanisms.distill.language import Language
from queryveil.mechanisms.distill.shape import Shape
from queryveil.mechanisms.distill.shrinkage import USUAL_CELLS, shrunk_ratios
from queryveil.mechanisms.distill.tables import NoisyTables
from queryveil.mechanisms.distill.texts import Texts, numbers_of, vocabulary

QUERY_TAU = 1.0
MOST_HEAD = 0.9
MOST_KNOWN = 0.95
"""Of queries of one word that do not come out as a whole, known words are at most this part."""
CLEARLY = 1.5
"""A whole query is listed where it is asked so many times as often as words make it up and as was expected."""


@dataclass(frozen=True)
class Head:
    """The queries that come out as a whole."""

    texts: pl.Series
    shares: Floats
    """Among themselves."""
    often: float
    """How often a query is one of them."""
    single: Floats
    """Shares of words among the other queries of one word; the last for all words outside the vocabulary."""
    most_alone: float
    """The most that a published word outside the vocabulary is of that last share."""
    lengths: Floats
    """Shares of lengths among the others, so that with the whole ones all lengths have theirs."""
    thinned: Floats
    """How often a known pair of words that was composed stays: where the table says that fewer ask it than compose."""
    unpublished: float
    """The most that a text is asked that is no known query and was not published."""

    @classmethod
    def of(cls, tables: NoisyTables, language: Language, shape: Shape) -> Head:
        """From the noisy tables."""
        start, words = language.start, np.arange(len(vocabulary()) + 1)
        first = language.probability(np.full(len(words), start), words)
        known = _raked(tables, shape, WORD, first[:KNOWN_WORDS])
        kinds = shape.query_kinds
        sites = kinds[SITE] * _raked(tables, shape, SITE, known)
        one, other = np.divmod(known_pairs(), len(vocabulary()))
        composed = first[one] * language.probability(one, other)
        pairs = kinds[PAIR] * _raked(tables, shape, PAIR, composed)
        made_up = np.concatenate([np.zeros(KNOWN_WORDS), shape.lengths[1] * composed])
        expected = np.concatenate([kinds[SITE] * known, kinds[PAIR] * composed / composed.sum()])
        share = np.concatenate([sites, pairs])
        listed = np.flatnonzero(share > CLEARLY * np.maximum(made_up, expected))
        published = tables.unions["head"]
        total = max(float(tables.cells["head_total"][0]), float(tables.budget.sigmas["head_total"]))
        weight = published["weight"].to_numpy() / (total * greatest_weight("head_total"))
        weight = weight * (1 - kinds[[WORD, SITE, PAIR]].sum())
        whole = np.concatenate([weight, (share - made_up)[listed]])
        names = pl.concat([published["key"], known_names().gather(listed + begins()[SITE])])
        often = min(MOST_HEAD, float(whole.sum()))
        shares = whole / max(float(whole.sum()), 1e-300)
        at_most = tables.budget.thresholds["head"] / (total * greatest_weight("head_total"))
        unpublished = at_most * (1 - float(kinds[[WORD, SITE, PAIR]].sum()))
        lengths = _other_lengths(shape.lengths, names, often * shares)
        # Queries of one word that come out as a whole are none of the known words, which keep their part of all.
        left = (1 - often) * lengths[0]
        often_known = min(MOST_KNOWN, shape.lengths[0] / left * kinds[WORD] / (kinds[WORD] + kinds[OTHER_WORD]))
        rare = (1 - often_known) * first[KNOWN_WORDS:] / first[KNOWN_WORDS:].sum()
        rare[:-1] = np.minimum(rare[:-1], unpublished / left)
        rare[_published_rare(published["key"])] = 0.0
        rare[-1] = 1 - often_known - rare[:-1].sum()
        return cls(
            texts=names,
            shares=shares,
            often=often,
            single=np.concatenate([often_known * known, rare]),
            most_alone=unpublished / max(left * rare[-1], 1e-300),
            lengths=lengths,
            thinned=np.minimum(1.0, pairs / np.maximum(shape.lengths[1] * composed, 1e-300)),
            unpublished=unpublished,
        )


def _published_rare(queries: pl.Series) -> Longs:
    """Which of the words that have no cell were published as queries; counted from the first of them."""
    words = numbers_of(queries)
    rare: Longs = words[(words >= KNOWN_WORDS) & (words < len(vocabulary()))] - KNOWN_WORDS
    return rare


def _other_lengths(lengths: Floats, texts: pl.Series, shares: Floats) -> Floats:
    """What whole queries leave of the shares of lengths, a tenth of each at least."""
    words = np.clip(Texts.of(texts).lengths, 1, LENGTHS) - 1
    left = np.maximum(lengths - np.bincount(words, shares, minlength=LENGTHS), 0.1 * lengths)
    others: Floats = left / left.sum()
    return others


def _raked(tables: NoisyTables, shape: Shape, kind: int, shares: Floats) -> Floats:
    """Shares of the known queries of a kind, moved by the noisy table as far as it can be believed."""
    shares = shares / shares.sum()
    cells = slice(*begins()[kind : kind + 2])
    sigma = tables.budget.sigmas["queries"]
    total = max(float(tables.cells["query_total"][0]), float(tables.budget.sigmas["query_total"]))
    known = shape.query_kinds[[WORD, SITE, PAIR]]
    expected = shares * total * greatest_weight("query_total") * known[kind] / known.sum()
    moved = shares * shrunk_ratios(
        tables.cells["queries"][cells],
        expected,
        sigma=sigma,
        tau=QUERY_TAU,
        lump=LUMP["queries"],
        usual=USUAL_CELLS[tables.budget.regime],
    )
    normalised: Floats = moved / moved.sum()
    return normalised
