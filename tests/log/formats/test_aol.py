"""AOL's own peculiarities, and its real sample where it is at hand."""

from __future__ import annotations

import datetime as dt
import gzip

import pytest

from queryveil.log import QueryLog, read, read_with_report, write
from queryveil.log.formats.aol import HEADER


def test_a_row_without_a_click_may_lack_the_last_two_columns_or_leave_them_empty(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text(
        f"{HEADER}\n1\ta\t2006-03-01 07:17:12\n2\tb\t2006-03-01 07:17:12\t\t\n3\tc\t2006-03-01 07:17:12\t2\tu\n"
    )
    noon = dt.datetime(2006, 3, 1, 7, 17, 12)
    assert read(path) == QueryLog.of([("1", "a", noon), ("2", "b", noon), ("3", "c", noon, 2, "u")])


def test_quotes_and_backslashes_are_plain_characters(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text(f'{HEADER}\n1\t"a\t2006-03-01 07:17:12\n2\t\\"b\\t"\t2006-03-01 07:17:12\n')
    assert read(path).queries() == ['"a', '\\"b\\t"']


def test_files_put_together_may_repeat_the_header_and_one_may_lack_it(tmp_path):
    path = tmp_path / "log.tsv"
    record = "1\ta\t2006-03-01 07:17:12\t\t\n"
    path.write_text(f"{record}{HEADER}\n{record}{HEADER}\n{record}")
    log, report = read_with_report(path)
    assert (len(log), report.lines, report.notes) == (3, 5, ())


def test_a_rank_may_come_without_a_url_and_a_url_without_a_rank(tmp_path):
    log = QueryLog.of([("1", "a", None, 4, None), ("2", "b", None, None, "u")])
    write(log, tmp_path / "log.tsv")
    assert read(tmp_path / "log.tsv") == log


@pytest.mark.data
def test_the_real_sample_reads_without_a_problem_and_writes_back_the_same_bytes(shared_data, tmp_path):
    sample = shared_data / "aol/aol-1017-users.tsv.gz"
    log, report = read_with_report(sample)
    assert (report.format, report.records, log.user_count(), report.problem_count) == ("aol", 92_856, 1_017, 0)
    write(log, tmp_path / "log.tsv")
    assert (tmp_path / "log.tsv").read_bytes() == gzip.decompress(sample.read_bytes())
