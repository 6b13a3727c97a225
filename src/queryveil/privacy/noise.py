"""Every random draw of the package.

`Noise` holds one 256-bit key: from the operating system (`Noise.secure()`) or from a seed (`Noise.seeded(7)`, for
science only: its releases are marked not publishable). From the key and an address, a name and a public block number,
comes an independent `NoiseStream` of AES-256-CTR words. So one process, many threads and many machines draw the same
numbers for the same block, and the secure and the seeded way differ in nothing but where the key comes from.

One `Noise` serves one release: asking for the same address twice is refused, because two releases that share their
noise can be subtracted from each other.

The samplers work on integers only and are exact (`_sampling_kernel.py`); `integer_weights` turns floats into weights
for an exact choice with a stated error. OpenDP's samplers are as exact, but can neither be seeded nor addressed by
block; the tests compare against them.

>>> noise = Noise.seeded(7)
>>> noise.stream("counts").discrete_laplace(scale=2, size=5).tolist() == (
...     Noise.seeded(7).stream("counts").discrete_laplace(scale=2, size=5).tolist()
... )
True
>>> noise.stream("counts")
Traceback (most recent call last):
...
queryveil.errors.RefusedError: the noise of counts, block 0, was drawn before; make a new Noise for a new release.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from queryveil.checks import real_number, require, whole_number
from queryveil.errors import DataError, RefusedError
from queryveil.privacy import keys

Words = npt.NDArray[np.uint64]
Integers = npt.NDArray[np.int64]

KEY_BYTES = 32
LARGEST_INTEGER = 2**62
LARGEST_SIGMA = 2**27
WEIGHT_BITS = 53
WORDS_AT_ONCE = 1 << 16


class Noise:
    """A key from which every draw of one release comes."""

    def __init__(self, key: bytes, mode: Literal["secure", "seeded"], *, fresh: bool = True) -> None:
        self._key = key
        self.fresh = fresh
        """Whether nobody can have drawn from it before; a kept key forgets what was handed out in other processes."""
        self.mode: Literal["secure", "seeded"] = mode
        self._drawn: set[tuple[str, int | None]] = set()
        self._lock = threading.Lock()

    @classmethod
    def secure(cls) -> Noise:
        """Noise from the operating system's entropy. The default, and the only kind that may be published."""
        return cls(os.urandom(KEY_BYTES), "secure")

    @classmethod
    def seeded(cls, seed: int) -> Noise:
        """The same noise for the same seed: for tests and science. Whoever knows the seed can undo it."""
        require(whole_number("seed", seed, at_least=0, at_most=2**63 - 1, suggest=1))
        return cls(hashlib.blake2b(b"queryveil seed %d" % seed, digest_size=32).digest(), "seeded")

    @classmethod
    def create(cls, name: str) -> Noise:
        """Secure noise whose key is also kept under a new name (see `keys`), for one run that outlives its process."""
        made = cls.secure()
        keys.keep(name, made._key)
        if keys.load(name) != made._key:
            raise RefusedError(f"a key of the name {name} is kept already; give a new run a new name.")
        return made

    @classmethod
    def load(cls, name: str) -> Noise:
        """The noise that `create` made, to go on with the same run; another release would share its noise."""
        key = keys.load(name)
        if len(key) != KEY_BYTES:
            raise DataError(f"the key {name} is not {KEY_BYTES} bytes long. Restore the right one.")
        return cls(key, "secure", fresh=False)

    @property
    def publishable(self) -> bool:
        """Whether a release with this noise may be published."""
        return self.mode == "secure"

    def refuse_reuse(self) -> None:
        """Refuse a kept key: two releases with the same noise can be subtracted from each other."""
        if not self.fresh:
            raise RefusedError("this noise is kept for one run and may have been drawn before. Use Noise.secure().")

    def __repr__(self) -> str:
        return f"Noise({self.mode})"  # never the key

    def fingerprint(self) -> bytes:
        """Tells this key from others, and nothing of it: a hash under the key."""
        return self._derived(b"", b"queryveil which")

    def stream(self, name: str, block: int = 0) -> NoiseStream:
        """The stream at an address; each address is handed out once."""
        return NoiseStream(self.stream_key(name, block))

    def stream_key(self, name: str, block: int) -> bytes:
        """The key of one stream, to send to a worker; it tells nothing about the other streams."""
        self._hand_out(name, block)
        return self._derived(_prefixed(name) + block.to_bytes(8, "big", signed=True), b"queryveil stream")

    def _hand_out(self, name: str, block: int | None = None) -> None:
        with self._lock:
            if (name, block) in self._drawn:
                where = "" if block is None else f", block {block},"
                raise RefusedError(f"the noise of {name}{where} was drawn before; make a new Noise for a new release.")
            self._drawn.add((name, block))

    def streams(self, name: str, blocks: int) -> NoiseStreams:
        """The streams of all blocks of a name, to send to workers; they tell nothing about other names.

        One key however many blocks there are, so that what is sent stays small: Spark writes large closures to disks.
        """
        self._hand_out(name)
        return NoiseStreams(self._derived(name.encode(), b"queryveil blocks"), blocks)

    def repeatable(self, name: str, message: bytes) -> NoiseStream:
        """The stream that belongs to a message, the same each time: a keyed pseudo-random function.

        For a mechanism that must answer the same question with the same words, or an observer averages its noise away.
        The message holds everything the answer depends on, so that a repeated stream can only repeat an answer.
        """
        return NoiseStream(self._derived(_prefixed(name) + message, b"queryveil repeat"))

    def repeating(self, name: str) -> Repeating:
        """As `repeatable`, to send to workers: under a key of its own, which tells nothing about other names."""
        return Repeating(self._derived(name.encode(), b"queryveil memory"))

    def parts(self, name: str) -> Parts:
        """Noise for every part of a release whose parts are named by the data, to send to workers; handed out once."""
        self._hand_out(name)
        return Parts(self._derived(name.encode(), b"queryveil parts"), self.mode)

    def _derived(self, address: bytes, purpose: bytes) -> bytes:
        return hashlib.blake2b(address, key=self._key, person=purpose, digest_size=KEY_BYTES).digest()

    def pseudonyms(self, users: pl.Series) -> pl.DataFrame:
        """A fresh random pseudonym for every distinct user: columns `user`, `pseudonym`."""
        return random_names(users, self.stream("pseudonyms"))


