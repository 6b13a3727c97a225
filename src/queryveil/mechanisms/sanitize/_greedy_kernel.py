"""Hot loops over whole-number weights (Numba): elimination, filling up, and local search. No randomness of its own.

Pairs and users are numbered; `pair_start, pair_user, pair_weight` list the users of each pair, `user_start, user_pair,
user_weight` the pairs of each user. Weights and loads are in units of 2^-40.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

NO_PAIR = -1
MOST_LOST = 3
"""A step that would lose more pairs than this is undone."""


@njit(cache=True)
def eliminate_printed(order, pair_start, pair_user, pair_weight, load, limit):
    """Remove pairs in the given order, at least one, until no user is above the limit; how many were removed."""
    above = 0
    for user in range(len(load)):
        if load[user] > limit:
            above += 1
    for done in range(len(order)):
        pair = order[done]
        for entry in range(pair_start[pair], pair_start[pair + 1]):
            user = pair_user[entry]
            was_above = load[user] > limit
            load[user] -= pair_weight[entry]
            if was_above and load[user] <= limit:
                above -= 1
        if above == 0:
            return done + 1
    return len(order)


@njit(cache=True)
def eliminate_corrected(entries, entry_user, entry_pair, pair_start, pair_user, pair_weight, load, limit, kept):
    """Go through the entries from the heaviest on; remove the pair where the entry's user is above the limit."""
    for entry in entries:
        user, pair = entry_user[entry], entry_pair[entry]
        if load[user] > limit and kept[pair]:
            kept[pair] = False
            for other in range(pair_start[pair], pair_start[pair + 1]):
                load[pair_user[other]] -= pair_weight[other]


@njit(cache=True)
def _highest_after(pair, pair_start, pair_user, pair_weight, load):
    highest = np.int64(0)
    for entry in range(pair_start[pair], pair_start[pair + 1]):
        highest = max(highest, load[pair_user[entry]] + pair_weight[entry])
    return highest


@njit(cache=True)
def fill_up(x, wanted, room, order_of_need, pair_start, pair_user, pair_weight, load, limit):
    """Add one to a pair while any fits, at most `room` in all: first the pairs below `wanted` by their order of need,
    then, where `wanted` is −1 (no wish), the pair after which the fullest of its users is least full.

    Loads only grow, so a pair's key only grows and a heap with keys looked at again when popped gives the true least.
    """
    heap = [(np.int64(0), np.int64(0))]  # Numba wants to see the type
    heap.pop()
    for number in range(len(x)):
        if pair_start[number] < pair_start[number + 1] and (wanted[number] < 0 or x[number] < wanted[number]):
            heap.append((order_of_need[number], np.int64(number)))
    heapq.heapify(heap)
    added = 0
    while len(heap) > 0 and added < room:
        key, pair = heapq.heappop(heap)
        after = _highest_after(pair, pair_start, pair_user, pair_weight, load)
        if after > limit:
            continue
        true_key = after if wanted[pair] < 0 else order_of_need[pair]
        if true_key > key:
            heapq.heappush(heap, (true_key, pair))
            continue
        x[pair] += 1
        added += 1
        for entry in range(pair_start[pair], pair_start[pair + 1]):
            load[pair_user[entry]] += pair_weight[entry]
        if wanted[pair] < 0 or x[pair] < wanted[pair]:
            heapq.heappush(heap, (true_key, pair))
    return added


@njit(cache=True)
def _fits(pair, pair_start, pair_user, pair_weight, load, limit):
    for entry in range(pair_start[pair], pair_start[pair + 1]):
        if load[pair_user[entry]] + pair_weight[entry] > limit:
            return False
    return True


@njit(cache=True)
def _flip(pair, chosen, pair_start, pair_user, pair_weight, load):
    sign = -1 if chosen[pair] else 1
    chosen[pair] = not chosen[pair]
    for entry in range(pair_start[pair], pair_start[pair + 1]):
        load[pair_user[entry]] += sign * pair_weight[entry]
    return sign


