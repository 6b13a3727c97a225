"""The public counts of words and pairs, and the nested classes."""

import numpy as np
import pytest

from queryveil.errors import KnowledgeError
from queryveil.knowledge import word_prior
from queryveil.knowledge.word_prior import LEVELS, WordPrior

DIGEST = "f7ed248a49bb185153c43582fbdad86a7555c127a4b7fdccc79f4428fc70336d"


@pytest.fixture(scope="module")
def prior():
    return WordPrior.load()


def test_what_releases_are_made_with_never_changes(prior):
    """Whoever reads a release needs the same classes as whoever made it, on every machine."""
    assert prior.digest == DIGEST


def test_words_are_sorted_by_their_counts_and_found_by_their_text(prior):
    assert (np.diff(prior.counts) <= 0).all()
    assert prior.words[prior.number("tulip")] == "tulip"
    assert prior.number("qzxqzxqzx") == -1
    assert len(set(prior.words.to_list())) == len(prior)


def test_numbers_and_names_that_only_the_vectors_have_get_a_count(prior):
    year = prior.counts[prior.number("2005")]
    assert prior.counts[-1] <= year < prior.counts[prior.number("the")]


def test_classes_are_nested_and_none_is_empty(prior):
    for level, wanted in enumerate(LEVELS):
        assert set(np.unique(prior.classes[level])) == set(range(wanted + 1))
    for fine, coarse in ((2, 1), (1, 0)):
        pairs = np.unique(prior.classes[[fine, coarse]], axis=1)
        assert len(pairs[0]) == len(np.unique(pairs[0])), "a class lies in two larger ones"


def test_classes_lie_in_the_order_of_the_larger_ones(prior):
    """Sorted by the finest class, words of one class lie together at every level."""
    order = np.argsort(prior.classes[2], kind="stable")
    assert (np.diff(prior.classes[0][order]) >= 0).all() and (np.diff(prior.classes[1][order]) >= 0).all()


def test_words_of_a_kind_share_classes_far_more_often_than_by_chance(prior):
    months = [prior.number(m) for m in ("january", "february", "march", "april", "june", "july", "october")]
    assert len(set(prior.classes[1][months])) <= 2


def test_pairs_are_sorted_and_begin_with_a_word_or_the_start(prior):
    first, second = prior.pair_first.astype(np.int64), prior.pair_second.astype(np.int64)
    assert (np.diff(first * (len(prior) + 1) + second) > 0).all()
    assert first.max() == len(prior) and second.max() < len(prior)
    york = (first == prior.number("new")) & (second == prior.number("york"))
    assert york.sum() == 1 and prior.pair_counts[york][0] > 10**6


def test_products_of_rounded_vectors_are_whole_numbers_that_float32_holds(prior):
    rng = np.random.default_rng(1)
    rounded = word_prior._rounded(rng.normal(size=(200, 50)).astype(np.float32))
    exact = rounded.astype(np.int64) @ rounded.astype(np.int64).T
    assert (exact == rounded @ rounded.T).all() and exact.max() < 2**24
    assert (exact == rounded[:, ::-1].copy() @ rounded[:, ::-1].T.copy()).all(), "the order of adding matters"


def test_files_that_are_not_the_pinned_ones_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(word_prior, "SHA256", dict.fromkeys(word_prior.SHA256, "0" * 64))
    with pytest.raises(KnowledgeError, match="not those of version"):
        word_prior._files()
    monkeypatch.setattr(word_prior, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(KnowledgeError, match="is not installed"):
        word_prior._files()
