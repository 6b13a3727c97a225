"""The parameters of a mechanism that a page may set.

A parameter that names a file or a folder of the server (`classifier`, `state`, `knowledge`) is never taken from a
browser, nor is `mode`: the page makes safe releases only. So the rule is the narrow one: numbers, truth values and
fixed choices are offered, and free text only where the mechanism declares that it names no file (`text_parameters`).
"""

from __future__ import annotations

import dataclasses
from types import NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from queryveil import mechanisms
from queryveil.errors import ParameterError, UsageError
from queryveil.experiments import policies
from queryveil.release.mechanism import Mechanism
from queryveil.release.wording import choices_in_words, in_words
from queryveil.report.formatting import sentence
from queryveil.web.models import MechanismView, ParameterView, Value

LONGEST_TEXT: Final = 200
LABELS: Final = {"epsilon": "ε (epsilon)", "delta": "δ (delta)"}


def title_of(point: dict[str, Any]) -> str:
    """The name of a setting that was compared, for people.

    >>> title_of({"kind": "mechanism", "mechanism": "suppress", "parameters": {"k_text": 5}, "label": "suppress"})
    'Withhold rare queries (texts of at least 5 people)'
    >>> title_of({"kind": "rule", "mechanism": "frequency", "parameters": {"k": 5}, "label": "frequency k=5"})
    'Texts that at least 5 users asked'
    """
    label = str(point["label"])
    if point["kind"] == "rule":  # some have a label that somebody wrote for people
        said = policies.make(point["mechanism"], **point["parameters"]).in_words() if "=" in label else label
        return sentence(said)
    kind = mechanisms.load(point["mechanism"])
    values = in_words(kind, point["parameters"])
    title = str(getattr(kind, "title", label))
    return f"{title} ({values})" if values else title


def describe(name: str) -> MechanismView:
    """A mechanism and the parameters that a page may set."""
    found = mechanisms.load(name)
    hints = get_type_hints(found)
    hidden = {"mode", *getattr(found, "paper_parameters", ())}
    texts = getattr(found, "text_parameters", ())
    offered = [
        _parameter(found, field, hints[field.name], is_text=field.name in texts)
        for field in dataclasses.fields(found)
        if field.name not in hidden
    ]
    return MechanismView(
        name=name,
        title=getattr(found, "title", name),
        summary=getattr(found, "summary", (found.__doc__ or "").strip().split("\n")[0]),
        parameters=[one for one in offered if one],
    )


def make(name: str, parameters: dict[str, Value]) -> Mechanism:
    """The mechanism with these parameters, in safe mode; what a page may not set is refused."""
    if name not in mechanisms.names():
        raise UsageError(f"there is no mechanism of that name. Choose one of {', '.join(mechanisms.names())}.")
    view = describe(name)
    offered = {parameter.name for parameter in view.parameters}
    if parameters.keys() - offered:
        raise ParameterError([f"a page cannot set that parameter of {name}. It can set {', '.join(sorted(offered))}."])
    if any(isinstance(value, str) and len(value) > LONGEST_TEXT for value in parameters.values()):
        raise ParameterError([f"a parameter is longer than {LONGEST_TEXT} characters."])
    missing = [one.name for one in view.parameters if one.required and one.name not in parameters]
    if missing:
        raise ParameterError([f"{name} needs a value for {', '.join(missing)}."])
    made: Mechanism = mechanisms.make(name, **parameters)
    return made


def parse_form(name: str, fields: dict[str, str]) -> dict[str, Value]:
    """Parameters from the texts of a form; what is left empty keeps its default."""
    parameters: dict[str, Value] = {}
    problems = []
    for parameter in describe(name).parameters:
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


def _parameter(mechanism: type, field: dataclasses.Field[Any], hint: Any, *, is_text: bool) -> ParameterView | None:
    optional = get_origin(hint) in (Union, UnionType) and NoneType in get_args(hint)
    if optional:
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    kind: Literal["whole", "real", "choice", "truth", "text"]
    choices: list[str] = []
    if get_origin(hint) is Literal:
        kind, choices = "choice", [str(choice) for choice in get_args(hint)]
        if field.name == "time":
            choices.remove("keep")  # exact times single people out: safe mode refuses them
    elif hint in (int, float, bool):
        kind = "whole" if hint is int else "real" if hint is float else "truth"
    elif hint is str and is_text:
        kind = "text"
    else:
        return None
    required = field.default is dataclasses.MISSING
    default: Any = None if required else field.default
    return ParameterView(
        name=field.name,
        kind=kind,
        choices=choices,
        meanings={one: said for one, said in choices_in_words(mechanism, field.name).items() if one in choices},
        default=default,
        required=required,
        optional=optional,
        help=str(field.metadata.get("help", "")).replace("--", ""),
        label=str(field.metadata.get("label") or LABELS.get(field.name, field.name.replace("_", " "))),
    )
