"""Whose pseudonym is this, where the law of the mechanism is public and the past is known?

A mechanism that replaces texts at random by a public law (`text_law`) tells the attacker how likely each person's
earlier queries would have become what a pseudonym shows. A person u who asked the inputs c in shares S_u(c) before is
expected to release the text o with P(o | u) = λ Σ_c S_u(c) P(o | c) + (1 − λ) Σ_c S(c) P(o | c), S being everybody's
shares; the pseudonym is put down to the person who makes all its texts together, and their number, likeliest. That is
the exact law: noise that hides one query well adds up to little over a hundred of them.

Cost: one column of the law for each distinct released text; then people by texts in blocks.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

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
SPREAD = 1.0
"""How far people's activity changes from one period to the next: by a factor of e, usually."""


class LawByPast:
    """A pseudonym is named by how likely people's earlier queries would have been released as it shows."""

    key: ClassVar[str] = "past-law"
    title: ClassVar[str] = "Whose pseudonym it is, by the law of the mechanism"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not context.declares("text_law"):
            return
        missing = context.nothing_to_go_by(self.title)
        if missing is not None:
            yield missing
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
    """The person who makes what each target shows likeliest; shown and asked are whole texts, or words of texts."""
    by_words = law.unit == "word"
    past = knowing.past_by_words if by_words else counts_of_texts(knowing)
    shown = knowing.by_words(targets) if by_words else knowing.terms.by_texts(targets.rows, targets.texts, len(targets))
    names = knowing.terms.words if by_words else knowing.terms.texts
    inputs, shares, everybody = _shares(past, law, names)
    seen = np.unique(shown.indices)
    shown = shown[:, seen]
    columns = np.empty((len(inputs), len(seen)), np.float32)
    for number, text in each("the law of what was released", list(enumerate(names.gather(seen)))):
        columns[:, number] = law.chances(text, inputs)
    usual = everybody @ columns
    possible = usual > 0  # what the law never gives says nothing of anybody
    shown, columns, usual = shown[:, possible], columns[:, possible], usual[possible]
    asked = np.bincount(knowing.past_people, minlength=len(knowing.people))
    best, found = np.full(len(targets), -np.inf), np.zeros(len(targets), np.int64)
    for start in range(0, len(knowing.people), PEOPLE_AT_ONCE):
        people = shares[start : start + PEOPLE_AT_ONCE]
        scores = activity_scores(targets.sizes, asked[start : start + PEOPLE_AT_ONCE])
        for first in range(0, columns.shape[1], TEXTS_AT_ONCE):
            some = slice(first, first + TEXTS_AT_ONCE)
            chances = own * (people @ columns[:, some]) + (1 - own) * usual[some]
            scores += shown[:, some] @ np.log(chances / usual[some]).T
        top = scores.argmax(axis=1)
        value = scores[np.arange(len(top)), top]
        better = value > best
        best[better], found[better] = value[better], start + top[better]
    return found


def activity_scores(sizes: Longs, asked: Longs) -> npt.NDArray[np.float64]:
    """ln of how likely a row of that size is a person's who asked that much before: busy people stay busy.

    The logarithm of the ratio is taken for normal, around that of all rows to all people.
    """
    shown, before = np.log1p(sizes), np.log1p(asked)
    ratio = (shown - shown.mean())[:, None] - (before - before.mean())[None, :]
    found: npt.NDArray[np.float64] = -(ratio**2) / (2 * SPREAD**2)
    return found


def counts_of_texts(knowing: Knowing) -> Table:
    """How often everybody asked each text."""
    return knowing.terms.by_texts(knowing.past_people, knowing.past_texts, len(knowing.people))


def _shares(past: Table, law: Any, names: pl.Series) -> tuple[Longs, Table, npt.NDArray[np.float32]]:
    """The inputs of the law that were asked, each person's shares of them, and everybody's."""
    used = np.unique(past.indices)
    number = law.inputs(names.gather(used))  # −1 for what the law does not speak of
    inputs, place = np.unique(number, return_inverse=True)
    onto = counts_of(np.arange(len(used)), place, len(used), len(inputs))
    counts = Table(past[:, used] @ onto)
    if len(inputs) and inputs[0] < 0:
        inputs, counts = inputs[1:], counts[:, 1:]
    totals = np.asarray(counts.sum(axis=1), np.float64).ravel()
    share = counts.data / np.repeat(totals, np.diff(counts.indptr))
    everybody = np.asarray(counts.sum(axis=0), np.float64).ravel() + 1e-3
    shares = Table((share, counts.indices, counts.indptr), shape=counts.shape)
    return inputs, shares, (everybody / everybody.sum()).astype(np.float32)
