"""Loops over all pairs of a domain, one row at a time: classes, how many of each, extremes, losses, draws (Numba).

A row (one input concept) is a scan over the outputs with a running count of shared subsumers: the descendants of each
subsumer of the input are a few runs, so +1 where a run starts and −1 where it stops. Nothing of size N×N exists.

Where only numbers of outputs matter, no output is looked at: between two ends of runs the number of shared subsumers is
one and the same, so a row is a few hundred pieces, and how many outputs of each kind (number of subsumers, topic) lie
in a piece is the difference of two tallies.

All functions release the interpreter lock, take a range of rows and write to arrays of their own, so that threads can
share the work.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.mechanisms.semantic.domain import BLOCK

_helper = njit(inline="always", nogil=True)
_kernel = njit(cache=True, nogil=True)


@_helper
def _mark(concept, domain, steps, sign):
    for i in range(domain.above_offsets[concept], domain.above_offsets[concept + 1]):
        subsumer = domain.above[i]
        for run in range(domain.run_offsets[subsumer], domain.run_offsets[subsumer + 1]):
            steps[domain.run_starts[run]] += sign
            steps[domain.run_stops[run]] -= sign


@_helper
def _row(concept, domain, steps, row):
    """The class of every output for one input. `steps` is scratch (zeros, one longer than the domain), left clean."""
    _mark(concept, domain, steps, 1)
    classes_of_a_topic = domain.level_table[1, 1] + 2  # the level of similarity 1 is the last
    part = domain.part_of[concept]
    start, stop = domain.part_starts[part], domain.part_starts[part + 1]
    topic = domain.topic_of[concept]
    count = domain.subsumer_counts[concept]
    apart = classes_of_a_topic - 1
    for output in range(start):
        row[output] = apart if domain.topic_of[output] == topic else apart + classes_of_a_topic
    shared = 0
    for output in range(start, stop):
        shared += steps[output]
        level = domain.level_table[shared, domain.subsumer_counts[output] + count - shared]
        row[output] = level if domain.topic_of[output] == topic else level + classes_of_a_topic
    for output in range(stop, len(row)):
        row[output] = apart if domain.topic_of[output] == topic else apart + classes_of_a_topic
    _mark(concept, domain, steps, -1)


@_kernel
def class_row(concept, domain, row):
    """The class of every output for one input."""
    _row(concept, domain, np.zeros(len(row) + 1, np.int32), row)


@_helper
def _pieces(concept, domain, ends, begins, shared):
    """The row of a concept as pieces with one number of shared subsumers each: where they begin, and that number.

    Returns how many there are; begins[that] is where the last one stops. Outputs of other parts share none.
    """
    found = 0
    for i in range(domain.above_offsets[concept], domain.above_offsets[concept + 1]):
        subsumer = domain.above[i]
        for run in range(domain.run_offsets[subsumer], domain.run_offsets[subsumer + 1]):
            ends[found], ends[found + 1] = 2 * domain.run_starts[run] + 1, 2 * domain.run_stops[run]
            found += 2
    ends[:found].sort()
    size = len(domain.part_of)
    pieces, begin, level = 0, 0, 0
    for i in range(found + 1):
        place = ends[i] >> 1 if i < found else size
        if place > begin:
            begins[pieces], shared[pieces] = begin, level
            pieces, begin = pieces + 1, place
        if i < found:
            level += 1 if ends[i] & 1 else -1
    begins[pieces] = size
    return pieces


@_helper
def _count_kinds(first, last, domain, counts):
    """Add to counts[k] how many of the outputs first … last−1 are of kind k: whole blocks of them at once."""
    from_block, to_block = (first + BLOCK - 1) // BLOCK, last // BLOCK
    if to_block - from_block < 2:
        from_block = to_block = (last + BLOCK) // BLOCK  # too few to be worth it
    for output in range(first, min(from_block * BLOCK, last)):
        counts[domain.kind_of[output]] += 1
    if from_block < to_block:
        for kind in range(len(counts)):
            counts[kind] += domain.tallies[to_block, kind] - domain.tallies[from_block, kind]
        for output in range(to_block * BLOCK, last):
            counts[domain.kind_of[output]] += 1


@_helper
def _count_cells(pieces, begins, shared, stop, domain, cells):
    """cells[s, k]: how many of the outputs 0 … stop−1 share s subsumers with the input and are of kind k."""
    cells[:] = 0
    for piece in range(pieces):
        if begins[piece] < stop:
            _count_kinds(begins[piece], min(begins[piece + 1], stop), domain, cells[shared[piece]])


@_helper
def _class_of(concept, shared, kind, domain):
    """The class of an input and any output of a kind that shares so many subsumers with it."""
    apart = domain.level_table[1, 1] + 1  # the level of similarity 1 is the last
    together = domain.kind_counts[kind] + domain.subsumer_counts[concept] - shared
    level = domain.level_table[shared, together] if shared > 0 else apart
    return level if domain.kind_topics[kind] == domain.topic_of[concept] else level + apart + 1


@_kernel
def count_classes(concepts, domain, counts):
    """counts[r, :]: how many outputs of each class the input concepts[r] has."""
    begins, shared = np.empty(domain.most_pieces + 1, np.int64), np.empty(domain.most_pieces, np.int64)
    ends = np.empty(domain.most_pieces, np.int64)
    cells = np.zeros((domain.subsumer_counts.max() + 1, len(domain.kind_counts)), np.int32)
    for place in range(len(concepts)):
        concept = concepts[place]
        mine = cells[: domain.subsumer_counts[concept] + 1]
        pieces = _pieces(concept, domain, ends, begins, shared)
        _count_cells(pieces, begins, shared, len(domain.part_of), domain, mine)
        for level in range(len(mine)):
            for kind in range(len(domain.kind_counts)):
                if mine[level, kind] > 0:
                    counts[place, _class_of(concept, level, kind, domain)] += mine[level, kind]


@_kernel
def total_weights(first, last, offsets, classes, counts, weights, part_of, totals):
    """Z of each input: the sum of weight × count over its classes; whole numbers, exact."""
    for concept in range(first, last):
        total = np.int64(0)
        for i in range(offsets[concept], offsets[concept + 1]):
            total += weights[part_of[concept], classes[i]] * np.int64(counts[i])
        totals[concept] = total


@_kernel
def extremes(first, last, group_offsets, group_members, domain, weights, totals, largest, smallest):
    """Per output the largest and the smallest P(output | input) over the groups first … last−1 of inputs.

    The inputs of a group have the same row but for their own places, where each sees itself once and the others alike:
    so one scan serves a whole group.
    """
    size = len(domain.part_of)
    steps = np.zeros(size + 1, np.int32)
    levels = domain.level_table[1, 1] + 1
    width = domain.subsumer_counts.max() + 1
    alike, unlike = np.zeros(width * width, np.float64), np.zeros(width * width, np.float64)
    counts, topics = domain.subsumer_counts, domain.topic_of
    for group in range(first, last):
        members = group_members[group_offsets[group] : group_offsets[group + 1]]
        concept = members[0]
        part, topic, count = domain.part_of[concept], topics[concept], counts[concept]
        start, stop = domain.part_starts[part], domain.part_starts[part + 1]
        total = np.float64(totals[concept])
        for shared in range(1, count + 1):
            for other in range(shared, width):
                level = domain.level_table[shared, other + count - shared]
                alike[shared * width + other] = weights[part, level] / total
                unlike[shared * width + other] = weights[part, level + levels + 1] / total
        _mark(concept, domain, steps, 1)
        base = 0
        for output in range(start, stop):
            base += steps[output] * width
            spot = base + counts[output]
            value = alike[spot] if topics[output] == topic else unlike[spot]
            largest[output] = max(largest[output], value)
            smallest[output] = min(smallest[output], value)
        _mark(concept, domain, steps, -1)
        for side in range(2):  # the other parts, before and behind
            for output in range(0 if side == 0 else stop, start if side == 0 else size):
                value = weights[part, levels if topics[output] == topic else 2 * levels + 1] / total
                largest[output] = max(largest[output], value)
                smallest[output] = min(smallest[output], value)
        if len(members) > 1:
            itself, sibling = alike[count * width + count], alike[(count - 1) * width + count]
            for output in members:
                largest[output] = max(largest[output], itself, sibling)
                smallest[output] = min(smallest[output], itself, sibling)


@_helper
def _raise_envelope(masses, gap, envelope):
    """δ(t_k) = Σ_{l>k} mass_l (1 − e^(t_k − t_l)) at every point of the grid; keeps the larger of it and `envelope`."""
    above, discounted = 0.0, 0.0
    shrink = np.exp(-gap)
    for k in range(len(masses) - 2, -1, -1):
        above += masses[k + 1]
        discounted = (discounted + masses[k + 1]) * shrink
        if above - discounted > envelope[k]:
            envelope[k] = above - discounted


@_helper
def _spot(loss, gap, lowest, points):
    """The place on the grid of a loss rounded up; dust of the logarithms is rounded up as well."""
    return min(max(np.int64(np.ceil(loss / gap + 1e-9)) - lowest, 0), points - 1)


@_kernel
def losses_against_least(first, last, concepts, domain, weights, totals, log_least, gap, envelope):
    """δ(t) ≤ Σ_o (P(o | i) − e^t · min_j P(o | j))_+ at t = k · gap, largest over inputs.

    The inputs are concepts[first] … concepts[last−1].
    """
    size = len(domain.part_of)
    steps, row = np.zeros(size + 1, np.int32), np.empty(size, np.int32)
    masses = np.empty(len(envelope), np.float64)
    log_weights = np.log(weights.astype(np.float64))
    for place in range(first, last):
        concept = concepts[place]
        _row(concept, domain, steps, row)
        part, log_total = domain.part_of[concept], np.log(np.float64(totals[concept]))
        masses[:] = 0.0
        for output in range(size):
            loss = log_weights[part, row[output]] - log_total - log_least[output]
            masses[_spot(loss, gap, 0, len(masses))] += weights[part, row[output]] / totals[concept]
        _raise_envelope(masses, gap, envelope)


@_kernel
def losses_of_all_pairs(first, last, probabilities, gap, lowest, envelope):
    """δ(t) of every ordered pair of inputs (the first one in first … last−1), largest over pairs; O(N³)."""
    size = len(probabilities)
    masses = np.empty(len(envelope), np.float64)
    logs = np.log(probabilities)
    for one in range(first, last):
        for other in range(size):
            masses[:] = 0.0
            for output in range(size):
                loss = logs[one, output] - logs[other, output]
                masses[_spot(loss, gap, lowest, len(masses))] += probabilities[one, output]
            _raise_envelope(masses, gap, envelope)


@_kernel
def draw_members(order, group_starts, inputs, numbers, domain, weights, outputs):
    """Turn whole numbers below Z into outputs: the class by its share of Z, the member by what is left.

    `order` lists the draws so that those with equal input are neighbours (groups between `group_starts`); numbers[d]
    is uniform below Z of inputs[d]. Each group costs one scan of the domain and each draw a search among its classes.
    """
    size = len(domain.part_of)
    class_count = weights.shape[1]
    steps, row = np.zeros(size + 1, np.int32), np.empty(size, np.int32)
    counts = np.zeros(class_count, np.int64)
    begins = np.zeros(class_count, np.int64)
    members = np.empty(size, np.int32)
    present = np.empty(class_count, np.int64)
    reached = np.empty(class_count, np.int64)  # Z up to and including each present class
    for group in range(len(group_starts) - 1):
        concept = inputs[order[group_starts[group]]]
        part = domain.part_of[concept]
        _row(concept, domain, steps, row)
        counts[:] = 0
        for output in range(size):
            counts[row[output]] += 1
        kinds = 0
        at, total = np.int64(0), np.int64(0)
        for k in range(class_count):
            begins[k] = at
            at += counts[k]
            if counts[k] > 0 and weights[part, k] > 0:
                total += weights[part, k] * counts[k]
                present[kinds] = k
                reached[kinds] = total
                kinds += 1
        for output in range(size):
            k = row[output]
            members[begins[k]] = output
            begins[k] += 1
        for place in range(group_starts[group], group_starts[group + 1]):
            draw = order[place]
            number = numbers[draw]
            low, high = 0, kinds - 1
            while low < high:
                middle = (low + high) // 2
                if number < reached[middle]:
                    high = middle
                else:
                    low = middle + 1
            k = present[low]
            left = reached[low] - 1 - number  # 0 … weight × count − 1, counted from the class's end
            outputs[draw] = members[begins[k] - 1 - left // weights[part, k]]
