"""Bare addresses of arrays for the kernels.

Numba counts references to an array at every call between compiled functions, which costs more than the work of these
kernels. A bare address has nothing to count. The caller keeps the arrays alive and large enough.
"""

from __future__ import annotations

from numba import types
from numba.extending import intrinsic


@intrinsic
def pointer(typing_context, array):
    """The address of an array's first element, to be read and written by index."""

    def build(context, builder, signature, arguments):
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(array.dtype)(array), build
