"""Paper mode: the publication as printed, for science on public or synthetic data.

Sánchez et al. (2018): every noun phrase that is a label of the domain is a query of its own (the others are discarded);
P(o) ∝ exp(ε′ · sim / 2Δ) within the domain of the input (eqs. 3, 7, 8), ε′ = ε / m_x (Prop. 3) or ε per query; a lemma
of the drawn concept, uniformly; the label is put back into the frame of the input (inverse mapping).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import cast

import numpy as np
import polars as pl

from queryveil.arrays import Array
from queryveil.log import QueryLog
from queryveil.mechanisms.semantic import histogram
from queryveil.mechanisms.semantic.domain import OUTSIDE_TEXT, Domain
from queryveil.mechanisms.semantic.law import ClassLaw, Criterion, draw, printed_exponents
from queryveil.mechanisms.semantic.parameters import SemanticParameters
from queryveil.mechanisms.semantic.queries import QueryReading, within_maximum
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStream
from queryveil.progress import each, parts
from queryveil.release.mechanism import coarsened


def replace_queries(mechanism: SemanticParameters, log: QueryLog, noise: Noise) -> tuple[pl.DataFrame, pl.Series]:
    """The records that the paper publishes, and the users."""
    frame = log.frame.select("user", "query", coarsened(mechanism.time))
    users = frame["user"].unique().sort()
    texts = frame["query"].unique().to_list()
    readings = {text: mechanism.reader.reading(text) for text in each("reading the texts", texts)}
    mapped = {text: sum(c >= 0 for c in reading.concepts) for text, reading in readings.items()}
    frame = frame.with_columns(phrases=pl.Series([mapped[text] for text in frame["query"]], dtype=pl.Int64))
    frame = frame.filter(pl.col("phrases") > 0)
    if mechanism.per == "query":
        frame = within_maximum(frame, mechanism.max_queries, noise.stream("semantic: within maximum"), weight="phrases")
    sizes = frame.select(pl.col("phrases").sum().over("user")).to_series().to_list()
    chosen = [readings[text] for text in frame["query"]]
    inputs = np.array([c for reading in chosen for c in reading.concepts if c >= 0], np.int32)
    m = np.repeat(np.array(sizes, np.int64), frame["phrases"].to_numpy())
    domain = mechanism.public_domain
    if mechanism.criterion == "hbdp":
        who = np.repeat(users.search_sorted(frame["user"]).to_numpy(), frame["phrases"].to_numpy())
        largest = int(m.max(initial=1))
        per_user = mechanism.epsilon_per_query * mechanism.max_queries
        histogram.check_size(len(users), len(domain), per_user / largest)
        stream = noise.stream("semantic: histogram")
        frame = histogram.noisy_rows(users, who, inputs, domain, per_user / largest, stream)
    else:
        drawn = select_concepts(mechanism, domain, inputs, m, noise)
        labels = iter(random_labels(domain, drawn, noise.stream("semantic: labels")))
        frame = frame.with_columns(
            query=pl.Series([_rewritten(reading, labels) for reading in chosen], dtype=pl.String)
        )
    frame = pl.concat([frame.select("user", "query", "time"), _nothing_left(frame, users)])
    return frame, users


def select_concepts(mechanism: SemanticParameters, domain: Domain, inputs: Array, m: Array, noise: Noise) -> Array:
    """A concept for every phrase; phrases of users with as many phrases share a law."""
    criterion = cast(Criterion, mechanism.criterion)
    whole = Fraction(repr(float(mechanism.epsilon)))
    shares = m if mechanism.per == "user" else np.ones(len(m), np.int64)
    drawn = np.empty(len(inputs), np.int32)
    distinct = np.unique(shares).tolist()
    with parts("drawing concepts", len(distinct)) as part:
        for share in distinct:
            mine = shares == share
            exponents = printed_exponents(domain, criterion, float(whole / share))
            with part():
                law = ClassLaw.of(domain, criterion, exponents, crossing=False, inputs=inputs[mine])
                drawn[mine] = draw(law, inputs[mine], noise.stream("semantic: paper selection", share))
    return drawn


def random_labels(domain: Domain, concepts: Array, stream: NoiseStream) -> list[str]:
    """One of the labels of each concept, uniformly."""
    choices = [domain.labels(int(concept)) for concept in concepts]
    if not choices:
        return []
    picked = stream.below([len(labels) for labels in choices])
    return [labels[place] for labels, place in zip(choices, picked.tolist(), strict=True)]


def _rewritten(reading: QueryReading, labels: Iterator[str]) -> str:
    """The query with new labels; phrases that were not mapped are discarded."""
    filled = reading.frame.fill([next(labels) if concept >= 0 else "" for concept in reading.concepts])
    return " ".join(filled.split())


def _nothing_left(frame: pl.DataFrame, users: pl.Series) -> pl.DataFrame:
    """One record for every user of whom nothing was mapped: still there, with nothing said."""
    gone = users.filter(~users.is_in(frame["user"].unique().implode()))
    empty = pl.lit(None, pl.Datetime("us")).alias("time")
    return gone.to_frame("user").select("user", pl.lit(OUTSIDE_TEXT).alias("query"), empty)
