"""SimAttack: who wrote this query, by how like it is to each of a person's earlier ones?

Petit, Cerqueus, Boutet, Ben Mokhtar, Coquil, Brunie and Kosch (2016), "SimAttack: private web search under fire". The
query's words are compared with those of every earlier query of a person (Dice's coefficient), and the similarities,
sorted, are smoothed exponentially: the largest weighs α, the next α(1 − α), and so on. The query is put down to the
person with the largest result. A person who asked the very same before stands out even if most of what they ask is
something else, which a profile of all their words would hide.

Departs from the paper: where nobody shares a word the attacker guesses at random.

Cost: the past queries that share a word with the query; one number for each of them and eight for each person.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from queryveil.audit.attacks.interests import Floats, Longs
from queryveil.audit.attacks.knowing import RECORDS_OF, Knowing, Targets
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, Question, Success, risk

ALPHA = 0.8


class SimAttack:
    """A record is put down to who asked the most similar queries before."""

    key: ClassVar[str] = "simattack"
    title: ClassVar[str] = "Who wrote a record, by similar earlier queries (SimAttack)"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        missing = context.nothing_to_go_by(self.title)
        if missing is not None:
            yield missing
            return
        knowing = context.knowing
        stream = context.fresh_noise().stream("attack: records to name by similarity")
        targets, raw = knowing.records_to_name(stream), knowing.raw_records_to_name(stream)
        if not len(targets):
            yield LeftOut(title=self.title, reason="nobody who wrote a released record is in what the attacker knows")
            return
        found, on_raw = (
            Success(int((most_similar(knowing, those, stream.uniform(len(those))) == those.truth).sum()), len(those))
            for those in (targets, raw)
        )
        yield risk(
            "simattack", "Author of a record named by similar earlier queries (SimAttack)", "knowing the past",
            self.question, found,
            f"Share of released records that are put down to who wrote them, of everybody, by an attacker who knows "
            f"{knowing.told}: the person with the most similar earlier queries.",
            raw=on_raw.share if on_raw.measured else None, chance=knowing.chance_of_records(targets),
            population=RECORDS_OF,
        )  # fmt: skip


def most_similar(knowing: Knowing, targets: Targets, draws: Floats, alpha: float = ALPHA) -> Longs:
    """The person with the most similar past queries for each target; a person of the past at random for none."""
    from queryveil.audit.attacks import _sim_attack_kernel

    texts = len(knowing.terms.texts)
    asked = np.unique(knowing.past_people * texts + knowing.past_texts)  # each text of a person counts once
    person, text = np.divmod(asked, texts)
    words_of_query = knowing.terms.words_of_text[text]
    by_word = words_of_query.tocsc()
    rows = knowing.terms.words_of_text[targets.texts]
    best = (draws * len(knowing.people)).astype(np.int64)
    _sim_attack_kernel.most_similar(
        rows.indptr, rows.indices, by_word.indptr, by_word.indices, person, np.diff(words_of_query.indptr), alpha,
        draws, best,
    )  # fmt: skip
    return best
