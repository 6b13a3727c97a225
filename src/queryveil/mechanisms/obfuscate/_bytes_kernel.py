"""Products of bytes, four at a time, and what they leave of a vocabulary (Numba; see `byte_codes`).

The x86 instruction VPDPBUSD adds to 16 sums the products of four bytes without a sign with four that have one, exactly.
`_multiply` holds the sums of 6 points with 64 words in registers while it goes through the dimensions: it is written as
instructions of LLVM, since no compiler finds them in a loop. Where the processor lacks the instruction (`available`),
nothing here may be called but `available`.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

from queryveil.mechanisms.obfuscate._nearest_kernel import OVERFULL, without_the_beaten

LANES = 16
BLOCKS = 4
TILE = LANES * BLOCKS
"""Words whose sums are held in registers, for `POINTS` points at one time."""
POINTS = 6
GROUP = 4
"""Dimensions that one instruction takes."""
ZERO = 128
"""The code of 0 among words: their bytes have no sign."""
LARGEST_CODE = 127
SMALLEST_SCALE = np.float32(1e-30)


def available() -> bool:
    """Whether compiled code may use the instruction: the processor has it, and nobody asked for another processor."""
    asked = config.CPU_NAME, config.CPU_FEATURES
    return not config.DISABLE_JIT and asked == (None, None) and "+avx512vnni" in get_host_cpu_features().split(",")


@intrinsic
def _multiply(_typing, codes, points, starts, groups, sums):
    """sums[point, word] = starts[point] + Σ codes·points over groups of dimensions; all but `groups` are addresses."""

    def generate(context, builder, _signature, given):
        codes_at, points_at, starts_at, groups, sums_at = given
        word, long = ir.IntType(32), ir.IntType(64)
        vector = ir.VectorType(word, LANES)
        product = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), "llvm.x86.avx512.vpdpbusd.512"
        )

        def place(kind, start, offset):
            return builder.inttoptr(builder.add(start, offset), ir.PointerType(kind))

        def load(kind, start, offset):
            loaded = builder.load(place(kind, start, offset))
            loaded.align = 1
            return loaded

        def to_all_lanes(number):
            none = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(none, number, ir.Constant(word, 0))
            return builder.shuffle_vector(first, none, ir.Constant(vector, [0] * LANES))

        began = builder.block
        initial = [to_all_lanes(load(word, starts_at, long(4 * point))) for point in range(POINTS)]
        loop, done = builder.append_basic_block("dimensions"), builder.append_basic_block("summed")
        builder.branch(loop)
        builder.position_at_end(loop)
        group = builder.phi(long)
        group.add_incoming(long(0), began)
        held = [builder.phi(vector) for _ in range(POINTS * BLOCKS)]
        for number, sum_ in enumerate(held):
            sum_.add_incoming(initial[number // BLOCKS], began)
        at_words = builder.mul(group, long(GROUP * TILE))
        words = [load(vector, codes_at, builder.add(at_words, long(GROUP * LANES * b))) for b in range(BLOCKS)]
        at_points = builder.mul(group, long(GROUP * POINTS))
        added = []
        for point in range(POINTS):
            four = to_all_lanes(load(word, points_at, builder.add(at_points, long(GROUP * point))))
            added += [builder.call(product, [held[point * BLOCKS + b], words[b], four]) for b in range(BLOCKS)]
        following = builder.add(group, long(1))
        group.add_incoming(following, loop)
        for sum_, value in zip(held, added, strict=True):
            sum_.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, groups), loop, done)
        builder.position_at_end(done)
        for number, value in enumerate(added):
            builder.store(value, place(vector, sums_at, long(4 * LANES * number))).align = 1
        return context.get_dummy_value()

    return types.void(codes, points, starts, groups, sums), generate


@njit(cache=True, nogil=True)
def encode(matrix, codes, scales, half_norms, residuals, lengths):
    """Write words as bytes: codes[tile, group, word of the tile, dimension of the group] is ZERO + x / scale, rounded.

    `residuals` become ‖x − scale · code‖ and `lengths` ‖x‖.
    """
    dimension = matrix.shape[1]
    for word in range(len(matrix)):
        row = matrix[word]
        largest = np.float32(0)
        squared = 0.0
        for i in range(dimension):
            largest = max(largest, abs(row[i]))
            squared += np.float64(row[i]) * np.float64(row[i])
        scale = largest / np.float32(LARGEST_CODE)
        if scale < SMALLEST_SCALE:
            scale = np.float32(0)  # all its codes are those of 0
        lost = 0.0
        tile, column = word // TILE, word % TILE
        for i in range(dimension):
            code = np.float32(0)
            if scale > 0:
                code = min(max(np.rint(row[i] / scale), np.float32(-LARGEST_CODE)), np.float32(LARGEST_CODE))
            left = np.float64(row[i]) - np.float64(scale) * np.float64(code)
            lost += left * left
            codes[tile, i // GROUP, column, i % GROUP] = ZERO + np.int64(code)
        scales[word], half_norms[word] = scale, np.float32(squared / 2)
        residuals[word], lengths[word] = np.sqrt(lost), np.sqrt(squared)


@njit(cache=True, nogil=True)
def _any_reaches(sums, scales, half_norms, unit, floor):
    reached = False
    for j in range(TILE):  # a known length compiles to vector instructions without a loop
        reached |= np.float32(sums[j]) * (scales[j] * unit) - half_norms[j] >= floor
    return reached


@njit(cache=True, nogil=True)
def scan(
    codes, scales, half_norms, residuals, lengths, coarse, words, points, starts, units, errors, best, found, upper,
    counts,
):  # fmt: skip
    """Keep what may be among the two nearest of each point; `counts` becomes OVERFULL where too many are alike.

    A score is off by at most errors[q] · (residual, length, 1) of its word; `coarse` holds the largest of each tile.
    `best` are the two best scores less their errors, `upper` the scores of those kept plus theirs.
    """
    sums = np.empty((POINTS, TILE), np.int32)
    capacity = found.shape[1]
    for tile in range(len(codes)):
        start, stop = tile * TILE, min((tile + 1) * TILE, words)
        scale, half_norm = scales[start : start + TILE], half_norms[start : start + TILE]
        for block in range(len(points)):
            if block * POINTS >= len(counts):
                break
            _multiply(
                codes[tile].ctypes.data, points[block].ctypes.data, starts[block].ctypes.data, codes.shape[1],
                sums.ctypes.data,
            )  # fmt: skip
            for place in range(min(POINTS, len(counts) - block * POINTS)):
                q = block * POINTS + place
                if counts[q] == OVERFULL:
                    continue
                error = errors[q, 0] * coarse[tile, 0] + errors[q, 1] * coarse[tile, 1] + errors[q, 2]
                if not _any_reaches(sums[place], scale, half_norm, units[q], best[q, 1] - error):
                    continue
                for word in range(start, stop):
                    j = word - start
                    score = np.float32(sums[place, j]) * (scale[j] * units[q]) - half_norm[j]
                    error = errors[q, 0] * residuals[word] + errors[q, 1] * lengths[word] + errors[q, 2]
                    if score + error < best[q, 1]:
                        continue
                    if score - error > best[q, 0]:
                        best[q, 1] = best[q, 0]
                        best[q, 0] = score - error
                    elif score - error > best[q, 1]:
                        best[q, 1] = score - error
                    if counts[q] == capacity:
                        counts[q] = without_the_beaten(found[q], upper[q], capacity, best[q, 1])
                    if counts[q] == capacity:
                        counts[q] = OVERFULL
                        break
                    found[q, counts[q]] = word
                    upper[q, counts[q]] = score + error
                    counts[q] += 1
