"""Today's rules for publishing queries, as they are publicly described: to be measured, and promising nothing.

Each policy is one file: a pipeline of small named steps (`steps`), its thresholds as parameters. Where a threshold is
not known, the parameter has a stated default, and the policy's words call it assumed. A release made by one says "a
rule, no guarantee"; nothing here says whether a rule meets any law. Sources are public reports of 2024 to 2026 about
Article 6(11) of the European Union's Digital Markets Act.

>>> from queryveil import Noise, QueryLog
>>> log = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "my rash"), ("ann", "my rash")])
>>> make("frequency", k=2).protect(log, Noise.seeded(1)).log.queries()
['weather', 'weather']
>>> make("commission").guarantee().headline().partition(".")[0]
'No formal guarantee: a rule, no guarantee'
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from queryveil.checks import no_such
from queryveil.errors import ParameterError, UsageError
from queryveil.experiments.declared import read_toml
from queryveil.experiments.policies.commission import Commission
from queryveil.experiments.policies.console import Console
from queryveil.experiments.policies.counterproposal import Counterproposal
from queryveil.experiments.policies.frequency import Frequency
from queryveil.experiments.policies.licensing import Licensing
from queryveil.experiments.policies.noisy_threshold import NoisyThreshold
from queryveil.experiments.policies.policy import Pipeline, Policy

__all__ = ["RELEASED", "RULES", "Pipeline", "Policy", "make", "read"]

RELEASED: dict[str, type[Pipeline]] = {
    Commission.name: Commission,
    Licensing.name: Licensing,
    Counterproposal.name: Counterproposal,
    Console.name: Console,
    Frequency.name: Frequency,
}
"""Those by which a release can be made; none promises anything."""
RULES: dict[str, type[Policy]] = {**RELEASED, NoisyThreshold.name: NoisyThreshold}


def make(name: str, **parameters: Any) -> Policy:
    """A rule by its name."""
    if name not in RULES:
        raise UsageError(no_such("rule", name, list(RULES)))
    known = [each.name for each in fields(RULES[name])]
    if parameters.keys() - set(known):
        raise ParameterError([f"the rule {name} has the parameters {', '.join(known)} and no others."])
    return RULES[name](**parameters)


def read(path: str | Path) -> Policy:
    """A rule from a TOML file that holds its `name` and its parameters."""
    content = read_toml(path)
    name = content.pop("name", None)
    if not isinstance(name, str):
        raise UsageError(f"{path} does not name a rule. Begin it with name = and one of {', '.join(RULES)}.")
    return make(name, **content)
