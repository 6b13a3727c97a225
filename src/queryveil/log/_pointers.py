"""Bare addresses of arrays for the kernels.

Numba counts references to an array at every call between compiled functions, which costs more than the work of these
kernels. A bare address has nothing to count. The caller keeps the arrays alive and large enough.
"""

from __future__ import annotations

from llvmlite import ir  # comes with Numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def pointer(typing_context, array):
    """The address of an array's first element, to be read and written by index."""

    def build(context, builder, signature, arguments):
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), build


@intrinsic
def word_at(typing_context, address, offset):
    """The eight bytes at an offset from the address of bytes, as one word in the machine's own order."""

    def build(context, builder, signature, arguments):
        place = builder.gep(arguments[0], [arguments[1]])
        word = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return types.uint64(address, types.int64), build


@intrinsic
def prefetch(typing_context, address, offset):
    """Ask for the memory at an offset from an address, to be there when it is read a little later. Changes nothing."""

    def build(context, builder, signature, arguments):
        at, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        wanted = ir.FunctionType(ir.VoidType(), [at, number, number, number])
        place = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), at)
        to_read, to_keep, data = number(0), number(3), number(1)
        function = cgutils.get_or_insert_function(builder.module, wanted, "llvm.prefetch.p0i8")
        builder.call(function, [place, to_read, to_keep, data])
        return context.get_dummy_value()

    return types.none(address, types.int64), build


@intrinsic
def set_word(typing_context, address, offset, word):
    """Write eight bytes at an offset from the address of bytes, the word's lowest byte first."""

    def build(context, builder, signature, arguments):
        place = builder.gep(arguments[0], [arguments[1]])
        written = builder.store(arguments[2], builder.bitcast(place, ir.IntType(64).as_pointer()))
        written.align = 1
        return context.get_dummy_value()

    return types.none(address, types.int64, types.uint64), build


@intrinsic
def copy_bytes(typing_context, target, to, source, start, count):
    """Copy so many bytes from an offset of one address to an offset of another; they do not overlap."""

    def build(context, builder, signature, arguments):
        size, bit = ir.IntType(64), ir.IntType(1)
        places = [builder.gep(arguments[0], [arguments[1]]), builder.gep(arguments[2], [arguments[3]])]
        wanted = ir.FunctionType(ir.VoidType(), [places[0].type, places[1].type, size, bit])
        function = cgutils.get_or_insert_function(builder.module, wanted, "llvm.memcpy.p0i8.p0i8.i64")
        builder.call(function, [*places, arguments[4], bit(0)])
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64, types.int64), build


@intrinsic
def first_one(typing_context, word):
    """The place of the lowest bit that is set, of a word that has one."""

    def build(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), build


@intrinsic
def reversed_bytes(typing_context, word):
    """The bytes of a word in the other order."""

    def build(context, builder, signature, arguments):
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), build
