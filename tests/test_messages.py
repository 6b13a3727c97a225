"""The library speaks to every user alike: options of the command line are for the command line to name."""

import ast
import re
from pathlib import Path

import queryveil

SOURCE = Path(queryveil.__file__).parent
OPTION = re.compile(r"(?<![\w-])--[a-z]")
MAY_NAME_OPTIONS = {
    "errors.py": "renders a remedy as an option",
    "experiments/command.py": "writes the command that makes a release",
    "engines/spark/cluster.py": "reads how Spark was started",
    "engines/spark/java.py": "starts Java",
    "testing/harness/__main__.py": "is a command of its own",
}
PIP = "pip install --force-reinstall"


def texts_of(tree):
    """Every text of a module that is no docstring."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.value


def test_no_text_of_the_library_names_an_option_of_the_command_line():
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith("cli/") or place in MAY_NAME_OPTIONS:
            continue
        texts = [text for text in texts_of(ast.parse(path.read_text(encoding="utf-8"))) if OPTION.search(text)]
        found[place] = [text for text in texts if PIP not in text]
    assert {place: texts for place, texts in found.items() if texts} == {}


def test_an_option_in_a_message_would_be_seen():
    (text,) = texts_of(ast.parse('"""Docs with --option."""\nraise UsageError("leave them out with --on-error skip")'))
    assert OPTION.search(text)
