"""What came of the settings of a comparison: the risk of each, what it keeps, and whether it may be published.

The risk of a setting is that of its worst attack, and whether it may be published is the audit's verdict: the rules of
`queryveil.audit.worst_case` and `queryveil.audit.verdict`, and none of its own. Utility is told by task, from 0 (what a
release that knows nothing would give) to 1 (as good as the raw log): the mean of the task's measures, where a distance
d without such a floor counts as 1 − d, and a measure that a setting leaves no ground for (topics of each person in a
release without people) as 0. A setting is on a task's frontier if no other is at least as good in both risk and utility
and better in one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property

import polars as pl

from queryveil.audit.finding import Audit, Finding
from queryveil.audit.survival import Survival
from queryveil.audit.verdict import Verdict, verdict
from queryveil.audit.worst_case import bad_end, worst
from queryveil.display import table
from queryveil.experiments.sweep import Setting

NOT_A_SHARE_OF_WHAT_IS_KEPT = (
    *(f"frequent-{what}-distance" for what in ("query", "click")),
    *(f"frequent-{what}-precision" for what in ("query", "click")),
    *(f"contents-{what}" for what in ("label", "replaced", "synthetic")),
)
"""Distances of small shares are near 0 for pure noise as well; precision is 1 for a release of one right text; labels,
replaced and made-up records are what was not kept."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one setting. `problem` says why nothing did; `from_before` that it was kept from an earlier run."""

    setting: Setting
    seconds: float
    records: int = 0
    audit: Audit | None = None
    survival: Survival | None = None
    problem: str = ""
    from_before: bool = False

    @property
    def worst(self) -> Finding | None:
        """The most successful attack."""
        return None if self.audit is None else worst(self.audit)

    @property
    def risk(self) -> float | None:
        """What the most successful attack gets, at the bad end of its interval."""
        return None if self.worst is None else bad_end(self.worst)

    @cached_property
    def verdict(self) -> Verdict | None:
        """May a release with this setting be published? None where the setting could not be tried.

        What is tried has seeded noise, so that a comparison can be repeated; the release that is asked about has not.
        """
        if self.audit is None:
            return None
        return verdict({**self.audit.released, "noise": {"mode": "secure", "publishable": True}}, self.audit)


@dataclass(frozen=True)
class Comparison:
    """All outcomes of a sweep on one log."""

    outcomes: tuple[Outcome, ...]

    @cached_property
    def _measures(self) -> dict[str, list[str]]:
        """The measures of each task, as far as any setting has them."""
        measures: dict[str, dict[str, None]] = {}
        for outcome in self.outcomes:
            for found in () if outcome.audit is None else outcome.audit.utilities():
                if found.unit in ("share", "distance") and found.key not in NOT_A_SHARE_OF_WHAT_IS_KEPT:
                    measures.setdefault(found.topic, {})[found.key] = None
        return {task: list(keys) for task, keys in measures.items()}

    def tasks(self) -> list[str]:
        """The tasks that utility was measured for."""
        return list(self._measures)

    def utility(self, outcome: Outcome) -> dict[str, float]:
        """How much a setting keeps for each task, from 0 to 1; nothing where it could not be tried."""
        if outcome.audit is None:
            return {}
        if not outcome.records:  # an empty release is good for nothing, whatever its distances are
            return dict.fromkeys(self.tasks(), 0.0)
        found = {finding.key: _goodness(finding) for finding in outcome.audit.utilities()}
        return {
            task: sum(found.get(key, 0.0) for key in measures) / len(measures)
            for task, measures in self._measures.items()
        }

    def frontier(self, task: str) -> list[Outcome]:
        """The settings that no other beats in both risk and utility, the least risky first."""
        places = [(o, o.risk, self.utility(o)[task]) for o in self.outcomes if o.risk is not None and o.records]
        best = [
            one
            for one, risk, kept in places
            if not any(r <= risk and k >= kept and (r, k) != (risk, kept) for _, r, k in places)
        ]
        return sorted(best, key=lambda outcome: (outcome.risk or 0.0, outcome.setting.label))

    @property
    def settings(self) -> pl.DataFrame:
        """One row for each setting."""
        tasks = self.tasks()
        on_frontier = {task: {id(outcome) for outcome in self.frontier(task)} for task in tasks}
        rows = []
        for outcome in self.outcomes:
            kept = self.utility(outcome)
            survived = {} if outcome.survival is None else asdict(outcome.survival)
            rows.append(
                {
                    "label": outcome.setting.label,
                    "kind": outcome.setting.kind,
                    "name": outcome.setting.name,
                    "parameters": outcome.setting.as_text(),
                    "records": outcome.records,
                    "risk": outcome.risk,
                    "worst_attack": None if outcome.worst is None else outcome.worst.title,
                    "publish": None if outcome.verdict is None else outcome.verdict.answer,
                    **{f"kept_{name}": survived.get(name) for name in Survival.__dataclass_fields__},
                    **{f"utility: {task}": kept.get(task) for task in tasks},
                    **{f"frontier: {task}": id(outcome) in on_frontier[task] for task in tasks},
                    "seconds": outcome.seconds,
                    "problem": outcome.problem or None,
                }
            )
        return pl.DataFrame(rows, infer_schema_length=None)

    def _repr_html_(self) -> str:
        """In a notebook: risk and what is kept for each task, setting by setting."""
        tasks = self.tasks()
        rows = []
        for outcome in self.outcomes:
            kept = self.utility(outcome)
            risk = outcome.problem or "" if outcome.risk is None else f"{outcome.risk:.1%}"
            answer = "" if outcome.verdict is None else outcome.verdict.answer
            rows.append((outcome.setting.label, risk, answer, *(f"{kept[task]:.1%}" if kept else "" for task in tasks)))
        return table(rows, title="Comparison", header=("setting", "risk", "publish?", *tasks))

    @property
    def findings(self) -> pl.DataFrame:
        """One row for each figure of each setting."""
        rows = [
            {"label": outcome.setting.label, **asdict(found)}
            for outcome in self.outcomes
            if outcome.audit is not None
            for found in outcome.audit.findings
        ]
        numbers = dict.fromkeys(("value", "low", "high", "raw", "chance", "bound"), pl.Float64)
        return pl.DataFrame(rows, schema_overrides=numbers | {"trials": pl.Int64}, infer_schema_length=None)


def _goodness(found: Finding) -> float:
    if (share := found.share_kept()) is not None:
        return share
    kept = found.value / (found.raw or 1.0) if found.better == "higher" else 1.0 - found.value
    return min(max(kept, 0.0), 1.0)
