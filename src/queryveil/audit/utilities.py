"""What is kept, task by task: every measure of utility that fits a release, as findings.

Measures by person need to know who is behind a pseudonym; without that, the same is measured for all people together.
Intervals are exact (Clopper and Pearson) for shares of counted things, and by resampling users or queries (200 times)
for means over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.audit import replaced_texts
from queryveil.audit.attacks.released_stream import Success, cut_to_depth
from queryveil.audit.context import Material
from queryveil.audit.finding import LeftOut
from queryveil.audit.measures import clicks, suggestion, volume
from queryveil.audit.measures.profile import divergences
from queryveil.audit.measures.srp import release_srp
from queryveil.audit.measures.tree_distance import category_loss
from queryveil.audit.shaping import Found, Step, kept, why_no_owners
from queryveil.privacy import Noise

Counts = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

FREQUENT: Final = 100
RESAMPLED: Final = 200
MOST_PEOPLE: Final = 5000
SRP_LEVEL: Final = 2


def topics(material: Material) -> Found:
    """How far profiles of topics move: of each person where they are known, and of all people together."""
    categories = material.categories
    top = cut_to_depth(categories.parents, categories.depths, 1)
    tops = np.flatnonzero(categories.depths == 1)
    place = np.full(len(top), -1, np.int64)
    place[tops] = np.arange(len(tops))
    before, after = (place[top[categories.of_text[t]]] for t in (material.original_texts, material.released_texts))
    one, other = (np.bincount(numbers[numbers >= 0], minlength=len(tops)) for numbers in (before, after))
    yield kept(
        "topics-all", "Topics of all people together", "topic profiles", float(divergences(one[None], other[None])[0]),
        "Jensen–Shannon divergence between the shares of the top categories in both logs: 0 unchanged, 1 nothing in "
        "common. Counted, not sampled.", better="lower", unit="distance", raw=0.0, trials=len(material.users),
        detail=f"{len(tops)} top categories.",
    )  # fmt: skip
    if material.receivers is None:
        yield LeftOut(title="Topics of each person", reason=why_no_owners(material), by_settings=True)
        return
    behind = material.people(material.receivers)
    chosen = material.some_people(MOST_PEOPLE)
    sides = (material.original_users, before), (behind, after)
    tables = [_table(users, numbers, chosen, len(tops)) for users, numbers in sides]
    known = tables[0].sum(axis=1) > 0
    moved = divergences(tables[0][known], tables[1][known])
    if len(moved):
        yield kept(
            "topics-person", "Topics of each person", "topic profiles", float(moved.mean()),
            "Mean over people of the Jensen–Shannon divergence between the topics they searched and those released "
            "under their pseudonym: 0 unchanged, 1 nothing in common (also where nothing of theirs was released).",
            better="lower", unit="distance", interval=resampled(moved), raw=0.0, trials=len(moved),
        )  # fmt: skip


def _table(users: Numbers, topic: Counts, chosen: Counts, count: int) -> Counts:
    row = np.full(int(max(users.max(initial=0), chosen.max(initial=0))) + 2, -1, np.int64)  # the last is for −1
    row[chosen] = np.arange(len(chosen))
    good = (row[users] >= 0) & (topic >= 0)
    flat = np.bincount(row[users[good]] * count + topic[good], minlength=len(chosen) * count)
    return flat.reshape(len(chosen), count)


def resampled(values: Floats) -> tuple[float, float]:
    """A 95 % interval of the mean by resampling (bootstrap, percentiles), from a fixed seed."""
    picks = Noise.seeded(RESAMPLED).stream("bootstrap").below(len(values), RESAMPLED * len(values))
    means = values[picks].reshape(RESAMPLED, len(values)).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def frequency(material: Material) -> Found:
    """Which queries, and which clicks, are most frequent."""
    sides = material.original_texts, material.released_texts
    given, released = (np.bincount(texts, minlength=len(material.texts)) for texts in sides)
    yield from _frequent("query", "queries", given, released)
    pairs = [
        log.frame.filter(pl.col("url").is_not_null()).group_by("query", "url").len(name)
        for log, name in ((material.original, "given"), (material.released, "released"))
    ]
    if pairs[0].is_empty() or pairs[1].is_empty():
        where = "raw log" if pairs[0].is_empty() else "release"
        yield from _none_frequent("clicks", f"the {where} has no clicks")
        return
    both = pairs[0].join(pairs[1], on=["query", "url"], how="full", coalesce=True).fill_null(0)
    counts = (both[name].to_numpy().astype(np.int64) for name in ("given", "released"))
    yield from _frequent("click", "clicks", *counts)


def _frequent(key: str, what: str, given: Counts, released: Counts) -> Found:
    wanted = min(FREQUENT, int((given > 0).sum()))
    if not wanted:
        yield from _none_frequent(what, "the raw log has none")
        return
    support = float(np.sort(clicks.supports(given))[-wanted])
    frequent, still = clicks.is_frequent(given, support), clicks.is_frequent(released, support)
    both, published = int((frequent & still).sum()), int((released > 0).sum())
    for name, of, told in (
        ("recall", int(frequent.sum()), f"Share of the raw log's most frequent {what} still as frequent"),
        ("precision", int(still.sum()), f"Share of the {what} so frequent in the release that were so in the raw log"),
    ):
        if not of:
            yield LeftOut(title=f"Frequent {what}: {name}", reason="nothing is so frequent in the release")
            continue
        yield kept(
            f"frequent-{key}-{name}", f"Frequent {what}: {name}", "query frequency", both / of,
            f"{told}.", interval=Success(both, of).interval(), raw=1.0, trials=of, published=published,
            chance=int(frequent.sum()) / len(given),
            detail=f"The {wanted} most frequent: at least {support:.3g} of all.",
        )  # fmt: skip
    yield kept(
        f"frequent-{key}-distance", f"Frequent {what}: distance of shares", "query frequency",
        clicks.support_distance(given, released, frequent=frequent).total,
        f"Sum over the raw log's most frequent {what} of how far their share moved; 0 is unchanged, at most "
        "2. Counted, not sampled.", better="lower", unit="distance", raw=0.0, trials=int(frequent.sum()),
        published=published,
    )  # fmt: skip


def _none_frequent(what: str, reason: str) -> Found:
    """One by one, as the figures: that they are missing for this reason or another must not show in public."""
    for name in ("recall", "precision", "distance of shares"):
        yield LeftOut(title=f"Frequent {what}: {name}", reason=reason)


def categories(material: Material) -> Found:
    """How far categories move on the tree, and how much of them remains."""
    tree = material.categories
    before, after = tree.of_text[material.original_texts], tree.of_text[material.released_texts]
    shape = {"parents": tree.parents, "depths": tree.depths}
    scaled = _like_sizes(before, after, len(tree.parents))
    nobody = [np.zeros(len(side), np.int64) for side in scaled]
    together = category_loss(nobody[0], scaled[0], nobody[1], scaled[1], **shape)
    yield kept(
        "categories-all", "Categories of all people together", "categories", together.loss,
        "Earth mover's distance on the category tree between both logs brought to one size, as a share of sending "
        "everything through the root: 0 unchanged. Counted, not sampled.",
        better="lower", unit="distance", raw=0.0, trials=len(material.users),
    )  # fmt: skip
    if material.receivers is None:
        yield LeftOut(title="Categories of each person (EMD and SRP)", reason=why_no_owners(material), by_settings=True)
        return
    chosen = material.some_people(MOST_PEOPLE)
    mine = np.zeros(len(material.users) + 1, np.bool_)  # the last is for −1
    mine[chosen] = True
    behind = material.people(material.receivers)
    ours, theirs = mine[material.original_users], mine[behind]
    moved = category_loss(material.original_users[ours], before[ours], behind[theirs], after[theirs], **shape)
    yield kept(
        "categories-person", "Categories of each person", "categories", moved.loss,
        "Earth mover's distance between the categories that people searched and those released under "
        "their pseudonyms, as a share of sending everything through the root; what is missing travels there.",
        better="lower", unit="distance", raw=0.0, trials=len(chosen),
    )  # fmt: skip
    yield from _remaining(material, chosen)


def _like_sizes(before: Numbers, after: Numbers, count: int) -> list[Counts]:
    """Both as the same number of categories (up to 10,000), in proportion, so that only their mix is compared."""
    sides = []
    for side in (before, after):
        total = np.cumsum(np.bincount(side, minlength=count))
        ranks = (np.arange(10_000) + 0.5) / 10_000 * total[-1] if len(side) else np.zeros(0)
        sides.append(np.searchsorted(total, ranks, side="right"))
    return sides


def _remaining(material: Material, chosen: Counts) -> Found:
    assert material.receivers is not None
    some = material.users.gather(chosen).implode()
    behind = pl.DataFrame([material.receivers.alias("user"), material.released.frame["user"].alias("pseudonym")])
    members = behind.filter(pl.col("user").is_in(some)).group_by("user").agg(pl.col("pseudonym").min())
    if members.is_empty():
        yield LeftOut(title="Categories that remain (SRP)", reason="nobody looked at is in the release")
        return
    found = release_srp(material.original, material.released, members, material.classifier, levels=SRP_LEVEL)
    by_user = found.by_user[:, SRP_LEVEL - 1]
    by_user = by_user[~np.isnan(by_user)]
    if len(by_user):
        yield kept(
            "categories-remain", "Categories that remain (SRP)", "categories", float(by_user.mean()),
            f"Mean over people in the release of the share of their categories at level {SRP_LEVEL} that the log "
            "released in place of theirs holds as well.",
            interval=resampled(by_user), raw=1.0, trials=len(by_user),
        )  # fmt: skip


def sizes(material: Material) -> Found:
    """Volume, activity and sessions."""
    left = volume.volume(material.original, material.released)
    told: Mapping[str, tuple[str, float]] = {
        "records": ("Records", left.records),
        "users": ("Users", left.users),
        "texts": ("Distinct texts", left.texts),
    }
    for key, (title, value) in told.items():
        yield kept(
            f"volume-{key}", f"{title} for each one of the raw log", "sessions and volume", value,
            f"{title} in the release for each one in the raw log; above 100 % where they are made up. Counted, not "
            "sampled.", raw=1.0, trials=len(material.users),
        )  # fmt: skip
    yield kept(
        "activity", "How active people are", "sessions and volume",
        volume.shape_distance(*map(volume.records_per_user, (material.original, material.released))),
        "Largest distance between the distributions of records per user before and after: 0 unchanged, at most 1.",
        better="lower", unit="distance", raw=0.0, trials=len(material.users),
    )  # fmt: skip
    lengths = [volume.records_per_session(log) for log in (material.original, material.released)]
    if not len(lengths[0]) or not len(lengths[1]):
        yield LeftOut(title="Sessions", reason="one of the logs has no times")
        return
    yield kept(
        "sessions", "Sessions", "sessions and volume", volume.shape_distance(lengths[0], lengths[1]),
        "Largest distance between the distributions of records per user and day: 0 unchanged, at most 1.",
        better="lower", unit="distance", raw=0.0, trials=len(material.users),
    )  # fmt: skip


def suggestions(material: Material) -> Found:
    """Next queries."""
    found = suggestion.top_followers_kept(material.original, material.released)
    if not len(found.by_query):
        reason = f"no query of the raw log has {suggestion.FOLLOWERS} followers"
        yield LeftOut(title="Query suggestion", reason=reason)
        return
    yield kept(
        "suggestion", "Query suggestion", "query suggestion", found.share,
        f"Of the {suggestion.SUGGESTED} queries that most often follow each of the most asked ones in the raw log, "
        "the share that the release suggests as well.", detail=f"{len(found.by_query):,} queries.",
        interval=resampled(found.by_query), raw=1.0, chance=found.chance, trials=len(found.by_query),
    )  # fmt: skip


STEPS: Final[tuple[tuple[str, Step], ...]] = (
    ("topic profiles", topics),
    ("query frequency", frequency),
    ("categories", categories),
    ("sessions and volume", sizes),
    ("query suggestion", suggestions),
    ("retrieval", replaced_texts.retrieval),
)
"""Every measure by name, in the order of the report."""