@dataclass(frozen=True)
class NoiseStreams:
    """One stream for each block. Asking twice gives the same words: a task that is run again must draw the same.

    A block's key is BLAKE2b of its number under the key of all, a pseudo-random function: blocks are independent.
    """

    _key: bytes = field(repr=False)
    blocks: int

    def __getitem__(self, block: int) -> NoiseStream:
        if not 0 <= block < self.blocks:
            raise IndexError(f"there are {self.blocks} blocks.")
        return NoiseStream(_keyed(self._key, block.to_bytes(8, "big")))


@dataclass(frozen=True)
class Repeating:
    """The stream that belongs to a message, the same each time, for workers; see `Noise.repeatable`."""

    _key: bytes = field(repr=False)

    def stream(self, message: bytes) -> NoiseStream:
        """The message holds everything the answer depends on."""
        return NoiseStream(_keyed(self._key, message))


@dataclass(frozen=True)
class Parts:
    """Noise for each part of a release, by the part's name; independent of all others.

    Asking twice gives the same noise: a task that is run again must draw the same.
    """

    _key: bytes = field(repr=False)
    mode: Literal["secure", "seeded"]

    def of(self, part: str) -> Noise:
        """The noise of one part, in the mode of the whole."""
        return Noise(_keyed(self._key, part.encode()), self.mode)


def _keyed(key: bytes, message: bytes) -> bytes:
    return hashlib.blake2b(message, key=key, digest_size=KEY_BYTES).digest()


def _prefixed(name: str) -> bytes:
    """A name with its length before it, so that nothing behind it can pass for a part of it."""
    return len(name.encode()).to_bytes(8, "big") + name.encode()


def random_names(users: pl.Series, stream: NoiseStream) -> pl.DataFrame:
    """A random name for every distinct user: columns `user`, `pseudonym`.

    96 bits: among 10^9 names, drawn in as many blocks as there may be, two are alike with a probability below 10^-11.
    """
    distinct = users.unique().sort()
    return pl.DataFrame([distinct.alias("user"), fresh_names(len(distinct), stream)])


def fresh_names(count: int, stream: NoiseStream) -> pl.Series:
    """So many random names, as `pseudonym`; in whole columns, since there may be tens of millions."""
    digits = np.frombuffer(stream.words(2 * count).astype(">u8").tobytes().hex().encode(), np.uint8).reshape(count, 32)
    text = np.empty((count, 26), np.uint8)
    text[:, 0], text[:, 1:25], text[:, 25] = ord("u"), digits[:, :24], ord(" ")
    names = pl.Series([text.tobytes()[:-1].decode()], dtype=pl.String).str.split(" ").explode()
    return (names if count else names.clear()).alias("pseudonym")


