"""A set union with weights: which keys nobody knows beforehand may be published.

A person with d keys, at most `most_keys`, chosen at random among the person's own, gives each ⌊unit/√d⌋: a vector of
whole numbers whose length is at most `unit`. A key is published where its weight with discrete Gaussian noise exceeds
the threshold (`joint_gaussian.union_threshold`). Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin (2020),
"Differentially Private Set Union", call this the weighted Gaussian.
"""

from __future__ import annotations

import numpy as np

from queryveil.arrays import Flags, Longs
from queryveil.privacy.joint_gaussian import key_weight
from queryveil.privacy.noise import NoiseStream


def weights_of(person: Longs, stream: NoiseStream, *, most_keys: int, unit: int) -> Longs:
    """The weight of each key of sorted people, 0 where it is not among those of the person that count.

    >>> from queryveil.privacy import Noise
    >>> stream = Noise.seeded(1).stream("keys")
    >>> weights_of(np.array([0, 0, 0, 0, 1]), stream, most_keys=128, unit=2**16).tolist()
    [32768, 32768, 32768, 32768, 65536]
    """
    mine = np.bincount(person)[person]
    weights = equal_weights(np.minimum(mine, most_keys), unit)
    many = np.flatnonzero(mine > most_keys)
    if len(many):
        order = np.lexsort((stream.words(len(many)), person[many]))
        ends = np.cumsum(np.bincount(person[many]))
        begin = (ends - np.bincount(person[many]))[person[many][order]]
        left_out = many[order][np.arange(len(many)) - begin >= most_keys]
        weights[left_out] = 0
    return weights


def equal_weights(keys: Longs, unit: int) -> Longs:
    """⌊unit/√d⌋ for each d ≥ 1, exactly."""
    distinct, place = np.unique(keys, return_inverse=True)
    return np.array([key_weight(int(count), unit) for count in distinct], dtype=np.int64)[place]


def keep_above(weight: Longs, stream: NoiseStream, *, sigma: int, threshold: int) -> tuple[Flags, Longs]:
    """Which keys are published, and the noisy weights of those."""
    noisy = weight + stream.discrete_gaussian(sigma, len(weight))
    kept = noisy > threshold
    return kept, noisy[kept]
