"""The command that makes a release with a setting, as it can be pasted into a shell.

It says who chose the setting (`--chosen-by`): a comparison looked at the log, and the release must not claim that its
parameters were fixed without that.

>>> setting = Setting(kind="mechanism", name="suppress", parameters={"k_text": 5, "by_site": False, "note": None})
>>> release_command(setting, ["my log.csv", "-o", "out"], chosen_by="advise")
"queryveil release suppress 'my log.csv' -o out --k-text 5 --no-by-site --chosen-by advise"
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from queryveil.experiments.sweep import Setting
from queryveil.privacy.guarantee import ChosenBy


def release_command(setting: Setting, arguments: Sequence[str], *, chosen_by: ChosenBy) -> str:
    """The command; `arguments` name the log, how it is read, and where the release goes."""
    options: list[str] = []
    for name, value in setting.parameters.items():
        option = name.rstrip("_").replace("_", "-")
        if isinstance(value, bool):
            options.append(f"--{option}" if value else f"--no-{option}")
        elif value is not None:
            options += [f"--{option}", str(value)]
    return shlex.join(["queryveil", "release", setting.name, *arguments, *options, "--chosen-by", chosen_by])
