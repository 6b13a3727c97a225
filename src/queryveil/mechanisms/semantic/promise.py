"""What a semantic release promises, in both modes and units, in words."""

from __future__ import annotations

from typing import Any

from queryveil.mechanisms.semantic.law_in_words import law_in_words, use_in_words
from queryveil.mechanisms.semantic.parameters import SemanticParameters
from queryveil.privacy import ApproxDP, Guarantee, NoGuarantee, PureDP
from queryveil.privacy.guarantee import (
    COMPARED_RELEASES,
    COMPUTATIONAL,
    FIXED_PARAMETERS,
    INDEPENDENT_USERS,
    ONE_ID_ONE_PERSON,
    TRUSTED_HOLDER,
    rounded_up,
)
from queryveil.release.mechanism import time_in_words

ASSUMED = (ONE_ID_ONE_PERSON, INDEPENDENT_USERS, TRUSTED_HOLDER)
RECORDS_OF_A_QUERY = (
    "A query is all records of a user with the same text, time and session, however many clicks it has, and becomes "
    "one record; a record without a time is a query of its own."
)
CLICKS_WITHOUT_TIMES = (
    "what several records of one query (as of one with several clicks) tell together where they have no times or "
    "different ones: each counts as a query, and their losses add up"
)
CRITERIA_IN_WORDS = {
    "ball": "the ball law",
    "sqc1": "the exponential mechanism by similarity (sqc1)",
    "sqc2": "the exponential mechanism by similarity within a topic (sqc2)",
    "nsqc": "k-ary randomised response (nsqc)",
    "lp": "the linear program's optimum",
}


def in_safe_mode(
    parameters: SemanticParameters, a_query: str = RECORDS_OF_A_QUERY, apart: str = CLICKS_WITHOUT_TIMES
) -> Guarantee:
    """Differential privacy over the public law, with its certificate.

    `a_query` says what counts as one, and `apart` what is left open by that where the promise is for each query.
    """
    padded = parameters.counts == "padded"
    histogram = parameters.criterion == "hbdp"
    fixed = "the same users" if padded or histogram else "the same users with the same number of queries each"
    relation = (
        f"{fixed}, all queries of one user replaced by any others"
        if parameters.per == "user"
        else f"{fixed}, one query of one user replaced by any other"
    )
    if parameters.time != "drop":
        relation += f", {_same_times(parameters)}"
    unprotected = ["that a user is in the log"]
    if not padded and not histogram:
        unprotected.append(f"how many queries each user has (up to {parameters.max_queries})")
    if parameters.time != "drop":
        unprotected.append(f"when each query was asked ({time_in_words(parameters.time)})")
    if parameters.per == "query":
        unprotected.append("what many queries of one user have in common, beyond the loss stated per user")
        unprotected.append(apart)
    unprotected += ["several accounts of one person", "correlations between users"]
    return _promise(
        parameters,
        relation=relation,
        not_protected=tuple(unprotected),
        detail=f"{_detail(parameters)} {a_query}",
        assumptions=(*ASSUMED, COMPUTATIONAL, FIXED_PARAMETERS),
    )


def in_paper_mode(parameters: SemanticParameters) -> Guarantee:
    """No guarantee: the paper's claim with its figures, whom it is about, and why what is published has no finite ε."""
    histogram = parameters.criterion == "hbdp"
    several = len(parameters.public_domain.parts) > 1 and not histogram
    times = "" if parameters.time == "drop" else f" and their times ({time_in_words(parameters.time)})"
    unprotected = [
        *([] if histogram else ["every word of a query that is not the label of its concept"]),
        "that a user is in the log",
        *([] if histogram else ["how many mapped phrases each user has", f"the order of queries{times}"]),
        "which queries were not mapped",
        *(["the topic of every query"] if several else []),
        "several accounts of one person",
        "correlations between users",
        *COMPARED_RELEASES,
    ]
    reason, detail = _claim_of_histograms(parameters) if histogram else _claim_of_draws(parameters, several)
    return NoGuarantee(
        reason=reason, detail=f"{detail} {_domain_in_words(parameters)}", unit=parameters.per, evidence="paper",
        assumptions=ASSUMED, not_protected=tuple(unprotected),
    )  # fmt: skip


