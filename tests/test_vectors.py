"""The exact numbers of the tests are in the project, each with its meaning beside it."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
OTHERS = [path for path in TESTS.rglob("*.py") if path.parent.name != "vectors" and path != Path(__file__)]


@pytest.mark.parametrize("path", sorted((TESTS / "vectors").glob("*.py")), ids=lambda path: path.stem)
def test_every_number_has_its_meaning_beside_it_and_a_test_that_uses_it(path):
    module = ast.parse(path.read_text(encoding="utf-8"))
    assert "Paper: " in ast.get_docstring(module)
    used = " ".join(other.read_text(encoding="utf-8") for other in OTHERS if "vectors" in other.read_text("utf-8"))
    for number, meaning in zip(module.body[1::2], module.body[2::2], strict=True):
        (name,) = (target.id for target in number.targets)
        assert isinstance(meaning.value.value, str), name
        assert re.search(rf"\b{name}\b", used), name


def test_no_test_looks_for_numbers_outside_the_project():
    assert len(OTHERS) > 100
    assert [
        path.name
        for path in OTHERS
        if re.search("QUERYVEIL_SPECS|shared/specs|.specs. */|vectors[.]json", path.read_text())
    ] == []
