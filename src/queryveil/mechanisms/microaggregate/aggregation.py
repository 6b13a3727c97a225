"""One log for each group (Algorithm 5 of Erola et al. 2011), and what of the texts may be in it.

Paper: user i of a group of g users adds a text asked r times ⌊c·r⌋ times and once more with the fractional probability,
c = |Q_i| / Σ|Q| being the user's contribution, most repeated texts first, until the quota |Q_i| / g is met or the list
ends. So a user with 90 of 100 records supplies nine tenths of the log, and users below the average miss their quota.

Safe: only texts that at least `k_text` users asked, and none that identifies by itself; another text is replaced by the
label, in square brackets, of the deepest category above its last classified term that `k_text` users asked for, or
withheld. No user supplies more than 1/k of a log. Its length is the mean of the members' publishable records, rounded
to a multiple of k; quotas are proportional below the cap, rounded by largest remainders; c is the quota's share of the
user's records, so that one walk over the list about meets the quota, and the list is walked again until it does.

Cost: a sort of the (user, text) pairs and a pass over them.

>>> capped_quotas([90, 5, 5], k=3), capped_quotas([90, 5, 5, 5], k=3)
([11, 11, 11], [9, 6, 6, 6])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.knowledge._arrays import Ints, Strings
from queryveil.knowledge.categories import NO_CATEGORY
from queryveil.log.identifying import is_identifying
from queryveil.mechanisms.microaggregate.profiles import CountedLog, Longs, Vocabulary, starts
from queryveil.privacy.noise import Stream

WORDS_AT_ONCE = 1 << 20
WITHHELD = -1


@dataclass(frozen=True)
class SharedLogs:
    """The logs of all groups: group, text, who supplied it and how often; sorted by group, then text."""

    groups: Ints
    texts: Ints
    owners: Ints
    copies: Ints


def paper_logs(log: CountedLog, groups: Ints, stream: Stream) -> SharedLogs:
    """The shared logs as the paper makes them."""
    sizes = np.where(groups >= 0, log.sizes(), 0)
    members, records = np.bincount(groups[groups >= 0]), np.bincount(groups[groups >= 0], sizes[groups >= 0])
    of_group = np.maximum(groups, 0)
    bottoms = records[of_group] if len(records) else sizes
    group_sizes = members[of_group] if len(members) else sizes
    order = np.lexsort((log.pair_texts, -log.pair_counts, log.pair_users))
    return _picked(log, groups, order, sizes, bottoms, sizes, group_sizes, stream, exact=False)


def safe_logs(log: CountedLog, groups: Ints, k: int, numbering: Longs, ties: Stream, stream: Stream) -> SharedLogs:
    """The shared logs with capped contributions; `numbering` is a random order of the users, for ties."""
    sizes = log.sizes()
    quotas = np.zeros(len(sizes), np.int64)
    in_order = numbering[groups[numbering] >= 0]
    in_order = in_order[np.argsort(groups[in_order], kind="stable")]
    for members in np.split(in_order, np.flatnonzero(np.diff(groups[in_order])) + 1):
        if len(members):
            quotas[members] = capped_quotas(sizes[members].tolist(), k)
    order = np.lexsort((ties.permutation(len(log.texts))[log.pair_texts], -log.pair_counts, log.pair_users))
    ones = np.ones(len(sizes), np.int64)
    return _picked(log, groups, order, quotas, np.maximum(sizes, 1), quotas, ones, stream, exact=True)


def capped_quotas(sizes: Sequence[int], k: int) -> list[int]:
    """How many records each member supplies: in proportion to their own, none more than 1/k of the whole.

    The whole is the mean size, rounded to a multiple of k. What the cap takes from one goes to the others; fractions
    go to the largest remainders, first come first served among equals.
    """
    total = k * max(1, (2 * sum(sizes) + len(sizes) * k) // (2 * len(sizes) * k))
    cap = total // k
    quotas = [cap] * len(sizes)
    below = set(range(len(sizes)))
    while True:
        room, weight = total - cap * (len(sizes) - len(below)), sum(sizes[i] for i in below)
        over = {i for i in below if sizes[i] * room > cap * weight}
        if not over:
            break
        below -= over
    shares = {i: divmod(sizes[i] * room, weight) for i in sorted(below)}
    for i, (whole, _) in shares.items():
        quotas[i] = whole
    for i in sorted(shares, key=lambda i: -shares[i][1])[: room - sum(whole for whole, _ in shares.values())]:
        quotas[i] += 1
    return quotas


def publishable(log: CountedLog, vocabulary: Vocabulary, k_text: int) -> CountedLog:
    """The same users with what may be published of their texts: shared ones, category labels in place of others."""
    identifying = log.texts.to_frame("query").select(is_identifying("query")).to_series().to_numpy()
    shared = (log.askers() >= k_text) & ~identifying
    labels = text_labels(log, vocabulary, k_text)
    used = np.unique(labels[~shared & (labels != NO_CATEGORY)])
    shown = Strings.of([f"[{vocabulary.tree.names[int(node)].replace('_', ' ')}]" for node in used])
    items = pl.concat([log.texts.filter(pl.Series(shared)), pl.Series("query", shown.to_list(), dtype=pl.String)])
    in_order = items.arg_sort().to_numpy()
    place = np.empty(len(items), np.int32)
    place[in_order] = np.arange(len(items), dtype=np.int32)
    item_of_text = np.full(len(log.texts), WITHHELD, np.int32)
    item_of_text[shared] = place[: int(shared.sum())]
    labelled = ~shared & (labels != NO_CATEGORY)
    item_of_text[labelled] = place[int(shared.sum()) + np.searchsorted(used, labels[labelled])]
    kept = item_of_text[log.pair_texts] != WITHHELD
    pairs = pl.DataFrame(
        {"user": log.pair_users[kept], "text": item_of_text[log.pair_texts[kept]], "count": log.pair_counts[kept]}
    )
    summed = pairs.group_by("user", "text").agg(pl.col("count").sum()).sort("user", "text")
    return CountedLog(log.users, items[in_order], *(summed[name].to_numpy() for name in ("user", "text", "count")))


def text_labels(log: CountedLog, vocabulary: Vocabulary, k_text: int) -> Ints:
    """For each text the deepest category of its last classified term that `k_text` users asked for, −1 for none."""
    first = vocabulary.first_categories()
    enough = np.append(first.profiles(log).users_per_node() >= k_text, True)  # the last entry stands for −1
    term_label = np.full(len(first.term_categories), NO_CATEGORY, np.int32)
    term_label[first.term_categories.owners()] = first.term_categories.values
    parents = np.append(vocabulary.tree.parents, NO_CATEGORY)
    while (rare := ~enough[term_label]).any():
        term_label[rare] = parents[term_label[rare]]
    labels_in_place = term_label[vocabulary.text_terms.values]
    found = np.flatnonzero(labels_in_place != NO_CATEGORY)
    last = np.full(len(log.texts), -1, np.int64)
    np.maximum.at(last, vocabulary.text_terms.owners()[found], found)
    labels = np.full(len(log.texts), NO_CATEGORY, np.int32)
    labels[last >= 0] = labels_in_place[last[last >= 0]]
    return labels


def _picked(
    log: CountedLog,
    groups: Ints,
    order: Longs,
    tops: npt.NDArray[np.integer | np.floating],
    bottoms: npt.NDArray[np.integer | np.floating],
    quota_tops: npt.NDArray[np.integer | np.floating],
    quota_bottoms: npt.NDArray[np.integer | np.floating],
    stream: Stream,
    *,
    exact: bool,
) -> SharedLogs:
    from queryveil.mechanisms.microaggregate._aggregation_kernel import WRITTEN, pick

    grouped = order[groups[log.pair_users[order]] >= 0]
    offsets = starts(log.pair_users[grouped], len(log.users))
    fractions = tuple(np.ascontiguousarray(a, np.int64) for a in (tops, bottoms, quota_tops, quota_bottoms))
    room = int(quota_tops[groups >= 0].sum()) if exact else len(grouped)
    pairs, copies = np.empty(room, np.int64), np.empty(room, np.int32)
    progress = np.zeros(4, np.int64)
    counts = log.pair_counts[grouped]
    while not pick(stream.words(WORDS_AT_ONCE), offsets, counts, *fractions, exact, progress, pairs, copies):
        pass
    chosen = grouped[pairs[: progress[WRITTEN]]]
    owners, texts, copies = log.pair_users[chosen], log.pair_texts[chosen], copies[: progress[WRITTEN]]
    by_group = np.lexsort((owners, texts, groups[owners]))
    return SharedLogs(groups[owners][by_group], texts[by_group], owners[by_group], copies[by_group])
