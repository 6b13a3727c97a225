"""Which law to use when nobody says: the one that keeps most similarity at the same loss.

Exactly calibrated, the exponential mechanism wins where ε is small and k-ary randomised response (`nsqc`) where it is
large; up to 60 concepts a linear program beats both. All three are known before any data: the choice compares expected
similarity over equally likely inputs and is public.

>>> from queryveil.knowledge.taxonomy import Taxonomy
>>> toy = Taxonomy.build(["R", "H", "S", "flu", "asthma", "tennis"], [[], [0], [0], [1], [1], [2]], [["r"]] * 6)
>>> choose(Domain.of([toy], outside=True), 1.0).criterion
'lp'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from queryveil.mechanisms.semantic import sealed
from queryveil.mechanisms.semantic.calibration import Certified, calibrate
from queryveil.mechanisms.semantic.composition import calibrate_repeated
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import Criterion
from queryveil.mechanisms.semantic.optimum import MOST_CONCEPTS, optimum

CANDIDATES: tuple[Criterion, ...] = ("sqc1", "nsqc")
SCHEMA = 3  # raise when the candidates or their measure change


def choose(domain: Domain, epsilon: float) -> Certified:
    """The law with the largest expected similarity among those with loss `epsilon` a draw."""
    make: dict[str, Callable[[], Certified]] = {
        criterion: partial(calibrate, domain, criterion, epsilon) for criterion in CANDIDATES
    }
    if sum(map(len, domain.parts)) <= MOST_CONCEPTS:
        make["lp"] = partial(optimum, domain, epsilon)
    return _best(domain, epsilon.hex(), make)


def choose_repeated(domain: Domain, epsilon: float, delta: float, times: int) -> Certified:
    """The same among those of which `times` draws are together (epsilon, delta)-DP."""
    make: dict[str, Callable[[], Certified]] = {
        criterion: partial(calibrate_repeated, domain, criterion, epsilon, delta, times) for criterion in CANDIDATES
    }
    return _best(domain, f"{epsilon.hex()} {delta.hex()} {times}", make)


def _best(domain: Domain, claim: str, make: Mapping[str, Callable[[], Certified]]) -> Certified:
    """The choice is remembered, because measuring the candidates costs a scan for each input."""
    claim = f"choice {SCHEMA} {domain.digest} {claim} {sorted(make)}"
    known = sealed.read(claim)
    if known is not None:
        return make[known[0]["criterion"]]()
    found = {criterion: made() for criterion, made in make.items()}
    kept = {criterion: certified.law.expected_similarity() for criterion, certified in found.items()}
    best = max(kept, key=lambda criterion: kept[criterion])
    sealed.write(claim, {"criterion": best, "expected_similarity": kept}, {})
    return found[best]
