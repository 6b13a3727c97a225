"""The random words of a run, in order and by number, so that a restored stream goes on at the word where it stopped."""

from __future__ import annotations

import numpy as np

from queryveil.arrays import Words
from queryveil.privacy import Noise

WORDS_IN_BLOCK = 1 << 17


class Draws:
    """The words of the run, by number: block after block of the noise, each asked for once."""

    def __init__(self, noise: Noise, used: int) -> None:
        self._noise = noise
        self.used = used
        self._next_block, self._skip = divmod(used, WORDS_IN_BLOCK)
        self._ahead: Words = np.zeros(0, np.uint64)

    def __call__(self, used: int, wanted: int) -> Words:
        self.used += used
        self._ahead = self._ahead[used:]
        while len(self._ahead) < wanted:
            block = self._noise.stream("stream: draws", self._next_block).words(WORDS_IN_BLOCK)[self._skip :]
            self._next_block, self._skip = self._next_block + 1, 0
            self._ahead = np.concatenate([self._ahead, block])
        return self._ahead