@njit(cache=True)
def _to_evict(user, newcomer, start, chosen, user_start, user_pair, user_weight, excess):
    """The lightest chosen pair of the user that repairs the excess alone, else the heaviest."""
    lightest, heaviest = NO_PAIR, NO_PAIR
    lightest_weight, heaviest_weight = np.int64(1) << np.int64(62), np.int64(-1)
    degree = user_start[user + 1] - user_start[user]
    for step in range(degree):
        entry = user_start[user] + (step + start) % degree
        pair, weight = user_pair[entry], user_weight[entry]
        if pair == newcomer or not chosen[pair]:
            continue
        if excess <= weight < lightest_weight:
            lightest, lightest_weight = pair, weight
        if weight > heaviest_weight:
            heaviest, heaviest_weight = pair, weight
    return lightest if lightest != NO_PAIR else heaviest


@njit(cache=True)
def search(
    words,
    chosen,
    load,
    limit,
    pair_start,
    pair_user,
    pair_weight,
    user_start,
    user_pair,
    user_weight,
    accept,
    best,
    size,
):
    """Forced insertions under annealing, until the words are used up.

    One step takes a random pair in, evicts what no longer fits, fills the freed users up again, and stays if the number
    of pairs did not fall, or with probability accept[loss] / 2^64. Hands back the size at the end and the best size,
    whose solution is in `best`; `size` is (now, best so far).
    """
    now, highest = size
    flipped = np.empty(3 * len(chosen) + 4, dtype=np.int64)  # in, out and in again at most
    pairs = np.uint64(len(chosen))
    position = 0
    while position + 4 <= len(words):
        pair = np.int64(words[position] % pairs)
        start_word, fill_word, luck = words[position + 1], words[position + 2], words[position + 3]
        position += 4
        if chosen[pair]:
            continue
        change = _flip(pair, chosen, pair_start, pair_user, pair_weight, load)
        flipped[0] = pair
        flips = 1
        for entry in range(pair_start[pair], pair_start[pair + 1]):
            user = pair_user[entry]
            degree = np.uint64(user_start[user + 1] - user_start[user])
            while load[user] > limit and change >= -MOST_LOST:
                start = np.int64(start_word % degree)
                out = _to_evict(user, pair, start, chosen, user_start, user_pair, user_weight, load[user] - limit)
                change += _flip(out, chosen, pair_start, pair_user, pair_weight, load)
                flipped[flips] = out
                flips += 1
        evicted = flips
        if change >= -MOST_LOST:
            for index in range(1, evicted):
                gone = flipped[index]
                for entry in range(pair_start[gone], pair_start[gone + 1]):
                    user = pair_user[entry]
                    degree = user_start[user + 1] - user_start[user]
                    start = np.int64(fill_word % np.uint64(degree))
                    for step in range(degree):
                        other = user_start[user] + (step + start) % degree
                        candidate = user_pair[other]
                        if (
                            load[user] + user_weight[other] <= limit
                            and not chosen[candidate]
                            and candidate != gone
                            and _fits(candidate, pair_start, pair_user, pair_weight, load, limit)
                        ):
                            change += _flip(candidate, chosen, pair_start, pair_user, pair_weight, load)
                            flipped[flips] = candidate
                            flips += 1
            for index in range(1, evicted):
                gone = flipped[index]
                if not chosen[gone] and _fits(gone, pair_start, pair_user, pair_weight, load, limit):
                    change += _flip(gone, chosen, pair_start, pair_user, pair_weight, load)
                    flipped[flips] = gone
                    flips += 1
        if change >= 0 or (change >= -MOST_LOST and luck < accept[-change]):
            now += change
            if now > highest:
                highest = now
                best[:] = chosen
        else:
            for index in range(flips - 1, -1, -1):
                _flip(flipped[index], chosen, pair_start, pair_user, pair_weight, load)
    return now, highest
