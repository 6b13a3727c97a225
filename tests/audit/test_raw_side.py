"""What audits share of one raw log: the same figures, and the work done once."""

from queryveil.audit.attacks import residue
from queryveil.audit.auditing import audit
from queryveil.audit.raw_side import RawSide
from queryveil.knowledge import categories
from queryveil.log.identifying import merged
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise

LOG = merged(synth(users=60, records=1500))
RELEASES = [make("suppress", k_text=k).protect(LOG, Noise.seeded(1)) for k in (2, 5)]


def test_an_audit_finds_the_same_with_what_others_made_of_the_raw_log_as_alone():
    raw = RawSide(LOG)
    for release in RELEASES:
        assert audit(LOG, release, raw=raw) == audit(LOG, release)


def test_what_is_of_the_raw_log_alone_is_made_once_for_all_its_releases(monkeypatch):
    read, searched = [], []
    classify, identifiers = categories.WordNetClassifier.categories, residue.identifiers

    def counting(self, queries, at_most=1):
        read.extend((query, at_most) for query in queries)
        return classify(self, queries, at_most)

    monkeypatch.setattr(categories.WordNetClassifier, "categories", counting)
    monkeypatch.setattr(
        residue, "identifiers", lambda both, released: searched.append(released) or identifiers(both, released=released)
    )
    raw = RawSide(LOG)
    for release in RELEASES:
        audit(LOG, release, raw=raw)
    assert len(read) == len(set(read)) > 0
    assert searched.count(False) == 1
    assert len(searched) == 3


def test_what_was_made_of_another_log_is_not_used():
    raw = RawSide(synth(users=60, records=1500, seed=2))
    raw.once("users", lambda: raw.log.users().head(3))
    assert audit(LOG, RELEASES[0], raw=raw) == audit(LOG, RELEASES[0])
