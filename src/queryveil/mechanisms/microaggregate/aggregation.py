"""One log for each group (Algorithm 5 of Erola et al. 2011).

Paper: user i of a group of g users adds a text asked r times ⌊c·r⌋ times and once more with the fractional probability,
c = |Q_i| / Σ|Q| being the user's contribution, most repeated texts first, until the quota |Q_i| / g is met or the list
ends. So a user with 90 of 100 records supplies nine tenths of the log, and users below the average miss their quota.

Safe: only what may be published of the texts (`publishable`). No user supplies more than 1/k of a log, nor a text more
often than they asked it: the length is the mean of the members' publishable records, rounded to a multiple of k, or the
largest smaller multiple that the members can fill under the cap. Quotas are proportional below the cap, rounded by
largest remainders. A user with n records and quota q supplies each text asked r times ⌊r·q/n⌋ or ⌈r·q/n⌉ times, r·q/n
in the mean, q in all: every (n/q)-th record of the list, from a random start (systematic sampling).

Records are picked in blocks of users: what one user supplies depends on their own records and quota and on words of the
block's stream that nobody else reads, so that its law is the same however users are cut into blocks. The picked records
are put together in blocks of groups and copied for each member, sorted by text. Records of one text follow each other
by who supplied them, which shows nowhere: in a log without times, records of one text are alike.

Cost: a sort of the (user, text) pairs and a pass over them.

>>> capped_quotas([90, 40, 20], k=3), capped_quotas([90, 5, 5, 5], k=3)
([17, 17, 17], [7, 5, 5, 4])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from queryveil.arrays import Ints, Longs
from queryveil.log.query_log import ByBlock, Schema, Table
from queryveil.mechanisms.microaggregate.grouping import GROUP, Chosen
from queryveil.mechanisms.microaggregate.profiles import CountedLog, starts
from queryveil.mechanisms.microaggregate.publishable import ITEMS, Labels
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStream, NoiseStreams
from queryveil.release.release import ORDER, OWNER, RECEIVER

WORDS_AT_ONCE = 1 << 20
COPIES, QUOTA, RECORDS, MEMBERS = "__copies", "__quota", "__records", "__members"
PICKED: Schema = {GROUP: pl.Int32(), "query": pl.String(), OWNER: pl.String(), COPIES: pl.Int64()}
COPIED: Schema = {
    "user": pl.String(),
    "query": pl.String(),
    OWNER: pl.String(),
    RECEIVER: pl.String(),
    ORDER: pl.Int64(),
}


def shared_logs(pairs: Table, labels: Labels, members: pl.DataFrame, safe: bool, noise: Noise) -> Table:
    """Every member's copy of the log of their group.

    `members` has the columns `user`, `pseudonym`, group and, for each user, the quota (safe) or how many records and
    members the group has (paper). It travels to the workers: one short row for each user.
    """
    ties = noise.streams("microaggregate: order of texts", pairs.blocks)
    picks = noise.streams("microaggregate: records", pairs.blocks)
    people = ByBlock(members.drop("pseudonym"), "user", pairs.blocks)
    picking = Picking(labels, people, ties if safe else None, picks)
    picked = pairs.map_rows(Chosen(tuple(ITEMS)), ITEMS).map_blocks("user", picking, PICKED)
    copying = Copying(ByBlock(members.select(GROUP, "user", "pseudonym"), GROUP, pairs.blocks))
    return picked.map_blocks(GROUP, copying, COPIED)


@dataclass(frozen=True)
class Picking:
    """A block of users: how often each of their texts goes into the log of their group."""

    labels: Labels
    members: ByBlock = field(repr=False)
    ties: NoiseStreams | None
    """None for the paper's way."""
    picks: NoiseStreams

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The picked texts with the group and the user."""
        members = self.members[block]
        log = CountedLog.of_pairs(self.labels.items(rows.join(members, on="user", how="semi")))
        people = log.users.to_frame("user").join(members, on="user", how="left", maintain_order="left")
        if self.ties is None:
            records, of_group = (people[name].cast(pl.Int64).to_numpy() for name in (RECORDS, MEMBERS))
            copies = paper_copies(log, records, of_group, self.picks[block])
        else:
            copies = safe_copies(log, people[QUOTA].to_numpy(), self.ties[block], self.picks[block])
        picked = np.flatnonzero(copies)
        owners, texts = log.pair_users[picked], log.pair_texts[picked]
        return pl.DataFrame(
            {
                GROUP: people[GROUP].gather(owners),
                "query": log.texts.gather(texts),
                OWNER: log.users.gather(owners),
                COPIES: copies[picked],
            }
        )


@dataclass(frozen=True)
class Copying:
    """A block of groups: each group's log, once for each of its members under their pseudonym."""

    members: ByBlock = field(repr=False)

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Records of a log are ordered by text; the order is the same in every copy."""
        rows = rows.sort(GROUP, "query", OWNER)
        records = rows[np.repeat(np.arange(rows.height), rows[COPIES].to_numpy())]
        records = records.select(GROUP, "query", OWNER, pl.int_range(pl.len()).over(GROUP).alias(ORDER))
        return records.join(self.members[block].rename({"user": RECEIVER, "pseudonym": "user"}), on=GROUP)


def paper_copies(log: CountedLog, records: Longs, members: Longs, stream: NoiseStream) -> Longs:
    """How often each pair of a log goes into the paper's shared logs.

    `records` and `members` are those of each user's group; a user without a group has 0 members and supplies nothing.
    """
    from queryveil.mechanisms.microaggregate._aggregation_kernel import WRITTEN, pick  # Numba: only when used

    sizes = log.sizes()
    order = np.lexsort((log.pair_texts, -log.pair_counts, log.pair_users))
    grouped = order[members[log.pair_users[order]] > 0]
    offsets = starts(log.pair_users[grouped], len(log.users))
    fractions = tuple(np.ascontiguousarray(a, np.int64) for a in (sizes, records, sizes, members))
    pairs, copies = np.empty(len(grouped), np.int64), np.empty(len(grouped), np.int32)
    progress = np.zeros(4, np.int64)
    counts = log.pair_counts[grouped]
    while not pick(stream.words(WORDS_AT_ONCE), offsets, counts, *fractions, progress, pairs, copies):
        pass
    picked = np.zeros(len(log.pair_users), np.int64)
    picked[grouped[pairs[: progress[WRITTEN]]]] = copies[: progress[WRITTEN]]
    return picked


def safe_copies(log: CountedLog, quotas: Longs, ties: NoiseStream, stream: NoiseStream) -> Longs:
    """How often each pair of a log goes into the shared logs where each user supplies a quota of at most their own.

    Every user is drawn for alone, texts that were asked equally often in a random order.
    """
    order = np.lexsort((ties.words(len(log.pair_users)), -log.pair_counts, log.pair_users))
    copies = np.empty(len(order), np.int64)
    copies[order] = _systematic(log, order, log.sizes(), quotas, stream)
    return copies


def group_quotas(groups: Ints, sizes: Longs, numbering: Longs, k: int) -> Longs:
    """How many records each user supplies; `numbering` is a random order of the users, for ties."""
    quotas = np.zeros(len(sizes), np.int64)
    in_order = numbering[groups[numbering] >= 0]
    in_order = in_order[np.argsort(groups[in_order], kind="stable")]
    for members in np.split(in_order, np.flatnonzero(np.diff(groups[in_order])) + 1):
        if len(members):
            quotas[members] = capped_quotas(sizes[members].tolist(), k)
    return quotas


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


def _systematic(log: CountedLog, order: Longs, sizes: Longs, quotas: Longs, stream: NoiseStream) -> Longs:
    """How many copies of each pair, pairs in the given order, which is by user: quota and mean are met exactly."""
    users = log.pair_users[order]
    records = np.cumsum(log.pair_counts[order], dtype=np.int64)
    records -= (np.cumsum(sizes) - sizes)[users]  # now counted from each user's first record
    reached = (records * quotas[users] + stream.below(np.maximum(sizes, 1))[users]) // sizes[users]
    copies = np.diff(reached, prepend=0)
    first = np.diff(users, prepend=-1) != 0
    copies[first] = reached[first]  # the start is below the size, so nothing is reached before the first record
    return copies
