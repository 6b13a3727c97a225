"""Values that no numeric parameter may accept."""

import math

import pytest

NOT_A_NUMBER = [
    pytest.param(value, id=name)
    for name, value in {
        "nan": math.nan,
        "inf": math.inf,
        "-inf": -math.inf,
        "minus one": -1,
        "true": True,
        "text": "1",
        "none": None,
        "1e309": 1e309,
        "10^400": 10**400,
        "list": [],
        "dict": {},
        "bytes": b"1",
        "complex": complex(1, 0),
    }.items()
]
"""13 values; each parameter adds its own (0, a fraction for a whole number, one beyond its range)."""
