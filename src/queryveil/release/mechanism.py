"""The protocol every mechanism follows, and what several do to columns alike: coarsen times, count who shares a text.

A mechanism is a frozen dataclass of public parameters with a `mode`: `safe` (the default) or `paper`. Its guarantee is
known before any data is read; `protect` turns a log and noise into a release.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, TypeGuard, runtime_checkable

from queryveil.checks import one_of
from queryveil.errors import RefusedError
from queryveil.privacy.guarantee import ApproxDP, PureDP, rounded_up

if TYPE_CHECKING:  # what a mechanism promises is known without loading what the work needs
    import polars as pl

    from queryveil.log import QueryLog
    from queryveil.privacy import Charge, Guarantee, Noise
    from queryveil.release.release import Release

Mode: TypeAlias = Literal["safe", "paper", "rule"]
"""`rule` is of policies alone, which promise nothing (`queryveil.experiments.policies`)."""
MODES: tuple[Mode, ...] = ("safe", "paper")

DP = ("pure-dp", "approx-dp", "metric-dp")
"""Promises about the output's probabilities: exact figures of the private log beside it would void them."""
WHOLE_FACTORS = 14.0
"""From this ε on e^ε is beyond a million, and its digits tell nobody more."""

DROPPED = "dropped"
PSEUDONYM = "replaced by a fresh random pseudonym"

TimeTreatment: TypeAlias = Literal["drop", "day", "hour", "keep"]
TIME_TREATMENTS: tuple[TimeTreatment, ...] = ("drop", "day", "hour", "keep")


