"""What a comparison tries: settings of mechanisms and of today's rules, declared in TOML.

    seed = 1
    [[mechanism]]
    name = "suppress"
    k_text = [2, 5, 20]        # a list means: each of these values
    [[rule]]
    name = "frequency"
    k = 10
    label = "ten times"        # optional

Without a file, every mechanism is tried as its class declares (`sweep`), or at its defaults if it has them all, beside
`USUAL_RULES`.

>>> [setting.label for setting in Sweep.of({"mechanism": [{"name": "suppress", "k_text": [2, 5]}]}).settings]
['suppress k_text=2', 'suppress k_text=5']
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from queryveil import mechanisms
from queryveil.checks import require, whole_number
from queryveil.errors import QueryVeilError, UsageError
from queryveil.experiments import policies
from queryveil.experiments.declared import read_toml
from queryveil.release.wording import footnotes, in_words

SYMBOLS: Final = {"epsilon": "ε", "delta": "δ"}
USUAL_RULES: Final[tuple[dict[str, Any], ...]] = (
    {"name": "commission", "label": "entities of 50 people, mini-sessions"},
    {"name": "licensing", "label": "30 signed-in users in 13 months"},
    {"name": "counterproposal", "label": "pseudonyms, filters, 24 hours"},
    {"name": "console", "label": "like a search console: 36 users in 90 days"},
    {"name": "frequency", "k": [5, 20]},
    {"name": "noisy-threshold", "label": "noisy threshold", "epsilon": 1.0, "delta": 1e-6, "contribution": [1, 20]},
)
"""What others do today, as a comparison tries it when nothing else is declared."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One thing to try: a mechanism or a rule with its parameters."""

    kind: Literal["mechanism", "rule"]
    name: str
    parameters: dict[str, Any] = field(default_factory=dict)
    label: str = ""

    def made(self) -> Any:
        """The mechanism or rule itself, checked."""
        return (mechanisms if self.kind == "mechanism" else policies).make(self.name, **self.parameters)

    def in_words(self) -> str:
        """What it does, for people.

        >>> Setting(kind="mechanism", name="suppress", parameters={"k_text": 5}).in_words()
        'Withhold rare queries: texts of at least 5 people'
        """
        if self.kind == "rule":
            return str(self.made().in_words())
        kind = mechanisms.load(self.name)
        said = in_words(kind, self.parameters)
        title = str(getattr(kind, "title", self.name))
        return f"{title}: {said}" if said else title

    def as_text(self) -> str:
        """The parameters as one line of JSON, for tables and for telling settings apart."""
        return json.dumps(self.parameters, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All settings of a comparison, and the seed of its noise."""

    settings: tuple[Setting, ...]
    seed: int = 1

    @classmethod
    def usual(cls) -> Sweep:
        """The sweep for who did not declare one."""
        own: list[Setting] = []
        for name in mechanisms.names():
            declared = getattr(mechanisms.load(name), "sweep", None)
            if declared is not None or _has_defaults(name):
                own += _expanded("mechanism", {"name": name, **(declared or {})})
        return cls(settings=(*own, *(setting for rule in USUAL_RULES for setting in _expanded("rule", rule))))

    @classmethod
    def beside_rules(cls, seed: int = 1) -> Sweep:
        """Today's rules that a release can be made by, beside mechanisms that declare settings to stand with them."""
        rules = [setting for name in policies.RELEASED for setting in _expanded("rule", {"name": name})]
        own: list[Setting] = []
        for name in mechanisms.names():
            declared = getattr(mechanisms.load(name), "beside_rules", None)
            own += [] if declared is None else _expanded("mechanism", {"name": name, **declared})
        return cls(settings=(*rules, *own), seed=seed)

    @classmethod
    def read(cls, path: str | Path) -> Sweep:
        """A sweep from a TOML file."""
        return cls.of(read_toml(path))

    @classmethod
    def of(cls, content: dict[str, Any]) -> Sweep:
        """A sweep from what a TOML file holds; everything is checked before any work starts."""
        unknown = sorted(content.keys() - {"seed", "mechanism", "rule"})
        if unknown:
            raise UsageError(f"a sweep has seed, [[mechanism]] and [[rule]]; unknown: {', '.join(unknown)}.")
        seed = content.get("seed", 1)
        require(whole_number("seed", seed, at_least=0, at_most=2**64 - 1, suggest=1))
        settings: list[Setting] = []
        kinds: tuple[Literal["mechanism", "rule"], ...] = ("mechanism", "rule")
        for kind in kinds:
            declared = content.get(kind, [])
            if not isinstance(declared, list) or not all(isinstance(entry, dict) for entry in declared):
                raise UsageError(f"write each {kind} of a sweep as [[{kind}]] with its own lines below.")
            for entry in declared:
                settings += _expanded(kind, entry)
        if not settings:
            raise UsageError("the sweep tries nothing. Add a [[mechanism]] with a name.")
        for setting in settings:
            setting.made()
        labels = [setting.label for setting in settings]
        if len(set(labels)) < len(labels):
            raise UsageError("two settings of the sweep have the same label. Give one of them a label of its own.")
        return cls(settings=tuple(settings), seed=seed)

    def only(self, kind: Literal["mechanism", "rule"]) -> tuple[Setting, ...]:
        """The settings of one kind."""
        return tuple(setting for setting in self.settings if setting.kind == kind)

    @property
    def reads_columns(self) -> tuple[str, ...]:
        """The columns beside the canonical ones that its mechanisms need: a log must be read with them."""
        made = (setting.made() for setting in self.settings)
        return tuple(dict.fromkeys(name for one in made for name in getattr(one, "reads_columns", ())))

    def at_a_glance(self) -> Sweep:
        """All rules, and of each mechanism the setting in the middle."""
        names = dict.fromkeys(setting.name for setting in self.only("mechanism"))
        groups = [[setting for setting in self.only("mechanism") if setting.name == name] for name in names]
        return Sweep(settings=(*(group[len(group) // 2] for group in groups), *self.only("rule")), seed=self.seed)


def notes(settings: Iterable[Setting]) -> list[str]:
    """What the names in labels mean, for the foot of a table."""
    kinds = {"mechanism": mechanisms.load, "rule": policies.RULES.__getitem__}
    return footnotes((kinds[setting.kind](setting.name), setting.parameters) for setting in settings)


def _expanded(kind: Literal["mechanism", "rule"], entry: dict[str, Any]) -> list[Setting]:
    """One setting for each combination of the values in lists."""
    given = dict(entry)
    name, label = given.pop("name", None), given.pop("label", "")
    if not isinstance(name, str) or not isinstance(label, str):
        raise UsageError(f"each [[{kind}]] of a sweep needs a name, as text; a label is text too.")
    values = [value if isinstance(value, list) else [value] for value in given.values()]
    varied = [key for key, value in given.items() if isinstance(value, list)]
    settings = []
    if given.get("state") is not None:
        raise UsageError("a sweep only tries; state would change what real releases keep. Leave it out.")
    for combination in itertools.product(*values):
        parameters = dict(zip(given, combination, strict=True))
        told = " ".join(_in_label(key, parameters[key]) for key in (varied if label else parameters))
        settings.append(Setting(kind=kind, name=name, parameters=parameters, label=f"{label or name} {told}".strip()))
    return settings


def _has_defaults(name: str) -> bool:
    try:
        mechanisms.load(name)()
    except (TypeError, QueryVeilError):
        return False
    return True


def _in_label(key: str, value: object) -> str:
    """A parameter as it stands in a label.

    >>> _in_label("epsilon", 1.0), _in_label("k_text", 5)
    ('ε=1', 'k_text=5')
    """
    return f"{SYMBOLS.get(key, key)}={value:g}" if isinstance(value, float) else f"{SYMBOLS.get(key, key)}={value}"
