"""A block of users as a pure function of its records, for one machine and for a cluster alike.

A person's answers depend on the person, the words and the settings alone, so every user and query is answered once in a
block, and how a log is cut changes no answer. Workers fetch the vocabulary themselves; where it is not the one the
work was planned with, they refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from queryveil.errors import DataError, KnowledgeError
from queryveil.log.table import Schema, in_canonical_order
from queryveil.mechanisms.obfuscate.words import WORD_MECHANISMS
from queryveil.privacy import Noise
from queryveil.privacy.noise import Repeating
from queryveil.progress import each
from queryveil.release.pseudonyms import Renaming

if TYPE_CHECKING:
    from queryveil.mechanisms.obfuscate.mechanism import Obfuscation

RELEASED: Schema = {"user": pl.String(), "query": pl.String()}
ANSWERS = "__answers"


@dataclass(frozen=True)
class Obfuscating:
    """n records for each record of a block of users, and the users renamed."""

    mechanism: Obfuscation
    knowledge: str
    noise: Repeating
    renaming: Renaming

    @classmethod
    def of(cls, mechanism: Obfuscation, noise: Noise, blocks: int) -> Obfuscating:
        """The work of one release; a file of vectors goes by its whole path, since a worker has a folder of its own."""
        if not mechanism.is_glove:
            mechanism = replace(mechanism, embedding=str(Path(mechanism.embedding).resolve()))
        return cls(mechanism, mechanism.knowledge(), noise.repeating("obfuscate"), Renaming.of(noise, blocks))

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The records that stand for those of a block."""
        rows = rows.select("user", "query")
        asked = in_canonical_order(rows.unique())
        known = asked.with_columns(pl.Series(ANSWERS, self._answers(asked), dtype=pl.List(pl.String)))
        answered = rows.join(known, on=["user", "query"], how="left").explode(ANSWERS, empty_as_null=False)
        return self.renaming(block, answered.select("user", pl.col(ANSWERS).alias("query")))

    def _answers(self, asked: pl.DataFrame) -> list[list[str]]:
        """n texts for each user and query; none where paper mode, aed or fsh knows no word of it."""
        if self.mechanism.knowledge() != self.knowledge:
            raise KnowledgeError(
                "the words on this machine are not the ones the work was planned with. Install the same vectors and "
                "give all machines one cache folder (QUERYVEIL_CACHE)."
            )
        if self.mechanism.mechanism not in WORD_MECHANISMS:
            return [self._others(query) for query in each("looking for other queries", asked["query"].to_list())]
        n, reader, settings = self.mechanism.n, self.mechanism.reader, self.mechanism.settings
        questions = []
        for user, query in asked.iter_rows():
            indices = reader.indices(query)
            message = settings(indices, whose=user, digest=reader.vectors.digest)
            questions.append((np.tile(indices, n), self.noise.stream(message)))
        drawn = self.mechanism.words.replace_many(questions)
        return [[reader.text(row) for row in words.reshape(n, -1) if len(row)] for words in drawn]

    def _others(self, query: str) -> list[str]:
        try:
            return self.mechanism.others(query, self.mechanism.n)
        except DataError:
            return []