@runtime_checkable
class Mechanism(Protocol):
    """A frozen, validated dataclass of public parameters that can protect a log.

    It may declare more; what it does not declare has the value given here:

    - `title` (the name): what it does, in one line;
    - `citation` (none): the publication it comes from, as BibTeX;
    - what `declares` lists (False): `replaces_texts`, `synthetic_users` and others that an audit asks for;
    - `warnings()` (none): what is as good as not protected with these settings, whatever the log;
    - `on_cluster` (False): `protect` works on a log that lies in parts, wherever they are;
    - `reads_columns` (none): the columns that it needs beside the canonical ones;
    - `effort` (10): how long it takes to protect and to audit, beside withholding rare texts (1): who tries many
      settings tries quick ones first.
    """

    name: ClassVar[str]

    @property
    def mode(self) -> Mode:
        """`safe`, or `paper` to reproduce the publication."""

    def guarantee(self) -> Guarantee:
        """What the release will promise; needs no data."""

    def charge(self) -> Charge:
        """What the release costs the people in it, for the ledger; needs no data."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """The protected log with everything a recipient may know about it."""


def declares(mechanism: object, name: str, mode: str | None) -> bool:
    """Whether a mechanism, or its class, declares a property that other parts ask for: always, or in this mode.

    All are optional and false where they are not declared; a value is true, or the modes in which it holds:

    - `replaces_texts`: a released record does not hold the text that was asked;
    - `replaces_words`: word by word, by the law of `words` (see `queryveil.audit.attacks.likelihood`), with
      `outputs_of_a_query` (1) obfuscations of each query published;
    - `publishes_labels`: every released text is a label of public knowledge, whoever asked it;
    - `synthetic_users`: nobody is behind a released user;
    - `reassigns_records`: a record carries the name of somebody from a pool of people;
    - `owner_in_pool`: who asked may be the one whose name it carries;
    - `withholds_rare_texts`: what fewer than `k_text` users asked is not released;
    - `one_record_per_query`: a query has one record however many clicks it had.

    A method `labels()` gives every text that it may make up in place of one that was asked, from public knowledge
    alone: what it publishes beside these was typed by somebody. A method `text_law()` tells how likely each asked text
    is released as each other one, where that is public and drawn query by query; a method `pools(log, noise)` who could
    have written each record of a run of its own, where records come out of pools; a method `canaries(noises)` makes the
    canaries that test a claim of differential privacy in one run. A method `word_model(tables)` gives the model that
    the tables beside a release make up, by which it may be judged in place of its log: `probability(before, word)` is
    P(word | word before) for numbers of the public vocabulary (`queryveil.knowledge.word_prior`), where N stands for
    every other word and N + 1 for the start of a text.

    >>> class Labels:
    ...     publishes_labels = ("safe",)
    >>> declares(Labels, "publishes_labels", "safe"), declares(Labels, "publishes_labels", "paper")
    (True, False)
    """
    declared = getattr(mechanism, name, False)
    return mode in declared if isinstance(declared, tuple) else bool(declared)


def texts_in_words(mechanism: Mechanism) -> str:
    """What the released records hold in place of what was asked: labels and replacements never count as records kept.

    >>> from queryveil.mechanisms import make
    >>> texts_in_words(make("suppress"))
    'with the text as typed'
    """
    told = {
        "synthetic_users": "made up, with nobody behind them",
        "publishes_labels": "with a label in place of the text",
        "replaces_texts": "with another text in place of the one that was asked",
    }
    declared = next((words for name, words in told.items() if declares(mechanism, name, mechanism.mode)), None)
    if declared is None and mechanism.mode == "safe" and hasattr(mechanism, "labels"):
        return "with the text as typed, or with a label where it is rare"
    return declared or "with the text as typed"


def promise_in_short(promise: Mapping[str, Any], charge: Callable[[], Charge | None]) -> tuple[str, str]:
    """What is promised for a person and for a single query, in a line each.

    `charge` tells what a ledger would take from each person; it is asked where the promise is not one for a person.

    >>> promise_in_short({"model": "pure-dp", "unit": "user", "epsilon": 2.0}, lambda: None)[0]
    'ε = 2 for all of their records together: odds about them change by a factor of at most 8'
    """
    model, unit = promise.get("model"), promise.get("unit")
    if not promise:
        return "nothing is known of a promise", "nothing is known of a promise"
    if model not in DP:
        strength = f"k = {promise['k']}: " if "k" in promise else "nothing formal: "
        said = "hidden among so many others" if "k" in promise else "only what was measured speaks"
        return f"{strength}{said}", "no promise of its own"
    loss, odds = _loss(float(promise.get("epsilon", 0.0)), float(promise.get("delta") or 0.0))
    if unit == "user":
        return f"{loss} for all of their records together: {odds}", "covered by the promise for the person"
    weaker = f", weaker the less alike two {unit}s are" if model == "metric-dp" else f": {odds}"
    return _for_a_person(charge(), str(unit)), f"{loss} for each {unit}{weaker}"


def _for_a_person(charge: Charge | None, unit: str) -> str:
    """What the ledger would charge each person, where the mechanism limits it; else that it grows."""
    if charge is None or charge.scope == "nothing":
        return f"no promise that holds for all of it: the loss grows with every {unit}"
    epsilon = float(charge.epsilon)
    loss, odds = _loss(epsilon, float(charge.delta))
    return f"{loss} in all: {odds if epsilon <= WHOLE_FACTORS else 'so large that it promises a person nothing'}"


def _loss(epsilon: float, delta: float) -> tuple[str, str]:
    slack = f", δ = {rounded_up(delta)}" if delta else ""
    factor = f"at most {math.ceil(math.exp(epsilon)):,}" if epsilon < WHOLE_FACTORS else "more than a million"
    return f"ε = {rounded_up(epsilon)}{slack}", f"odds about them change by a factor of {factor}"


def parameters_of(mechanism: Mechanism) -> dict[str, Any]:
    """The public parameters of a mechanism by name, for the manifest."""
    import numpy as np

    fields = dataclasses.fields(mechanism)  # type: ignore[arg-type]  # a protocol cannot demand a dataclass
    values = {field.name: getattr(mechanism, field.name) for field in fields if field.name != "mode"}
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}


def check_time(name: str, value: object) -> str | None:
    """A finding unless `value` is a known treatment of times."""
    return one_of(name, value, TIME_TREATMENTS, suggest="day")


def refuse_exact_times(mode: Mode, time: TimeTreatment) -> None:
    """Exact times single people out, so safe mode does not publish them."""
    if mode == "safe" and time == "keep":
        raise RefusedError(
            "time=keep publishes exact times, which single people out. Use day, hour or drop; "
            "only mode=paper, for public or synthetic data, keeps them."
        )


def must_be_paid(promise: Guarantee) -> TypeGuard[PureDP | ApproxDP]:
    """Whether a ledger has to be charged for a promise: a differentially private one to people or for their queries.

    What a promise for one word costs a person grows with the words of the log, which no parameter bounds.
    """
    return isinstance(promise, (PureDP, ApproxDP)) and promise.unit != "word"


def refuse_free_promises(mechanism: Mechanism) -> None:
    """A differentially private promise must be paid for in full."""
    promise, charge = mechanism.guarantee(), mechanism.charge()
    if must_be_paid(promise):
        delta = promise.delta if isinstance(promise, ApproxDP) else 0.0
        if charge.scope == "nothing" or float(charge.epsilon) < promise.epsilon or float(charge.delta) < delta:
            raise RefusedError(f"{mechanism.name} charges less than it promises; the ledger would be wrong.")


def coarsened(time: TimeTreatment) -> pl.Expr:
    """The `time` column after its treatment."""
    import polars as pl

    column = pl.col("time")
    if time == "drop":
        return pl.lit(None, dtype=pl.Datetime("us")).alias("time")
    return column if time == "keep" else column.dt.truncate({"day": "1d", "hour": "1h"}[time])


def time_in_words(time: TimeTreatment) -> str:
    """What the manifest says of the `time` column."""
    return {"drop": DROPPED, "day": "cut to the day", "hour": "cut to the hour", "keep": "kept as it was"}[time]


def askers(*columns: str) -> pl.Expr:
    """How many distinct users share a record's values in these columns."""
    import polars as pl

    return pl.col("user").n_unique().over(*columns)
