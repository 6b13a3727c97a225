"""Language: how well a release predicts the words of people who are in neither log.

Bits per word (cross entropy) of held-out people's texts, each text of a person once: −log2 P(word | word before), on
average. Three readers predict: with public counts alone, with the release beside them, and with the raw log beside
them; the same reader for every release, and the model itself where a release publishes one (`held_out.word_model`).

Words outside the public vocabulary count as one word. Cost: one look-up for each word and estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from queryveil.arrays import Floats
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Judged, JudgedByOthers, means
from queryveil.audit.held_out.judging import READERS, Judging, Reader
from queryveil.audit.held_out.word_model import halves, mixed


def bits(judging: Judging, reader: Reader) -> Floats:
    """What each of the judges' words costs a reader."""
    half = halves(judging.judges.words.person)
    return -np.log2(mixed(judging.word_estimates(reader), half, judging.word_weights(reader)))


class Language(JudgedByOthers):
    """Bits per word."""

    key: ClassVar[str] = "language"
    title: ClassVar[str] = "Language of other people"
    task: ClassVar[str] = "language"

    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """Bits per word of each reader."""
        judging = context.judging
        costs = (bits(judging, reader) for reader in READERS)
        yield from judging.judge(
            self.title, self.key,
            f"How well the words of other people's queries are predicted with {judging.read_how}: the share of what "
            "the raw log's own words and pairs save in bits per word.",
            "Bits per word", means(judging.judges.words.person, *costs), better="lower",
        )  # fmt: skip
