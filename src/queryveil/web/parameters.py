"""The parameters of a mechanism that a page may set.

A parameter that names a file or a folder of the server (`classifier`, `state`, `knowledge`) is never taken from a
browser, nor is `mode`: the page makes safe releases only. So the rule is the narrow one: numbers, truth values and
fixed choices are offered, and free text only where it is listed here and known not to name a file.
"""

from __future__ import annotations

import dataclasses
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from queryveil import mechanisms
from queryveil.errors import ParameterError, UsageError
from queryveil.release.mechanism import Mechanism
from queryveil.web.models import MechanismView, ParameterView, Value

TEXT_ALLOWED: Final = frozenset({("microaggregate", "categories"), ("semantic", "domain"), ("semantic", "topics")})
PAPER_ONLY: Final = frozenset({"laplace_d", "laplace_epsilon", "base"})
LONGEST_TEXT: Final = 200

TITLES: Final = {
    "suppress": ("Withhold rare queries", "Only texts that many people asked are published."),
    "microaggregate": ("Group people alike", "People with like interests share one published log."),
    "sanitize": ("Publish shared clicks", "Query and click pairs with noise, under invented users."),
    "semantic": ("Replace by similar meaning", "Every query becomes one of similar meaning, at random."),
    "stream": ("Mix as it flows", "Each query appears under the name of somebody alike."),
    "obfuscate": ("Blur each word", "Words are replaced by neighbours in meaning, at random."),
}
"""What each mechanism does, for people who have not read the papers."""


SIGNS: Final = {"epsilon": "ε", "delta": "δ", "k_text": "people per text"}


def titled(point: dict[str, Any]) -> str:
    """The name of a setting that was compared, for people.

    >>> titled({"kind": "mechanism", "mechanism": "suppress", "parameters": {"k_text": 5}})
    'Withhold rare queries (people per text 5)'
    """
    if point["kind"] != "mechanism" or point["mechanism"] not in TITLES:
        return str(point["label"])
    told = [f"{SIGNS.get(name, name.replace('_', ' '))} {_short(value)}" for name, value in point["parameters"].items()]
    return TITLES[point["mechanism"]][0] + (f" ({', '.join(told)})" if told else "")


def _short(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def described(name: str) -> MechanismView:
    """A mechanism and the parameters that a page may set."""
    found = mechanisms.load(name)
    hints = get_type_hints(found)
    title, summary = TITLES.get(name, (name, (found.__doc__ or "").strip().split("\n")[0]))
    offered = [_parameter(name, field, hints[field.name]) for field in dataclasses.fields(found)]
    return MechanismView(name=name, title=title, summary=summary, parameters=[one for one in offered if one])


def make(name: str, parameters: dict[str, Value]) -> Mechanism:
    """The mechanism with these parameters, in safe mode; what a page may not set is refused."""
    if name not in mechanisms.names():
        raise UsageError(f"there is no mechanism of that name. Choose one of {', '.join(mechanisms.names())}.")
    offered = {parameter.name for parameter in described(name).parameters}
    unknown = sorted(parameters.keys() - offered)
    if unknown:
        raise ParameterError([f"a page cannot set that parameter of {name}. It can set {', '.join(sorted(offered))}."])
    if any(isinstance(value, str) and len(value) > LONGEST_TEXT for value in parameters.values()):
        raise ParameterError([f"a parameter is longer than {LONGEST_TEXT} characters."])
    missing = [one.name for one in described(name).parameters if one.required and one.name not in parameters]
    if missing:
        raise ParameterError([f"{name} needs a value for {', '.join(missing)}."])
    made: Mechanism = mechanisms.make(name, **parameters)
    return made


def from_form(name: str, fields: dict[str, str]) -> dict[str, Value]:
    """Parameters from the texts of a form; what is left empty keeps its default."""
    parameters: dict[str, Value] = {}
    problems = []
    for parameter in described(name).parameters:
        text = fields.get(parameter.name, "").strip()
        if parameter.kind == "truth":
            parameters[parameter.name] = text == "yes"
        elif text:
            try:
                parameters[parameter.name] = {"whole": int, "real": float}.get(parameter.kind, str)(text)
            except ValueError:
                problems.append(f"{parameter.name} must be a {parameter.kind} number.")
    if problems:
        raise ParameterError(problems)
    return parameters


def _parameter(mechanism: str, field: dataclasses.Field[Any], hint: Any) -> ParameterView | None:
    optional = get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)
    if optional:
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    kind: Literal["whole", "real", "choice", "truth", "text"]
    choices: list[str] = []
    if field.name == "mode" or field.name in PAPER_ONLY:
        return None
    if get_origin(hint) is Literal:
        kind, choices = "choice", [str(choice) for choice in get_args(hint)]
        if field.name == "time":
            choices.remove("keep")  # exact times single people out: safe mode refuses them
    elif hint in (int, float, bool):
        kind = "whole" if hint is int else "real" if hint is float else "truth"
    elif hint is str and (mechanism, field.name) in TEXT_ALLOWED:
        kind = "text"
    else:
        return None
    required = field.default is dataclasses.MISSING
    default: Any = None if required else field.default
    return ParameterView(
        name=field.name,
        kind=kind,
        choices=choices,
        default=default,
        required=required,
        optional=optional,
        help=str(field.metadata.get("help", "")).replace("--", ""),
    )
