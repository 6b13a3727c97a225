"""`plan --policy NAME` and `release --policy NAME LOG`: today's rules, which promise nothing, as commands.

NAME is one of the rules, or a TOML file with the `name` of one and its parameters.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from queryveil.cli.mechanism_commands import command_in
from queryveil.errors import RefusedError, UsageError
from queryveil.experiments import policies

FILE = ".toml"


def policy_command(group: str, name: str) -> Any:
    """The command of one rule, its options made from its parameters."""
    if name.endswith(FILE):
        rule = policies.read(name)
        given = {field.name: getattr(rule, field.name) for field in dataclasses.fields(rule)}
        return command_in(group, _released(rule.name), given)
    return command_in(group, _released(name))


def _released(name: str) -> type[policies.Policy]:
    if name in policies.RELEASED:
        return policies.RELEASED[name]
    known = ", ".join(policies.RELEASED)
    if name in policies.RULES:
        raise RefusedError(f"{name} is here to be compared with, and no release is made by it. The others are {known}.")
    raise UsageError(f"there is no rule of that name. Choose one of {known}, or a TOML file that names one.")
