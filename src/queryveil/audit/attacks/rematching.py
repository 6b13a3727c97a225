"""A0: pair the released users and queries anew, as the paper's own de-anonymizers do.

Pàmies-Estrems and Garcia-Alfaro (2023), Algorithms 2 and 3. The attacker knows k, the depth and the classifier, takes
the released stream and pairs users and queries once more, at random and under the same restrictions. Algorithm 2 works
inside one category at a fixed depth and empties it as long as more than k distinct users wait; Algorithm 3 has the
anonymizer's own control flow. Both may be given a wrong k or depth.

Against a safe stream the receiver may be the owner, so `owner_excluded=False` lifts Restriction 1.

Cost: that of the anonymizer.

>>> from queryveil.audit.attacks.released_stream import ReleasedStream
>>> names = [f"u{i % 7}" for i in range(500)]
>>> rows = [(names[i], names[i - 1], f"t{i}", "plants") for i in range(500)]
>>> repair(ReleasedStream.of_names(rows), k=3, depth=1, noise=Noise.seeded(1)).tried
500
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from queryveil.audit.attacks.released_stream import ReleasedStream
from queryveil.audit.finding import Success
from queryveil.checks import one_of, require, whole_number
from queryveil.mechanisms.stream import _layout as at
from queryveil.mechanisms.stream._tree import UNLIMITED, Rules, Tree
from queryveil.privacy import Noise

WORDS_IN_BLOCK = 1 << 18


def repair(
    stream: ReleasedStream,
    *,
    k: int,
    depth: int,
    noise: Noise,
    algorithm: Literal["simple", "full"] = "full",
    owner_excluded: bool = True,
) -> Success:
    """How many of all released records get their true owner back."""
    require(
        whole_number("k", k, at_least=2, at_most=10**9, suggest=3),
        whole_number("depth", depth, at_least=1, at_most=1000, suggest=1),
        one_of("algorithm", algorithm, ("simple", "full"), suggest="full"),
    )
    if algorithm == "simple":
        rules = Rules(k=k, branches=False, exclude_owner=owner_excluded, most=UNLIMITED)
    else:
        rules = Rules(k=k, exclude_owner=owner_excluded)
    tree = Tree(rules)
    tree.add_categories(stream.parents[1:], stream.depths[1:])
    handles = np.arange(len(stream), dtype=np.int32)
    out = tree.push(stream.at_depth(depth), stream.receivers, handles, _Words(noise))
    right = stream.owners[out[:, at.OUT_HANDLE]] == out[:, at.OUT_RECEIVER]
    return Success(int(right.sum()), len(stream))


class _Words:
    """Blocks of random words as the kernel asks for them."""

    def __init__(self, noise: Noise) -> None:
        self._noise, self._block = noise, 0
        self._ahead: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)

    def __call__(self, used: int, wanted: int) -> npt.NDArray[np.uint64]:
        self._ahead = self._ahead[used:]
        while len(self._ahead) < wanted:
            fresh = self._noise.stream("attack: repairing", self._block).words(WORDS_IN_BLOCK)
            self._ahead = np.concatenate([self._ahead, fresh])
            self._block += 1
        return self._ahead
