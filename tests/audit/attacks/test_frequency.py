"""Frequencies give people and texts away where counts are kept, and little where they are not."""

import numpy as np
import pytest

from queryveil.audit.attacks.frequency import by_activity_rank, read_by_rank
from queryveil.audit.auditing import audit
from queryveil.audit.finding import Success
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.testing.twins import telltale_log


def test_a_substitution_cipher_is_read_by_rank_alone():
    """Each person asks text t about 2^(6-t) times, and the release calls it 100 + its number."""
    people = np.repeat(np.arange(40), 63)
    texts = np.tile(np.repeat(np.arange(6), [32, 16, 8, 4, 2, 1]), 40)
    public = np.arange(40) < 20
    found = read_by_rank(people, texts, people, 100 + texts, 200, public=public, stream=Noise.seeded(1).stream("test"))
    assert found.success == Success(63 * 20, 63 * 20)
    assert 0.85 < found.chance < 1  # everybody asked every text, but none as often as a draw may name it
    shuffled = np.random.default_rng(1).permutation(len(texts))
    wrong = read_by_rank(
        people, texts, people, 100 + texts[shuffled] // 5, 200, public=public, stream=Noise.seeded(1).stream("test")
    )
    assert wrong.success.share < 0.6


def test_reading_at_random_is_as_good_as_the_persons_texts_are_frequent():
    people, texts = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 2])
    found = read_by_rank(
        people,
        texts,
        people,
        np.array([5, 6, 5, 6]),
        10,
        public=np.array([True, False]),
        stream=Noise.seeded(1).stream("test"),
    )
    assert found.chance == pytest.approx(0.75 / 2, abs=0.1)  # of two draws of 0 or 1, the first 0 counts; 100 times
    assert found.success == Success(1, 2)


def test_activity_matches_people_where_their_records_stay_and_not_after_grouping():
    raw = np.repeat(np.arange(30), np.arange(1, 31))
    assert by_activity_rank(raw, raw, np.arange(30)) == Success(30, 30)
    assert by_activity_rank(raw, np.arange(30), np.arange(30)).right < 6


def test_in_an_audit_texts_of_a_semantic_release_are_read_no_better_than_chance_twice_over():
    log = telltale_log()
    given = {"epsilon": 1.0, "per": "query", "domain": "contact_sport", "criterion": "nsqc"}
    found = audit(log, make("semantic", **given).protect(log, Noise.seeded(1)))
    figure = next(finding for finding in found.findings if finding.key == "texts-by-frequency")
    assert figure.low <= 2 * figure.chance
    assert figure.trials > 1000


def test_reading_at_random_is_judged_as_reading_by_rank_is():
    """Everybody asked one text once and the release shows it often: a reader is right about one record at most."""
    people, texts = np.arange(40), np.zeros(40, np.int64)
    released = np.repeat(people, 10)
    public = np.arange(40) < 20
    stream = Noise.seeded(1).stream("test")
    found = read_by_rank(people, texts, released, np.ones(400, np.int64), 2, public=public, stream=stream)
    assert found.success == Success(20, 200)
    assert found.chance == 0.1
