"""Text as the word pieces that MiniLM was trained on, the same as BERT's for English without case.

Devlin et al. (2019), "BERT", section 3, and Wu et al. (2016), "Google's Neural Machine Translation System": a word is
split greedily into the longest pieces of a vocabulary of 30,522; what continues a word is written ##piece. Control
characters are dropped, accents stripped, letters made small; punctuation and Chinese characters stand alone. A name of
a control token in a text, such as [SEP], is text like any other.

>>> WordPieces.load().encode("Café prices!", 16)
[101, 7668, 7597, 999, 102]
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from queryveil.packaged import packaged

SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
CHINESE = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
LONGEST_WORD = 100
"""A longer word is unknown as a whole."""


class WordPieces:
    """A vocabulary of pieces, numbered."""

    def __init__(self, pieces: list[str]) -> None:
        self._numbers = {piece: number for number, piece in enumerate(pieces)}
        self._unknown, self._first, self._last = (self._numbers[name] for name in ("[UNK]", "[CLS]", "[SEP]"))

    @classmethod
    @lru_cache(maxsize=1)
    def load(cls) -> WordPieces:
        """The vocabulary of all-MiniLM-L6-v2 (Apache 2.0, from BERT's), which comes with this package."""
        return cls(packaged("minilm/vocabulary.txt", SHA256).decode().split("\n")[:-1])

    def encode(self, text: str, most: int) -> list[int]:
        """The numbers of a text's pieces between those of start and end, at most so many."""
        numbers = [self._first]
        for word in _words(text):
            numbers.extend(self._pieces(word))
            if len(numbers) >= most:
                break
        return [*numbers[: most - 1], self._last]

    def _pieces(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if prefix + word[start:end] in self._numbers), None)
            if end is None:
                return [self._unknown]
            found.append(self._numbers[prefix + word[start:end]])
            start = end
        return found


def _words(text: str) -> Iterator[str]:
    for word in _normalized(text).split():
        start = 0
        for place, letter in enumerate(word):
            if _is_punctuation(letter):
                if start < place:
                    yield word[start:place]
                yield letter
                start = place + 1
        if start < len(word):
            yield word[start:]


def _normalized(text: str) -> str:
    clean = "".join(_clean(letter) for letter in text)
    plain = (letter for letter in unicodedata.normalize("NFD", clean) if unicodedata.category(letter) != "Mn")
    return "".join(letter.lower() for letter in plain)  # letter by letter: a sigma is the same at the end of a word


@lru_cache(maxsize=4096)
def _clean(letter: str) -> str:
    if letter in "\t\n\r" or letter.isspace():
        return " " if letter in "\t\n\r" or not unicodedata.category(letter).startswith("C") else ""
    if letter in "\0\ufffd" or unicodedata.category(letter).startswith("C"):
        return ""
    return f" {letter} " if any(low <= ord(letter) <= high for low, high in CHINESE) else letter


def _is_punctuation(letter: str) -> bool:
    return letter in ASCII_PUNCTUATION or unicodedata.category(letter).startswith("P")
