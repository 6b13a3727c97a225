"""What `import queryveil as qv` offers, and that it costs little."""

import subprocess
import sys

import pytest

import queryveil as qv
from queryveil.errors import ParameterError, UsageError


def test_every_public_name_is_there_and_listed():
    for name in qv.__all__:
        assert getattr(qv, name) is not None
        assert name in dir(qv)
    assert qv.__all__ == sorted(qv.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute"):
        _ = qv.nonsense


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, queryveil; heavy = {'numpy', 'numba', 'polars', 'scipy', 'altair', 'ortools'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_mechanism_is_made_by_name_with_checked_parameters():
    assert qv.mechanism("suppress", k_text=3).k_text == 3
    with pytest.raises(ParameterError, match="no parameter k_txt"):
        qv.mechanism("suppress", k_txt=3)
    with pytest.raises(UsageError, match="no mechanism of that name"):
        qv.mechanism("surpress")
