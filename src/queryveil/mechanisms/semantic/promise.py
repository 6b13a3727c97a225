"""What a semantic release promises, in both modes and units, in words."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from queryveil.mechanisms.treatments import time_in_words
from queryveil.privacy import ApproxDP, Guarantee, PureDP
from queryveil.privacy.guarantee import INDEPENDENT_USERS, ONE_ID_ONE_PERSON, TRUSTED_HOLDER, rounded_up

if TYPE_CHECKING:
    from queryveil.mechanisms.semantic.mechanism import SemanticRelease

ASSUMED = (ONE_ID_ONE_PERSON, INDEPENDENT_USERS, TRUSTED_HOLDER)
CRITERIA_IN_WORDS = {
    "sqc1": "the exponential mechanism by similarity (sqc1)",
    "sqc2": "the exponential mechanism by similarity within a topic (sqc2)",
    "nsqc": "k-ary randomised response (nsqc)",
    "lp": "the linear program's optimum",
}


@dataclass(frozen=True)
class Losses:
    """ε of one query; ε and δ of all queries of a user together."""

    per_query: Fraction
    per_user: Fraction
    delta: float


def in_safe_mode(mechanism: SemanticRelease) -> Guarantee:
    """Differential privacy over the public law, with its certificate."""
    padded = mechanism.counts == "padded"
    histogram = mechanism.criterion == "hbdp"
    fixed = "the same users" if padded or histogram else "the same users with the same number of queries each"
    relation = (
        f"{fixed}, all queries of one user replaced by any others"
        if mechanism.per == "user"
        else f"{fixed}, one query of one user replaced by any other"
    )
    unprotected = ["that a user is in the log"]
    if not padded and not histogram:
        unprotected.append(f"how many queries each user has (up to {mechanism.max_queries})")
    if mechanism.time != "drop":
        unprotected.append(f"when each query was asked ({time_in_words(mechanism.time)})")
    if mechanism.per == "query":
        unprotected.append("what many queries of one user have in common, beyond the loss stated per user")
    unprotected += ["several accounts of one person", "correlations between users"]
    return _promise(
        mechanism, relation=relation, not_protected=tuple(unprotected), detail=_detail(mechanism), assumptions=ASSUMED
    )


def in_paper_mode(mechanism: SemanticRelease) -> Guarantee:
    """The paper's claim, and what it costs."""
    several = len(mechanism.public_domain.parts) > 1
    same_topics = " of the same topics in the same places" if several and mechanism.criterion != "hbdp" else ""
    budget = (
        "every noun phrase of a user with m of them is given ε/m"
        if mechanism.per == "user"
        else f"every noun phrase is given ε, and a user at most {mechanism.max_queries} of them"
    )
    if mechanism.criterion == "hbdp":
        budget = "noise is scaled by the largest number of phrases of any user in the data, which tells about the data"
    relation = (
        f"the same users with the same number of mapped phrases each, one {mechanism.per}'s concepts "
        f"replaced by any others{same_topics}"
    )
    detail = (
        f"{_both_figures(mechanism)} It holds for concept identifiers; the text keeps the input's own words around "
        f"each concept (inverse mapping), so for the released text ε is infinite. {budget[0].upper()}{budget[1:]}."
    )
    unprotected = [
        "every word of a query that is not the label of its concept",
        "that a user is in the log, and how many mapped phrases each user has",
        "which queries were not mapped",
        "the order of queries"
        + ("" if mechanism.time == "drop" else f" and their times ({time_in_words(mechanism.time)})"),
        *(["the topic of every query"] if same_topics else []),
        "several accounts of one person",
        "correlations between users",
    ]
    return _promise(
        mechanism, relation=relation, not_protected=tuple(unprotected), detail=detail, assumptions=ASSUMED,
        evidence="paper",
    )  # fmt: skip


def query_in_words(mechanism: SemanticRelease) -> str:
    """What the manifest says of the query column."""
    if mechanism.criterion == "hbdp":
        return "concepts as often as a noisy histogram says"
    return "replaced by the label of a concept drawn by meaning"


def _promise(mechanism: SemanticRelease, **words: Any) -> Guarantee:
    losses = mechanism.losses
    if mechanism.per == "query":
        return PureDP(epsilon=float(losses.per_query), unit="query", **words)
    if losses.delta:
        return ApproxDP(epsilon=float(losses.per_user), delta=losses.delta, unit="user", **words)
    return PureDP(epsilon=float(losses.per_user), unit="user", **words)


def _both_figures(mechanism: SemanticRelease) -> str:
    losses = mechanism.losses
    slack = f" with δ = {rounded_up(losses.delta)}" if losses.delta else ""
    if mechanism.mode == "paper" and mechanism.per == "user":
        return f"That is ε = {rounded_up(float(losses.per_user))} per user, and an equal share of it for each phrase."
    return (
        f"That is ε = {rounded_up(float(losses.per_query))} per query and "
        f"ε = {rounded_up(float(losses.per_user))} per user{slack}, "
        f"of whom at most {mechanism.max_queries} queries are used."
    )


def _detail(mechanism: SemanticRelease) -> str:
    size = len(mechanism.public_domain)
    if mechanism.criterion == "hbdp":
        return f"{_both_figures(mechanism)} Exact geometric noise on a histogram of {size:,} concepts for every user."
    certified = mechanism.certified
    return (
        f"{_both_figures(mechanism)} Each query becomes one of {size:,} public concepts, by "
        f"{CRITERIA_IN_WORDS[certified.criterion]} in whole-number weights; its exact worst-case loss over all inputs "
        f"and outputs is {rounded_up(certified.epsilon)} (certificate {certified.digest[:16]}). "
        "What lies outside the domain is one of the concepts."
    )
