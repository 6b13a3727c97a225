"""What each edition of a report may show.

The internal edition, for the holder, shows every figure and quotes queries. The public edition quotes none and names
nobody. Its figures are

- from a **synthetic twin** where the release is differentially private: the same mechanism with the same parameters on
  a made-up log, attacked and measured in the same way. Exact figures of the private log would be one more release of
  it, paid for by nobody, and would void the promise. The twin's size is that of the published log, which is public.
- **coarse** otherwise: risks rounded up and utilities down to whole percents, intervals outwards, the raw log's figures
  to the nearest twentieth, chance and numbers of trials to one digit; figures of fewer than `FEWEST_TRIALS` trials are
  left out, all of them where the log has fewer than that many people, and exact counts behind a figure are not told.
  This is disclosure control by rounding, not a formal promise; such a release has none that figures could void.

>>> found = Finding(key="k", title="t", kind="risk", topic="a", value=0.0123, low=0.004, high=0.031, raw=0.87,
...                 trials=812, better="lower", unit="share", explanation="")
>>> rounded = coarse(Audit(released={}, findings=(found,))).findings[0]
>>> rounded.value, rounded.low, rounded.high, rounded.raw, rounded.trials
(0.02, 0.0, 0.04, 0.85, 800)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from queryveil import mechanisms
from queryveil.errors import QueryVeilError, UsageError
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.report.findings import Audit, Finding, LeftOut
from queryveil.report.shaping import CANNOT_BE_MADE_AGAIN
from queryveil.report.trial import tried
from queryveil.report.wording import DP

FEWEST_TRIALS = 50
TWIN_RECORDS = 30_000
"""At most so many records, so that a twin of a large release is made within a minute."""
TWIN_SEED = 20_260_301


def needs_twin(manifest: Mapping[str, Any]) -> bool:
    """Whether exact figures of the private log would void the promise."""
    promise = manifest.get("guarantee")
    return isinstance(promise, Mapping) and promise.get("model") in DP


def synthetic_twin(manifest: Mapping[str, Any], on_step: Callable[[str], None] | None = None) -> Audit:
    """The audit of the same mechanism, with the same parameters, on a synthetic log of the published log's size.

    Nothing is found where the manifest alone does not suffice to make the mechanism again (a taxonomy of the holder's).
    """
    size = twin_size(manifest)
    try:
        _, found = tried(remade(manifest), synth(**size, seed=TWIN_SEED), Noise.secure(), on_step)
    except QueryVeilError:
        missing = LeftOut(title="Every attack and every measure", reason=CANNOT_BE_MADE_AGAIN, required=True)
        found = Audit(released=dict(manifest), findings=(), left_out=(missing,))
    return replace(found, context=dict(size))


def twin_size(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Users and records of the twin: those of the published log, in its proportions where it is large.

    A published log of a few records says nothing of the log behind it; then the twin is as large as one may be.
    """
    output = manifest.get("output", {})
    users, records = max(int(output.get("users", 0)), 1), max(int(output.get("records", 0)), 1)
    if records < 1000:
        return {"users": TWIN_RECORDS // 20, "records": TWIN_RECORDS}
    users = min(users, records)
    shrink = min(1.0, TWIN_RECORDS / records)
    return {"users": max(math.ceil(users * shrink), 1), "records": math.ceil(records * shrink)}


def remade(manifest: Mapping[str, Any]) -> Any:
    """The mechanism that the manifest describes, without state that it kept from release to release."""
    try:
        name, parameters, mode = manifest["mechanism"], dict(manifest["parameters"]), manifest["mode"]
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            "the manifest does not say which mechanism made the release, and with which settings."
        ) from None
    fields = {field.name for field in dataclasses.fields(mechanisms.load(name))} - {"state"}
    return mechanisms.make(name, **{key: value for key, value in parameters.items() if key in fields}, mode=mode)


def coarse(audit: Audit) -> Audit:
    """The same audit, rounded against ourselves, without its context and without figures of few trials.

    What contradicts a promise still does: such a figure is neither dropped nor rounded to the right side of its bound.
    """
    people = audit.context.get("original", {}).get("users", FEWEST_TRIALS)
    shown = [found for found in audit.findings if _may_be_shown(found, people)]
    hidden = [
        LeftOut(
            title=found.title,
            reason=f"fewer than {FEWEST_TRIALS} trials or people: too few to show without pointing at people",
        )
        for found in audit.findings
        if found not in shown
    ]
    return Audit(
        released=audit.released,
        findings=tuple(map(_rounded, shown)),
        left_out=(*audit.left_out, *hidden),
    )


def _may_be_shown(found: Finding, people: int) -> bool:
    """Enough trials and people; a figure that contradicts the promise is never dropped."""
    enough = people >= FEWEST_TRIALS and (found.trials is None or found.trials >= FEWEST_TRIALS)
    return enough or found.keeps_its_bound() is False


def _rounded(found: Finding) -> Finding:
    coarser = _coarser(found)
    if found.keeps_its_bound() is False and coarser.keeps_its_bound():  # rounding must not mend a promise
        return replace(coarser, value=found.value, low=found.low, high=found.high)
    return coarser


def _coarser(found: Finding) -> Finding:
    against_us = _up if found.better == "lower" else _down
    value = against_us(found.value, found.unit)
    if found.bound is not None and found.keeps_its_bound() and found.low is None:
        value = min(value, found.bound) if found.better == "lower" else max(value, found.bound)  # no false alarm
    return replace(
        found,
        detail="",
        value=value,
        low=None if found.low is None else _down(found.low, found.unit),
        high=None if found.high is None else _up(found.high, found.unit),
        raw=None if found.raw is None else _nearest(found.raw, found.unit),
        chance=None if found.chance is None else _one_digit(found.chance, round),
        trials=None if found.trials is None else int(_one_digit(found.trials, round)),
    )


def _up(value: float, unit: str) -> float:
    return math.ceil(round(value * 100, 9)) / 100 if unit in ("share", "distance") else _one_digit(value, math.ceil)


def _down(value: float, unit: str) -> float:
    return math.floor(round(value * 100, 9)) / 100 if unit in ("share", "distance") else _one_digit(value, math.floor)


def _nearest(value: float, unit: str) -> float:
    return round(value * 20) / 20 if unit in ("share", "distance") else _one_digit(value, round)


def _one_digit(value: float, rounding: Callable[[float], int]) -> float:
    if value == 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(abs(value)))
    return float(rounding(value / power) * power)
