"""Two halves of a log are linked among everybody, and people who share a log are linked by chance only."""

import numpy as np
import pytest

from queryveil.audit.attacks import profiles
from queryveil.audit.attacks.profiles import linkable, profile_linkage
from queryveil.privacy import Noise


def shared_logs(groups, k):
    """k users of each group with the very same records: group g asks for category g, and for 0 as often as g % 7."""
    rows = [(g * k + i, c, turn % 2 == 0) for g in range(groups) for i in range(k) for c in (0, g + 1)
            for turn in range(12 if c else 2 * (g % 7))]  # fmt: skip
    users, categories, first = (np.array(column) for column in zip(*rows, strict=True))
    return users, categories, first.astype(bool)


@pytest.mark.parametrize("k", [1, 4])
def test_a_twin_of_ones_own_group_is_chance_among_the_group(k):
    """n = 400: a share of 1/4 lies within 0.14 and 0.36 but for 2e-7; ties won by place would give 0.0 or 1.0."""
    success = profile_linkage(*shared_logs(400 // k, k), at_least=5)
    assert success.tried == 400
    assert success.right == 400 if k == 1 else 0.14 < success.share < 0.36


def test_a_sample_is_linked_among_everybody():
    users, categories, first = shared_logs(100, 4)
    some = profile_linkage(users, categories, first, at_least=5, most=120, noise=Noise.seeded(1))
    assert some.tried == 120
    assert some.share < 0.45  # among 120 alone most would have lost their twins
    assert profile_linkage(users, categories, first, at_least=5, most=120, noise=Noise.seeded(1)) == some


def test_pieces_of_the_product_agree_with_the_whole(monkeypatch):
    users, categories, first = shared_logs(30, 3)
    whole = profile_linkage(users, categories, first, at_least=5)
    monkeypatch.setattr(profiles, "AT_ONCE", 200)
    assert profile_linkage(users, categories, first, at_least=5) == whole
    monkeypatch.setattr(profiles, "MOST_COMPARED", 900)
    assert profile_linkage(users, categories, first, at_least=5).tried == 10


def test_nearest_profiles_agree_with_a_plain_search():
    stream = Noise.seeded(2).stream("toy")
    users, categories = stream.below(40, 3000), stream.below(25, 3000)
    categories = np.where(stream.below(3, 3000) == 0, users % 25, categories)
    first = np.arange(3000) % 2 == 0
    people = linkable(users, first)
    counts = [np.zeros((40, 25)), np.zeros((40, 25))]
    for user, category, half in zip(users, categories, first, strict=True):
        counts[0 if half else 1][user, category] += 1
    unit = [table / np.linalg.norm(table, axis=1, keepdims=True) for table in counts]
    right = sum(max(people, key=lambda other: unit[0][one] @ unit[1][other]) == one for one in people)
    assert profile_linkage(users, categories, first).right == right
