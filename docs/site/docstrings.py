"""Docstrings as Markdown for the API reference: doctests become fenced examples, indented trees stay as they are."""

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*\n(?:^(?!\s*$).*\n)*(?:\n(?=>>> ))?)+", re.MULTILINE)


class Doctests(griffe.Extension):
    """Fences the examples of every docstring, which Markdown would take for quotations."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called once for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fence(obj.docstring.value)


def fence(text: str) -> str:
    """A docstring with its examples fenced.

    >>> print(fence("Says hello.\\n\\n>>> hello()\\n'hello'").replace("`", "'"))
    Says hello.
    <BLANKLINE>
    '''pycon
    >>> hello()
    'hello'
    '''
    """
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text + "\n").rstrip()
