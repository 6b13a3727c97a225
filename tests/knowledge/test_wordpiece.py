"""Word pieces: the same numbers as the tokenizer that the model's authors publish, here as an independent oracle."""

import hashlib
from unicodedata import category, ucd_3_2_0

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from properties import examples
from queryveil.knowledge._wordpiece import WordPieces
from queryveil.packaged import packaged

OURS = WordPieces.load()


@pytest.fixture(scope="module")
def oracle():
    pieces = packaged("minilm/vocabulary.txt").decode().split("\n")[:-1]
    return BertWordPieceTokenizer({piece: number for number, piece in enumerate(pieces)}, lowercase=True)


def test_the_vocabulary_is_the_published_one():
    digest = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
    assert hashlib.sha256(packaged("minilm/vocabulary.txt")).hexdigest() == digest


# Only characters as old as Unicode 3.2 that are today what they were: others are told apart by the edition of Unicode.
KNOWN = [
    letter
    for letter in map(chr, range(0x10000))
    if ucd_3_2_0.category(letter) not in ("Cn", "Cs", "Co") and ucd_3_2_0.category(letter) == category(letter)
]
TEXTS = st.text(st.sampled_from(KNOWN), max_size=40)


@settings(max_examples=examples(300), deadline=None)
@given(TEXTS)
@example("what to do about a sore throat")
@example("Ångström CAFÉ naïve İstanbul ΟΔΟΣ")
@example("北京 weather, 東京!")
@example("a\x00b\ufffdc\u200bd\x85e\x1cf\tg\u3000h")
@example("$5+tax <b>mother-in-law's</b> e-mail: someone@example.com ¿qué? “quoted”")
@example("x" * 101 + " " + "x" * 100)
def test_pieces_are_those_of_the_published_tokenizer(oracle, text):
    assert OURS.encode(text, 10_000) == oracle.encode(text).ids


@pytest.mark.parametrize("most", [2, 3, 7])
def test_a_long_text_is_cut_and_keeps_its_end_mark(oracle, most):
    oracle.enable_truncation(most)
    text = "unbelievable " * 4
    assert OURS.encode(text, most) == oracle.encode(text).ids
    assert OURS.encode("", most) == [101, 102]


def test_the_name_of_a_control_token_is_text():
    assert OURS.encode("[SEP]", 16)[1:-1] != [102]


def test_every_single_character_is_read_as_published(oracle):
    texts = [f"a{letter}b" for letter in KNOWN]
    wrong = [t for t, theirs in zip(texts, oracle.encode_batch(texts), strict=True) if OURS.encode(t, 9) != theirs.ids]
    assert wrong == [] and len(texts) > 40_000
