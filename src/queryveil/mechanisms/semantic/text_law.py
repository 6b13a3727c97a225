"""The public law of safe mode as an attacker reads it: from texts that were asked to texts that are released.

Everything here is public: how a query is read as a concept, how likely each concept is to become each other one, and
the label that stands for a concept. Labels that several concepts share have the chance of all of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import polars as pl

from queryveil.arrays import Floats, Longs
from queryveil.mechanisms.semantic.parameters import SemanticParameters


@dataclass(frozen=True)
class TextLaw:
    """P(released text | asked text)."""

    unit: ClassVar[str] = "text"

    mechanism: SemanticParameters

    def inputs(self, asked: pl.Series) -> Longs:
        """What each text counts as: texts of the same number have the same law."""
        return np.asarray(self.mechanism.reader.concepts_of(asked), np.int64)

    def chances(self, released: str, inputs: Longs) -> Floats:
        """How likely a text is released for each input; 0 for one that is none of the public labels."""
        found = np.zeros(len(inputs))
        for concept in self._concepts[released]:
            found += self.mechanism.certified.law.column(concept)[inputs]
        return found

    @cached_property
    def _concepts(self) -> dict[str, list[int]]:
        domain = self.mechanism.public_domain
        found: dict[str, list[int]] = defaultdict(list)
        for concept, text in enumerate(domain.texts(np.arange(len(domain))).to_list()):
            found[text].append(concept)
        return found