def _claim_of_draws(parameters: SemanticParameters, several: bool) -> tuple[str, str]:
    epsilon = rounded_up(float(parameters.epsilon))
    if parameters.per == "user":
        figures = f"ε = {epsilon}/m per query and ε = {epsilon} per user, for a user with m noun phrases"
        changed, share = "one user's concepts", "of a user with one phrase"
    else:
        together = rounded_up(float(parameters.epsilon_per_query * parameters.max_queries))
        figures = (
            f"ε = {epsilon} per query and ε = {together} per user, of whom at most {parameters.max_queries} noun "
            "phrases are used"
        )
        changed, share = "the concept of one phrase", "of one phrase"
    same_topics = " of the same topics in the same places" if several else ""
    times = "" if parameters.time == "drop" else f", {_same_times(parameters)}"
    reason = (
        "the text keeps the input's own words around each new label (inverse mapping), so for it ε is infinite; the "
        f"paper claims {figures}, each noun phrase of each record counting as one query (a search with five clicks is "
        "five records), for concept identifiers only"
    )
    detail = (
        "The claim's privacy unit: the concepts of one user with m mapped noun phrases; a query of several phrases "
        f"costs as many times ε. Its neighbours: the same users with the same m each, {changed} replaced by any "
        f"others{same_topics}{times}; the identifiers then have ε-differential privacy with the sum of ε over the "
        f"phrases that differ. The exact worst-case ratio {share} is e^{rounded_up(parameters.printed.epsilon)} "
        f"(certificate {parameters.printed.digest})."
    )
    return reason, detail


def _claim_of_histograms(parameters: SemanticParameters) -> tuple[str, str]:
    epsilon, twice = (rounded_up(times * float(parameters.epsilon)) for times in (1, 2))
    reason = (
        "the noise is scaled by Δ, the largest number of noun phrases of any user in the data, so a change of that "
        "user changes everybody's noise and no ε is finite; the paper claims "
        f"ε = {epsilon}/Δ per query and ε = {epsilon} per user, each noun phrase of each record counting as one "
        "query (a search with five clicks is five records)"
    )
    detail = (
        "The claim's privacy unit: the histogram of one user's mapped noun phrases. Its neighbours: the same Δ, one "
        "user's phrases added or removed; where they are replaced by others, the loss is twice as large "
        f"(ε = {twice} per user)."
    )
    return reason, detail


def query_in_words(parameters: SemanticParameters) -> str:
    """What the manifest says of the query column."""
    if parameters.mode == "paper":
        return "drawn by meaning, with the words around it kept"
    if parameters.criterion == "hbdp":
        return "concepts as often as a noisy histogram says"
    return "replaced by the label of a concept drawn by meaning"


def _promise(parameters: SemanticParameters, **words: Any) -> Guarantee:
    losses = parameters.losses
    if parameters.per == "query":
        return PureDP(epsilon=float(losses.per_query), unit="query", **words)
    if losses.delta:
        return ApproxDP(epsilon=float(losses.per_user), delta=losses.delta, unit="user", **words)
    return PureDP(epsilon=float(losses.per_user), unit="user", **words)


def _both_figures(parameters: SemanticParameters) -> str:
    losses = parameters.losses
    slack = f" with δ = {rounded_up(losses.delta)}" if losses.delta else ""
    return (
        f"That is ε = {rounded_up(float(losses.per_query))} per query and "
        f"ε = {rounded_up(float(losses.per_user))} per user{slack}, "
        f"of whom at most {parameters.max_queries} queries are used."
    )


def _same_times(parameters: SemanticParameters) -> str:
    return f"at the same times ({time_in_words(parameters.time)})"


def _domain_in_words(parameters: SemanticParameters) -> str:
    return f"The taxonomy of the domain has SHA-256 {parameters.public_domain.digest}."


def _detail(parameters: SemanticParameters) -> str:
    size = len(parameters.public_domain)
    if parameters.criterion == "hbdp":
        return (
            f"{_both_figures(parameters)} Exact geometric noise on a histogram of {size:,} concepts for every user. "
            f"{_domain_in_words(parameters)}"
        )
    certified = parameters.certified
    in_words = (law_in_words(certified, float(parameters.losses.per_query)), use_in_words(certified))
    return (
        f"{_both_figures(parameters)} {' '.join(filter(None, in_words))} "
        f"Each query becomes one of {size:,} public concepts, by "
        f"{CRITERIA_IN_WORDS[certified.criterion]} in whole-number weights; its exact worst-case loss over all inputs "
        f"and outputs is {rounded_up(certified.epsilon)} (certificate {certified.digest}). "
        f"What lies outside the domain is one of the concepts. {_domain_in_words(parameters)}"
    )