class NoiseStream:
    """A sequence of random words and the samplers that read from it. Not for sharing between threads."""

    def __init__(self, key: bytes) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._ahead = np.empty(0, dtype=np.uint64)

    def words(self, size: int) -> Words:
        """`size` uniform 64-bit words."""
        self._look_ahead(size)
        taken, self._ahead = self._ahead[:size], self._ahead[size:]
        return taken

    def below(self, limit: int | npt.ArrayLike, size: int | None = None) -> Integers:
        """Uniform whole numbers in [0, limit); `limit` may be an array with one limit for each draw."""
        limits = np.atleast_1d(np.asarray(limit))
        if limits.dtype.kind not in "iu" or (limits < 1).any() or (limits > LARGEST_INTEGER).any():
            raise ValueError(f"a limit must be a whole number from 1 to 2^62; one of {limits.size} is not.")
        count = len(limits) if size is None else size
        if np.ndim(limit) and count != len(limits):
            raise ValueError("with several limits there is one draw for each.")
        return self._fill("fill_below", np.empty(count, dtype=np.int64), limits.astype(np.uint64))

    def permutation(self, size: int) -> Integers:
        """The numbers 0 … size − 1 in a uniformly random order."""
        return self._fill("fill_permutation", np.arange(size, dtype=np.int64))

    def bernoulli(self, probability: Fraction | float, size: int) -> npt.NDArray[np.bool_]:
        """True with exactly the given probability (rounded up to 62 bits where it has more)."""
        require(real_number("probability", probability, at_least=0, at_most=1))
        top, bottom = _ratio(probability)
        return self._fill("fill_fraction", np.empty(size, dtype=np.bool_), top, bottom)

    def bernoulli_exp(self, gamma: Fraction | float, size: int) -> npt.NDArray[np.bool_]:
        """True with exactly the probability e^−gamma (gamma rounded up to 62 bits where it has more)."""
        require(real_number("gamma", gamma, at_least=0, at_most=LARGEST_SIGMA))
        top, bottom = _ratio(gamma)
        return self._fill("fill_exponential", np.empty(size, dtype=np.bool_), top, bottom)

    def discrete_laplace(self, scale: Fraction | float, size: int) -> Integers:
        """Whole numbers with P(x) ∝ e^(−|x| / scale). A float scale counts as a fraction at least as large."""
        require(real_number("scale", scale, above=0, at_most=LARGEST_SIGMA))
        top, bottom = _ratio(scale, bits=56)  # leaves room for 255 whole scales in 64 bits; e^-255 lies beyond
        return self._fill("fill_laplace", np.empty(size, dtype=np.int64), top, bottom)

    def discrete_gaussian(self, sigma: Fraction | float, size: int) -> Integers:
        """Whole numbers with P(x) ∝ e^(−x² / 2σ²). σ² is rounded up to a fraction that keeps the arithmetic exact."""
        require(real_number("sigma", sigma, above=0, at_most=LARGEST_SIGMA))
        top, bottom, proposal = gaussian_fraction(sigma)
        return self._fill(
            "fill_gaussian", np.empty(size, dtype=np.int64), np.uint64(top), np.uint64(bottom), np.uint64(proposal)
        )

    def choice(self, weights: npt.ArrayLike, size: int) -> Integers:
        """Indices drawn with probability exactly weights / sum(weights); weights are whole numbers ≥ 0."""
        whole = np.asarray(weights)
        if whole.ndim != 1 or not np.issubdtype(whole.dtype, np.integer) or (whole < 0).any():
            raise ValueError("weights must be whole numbers >= 0 in one row; integer_weights makes them from floats.")
        upper = np.cumsum(whole, dtype=np.uint64)
        nearly = whole.sum(dtype=np.float64)  # does not wrap, so it tells whether the exact sum did
        if not len(upper) or nearly > 2 * LARGEST_INTEGER or not 0 < int(upper[-1]) <= LARGEST_INTEGER:
            raise ValueError("the weights must add up to a whole number from 1 to 2^62.")
        return np.searchsorted(upper, self.below(int(upper[-1]), size).astype(np.uint64), side="right").astype(np.int64)

    def uniform(self, size: int) -> npt.NDArray[np.float64]:
        """Floats in [0, 1), multiples of 2^-53. Not for numbers that are published: use an integer sampler there."""
        return (self.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _look_ahead(self, size: int) -> None:
        missing = size - len(self._ahead)
        if missing > 0:
            fresh = np.empty(max(missing, 64), dtype="<u8")
            self._cipher.update_into(bytes(fresh.nbytes), fresh.view(np.uint8).data)
            self._ahead = np.concatenate([self._ahead, fresh]) if len(self._ahead) else fresh

    def _fill(self, kernel_name: str, out: npt.NDArray[Any], *arguments: Any) -> npt.NDArray[Any]:
        import queryveil.privacy._sampling_kernel as kernels  # Numba takes a second to import: only who draws pays

        kernel: Callable[..., tuple[int, int]] = getattr(kernels, kernel_name)
        done = 0
        self._look_ahead(min(len(out), WORDS_AT_ONCE))
        while True:
            done, used = kernel(self._ahead, out, done, *arguments)
            self._ahead = self._ahead[used:]
            if done >= len(out):
                return out
            self._look_ahead(len(self._ahead) + min(4 * (len(out) - done), WORDS_AT_ONCE))


def laplace_words(dimension: int) -> int:
    """How many random words `laplace_vectors` reads for one vector."""
    return dimension + dimension % 2 + dimension // 2


def laplace_vectors(words: Words, dimension: int) -> npt.NDArray[np.float64]:
    """Vectors with density proportional to e^−‖z‖₂, one for each row of `laplace_words(dimension)` words.

    The direction comes from normal draws (Box and Muller), the radius from Gamma(dimension, 1). Half of that radius is
    there already: the squared length of n normal draws, halved, is Gamma(n/2) and independent of their direction. The
    other half is the sum of n/2 exponential draws, and for odd n half the square of the normal draw left over.

    In floating point, so never for numbers that are published themselves (Mironov 2012): only for a choice among public
    things. The radius is within 2^-49 · (radius + dimension) of the one that real arithmetic would make. The direction
    is within about 2^-49 but where a pair of normal draws has a small length l: u near 1 is rounded by up to 2^-54,
    which moves l by up to 2^-53 / l. That is seldom: l < x has probability below x² / 2.
    """
    even = dimension + dimension % 2
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-64  # in (0, 1]; keeps 53 significant bits near 0
    length = np.sqrt(-2.0 * np.log(uniform[:, 0:even:2]))
    angle = 2.0 * np.pi * uniform[:, 1:even:2]
    normal = np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)
    radius = (normal**2).sum(axis=1) / 2 - np.log(uniform[:, even:]).sum(axis=1)
    direction = normal[:, :dimension]
    drawn: npt.NDArray[np.float64] = direction * (radius / np.sqrt((direction**2).sum(axis=1)))[:, None]
    return drawn


