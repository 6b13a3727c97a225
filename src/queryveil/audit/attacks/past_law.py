"""Whose pseudonym is this, where the law of the mechanism is public and the past is known?

A mechanism that replaces texts at random by a public law (`text_law`) tells the attacker how likely each person's
earlier queries would have become what a pseudonym shows. A person u who asked the inputs c in shares S_u(c) before is
expected to release the text o with P(o | u) = λ Σ_c S_u(c) P(o | c) + (1 − λ) Σ_c S(c) P(o | c), S being everybody's
shares; the pseudonym is put down to the person who makes all its texts together likeliest. That is the exact law: noise
that hides one query well adds up to little over a hundred of them.

Cost: one column of the law for each distinct released text; then people by texts in blocks.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from queryveil.audit.attacks.interests import OWN_SHARE, Longs, Table, counts_of
from queryveil.audit.attacks.knowing import Knowing, Targets
from queryveil.audit.attacks.past_pseudonyms import named
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import CANNOT_BE_MADE_AGAIN, Found, LeftOut, Question
from queryveil.errors import QueryVeilError
from queryveil.progress import each

PEOPLE_AT_ONCE = 4096
TEXTS_AT_ONCE = 512
PSEUDONYMS = 1000


class LawByPast:
    """A pseudonym is named by how likely people's earlier queries would have been released as it shows."""

    key: ClassVar[str] = "past-law"
    title: ClassVar[str] = "Whose pseudonym it is, by the law of the mechanism"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not context.declares("text_law") or context.receivers is None or context.past is None:
            return
        try:
            mechanism: Any = context.made_again()
        except QueryVeilError:
            yield LeftOut(title=self.title, reason=CANNOT_BE_MADE_AGAIN, required=True, by_settings=True)
            return
        law = mechanism.text_law()
        knowing = context.knowing
        stream = context.fresh_noise().stream("attack: pseudonyms to name by law")
        targets = knowing.pseudonyms_to_name(stream, PSEUDONYMS)
        if law is None or not len(targets) or not len(knowing.past_texts):
            return
        right = likeliest(knowing, law, targets) == targets.truth
        yield from named(
            "past-law", "by the law of the mechanism", "the person whose earlier queries would have been released so "
            "with the largest chance", knowing, (targets, right),
        )  # fmt: skip


def likeliest(knowing: Knowing, law: Any, targets: Targets, own: float = OWN_SHARE) -> Longs:
    """The person who makes the texts of each target likeliest."""
    inputs, input_of = _inputs(knowing, law)
    shares, everybody = _shares(counts_of(knowing.past_people, input_of, len(knowing.people), len(inputs)))
    texts, place = np.unique(targets.texts, return_inverse=True)
    shown = counts_of(targets.rows, place, len(targets), len(texts))
    best = np.full(len(targets), -np.inf)
    found = np.zeros(len(targets), np.int64)
    columns = np.empty((len(inputs), len(texts)), np.float32)
    for number, text in each("the law of what was released", list(enumerate(knowing.terms.texts.gather(texts)))):
        columns[:, number] = law.chances(text, inputs)
    usual = everybody @ columns
    possible = usual > 0  # a text that the law never gives says nothing of anybody
    shown, columns, usual = shown[:, possible], columns[:, possible], usual[possible]
    for start in range(0, len(knowing.people), PEOPLE_AT_ONCE):
        people = shares[start : start + PEOPLE_AT_ONCE]
        scores = np.zeros((len(targets), people.shape[0]))
        for first in range(0, columns.shape[1], TEXTS_AT_ONCE):
            some = slice(first, first + TEXTS_AT_ONCE)
            chances = own * (people @ columns[:, some]) + (1 - own) * usual[some]
            scores += shown[:, some] @ np.log(chances / usual[some]).T
        top = scores.argmax(axis=1)
        value = scores[np.arange(len(top)), top]
        better = value > best
        best[better], found[better] = value[better], start + top[better]
    return found


def _inputs(knowing: Knowing, law: Any) -> tuple[Longs, Longs]:
    """The distinct inputs of the past, and the place of each past record's."""
    texts, place = np.unique(knowing.past_texts, return_inverse=True)
    inputs, of_text = np.unique(law.inputs(knowing.terms.texts.gather(texts)), return_inverse=True)
    return inputs, of_text[place]


def _shares(counts: Table) -> tuple[Table, npt.NDArray[np.float32]]:
    totals = np.asarray(counts.sum(axis=1), np.float64).ravel()
    shares = Table(
        (counts.data / np.repeat(totals, np.diff(counts.indptr)), counts.indices, counts.indptr), counts.shape
    )
    everybody = np.asarray(counts.sum(axis=0)).ravel() + 1e-3
    return shares, (everybody / everybody.sum()).astype(np.float32)
