"""What each edition of a report may show.

The internal edition, for the holder, shows every figure and quotes queries. The public edition quotes none and names
nobody. Its figures are

- from a **synthetic twin** where the release is differentially private: the same mechanism with the same parameters on
  a made-up log, attacked and measured in the same way. Exact figures of the private log would be one more release of
  it, paid for by nobody, and would void the promise. The twin's size is that of the published log, which is public.
- **coarse** otherwise, see `coarsen`: figures in steps, so large that none of them tells how many people the raw log
  has to within `UNCERTAIN` people. This is disclosure control by rounding, not a formal promise; such a release has
  none that figures could void.

Why steps, and which. The published log and its counts are public and exact. A figure that is a published count P for
each one of the raw log's N is known up to a step s: P/N between v and v + s. So N lies between P/(v + s) and P/v, which
are at least s·P apart, since v + s ≤ 1; and P is at least the number of published users. Steps of 1, 2, 5 or 10 percent
are chosen such that s times that number is at least `UNCERTAIN`, and with fewer than `FEWEST_PEOPLE` users, for whom
none would do, no figure is shown. The ends of steps are multiples of s for a share kept and for a share lost alike, so
figures of the same ratio do not cut each other's ranges short (unless it is exactly at an end), and that all or nothing
is kept is not told, which would be exact. What all figures tell together in other ways is not bounded.

What is a plain count of the raw log in another form is left out: how many records, users and texts are left of each
(`volume-…`, `contents-kept`), numbers of trials and successes, and what chance would give. Reasons why something is
missing are told where they follow from the settings, and else by one sentence for all.

>>> found = Finding(key="k", title="t", kind="risk", topic="a", value=0.0123, low=0.004, high=0.031, raw=0.87,
...                 trials=812, better="lower", unit="share", explanation="")
>>> rounded = coarsen(Audit(released={"output": {"users": 1500}}, findings=(found,))).findings[0]
>>> rounded.value, rounded.low, rounded.high, rounded.raw, rounded.trials
(0.05, 0.0, 0.05, 0.9, None)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from queryveil import mechanisms
from queryveil.audit.before_after import Pair, pairs
from queryveil.audit.finding import CANNOT_BE_MADE_AGAIN, Audit, Finding, LeftOut
from queryveil.errors import QueryVeilError
from queryveil.experiments.experiment import tried
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.release.mechanism import DP, declares

UNCERTAIN = 50
"""No single figure tells the number of people in the raw log more closely than to so many."""
STEPS = (1, 2, 5, 10)
"""Percents."""
FEWEST_PEOPLE = 100 * UNCERTAIN // STEPS[-1]
FEWEST_TRIALS = 50
COUNTS = ("volume-", "contents-kept", "order-told")
"""Not shown in public: counts in another form, and a coin's throw about one half, told only where it breaks a bound."""
NOT_SHOWN = "not measured, or not shown: too few people or trials, or a plain count of the private log"
TWIN_RECORDS = 30_000
"""At most so many records, so that a twin of a large release is made within a minute."""
TWIN_JUDGES = 200
TWIN_SEED = 20_260_301


def needs_twin(manifest: Mapping[str, Any]) -> bool:
    """Whether exact figures of the private log would void the promise."""
    promise = manifest.get("guarantee")
    return isinstance(promise, Mapping) and promise.get("model") in DP


@dataclass(frozen=True)
class Twin:
    """The audit of a synthetic twin, and made-up queries before and after."""

    audit: Audit
    pairs: tuple[Pair, ...] = ()


def synthetic_twin(manifest: Mapping[str, Any], on_step: Callable[[str], None] | None = None) -> Twin:
    """The audit of the same mechanism, with the same parameters, on a synthetic log of the published log's size.

    Nothing is found where the manifest alone does not suffice to make the mechanism again (a taxonomy of the holder's).
    """
    size = twin_size(manifest)
    shown: tuple[Pair, ...] = ()
    try:
        log, judges = synth(users=size["users"], records=size["records"], seed=TWIN_SEED), _twin_judges(size)
        mechanism = mechanisms.recreate(manifest)
        released, found = tried(mechanism, log, _twin_noise(manifest), on_step, held_out=judges)
        if not declares(mechanism, "synthetic_users", mechanism.mode):
            shown = pairs(log, released)
    except QueryVeilError:
        missing = LeftOut(title="Every attack and every measure", reason=CANNOT_BE_MADE_AGAIN, required=True)
        found = Audit(released=dict(manifest), findings=(), left_out=(missing,))
    return Twin(replace(found, context=dict(size)), shown)


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


