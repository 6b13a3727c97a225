"""Words and documents behind replaced texts: recovered where hardly any noise is, not where there is much."""

from importlib.util import find_spec

import pytest

from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.report.audit import audit_release

LOG = QueryLog.of([(f"u{i}", text) for i in range(4) for text in ("throat cancer", "cheap flights", "tulip garden")])

needs_obfuscation = pytest.mark.skipif(
    find_spec("queryveil.attacks.likelihood") is None, reason="this installation has no obfuscation"
)


def audited(collection=None, **given):
    found = audit_release(LOG, make("obfuscate", **given).protect(LOG, Noise.seeded(1)), collection=collection)
    return {finding.key: finding for finding in found.findings}


@needs_obfuscation
def test_words_are_recovered_from_little_noise_and_not_from_much():
    little, much = audited(mechanism="cmp", epsilon=500.0), audited(mechanism="cmp", epsilon=0.5)
    assert little["likelihood-1"].value > 0.9
    assert much["likelihood-1"].value < 0.2
    assert much["likelihood-20"].trials == 6


@needs_obfuscation
def test_a_collection_is_searched_with_what_is_released():
    from queryveil.knowledge.collections import Collection

    documents = {f"d{i}": text for i, text in enumerate(("throat cancer care", "cheap flights", "garden", "dogs"))}
    asked = Collection(
        documents=documents, queries={"q": "throat cancer"}, judgements={"q": {"d0": 1}},
    )  # fmt: skip
    little = audited(asked, mechanism="cmp", epsilon=500.0)
    assert little["retrieval-recall"].value == little["retrieval-recall"].raw == 1.0
    assert little["retrieval-ndcg"].value == little["retrieval-ndcg"].raw == 1.0
    assert audited(asked, mechanism="cmp", epsilon=0.5)["retrieval-recall"].value < 1.0


def test_without_a_collection_or_with_texts_as_typed_retrieval_is_left_out():
    release = make("suppress", k_text=2).protect(LOG, Noise.seeded(1))
    reasons = [missing.reason for missing in audit_release(LOG, release).left_out if missing.title == "Retrieval"]
    assert reasons == ["needs a collection of documents (--collection)"]
    reasons = [m.reason for m in audit_release(LOG, release, collection=object()).left_out if m.title == "Retrieval"]
    assert "as typed" in reasons[0]
