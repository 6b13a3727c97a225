"""What is sealed comes back whole or not at all."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.errors import DataError
from queryveil.privacy.keys import Kind, OtherKeyError, Seal

LETTERS = Kind(b"QVLETTER", 3, "the letter", "a letter", "Use the right key.")
KEY, OTHER = b"1" * 32, b"2" * 32


@given(st.lists(st.binary(max_size=50), max_size=4))
def test_the_parts_come_back_one_behind_the_other(parts):
    assert bytes(Seal(LETTERS, KEY).open(Seal(LETTERS, KEY).closed(*parts))) == b"".join(parts)


def test_no_bit_can_be_changed_and_no_byte_be_missing_or_added():
    seal = Seal(LETTERS, KEY)
    content = seal.closed(b"some words")
    changed = [
        content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        for at in range(len(content))
        for bit in range(8)
    ]
    for broken in (*changed, *(content[:cut] for cut in range(len(content))), content + b"x"):
        with pytest.raises(DataError):
            seal.open(broken)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda content: content[:-1], "^the letter is torn or was altered"),
        (lambda content: content[:9], "^the letter is torn or was altered"),
        (lambda content: b"something else", "^this is not a letter"),
        (lambda content: content[:8] + bytes([0, 0, 0, 4]) + content[12:], "^the letter has another format than 3"),
    ],
)
def test_it_says_what_is_wrong(broken, said):
    with pytest.raises(DataError, match=said):
        Seal(LETTERS, KEY).open(broken(Seal(LETTERS, KEY).closed(b"some words")))


def test_another_key_is_told_from_damage_and_by_the_name_given():
    with pytest.raises(OtherKeyError, match=r"^a\.letter belongs to another key\. Use the right key\."):
        Seal(LETTERS, OTHER).open(Seal(LETTERS, KEY).closed(b"some words"), "a.letter")


def test_a_code_of_one_kind_is_none_of_another_under_the_same_key():
    bills = Kind(b"QVABILL!", 3, "the bill", "a bill", "")
    letter, bill = Seal(LETTERS, KEY).closed(b"some words"), Seal(bills, KEY).closed(b"other words")
    with pytest.raises(DataError, match="torn or was altered"):
        Seal(bills, KEY).open(bill[:20] + letter[20:])


def test_a_code_without_the_key_is_refused():
    content = Seal(LETTERS, KEY).closed(b"some words")
    for forged in (hashlib.sha256(b"other words"), hashlib.sha256(content[:20] + b"other words")):
        with pytest.raises(DataError, match="torn or was altered"):
            Seal(LETTERS, KEY).open(content[:20] + forged.digest() + b"other words")
