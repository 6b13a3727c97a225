"""What an attack is, and where attacks are found.

An attack is one class in one file: the algorithm, and the findings it makes of a release. The audit knows attacks by
this protocol alone, and an attack knows a mechanism by what it declares alone (`AuditContext.declares`), never by its
name. Those of third parties join through the entry-point group `queryveil.attacks`; what every attack has to pass is
`queryveil.testing.audits.check_attack`.

>>> [attack.key for attack in attacks()][:3]
['uniqueness', 'known-pair', 'known-name']
"""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any, ClassVar, Final, Protocol

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, Question
from queryveil.plugins import installed

ENTRY_POINTS: Final = "queryveil.attacks"
BUILT_IN: Final = (
    "uniqueness:Uniqueness",
    "known_pair:KnownPair",
    "known_name:KnownName",
    "residue:Residues",
    "columns:ColumnsLeft",
    "pseudonym_hash:PublicPseudonyms",
    "record_linkage:RecordLinkage",
    "order:WhatOrderTells",
    "pools:PoolAttacks",
    "profiles:ProfileLinkage",
    "tied_pseudonyms:TiedPseudonyms",
    "past_pseudonyms:PseudonymsByPast",
    "past_vectors:VectorsByPast",
    "past_law:LawByPast",
    "past_authors:AuthorsByPast",
    "sim_attack:SimAttack",
    "sybils:Sybils",
    "watcher:Watcher",
    "frequency:FrequencyMatching",
    "intersection:TwoReleases",
    "one_run:OneRunAudit",
    "likelihood:WordLikelihood",
)
"""In the order of the report."""


class Attack(Protocol):
    """Something that a recipient of a release can try."""

    key: ClassVar[str]
    title: ClassVar[str]
    question: ClassVar[Question]
    """Which of the regulator's questions it answers."""
    counts_toward_risk: ClassVar[bool]
    """False for scenarios and half attacks; a class that also has `is_scenario = True` is left out of comparisons.

    One with `counts_in_blocks = True` is also run on logs that outgrow the memory: it counts by `AuditContext.both` and
    `audit.both_logs` alone, where no more than a block is in memory, and never asks for a whole `frame`.
    """

    def run(self, context: AuditContext) -> Found:
        """Its findings, each with successes, trials and interval, or what was left out and what that would need."""


def attacks() -> list[Attack]:
    """Every attack: ours in the order of the report, then third parties' by name."""
    return load_parts("queryveil.audit.attacks", BUILT_IN, ENTRY_POINTS)


def load_parts(package: str, built_in: tuple[str, ...], group: str) -> list[Any]:
    """The parts of a package and of an entry-point group, each made once."""
    ours = [EntryPoint(place, f"{package}.{place}", group) for place in built_in]
    return [entry.load()() for entry in [*ours, *installed(group)]]
