"""Words and documents behind replaced texts: recovered where hardly any noise is, not where there is much."""

from string import ascii_lowercase

import numpy as np
import pytest

from queryveil.audit.auditing import audit
from queryveil.knowledge.collections import Collection
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.privacy import Noise

LOG = QueryLog.of([(f"u{i}", text) for i in range(4) for text in ("throat cancer", "cheap flights", "tulip garden")])


@pytest.fixture
def audited(tmp_path):
    """An audit of obfuscations over a vocabulary of thirty words, a unit apart."""
    other = (f"word{letter}" for letter in ascii_lowercase[:24])
    words = [*other, "throat", "cancer", "cheap", "flights", "tulip", "garden"]  # first are those an attacker expects
    np.savez(tmp_path / "few.npz", words=np.array(words), vectors=np.eye(30, dtype=np.float32))

    def audited(collection=None, **given):
        mechanism = make("obfuscate", embedding=str(tmp_path / "few.npz"), **given)
        release = mechanism.protect(LOG, Noise.seeded(1))
        found = audit(LOG, release, mechanism=mechanism, collection=collection)
        return {finding.key: finding for finding in found.findings}

    return audited


def test_words_are_recovered_from_little_noise_and_not_from_much(audited):
    little, much = audited(mechanism="cmp", epsilon=900.0), audited(mechanism="cmp", epsilon=0.5)
    assert little["likelihood-1"].value > 0.9
    assert much["likelihood-1"].value < 0.2
    assert much["likelihood-20"].trials == 6


def test_a_collection_is_searched_with_what_is_released(audited):
    documents = {f"d{i}": text for i, text in enumerate(("throat cancer care", "cheap flights", "garden", "dogs"))}
    names = [f"q{i}" for i in range(12)]
    asked = Collection(
        documents=documents, queries=dict.fromkeys(names, "throat cancer"), judgements={q: {"d0": 1} for q in names}
    )
    little = audited(asked, mechanism="cmp", epsilon=900.0)
    assert little["retrieval-recall"].value == little["retrieval-recall"].raw == 1.0
    assert little["retrieval-ndcg"].value == little["retrieval-ndcg"].raw == 1.0
    assert audited(asked, mechanism="cmp", epsilon=0.5)["retrieval-recall"].value < 0.7


def test_without_a_collection_or_with_texts_as_typed_retrieval_is_left_out():
    release = make("suppress", k_text=2).protect(LOG, Noise.seeded(1))
    reasons = [missing.reason for missing in audit(LOG, release).left_out if missing.title == "Retrieval"]
    assert reasons == ["needs a collection of documents"]
    reasons = [
        m.reason
        for m in audit(LOG, release, collection=Collection(documents={}, queries={}, judgements={})).left_out
        if m.title == "Retrieval"
    ]
    assert "as typed" in reasons[0]