def gaussian_fraction(sigma: Fraction | float) -> tuple[int, int, int]:
    """σ² as `top / bottom`, rounded up, and the proposal's scale ⌊σ⌋ + 1.

    `bottom` is the largest power of two up to 2^20 with which every product of the sampler stays within 128 bits.
    """
    exact = (sigma if isinstance(sigma, Fraction) else Fraction(float(sigma))) ** 2
    proposal = math.isqrt(math.floor(exact)) + 1
    bottom = 2 ** max(0, min(20, 55 - 2 * proposal.bit_length()))
    return math.ceil(exact * bottom), bottom, proposal


def integer_weights(weights: npt.ArrayLike) -> Integers:
    """Whole-number weights ≥ 1 in proportion to non-negative floats, for `NoiseStream.choice`.

    Adds up to at most 2^53 + n for n weights; each probability differs from the float's by at most (n + 1) · 2^-53.
    A privacy claim must be computed on what this returns, not on the floats.
    """
    floats = np.asarray(weights, dtype=np.float64)
    total = floats.sum()
    if floats.ndim != 1 or not np.isfinite(total) or total <= 0 or (floats < 0).any():
        raise ValueError("weights must be finite numbers >= 0 in one row, not all 0.")
    whole: Integers = np.maximum(1, np.floor(floats / total * 2.0**WEIGHT_BITS)).astype(np.int64)
    return whole


def _ratio(value: Fraction | float, bits: int = 62) -> tuple[np.uint64, np.uint64]:
    """A number as a fraction of two whole numbers of at most `bits` bits; rounded up where it has more digits."""
    exact = value if isinstance(value, Fraction) else Fraction(float(value))
    top, bottom = exact.numerator, exact.denominator
    spare = max(top.bit_length(), bottom.bit_length()) - bits
    if spare > 0:
        bottom_kept = max(1, bottom >> spare)
        top, bottom = math.ceil(exact * bottom_kept), bottom_kept
    return np.uint64(top), np.uint64(bottom)
