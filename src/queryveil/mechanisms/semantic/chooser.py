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

from queryveil.mechanisms.semantic.calibration import Certified, calibrate
from queryveil.mechanisms.semantic.composition import calibrate_repeated
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import Criterion
from queryveil.mechanisms.semantic.optimum import MOST_CONCEPTS, optimum

CANDIDATES: tuple[Criterion, ...] = ("sqc1", "nsqc")


def choose(domain: Domain, epsilon: float) -> Certified:
    """The law with the largest expected similarity among those with loss `epsilon` a draw."""
    found = [calibrate(domain, criterion, epsilon) for criterion in CANDIDATES]
    if sum(map(len, domain.parts)) <= MOST_CONCEPTS:
        found.append(optimum(domain, epsilon))
    return max(found, key=lambda certified: certified.law.expected_similarity())


def choose_repeated(domain: Domain, epsilon: float, delta: float, times: int) -> Certified:
    """The same among those of which `times` draws are together (epsilon, delta)-DP."""
    found = [calibrate_repeated(domain, criterion, epsilon, delta, times) for criterion in CANDIDATES]
    return max(found, key=lambda certified: certified.law.expected_similarity())
