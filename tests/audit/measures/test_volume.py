"""How much is left, and whether people look as active."""

from datetime import datetime

import numpy as np

from queryveil.audit.measures.volume import records_per_session, records_per_user, shape_distance, volume
from queryveil.log import QueryLog

DAY = datetime(2026, 3, 1, 4)
RAW = QueryLog.of([("a", "x", DAY), ("a", "y", DAY), ("b", "x", None), ("b", "z", DAY.replace(day=2))])


def test_volume_is_a_ratio_of_sizes():
    left = volume(RAW, QueryLog.of([("u", "x")]))
    assert (left.records, left.users, left.texts) == (0.25, 0.5, 1 / 3)
    assert np.isnan(volume(QueryLog.empty(), RAW).records)


def test_sessions_are_users_and_days():
    assert sorted(records_per_user(RAW).tolist()) == [2, 2]
    assert sorted(records_per_session(RAW).tolist()) == [1, 2]


def test_the_shape_distance_is_kolmogorov_and_smirnovs():
    assert shape_distance(np.array([1, 1, 2, 9]), np.array([1, 1, 1, 1])) == 0.5
    assert shape_distance(np.array([1]), np.array([], np.int64)) == 1