def _twin_judges(size: Mapping[str, int]) -> QueryLog:
    """Made-up people who are not in the twin's log, for measures that they judge."""
    users = min(TWIN_JUDGES, size["users"])
    made_up = synth(users=users, records=users * size["records"] // size["users"], seed=TWIN_SEED + 1)
    return QueryLog(made_up.frame.with_columns(user="held out " + pl.col("user")))


def _twin_noise(manifest: Mapping[str, Any]) -> Noise:
    """Follows from the release, so that its report says the same thing twice; the twin's data are public anyway."""
    output = json.dumps(manifest.get("output"), sort_keys=True, default=str)
    return Noise.seeded(int.from_bytes(hashlib.sha256(output.encode()).digest()[:7], "big"))


def coarsen(audit: Audit) -> Audit:
    """The same audit, rounded against ourselves, without its context and without figures of few people or trials.

    Risks are rounded up and what is kept down, intervals outwards, the raw log's figures to the nearest two steps. What
    contradicts a promise still does: such a figure is neither dropped nor rounded to the right side of its bound.
    """
    percent = steps_for(people_of(audit))
    shown = [found for found in audit.findings if _may_be_shown(found, percent)]
    hidden = [LeftOut(title=found.title, reason=NOT_SHOWN) for found in audit.findings if found not in shown]
    missing = [item if item.by_settings else replace(item, reason=NOT_SHOWN) for item in audit.left_out]
    return Audit(
        released=audit.released,
        findings=tuple(_rounded(found, percent or STEPS[-1]) for found in shown),
        left_out=(*missing, *hidden),
    )


def people_of(audit: Audit) -> int:
    """How many people a figure is at least about: the published users, or the raw log's where names are made anew.

    The published users are public. Only where a person has many names can they be more than the people, and then the
    choice of steps tells which of a few wide ranges the number of people is in.
    """
    logs = audit.released.get("output"), audit.context.get("original")
    known = [int(log["users"]) for log in logs if isinstance(log, Mapping) and "users" in log]
    return min(known, default=0)


def steps_for(people: int) -> int | None:
    """The steps of figures about so many people, in percents; None where they are too few for any.

    >>> [steps_for(people) for people in (499, 500, 1000, 2500, 5000)]
    [None, 10, 5, 2, 1]
    """
    return next((percent for percent in STEPS if percent * people >= 100 * UNCERTAIN), None)


def _may_be_shown(found: Finding, percent: int | None) -> bool:
    """Enough people and trials, and no plain count; a figure that contradicts the promise is never dropped."""
    counts = (found.trials, found.published)
    enough = percent is not None and all(count is None or count >= FEWEST_TRIALS for count in counts)
    return (enough and not found.key.startswith(COUNTS)) or found.keeps_its_bound() is False


def _rounded(found: Finding, percent: int) -> Finding:
    coarser = _coarser(found, percent)
    if found.keeps_its_bound() is False and coarser.keeps_its_bound():  # rounding must not repair a promise
        return replace(coarser, value=found.value, low=found.low, high=found.high)
    return coarser


def _coarser(found: Finding, percent: int) -> Finding:
    stepped = found.unit in ("share", "distance")
    up, down = (_Steps(percent).up, _Steps(percent).down) if stepped else (_up_to_ten, _down_to_digit)
    value = up(found.value) if found.better == "lower" else down(found.value)
    if stepped and found.kind == "utility" and found.better == "lower":
        value = max(value, percent / 100)  # that nothing at all changed would be exact
    if found.bound is not None and found.keeps_its_bound() and found.low is None:
        value = min(value, found.bound) if found.better == "lower" else max(value, found.bound)  # no false alarm
    raw = None if found.raw is None or not stepped else _Steps(percent).nearest(found.raw)
    return replace(
        found,
        detail="",
        value=value,
        low=None if found.low is None else down(found.low),
        high=None if found.high is None else up(found.high),
        raw=raw if raw or found.kind == "utility" else None,  # nothing found in the raw log, or nothing to try there
        chance=None,
        trials=None,
        successes=None,
        published=None,
    )


@dataclass(frozen=True)
class _Steps:
    """Shares and distances in steps of so many percents; every step has its lower end in it, the highest both.

    So a figure that is exactly at an end is told as the others of its step, whichever way it is rounded. Only that an
    attack never succeeded is told as it is.
    """

    percent: int

    def up(self, value: float) -> float:
        if value <= 0:
            return 0.0
        return (self._step(value) + 1) * self.percent / 100

    def down(self, value: float) -> float:
        return self._step(value) * self.percent / 100

    def nearest(self, value: float) -> float:
        """To two steps, whose ends are ends of steps."""
        return (self._step(value) + 1) // 2 * 2 * self.percent / 100

    def _step(self, value: float) -> int:
        step = math.floor(round(value * 100 / self.percent, 9))  # without float dust
        return step - 1 if step == 100 // self.percent else step


def _up_to_ten(value: float) -> float:
    """A count, or a loss, up to the next power of ten."""
    return 0.0 if value <= 0 else 10.0 ** math.ceil(round(math.log10(value), 9))


def _down_to_digit(value: float) -> float:
    if value <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(value))
    return math.floor(value / power) * power
