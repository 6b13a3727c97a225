"""Names and numbers in a query are noticed before it is sent, and nothing of it is quoted."""

import pytest

from queryveil.knowledge.tagging import STOP_WORDS
from queryveil.mechanisms.obfuscate.session import alerts


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("throat cancer", []),
        ("running shoes for women", []),
        ("call 555 123 4567", ["an address, a long number or credentials were typed", "a number was typed"]),
        ("mail a.b@example.org", ["an address, a long number or credentials were typed", "a word may be a name"]),
        ("doctor Smith throat", ["a word may be a name"]),
        ("qwfpgj cancer", ["a word may be a name"]),
        ("THROAT CANCER", []),
    ],
)
def test_names_and_numbers_are_noticed(query, found):
    assert alerts(query) == found


def test_function_words_are_no_names():
    assert alerts(" ".join(sorted(STOP_WORDS - {"www", "http", "https", "html", "htm", "php", "asp"}))) == []
