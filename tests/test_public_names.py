"""What `import queryveil as qv` offers, and that it costs little."""

import subprocess
import sys

import pytest

import queryveil as qv
from queryveil.errors import ParameterError, UsageError
from queryveil.experiments.sweep import Sweep


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
        "import sys, queryveil; heavy = {'numpy', 'numba', 'polars', 'scipy', 'altair', 'highspy'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_a_mechanism_is_made_by_name_with_checked_parameters():
    assert qv.mechanism("suppress", k_text=3).k_text == 3
    with pytest.raises(ParameterError, match="no parameter k_txt"):
        qv.mechanism("suppress", k_txt=3)
    with pytest.raises(UsageError, match="no mechanism of that name"):
        qv.mechanism("surpress")


def test_the_everyday_names_work_together_and_show_no_row_in_a_notebook():
    log = qv.synth(users=40, records=900, seed=1)
    release = qv.mechanism("suppress", k_text=3).protect(log, qv.Noise.seeded(1))
    found = qv.audit(log, release)
    assert found.risks()
    compared = qv.compare(log, sweep=Sweep.of({"mechanism": [{"name": "suppress", "k_text": [2, 5]}]}))
    assert qv.advise(compared, task="query frequency", max_risk=1.0).chosen
    for shown in (log, release, found, compared):
        page = shown._repr_html_()
        assert page.startswith("<table>")
        assert not any(text in page for text in [*log.users()[:20], *(text for text in log.queries() if " " in text)])
