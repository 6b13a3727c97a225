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


def test_importing_takes_less_than_half_a_second_and_loads_nothing_heavy():
    code = (
        "import time, sys; start = time.process_time(); import queryveil; took = time.process_time() - start;"
        "heavy = {'numba', 'polars', 'scipy', 'altair', 'ortools'} & set(sys.modules); print(took < 0.5, sorted(heavy))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True []\n"


def test_a_mechanism_is_made_by_name_with_checked_parameters():
    assert qv.mechanism("suppress", k_text=3).k_text == 3
    with pytest.raises(ParameterError, match="no parameter k_txt"):
        qv.mechanism("suppress", k_txt=3)
    with pytest.raises(UsageError, match="no mechanism of that name"):
        qv.mechanism("surpress")
