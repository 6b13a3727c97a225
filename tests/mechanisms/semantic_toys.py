"""Small semantic releases for tests."""

from queryveil.log import QueryLog
from queryveil.mechanisms.semantic import Semantic
from queryveil.privacy import Noise

ALPHA = 1e-6


def release(mechanism, rows, seed=1):
    return mechanism.protect(QueryLog.of(rows), Noise.seeded(seed))


def semantic(**changes):
    return Semantic(**({"epsilon": 2.0, "per": "query", "domain": "disease", "criterion": "sqc1"} | changes))
