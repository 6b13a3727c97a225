"""What a release promises, as a closed set of types that never mix.

A guarantee is a value: its numbers, whose secret it protects (`unit`), which logs must look alike (`relation`), what it
takes for granted, what it does not cover, and how we know (`evidence`). `statement()` says all of it in plain words.
What it costs the people in the log is a `Charge`.

>>> promise = PureDP(epsilon=1.0, unit="user", relation="one user's queries replaced")
>>> print(promise.headline())
ε-differential privacy per user with ε = 1
>>> promise.implies(PureDP(epsilon=2.0, unit="user", relation="one user's queries replaced"))
True
>>> promise.implies(KAnonymity(k=3))
Traceback (most recent call last):
...
TypeError: PureDP and KAnonymity promise different things and cannot be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, ClassVar, Literal, TypeAlias

from queryveil.checks import one_of, real_number, require, whole_number

Unit: TypeAlias = Literal["user", "query", "word"]
Evidence: TypeAlias = Literal["proved", "paper", "measured"]
Scope: TypeAlias = Literal["people", "dataset", "nothing"]
ChosenBy: TypeAlias = Literal["holder", "advise", "compare"]

ONE_ID_ONE_PERSON = "one user id stands for one person, and one person has one user id"
_ALIKE = "user ids that differ only in blanks around, case, Unicode form or invisible characters"
ABOUT_SIMILAR_IDS = {
    "same": f"{_ALIKE} are one person's; where two people have such ids, they are protected as one person would be, "
    "and not from each other",
    "different": f"{_ALIKE} are those of different people; a person who has several is protected for each apart",
}
INDEPENDENT_USERS = "what one user searches tells nothing certain about what another searches"
TRUSTED_HOLDER = "the holder of the log runs the mechanism as published and keeps the original to itself"
COMPARISON = "comparison with another release of the same people"
SAME_RECORDS = "which fresh names of two releases stand for one person, where what is published of them stays the same"
COMES_AND_GOES = "which texts or labels appear or vanish when a person joins or leaves"
COMPARED_RELEASES = (COMPARISON, SAME_RECORDS, COMES_AND_GOES)
"""What every release without a loss that adds up leaves open to somebody who has two of them."""

KNOWN_PAST = (
    "who is who, from somebody with prior knowledge of what people asked: whoever goes on as before is guessed more "
    "often than a crowd of that size suggests"
)
PLANTED_ACCOUNTS = (
    "a person whose crowd is made of planted accounts (Sybils): whoever asks under many ids what the person asks may "
    "be all of the company that hides them"
)

COMPUTATIONAL = (
    "nobody tells numbers drawn with a secret 256-bit key (AES-256, BLAKE2b) from real randomness: the promise is "
    "computational, and the key, where one is kept, stays secret"
)
FIXED_PARAMETERS = (
    "the parameters were fixed without looking at this log: choosing them by it, as advise and compare do, costs "
    "privacy that is not counted here"
)

LARGEST_EPSILON = 10**6

CHOOSERS: tuple[ChosenBy, ...] = ("holder", "advise", "compare")
"""Who may have chosen the parameters of a release: its holder without looking at the log, or somebody who looked."""


def rounded_up(loss: float) -> str:
    """A privacy loss for people: four significant digits, rounded up (but for float dust behind 15 digits).

    >>> rounded_up(0.12341), rounded_up(1e-6), rounded_up(3.0)
    ('0.1235', '1e-06', '3')
    """
    return _four_digits(loss, ROUND_CEILING)


def rounded_down(budget: float) -> str:
    """What is left of a budget, for people: four significant digits, rounded down.

    >>> rounded_down(9.9999996)
    '9.999'
    """
    return _four_digits(budget, ROUND_FLOOR)


def _four_digits(number: float, rounding: str) -> str:
    rounded = Context(prec=4, rounding=rounding).create_decimal(Decimal(number).normalize(Context(prec=15)))
    return f"{float(rounded):g}"


@dataclass(frozen=True, kw_only=True)
class _Promise:
    unit: Unit = "user"
    relation: str = ""
    assumptions: tuple[str, ...] = (ONE_ID_ONE_PERSON,)
    not_protected: tuple[str, ...] = ()
    evidence: Evidence = "proved"
    detail: str = ""
    """Sentences of the mechanism's own, placed behind the headline."""

    model: ClassVar[str]
    numbers: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        require(
            one_of("unit", self.unit, ("user", "query", "word")),
            one_of("evidence", self.evidence, ("proved", "paper", "measured")),
            *self._findings(),
        )

    def _findings(self) -> list[str | None]:
        return []

    def headline(self) -> str:
        """The promise itself in one line."""
        raise AssertionError("every kind words its own headline")

    def statement(self) -> str:
        """The promise in plain words, with what it assumes and what it does not cover."""
        parts = [f"{self.headline()}."]
        if self.detail:
            parts.append(self.detail)
        if self.relation:
            parts.append(f"Logs that must look alike: {self.relation}.")
        if self.assumptions:
            parts.append(f"Assumed: {'; '.join(self.assumptions)}.")
        if self.not_protected:
            parts.append(f"Not protected: {'; '.join(self.not_protected)}.")
        parts.append(_EVIDENCE_IN_WORDS[self.evidence])
        return " ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """What the manifest holds of the promise."""
        return {
            "model": self.model,
            **{name: getattr(self, name) for name in self.numbers},
            "unit": self.unit,
            "relation": self.relation,
            "statement": self.statement(),
            "assumptions": list(self.assumptions),
            "not_protected": list(self.not_protected),
            "evidence": self.evidence,
        }

    def implies(self, other: Guarantee) -> bool:
        """Whether whoever accepts `other` may accept this promise in its place; only kind with like kind."""
        if type(self) is not type(other):
            mine, theirs = type(self).__name__, type(other).__name__
            raise TypeError(f"{mine} and {theirs} promise different things and cannot be compared.")
        if (self.unit, self.relation) != (other.unit, other.relation):
            raise TypeError("guarantees over different units or relations cannot be compared.")
        return self._as_strong_as(other)

    def _as_strong_as(self, other: Any) -> bool:
        """Of losses the smaller is stronger, of groups the larger."""
        mine, theirs = ({name: getattr(one, name) for name in self.numbers} for one in (self, other))
        return all(mine[name] >= theirs[name] if name == "k" else mine[name] <= theirs[name] for name in mine)


_EVIDENCE_IN_WORDS: dict[str, str] = {
    "proved": "This is proved for the code that ran.",
    "paper": "This is the paper's claim; we do not vouch for it.",
    "measured": "This rests on measurement, not on proof.",
}


@dataclass(frozen=True, kw_only=True)
class PureDP(_Promise):
    """For every output, the probability changes by at most a factor e^epsilon between logs that must look alike."""

    epsilon: float

    model = "pure-dp"
    numbers = ("epsilon",)

    def _findings(self) -> list[str | None]:
        return [real_number("epsilon", self.epsilon, above=0, suggest=1.0)]

    def headline(self) -> str:
        return f"ε-differential privacy per {self.unit} with ε = {rounded_up(self.epsilon)}"


@dataclass(frozen=True, kw_only=True)
class ApproxDP(_Promise):
    """As `PureDP`, but with an additive slack of delta."""

    epsilon: float
    delta: float

    model = "approx-dp"
    numbers = ("epsilon", "delta")

    def _findings(self) -> list[str | None]:
        return [
            real_number("epsilon", self.epsilon, above=0, suggest=1.0),
            real_number("delta", self.delta, above=0, below=1, suggest=1e-6),
        ]

    def headline(self) -> str:
        return (
            f"(ε, δ)-differential privacy per {self.unit} with ε = {rounded_up(self.epsilon)} "
            f"and δ = {rounded_up(self.delta)}"
        )


@dataclass(frozen=True, kw_only=True)
class MetricDP(_Promise):
    """The factor is e^(epsilon · distance): near inputs look alike, far ones may not. Not differential privacy.

    A `delta` is the probability with which the answer may differ from that of an ideal mechanism that keeps the factor.
    It is no additive slack between two inputs: there it counts 1 + e^(epsilon · distance) times.
    """

    epsilon: float
    distance: str
    delta: float = 0.0

    model = "metric-dp"
    numbers = ("epsilon", "distance", "delta")

    def _findings(self) -> list[str | None]:
        return [
            real_number("epsilon", self.epsilon, above=0, suggest=10.0),
            real_number("delta", self.delta, at_least=0, below=1, suggest=0.0),
        ]

    def headline(self) -> str:
        ideal = (
            f"except with probability δ = {rounded_up(self.delta)} the answer is that of an ideal mechanism for which "
            if self.delta
            else ""
        )
        return (
            f"metric privacy per {self.unit}: {ideal}odds between two inputs change by at most e^(ε·distance) with "
            f"ε = {rounded_up(self.epsilon)}, distance = {self.distance}; this is not ε-differential privacy"
        )

    def _as_strong_as(self, other: Any) -> bool:
        if self.distance != other.distance:
            raise TypeError("metric guarantees over different distances cannot be compared.")
        return super()._as_strong_as(other)


@dataclass(frozen=True, kw_only=True)
class KAnonymity(_Promise):
    """Every published log is shared by at least k users."""

    k: int

    model = "k-anonymity"
    numbers = ("k",)

    def _findings(self) -> list[str | None]:
        return [whole_number("k", self.k, at_least=2, at_most=10**9, suggest=3)]

    def headline(self) -> str:
        return f"k-anonymity of published logs with k = {self.k}"


@dataclass(frozen=True, kw_only=True)
class ProbabilisticKAnonymity(_Promise):
    """Every released record could belong to any of more than k users, each with probability at most 1/k."""

    k: int

    model = "probabilistic-k-anonymity"
    numbers = ("k",)

    def _findings(self) -> list[str | None]:
        return [whole_number("k", self.k, at_least=2, at_most=10**9, suggest=3)]

    def headline(self) -> str:
        return f"probabilistic k-anonymity per record with k = {self.k}"


@dataclass(frozen=True, kw_only=True)
class NoGuarantee(_Promise):
    """Nothing is promised in a formal sense; `reason` says what is done instead."""

    reason: str
    evidence: Evidence = "measured"

    model = "none"
    numbers = ()

    def headline(self) -> str:
        return f"No formal guarantee: {self.reason}"

    def _as_strong_as(self, other: Any) -> bool:
        return bool(self.reason == other.reason)


Guarantee: TypeAlias = PureDP | ApproxDP | MetricDP | KAnonymity | ProbabilisticKAnonymity | NoGuarantee

MODELS: dict[str, type[_Promise]] = {
    kind.model: kind for kind in (PureDP, ApproxDP, MetricDP, KAnonymity, ProbabilisticKAnonymity, NoGuarantee)
}
"""Every kind of guarantee by the name the manifest uses."""


@dataclass(frozen=True, kw_only=True)
class Concentrated:
    """How a release adds up with others where that is better than its ε and δ tell: by ρ.

    But for a chance of `slack`, on either of two logs that must look alike, what is published is what a ρ-zCDP step and
    a `pure`-DP step tell (Bun and Steinke 2016, definition 8.1). `gaussian` says more of the first: whatever it tells
    can be made from one number with standard normal noise whose mean differs by √(2ρ) between the two logs.
    """

    rho: Fraction
    slack: Fraction = Fraction(0)
    pure: Fraction = Fraction(0)
    gaussian: bool = False

    def __post_init__(self) -> None:
        require(
            real_number("rho", self.rho, above=0, at_most=LARGEST_EPSILON, suggest=0.5),
            real_number("slack", self.slack, at_least=0, below=1, suggest=0.0),
            real_number("pure", self.pure, at_least=0, at_most=LARGEST_EPSILON, suggest=0.0),
        )


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What a release costs: nothing, so much from everybody, or so much from each person in it.

    Its kind stays with it: pure (no δ), (ε, δ), or by ρ (`concentrated`) besides. ε and δ are what one release promises
    by itself; ρ tells the ledger how it adds up with others.
    """

    scope: Scope
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    concentrated: Concentrated | None = None

    def __post_init__(self) -> None:
        require(
            one_of("scope", self.scope, ("people", "dataset", "nothing")),
            real_number("epsilon", self.epsilon, at_least=0, at_most=LARGEST_EPSILON, suggest=1.0),
            real_number("delta", self.delta, at_least=0, at_most=1, suggest=1e-6),
        )
        if self.scope == "nothing" and (self.epsilon or self.delta or self.concentrated):
            require("a charge to nobody must cost nothing; say who pays: people or dataset.")

    @classmethod
    def nothing(cls) -> Charge:
        """A release without a loss that adds up; the ledger only takes note of it."""
        return cls(scope="nothing")

    @classmethod
    def people(
        cls,
        *,
        epsilon: float | Fraction,
        delta: float | Fraction = 0,
        concentrated: Concentrated | None = None,
    ) -> Charge:
        """So much from each person in the release."""
        return cls(scope="people", epsilon=decimal(epsilon), delta=decimal(delta), concentrated=concentrated)

    @classmethod
    def dataset(
        cls,
        *,
        epsilon: float | Fraction,
        delta: float | Fraction = 0,
        concentrated: Concentrated | None = None,
    ) -> Charge:
        """So much from everybody."""
        return cls(scope="dataset", epsilon=decimal(epsilon), delta=decimal(delta), concentrated=concentrated)


