"""What was decided on a release, by whom and why, as its signed manifest holds it.

>>> print(decision_in_words({"decision": {"decision": "approve", "name": "Ada", "reason": "", "date": "2026-11-16"}}))
Approved by Ada on 2026-11-16.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

Choice: TypeAlias = Literal["approve", "approve with conditions", "refuse"]
CHOICES: Final[tuple[Choice, ...]] = get_args(Choice)
IN_WORDS: Final = {
    "approve": "Approved",
    "approve with conditions": "Approved with conditions",
    "refuse": "Refused",
}


@dataclass(frozen=True)
class Decision:
    """What was decided, by whom, why, on which day; `conditions` where it was approved with some."""

    decision: str
    name: str
    reason: str
    date: str
    conditions: str = ""

    @property
    def in_words(self) -> str:
        """In one line."""
        parts = [f"{IN_WORDS.get(self.decision, self.decision)} by {self.name} on {self.date}"]
        parts += [f"Conditions: {self.conditions}"] if self.conditions else []
        parts += [f"Reason: {self.reason}"] if self.reason else []
        return ". ".join(part.rstrip(". ") for part in parts) + "."


def decision_in_words(manifest: Mapping[str, Any]) -> str:
    """The decision that a verified manifest holds, in one line, and those before it; empty where there is none."""
    said = manifest.get("decision")
    if said is None:
        return ""
    before = [f"Before that: {_read(one).in_words}" for one in reversed(manifest.get("earlier_decisions", []))]
    return " ".join([_read(said).in_words, *before])


def is_refused(manifest: Mapping[str, Any]) -> bool:
    """Whether the last decision was to refuse."""
    return (manifest.get("decision") or {}).get("decision") == "refuse"


def _read(said: Mapping[str, Any]) -> Decision:
    return Decision(**{name: str(said.get(name, "")) for name in Decision.__dataclass_fields__})
