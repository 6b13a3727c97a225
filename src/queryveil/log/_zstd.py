"""Zstandard: Python's own module from 3.14 on, and the same module for older Pythons.

>>> decompress(compress(b"tea"))
b'tea'
"""

import sys

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter, ZstdDecompressor, ZstdError, ZstdFile, compress, decompress
else:
    from backports.zstd import CompressionParameter, ZstdDecompressor, ZstdError, ZstdFile, compress, decompress

__all__ = ["CompressionParameter", "ZstdDecompressor", "ZstdError", "ZstdFile", "compress", "decompress"]
