"""What the parser of the command line refuses, said as every other error: what, the rule, what was given, a remedy.

The parser's own classes are known by what they carry, not by where they live, which changes between its versions.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, Final

import typer

from queryveil.checks import did_you_mean
from queryveil.errors import UsageError

PARSER_ERROR: Final[type[Exception]] = typer.BadParameter.__mro__[1]
"""The parser's class for every wrong call."""
RULES: Final = {"integer": "a whole number", "number": "a number", "boolean": "yes or no"}


def explained(work: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Do a part of the parser's work; what it refuses becomes an error of ours."""
    try:
        return work(*given, **named)
    except PARSER_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help is the answer
            raise
        raise UsageError(f"{_sentence(error)}{_where_to_read_on(error)}") from None


def _sentence(error: Any) -> str:
    param = getattr(error, "param", None)
    if type(error).__name__ == "MissingParameter" and param is not None:
        return f"{_name(param)} is missing{_help(param)}."
    if param is not None:
        return _wrong_value(error, param)
    if hasattr(error, "possibilities"):
        known = [option for one in error.ctx.command.params for option in one.opts] if error.ctx else []
        return _ended(f"there is no option {error.option_name}{did_you_mean(error.option_name, known)}")
    if hasattr(error, "option_name"):
        return f"{error.option_name} needs a value after it."
    message = str(error.format_message())
    if found := re.match(r"No such command '(.*?)'", message):
        return _no_such_command(found[1], error.ctx)
    if "unexpected extra argument" in message:  # which may be words of a query, so they are not told
        return "there are more arguments than it takes. Put quotes around words that belong together."
    return message[:1].lower() + message[1:]


def _no_such_command(name: str, context: Any) -> str:
    names = context.command.list_commands(context) if context else []
    what = getattr(context.command, "lists", "command") if context else "command"
    nearest = did_you_mean(name, names) or f". Choose one of {', '.join(names)}"
    return _ended(f"there is no {what} “{name}”{nearest}")


def _wrong_value(error: Any, param: Any) -> str:
    message = str(error.message)
    given = _given(param)
    got = f"; got {given!r}" if given else ""
    if "not one of" in message:
        choices = re.findall(r"'([^']*)'", message.split("not one of", 1)[1])
        return _ended(f"{_name(param)} must be one of {', '.join(choices)}{got}{did_you_mean(given, choices)}")
    for word, rule in RULES.items():
        if f"valid {word}" in message:
            share = given.rstrip("% ").replace(".", "", 1).isdecimal() and given.endswith("%")
            remedy = f" Try {float(given.rstrip('% ')) / 100:g}." if share and word == "number" else ""
            return f"{_name(param)} must be {rule}{got}.{remedy}"
    return f"{_name(param)}: {message[:1].lower()}{message[1:].rstrip('.')}{got}."


def _ended(words: str) -> str:
    return words if words.endswith("?") else f"{words}."


def _given(param: Any) -> str:
    """What was written after an option; an argument may be of the data, and is not told."""
    words = sys.argv
    for option in getattr(param, "opts", ()):
        for place, word in enumerate(words):
            if option.startswith("-") and word == option and place + 1 < len(words):
                return words[place + 1]
            if option.startswith("--") and word.startswith(f"{option}="):
                return word.removeprefix(f"{option}=")
    return ""


def _name(param: Any) -> str:
    options = [option for option in getattr(param, "opts", ()) if option.startswith("-")]
    return max(options, key=len) if options else str(param.name).upper()


def _help(param: Any) -> str:
    said = str(getattr(param, "help", None) or "").strip().rstrip(".")
    return f": {said}" if said else ""


def _where_to_read_on(error: Any) -> str:
    context = getattr(error, "ctx", None)
    words = context.command_path.split()[1:] if context else []
    return f" See {' '.join(['queryveil', *words, '--help'])}."
