"""read(write(log)) == log for every log a format can carry; a refusal that shows no data for every other one."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hostile import any_text, any_time, logs, plain_text, second
from properties import examples
from queryveil.errors import FormatError
from queryveil.log import QueryLog, read, write
from queryveil.log.formats.format import AOL_NAMES

quick = settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
AWKWARD = re.compile("[\t\n\r\0]")


def round_trip(log: QueryLog, path: Path) -> QueryLog | FormatError:
    path.unlink(missing_ok=True)
    try:
        write(log, path)
    except FormatError as refusal:
        assert not path.exists()
        assert not list(path.parent.glob(".*.partial"))
        return refusal
    return read(path, extras=log.extra_columns)


def carried_by_lines(log: QueryLog, *, url: bool, session: bool = False) -> bool:
    """Written apart from the package: what tab separated lines without escapes can hold."""
    rows = log.frame.rows(named=True)
    texts = [row[name] for row in rows for name in ("user", "query", "url", "session") if row[name] is not None]
    fits = session or all(row["session"] is None for row in rows)
    fits &= url or all(row["url"] is None and row["rank"] is None for row in rows)
    return (
        fits
        and not any(AWKWARD.search(text) for text in texts)
        and all(row["time"] is None or row["time"].microsecond == 0 for row in rows)
    )


@quick
@given(log=logs() | logs(text=plain_text, time=st.none() | second, columns=("time", "rank", "url")))
def test_aol_carries_everything_but_sessions_fractions_and_line_breaking_characters(log, tmp_path):
    result = round_trip(log, tmp_path / "log.tsv")
    assert result == log if carried_by_lines(log, url=True) else isinstance(result, FormatError)


@quick
@given(log=logs() | logs(text=plain_text, time=st.none() | second, columns=("time",)))
def test_excite_carries_users_queries_and_seconds_between_1970_and_2069(log, tmp_path):
    in_years = all(time is None or 1970 <= time.year <= 2069 for time in log.frame["time"])
    result = round_trip(log, tmp_path / "log.excite.log")
    assert result == log if carried_by_lines(log, url=False) and in_years else isinstance(result, FormatError)


@quick
@given(log=logs(extras=True))
def test_csv_carries_all_text_but_nul_and_line_ends_where_a_record_is_a_line(log, tmp_path):
    texts = [text for name in log.frame.columns if log.frame[name].dtype == pl.String for text in log.frame[name]]
    for file, awkward in (("log.csv", "\0\n"), ("log.multiline.csv", "\0")):
        fits = not any(set(awkward) & set(text or "") for text in [*texts, *log.frame.columns])
        result = round_trip(log, tmp_path / file)
        assert result == log if fits else isinstance(result, FormatError)


@quick
@given(log=logs(extras=True))
@example(log=QueryLog(pl.DataFrame({"user": ["ann"], "query": ["tulips"], "AnonID": ["7"]})))
def test_jsonl_carries_all_text_and_extra_columns_of_plain_names(log, tmp_path):
    result = round_trip(log, tmp_path / "log.jsonl")
    awkward = any(re.search(r'["\\\x00-\x1f]', name) or name in AOL_NAMES.values() for name in log.extra_columns)
    assert isinstance(result, FormatError) if awkward else result == log


@quick
@given(log=logs(extras=True))
def test_parquet_carries_all_text(log, tmp_path):
    assert round_trip(log, tmp_path / "log.parquet") == log


@quick
@given(log=logs() | logs(time=any_time))
def test_ubi_carries_all_text_where_clicks_and_sessions_have_a_time(log, tmp_path):
    timed = all(
        row["time"] is not None or (row["rank"] is None and row["url"] is None and row["session"] is None)
        for row in log.frame.rows(named=True)
    )
    result = round_trip(log, tmp_path / "log.ubi.jsonl")
    assert result == log if timed else isinstance(result, FormatError)


address = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1, max_size=8)
visitor = address | st.builds(lambda address, more: f"{address} {more}", address, any_text)


@quick
@given(log=logs() | logs(user=visitor, time=second, columns=("time",)))
def test_access_logs_carry_any_query_of_an_address(log, tmp_path):
    fits = log.used_columns == ["user", "query", "time"] and all(
        re.fullmatch(r"[^\x00-\x20\x7f]+", user) and time is not None and time.microsecond == 0
        for user, time in log.frame.select("user", "time").iter_rows()
    )
    result = round_trip(log, tmp_path / "log.access.log")
    assert result == log if fits else isinstance(result, FormatError)


def is_between(log, first, last):
    return all(time is None or first <= time.year <= last for time in log.frame["time"])


@quick
@given(log=logs() | logs(columns=("time",)))
def test_slow_logs_carry_any_query_of_an_id(log, tmp_path):
    users, times = log.frame["user"], log.frame["time"]
    fits = set(log.used_columns) <= {"user", "query", "time"} and "null" not in users and is_between(log, 2, 9998)
    result = round_trip(log, tmp_path / "log_index_search_slowlog.json")
    assert result == log if fits else isinstance(result, FormatError)
    fits &= not any(re.search(r"[][\n\r\0]", user) for user in users) and not times.null_count()
    result = round_trip(log, tmp_path / "log_index_search_slowlog.log")
    assert result == log if fits else isinstance(result, FormatError)


@quick
@given(log=logs() | logs(columns=("time",), time=any_time))
def test_solr_carries_any_query_of_any_user_at_a_time(log, tmp_path):
    fits = (
        log.used_columns == ["user", "query", "time"]
        and not log.frame["time"].null_count()
        and is_between(log, 2, 9998)
    )
    result = round_trip(log, tmp_path / "log.solr.log")
    assert result == log if fits else isinstance(result, FormatError)


@quick
@given(log=logs() | logs(columns=("time", "session"), time=st.none() | second))
def test_matomo_carries_any_search_of_a_visit_to_the_second(log, tmp_path):
    seconds = all(time is None or time.microsecond == 0 for time in log.frame["time"])
    fits = not {"rank", "url"} & set(log.used_columns) and seconds and is_between(log, 1, 9998)
    result = round_trip(log, tmp_path / "log.matomo.json")
    assert result == log if fits else isinstance(result, FormatError)


@quick
@given(
    log=logs()
    | logs(text=plain_text, columns=("url",))
    | logs(text=plain_text, time=second, columns=("time", "rank", "url"))
)
def test_orcas_and_sogou_carry_text_without_line_breaking_characters(log, tmp_path):
    fits = carried_by_lines(log, url=True)
    result = round_trip(log, tmp_path / "log.sogou.tsv")
    assert result == log if fits else isinstance(result, FormatError)
    fits &= not {"time", "rank"} & set(log.used_columns)
    result = round_trip(log, tmp_path / "log.orcas.tsv")
    assert result == log if fits else isinstance(result, FormatError)


@quick
@given(log=logs() | logs(columns=("time", "rank", "url")))
def test_sessions_of_trec_carry_all_characters_of_xml(log, tmp_path):
    texts = [text for name in ("user", "query", "url") for text in log.frame[name] if text]
    fits = "session" not in log.used_columns and not any(
        re.search("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", text) for text in texts
    )
    result = round_trip(log, tmp_path / "log.trec.xml")
    assert result == log if fits else isinstance(result, FormatError)
