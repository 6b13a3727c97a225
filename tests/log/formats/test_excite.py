"""Excite's log: centuries, and the real sample where it is at hand."""

from __future__ import annotations

import datetime as dt

import pytest

from queryveil.errors import FormatError
from queryveil.log import QueryLog, read, read_with_report


def test_two_digits_of_a_year_turn_the_century_at_70(tmp_path):
    path = tmp_path / "log.excite.log"
    path.write_text("A\t700101000000\ta\nB\t691231235959\tb\nC\t\tc\n")
    times = [dt.datetime(1970, 1, 1), dt.datetime(2069, 12, 31, 23, 59, 59), None]
    assert read(path) == QueryLog.of(zip("ABC", "abc", times, strict=True))


@pytest.mark.data
def test_the_real_sample_has_533_empty_queries_and_all_are_reported(shared_data):
    sample = shared_data / "excite/excite-1997.log"
    with pytest.raises(FormatError, match="533 of 4,501 lines cannot be read as excite"):
        read(sample, on_error="fail")
    log, report = read_with_report(sample)
    assert (report.problem_count, report.records, len(log)) == (533, 3_968, 3_968)
    assert {problem.reason for problem in report.problems} == {"the query is empty"}
