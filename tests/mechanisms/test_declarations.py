"""What mechanisms declare for other parts, and the classes that `queryveil.mechanisms` offers by name."""

import pytest

from queryveil import mechanisms
from queryveil.release.mechanism import declares


def test_every_mechanism_is_a_public_class_that_is_listed_before_it_is_loaded():
    for name in mechanisms.BUILT_IN:
        assert name.capitalize() in dir(mechanisms)
        assert name.capitalize() in mechanisms.__all__
        assert getattr(mechanisms, name.capitalize()) is mechanisms.load(name)


def test_every_mechanism_has_a_title_of_one_line_and_a_citation_in_bibtex():
    for name in mechanisms.BUILT_IN:
        made = mechanisms.load(name)
        assert made.name == name
        assert made.title and "\n" not in made.title and not made.title.endswith(".")
        assert made.citation.startswith("@") and made.citation.endswith("}")


@pytest.mark.parametrize("name", list(mechanisms.BUILT_IN))
def test_those_that_replace_texts_say_so(name):
    assert declares(mechanisms.load(name), "replaces_texts", "safe") == (name in ("semantic", "obfuscate"))


def test_nobody_is_behind_the_users_of_distill_and_of_safe_sanitize():
    assert declares(mechanisms.Distill, "synthetic_users", "safe")
    assert declares(mechanisms.Sanitize, "synthetic_users", "safe")
    assert not declares(mechanisms.Sanitize, "synthetic_users", "paper")
    assert not declares(mechanisms.Suppress, "synthetic_users", "safe")