def headline_of(promise: Mapping[str, Any]) -> str:
    """The first sentence of a statement that a manifest holds, without marks that the release puts in front of it."""
    statement = str(promise.get("statement", ""))
    for sentence in statement.split(". "):
        if not sentence.startswith(("NOT FOR PUBLICATION", "Paper mode")):
            return sentence.removesuffix(".")
    return statement


def in_short(promise: Mapping[str, Any]) -> list[str]:
    """A promise as a manifest holds it, in five short lines; the statement has every word.

    >>> for line in in_short(PureDP(epsilon=1.0, relation="one user added", not_protected=("a", "b", "c")).as_dict()):
    ...     print(line)
    Promised: ε-differential privacy per user with ε = 1.
    Must look alike: one user added.
    Taken for granted: one user id stands for one person, and one person has one user id.
    Not protected: a; and 2 more.
    This is proved for the code that ran.
    """
    first = headline_of(promise)
    lines = [f"{first}." if promise.get("model") == NoGuarantee.model else f"Promised: {first}."]
    if promise.get("relation"):
        lines.append(f"Must look alike: {promise['relation']}.")
    for name, said in (("Taken for granted", "assumptions"), ("Not protected", "not_protected")):
        items = list(promise.get(said) or ())
        more = f"; and {len(items) - 1} more" if len(items) > 1 else ""
        lines += [f"{name}: {items[0]}{more}."] if items else []
    known = _EVIDENCE_IN_WORDS.get(str(promise.get("evidence")))
    return [*lines, *([known] if known else [])]


def decimal(loss: float | Fraction) -> Fraction:
    """A float counts as the decimal it prints as."""
    return loss if isinstance(loss, Fraction) else Fraction(repr(float(loss)))
