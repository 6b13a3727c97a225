"""One log for each group (Algorithm 5 of Erola et al. 2011), and what of the texts may be in it.

Paper: user i of a group of g users adds a text asked r times ⌊c·r⌋ times and once more with the fractional probability,
c = |Q_i| / Σ|Q| being the user's contribution, most repeated texts first, until the quota |Q_i| / g is met or the list
ends. So a user with 90 of 100 records supplies nine tenths of the log, and users below the average miss their quota.

Safe: only texts that at least `k_text` users asked, and none that identifies by itself. A rarer text gives way to the
label, in square brackets, of the category of its last classified term; a label that stands for rare texts of fewer
than `k_text` users gives way to the category above it, and at the top the text is withheld. A text that identifies has
no label. No user supplies more than 1/k of a log, nor a text more often than they asked it: the length
is the mean of the members' publishable records, rounded to a multiple of k, or the largest smaller multiple that the
members can fill under the cap. Quotas are proportional below the cap, rounded by largest remainders. A user with n
records and quota q supplies each text asked r times ⌊r·q/n⌋ or ⌈r·q/n⌉ times, r·q/n in the mean, q in all: every
(n/q)-th record of the list, from a random start (systematic sampling).

Cost: a sort of the (user, text) pairs and a pass over them; for the labels a sort of the rare ones at each level.

>>> capped_quotas([90, 40, 20], k=3), capped_quotas([90, 5, 5, 5], k=3)
([17, 17, 17], [7, 5, 5, 4])
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
    from queryveil.mechanisms.microaggregate._aggregation_kernel import WRITTEN, pick  # Numba: only when used

    sizes = np.where(groups >= 0, log.sizes(), 0)
    members, records = np.bincount(groups[groups >= 0]), np.bincount(groups[groups >= 0], sizes[groups >= 0])
    of_group = np.maximum(groups, 0)
    bottoms = records[of_group] if len(records) else sizes
    group_sizes = members[of_group] if len(members) else sizes
    order = np.lexsort((log.pair_texts, -log.pair_counts, log.pair_users))
    grouped = order[groups[log.pair_users[order]] >= 0]
    offsets = starts(log.pair_users[grouped], len(log.users))
    fractions = tuple(np.ascontiguousarray(a, np.int64) for a in (sizes, bottoms, sizes, group_sizes))
    pairs, copies = np.empty(len(grouped), np.int64), np.empty(len(grouped), np.int32)
    progress = np.zeros(4, np.int64)
    counts = log.pair_counts[grouped]
    while not pick(stream.words(WORDS_AT_ONCE), offsets, counts, *fractions, progress, pairs, copies):
        pass
    return _shared(log, groups, grouped[pairs[: progress[WRITTEN]]], copies[: progress[WRITTEN]])


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
    return _shared(log, groups, order, _systematic(log, order, sizes, quotas, stream))


def capped_quotas(sizes: Sequence[int], k: int) -> list[int]:
    """How many records each member supplies: in proportion to their own, none more than 1/k of the whole or they have.

    Sizes are at least 1, at least k of them. The whole is k times a cap c: the mean size over k, rounded, or the
    largest smaller c with Σ min(size, c) ≥ k·c, which c = 1 always fulfils. What the cap takes from one goes to the
    others; fractions go to the largest remainders, first come first served among equals.
    """
    lowest, cap = 1, max(1, (2 * sum(sizes) + len(sizes) * k) // (2 * len(sizes) * k))
    while lowest < cap:  # Σ min(size, c) − k·c is concave in c and 0 at c = 0: where it turns negative it stays so
        middle = (lowest + cap + 1) // 2
        if sum(min(size, middle) for size in sizes) >= k * middle:
            lowest = middle
        else:
            cap = middle - 1
    total = k * cap
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
    labels = text_labels(log, vocabulary, ~shared & ~identifying, k_text)
    labelled = labels != NO_CATEGORY
    used = np.unique(labels[labelled])
    shown = Strings.of([f"[{vocabulary.tree.names[int(node)].replace('_', ' ')}]" for node in used])
    items = pl.concat([log.texts.filter(pl.Series(shared)), pl.Series("query", shown.to_list(), dtype=pl.String)])
    in_order = items.arg_sort().to_numpy()
    place = np.empty(len(items), np.int32)
    place[in_order] = np.arange(len(items), dtype=np.int32)
    item_of_text = np.full(len(log.texts), WITHHELD, np.int32)
    item_of_text[shared] = place[: int(shared.sum())]
    item_of_text[labelled] = place[int(shared.sum()) + np.searchsorted(used, labels[labelled])]
    kept = item_of_text[log.pair_texts] != WITHHELD
    pairs = pl.DataFrame(
        {"user": log.pair_users[kept], "text": item_of_text[log.pair_texts[kept]], "count": log.pair_counts[kept]}
    )
    summed = pairs.group_by("user", "text").agg(pl.col("count").sum()).sort("user", "text")
    return CountedLog(log.users, items[in_order], *(summed[name].to_numpy() for name in ("user", "text", "count")))


def text_labels(log: CountedLog, vocabulary: Vocabulary, rare: npt.NDArray[np.bool_], k_text: int) -> Ints:
    """For each rare text a category that replaces rare texts of at least `k_text` users, −1 for none.

    Only those who really asked a text with the label count: whoever asked a shared text of the category is no cover.
    """
    first = vocabulary.first_categories()
    term_label = np.full(len(first.term_categories), NO_CATEGORY, np.int32)
    term_label[first.term_categories.owners()] = first.term_categories.values
    labels_in_place = term_label[vocabulary.text_terms.values]
    found = np.flatnonzero(labels_in_place != NO_CATEGORY)
    last = np.full(len(log.texts), -1, np.int64)
    np.maximum.at(last, vocabulary.text_terms.owners()[found], found)
    labels = np.full(len(log.texts), NO_CATEGORY, np.int32)
    chosen = rare & (last >= 0)
    labels[chosen] = labels_in_place[last[chosen]]
    depths = np.append(vocabulary.tree.depths, 0)  # the last entry stands for −1
    for depth in range(vocabulary.levels, 0, -1):  # what climbs is counted again with what it meets one level up
        here = depths[labels[log.pair_texts]] == depth
        asked = labels[log.pair_texts[here]].astype(np.int64) * len(log.users) + log.pair_users[here]
        users = np.bincount(np.unique(asked) // max(1, len(log.users)), minlength=len(vocabulary.tree))
        climbing = (depths[labels] == depth) & (users[labels] < k_text)
        labels[climbing] = vocabulary.tree.parents[labels[climbing]]
    return labels


def _systematic(log: CountedLog, order: Longs, sizes: Longs, quotas: Longs, stream: Stream) -> Longs:
    """How many copies of each pair, pairs in the given order, which is by user: quota and mean are met exactly."""
    users = log.pair_users[order]
    records = np.cumsum(log.pair_counts[order], dtype=np.int64)
    records -= (np.cumsum(sizes) - sizes)[users]  # now counted from each user's first record
    reached = (records * quotas[users] + stream.below(np.maximum(sizes, 1))[users]) // sizes[users]
    copies = np.diff(reached, prepend=0)
    first = np.diff(users, prepend=-1) != 0
    copies[first] = reached[first]  # the start is below the size, so nothing is reached before the first record
    return copies


def _shared(log: CountedLog, groups: Ints, pairs: Longs, copies: npt.NDArray[np.integer]) -> SharedLogs:
    chosen = pairs[copies > 0]
    owners, texts, counts = log.pair_users[chosen], log.pair_texts[chosen], copies[copies > 0].astype(np.int32)
    by_group = np.lexsort((owners, texts, groups[owners]))
    return SharedLogs(groups[owners][by_group], texts[by_group], owners[by_group], counts[by_group])
