"""Reading is part of the promise: whatever one user's records look like, everybody else's are read the same."""

from __future__ import annotations

import dataclasses
import json
import sys
from dataclasses import dataclass
from typing import ClassVar

import polars as pl
import pytest

from properties import SOAK
from queryveil import mechanisms
from queryveil.audit.auditing import read_release
from queryveil.cli import main as command_line
from queryveil.log import QueryLog, source
from queryveil.log.formats import FORMATS, json_lines, ubi
from queryveil.log.formats.column_names import match_names
from queryveil.log.reading import format_by_structure
from queryveil.mechanisms.sanitize import Sanitize
from queryveil.privacy import Charge, Guarantee, NoGuarantee, Noise
from queryveil.release.mechanism import Mode
from queryveil.release.pipeline import Source, Target, release
from queryveil.release.release import Release
from queryveil.testing.formats import check_format
from read_only_formats import WRITERS

USERS_BY_LIBRARY, USERS_BY_COMMAND_LINE = (200, 200) if SOAK else (8, 2)
"""How many hostile users each format meets; `make soak` tries 200 on both roads."""


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """Publishes every record as it was read, which is what this test wants to see."""

    name: ClassVar[str] = "mirror"
    mode: Mode = "paper"
    reads_columns: ClassVar[tuple[str, ...]] = ("shown",)

    def guarantee(self) -> Guarantee:
        return NoGuarantee(reason="it publishes everything", not_protected=("anything",))

    def charge(self) -> Charge:
        return Charge.nothing()

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return Release.of(self, log, noise=noise, columns=dict.fromkeys(log.frame.columns, "as it was"))


@pytest.mark.parametrize("name", FORMATS)
def test_a_hostile_user_changes_nothing_for_others_through_the_library(name):
    check_format(FORMATS[name], users=USERS_BY_LIBRARY, writer=WRITERS.get(name))


@pytest.mark.parametrize("name", ["jsonl", "ubi", "access"])
def test_a_hostile_user_changes_nothing_for_others_where_lines_are_read_by_kernels(name, monkeypatch):
    """As the lines of long files are."""
    monkeypatch.setattr(source, "COMPILED_FROM", 0)
    check_format(FORMATS[name], users=USERS_BY_LIBRARY)


@pytest.mark.parametrize("name", FORMATS)
def test_a_hostile_user_changes_nothing_for_others_through_the_command_line(name, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(mechanisms.BUILT_IN, "mirror", f"{__name__}:Mirror")
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    count = iter(range(10**6))

    def by_command_line(path, format_):
        folder = tmp_path / f"release-{next(count)}"
        options = ["--input-format", format_.name, "--format", "parquet", "--seed", "1", "--on-error", "skip"]
        monkeypatch.setattr(sys, "argv", ["queryveil", "release", "mirror", str(path), "-o", str(folder), *options])
        with pytest.raises(SystemExit) as stop:
            command_line.main()
        assert not stop.value.code, capsys.readouterr().err
        capsys.readouterr()
        return read_release(folder)[0].frame.sort(pl.all())  # a release without times is shuffled

    check_format(FORMATS[name], users=USERS_BY_COMMAND_LINE, seed=2, road=by_command_line, writer=WRITERS.get(name))


# Readers with one planted dependence on other rows


def names_of_all_rows(source, found, declared):
    """JSON Lines by the union of all rows' keys, as it once was."""
    rows = [json.loads(line) for block in source.blocks() for line in block.data.split(b"\n") if _is_object(line)]
    names = match_names(list(dict.fromkeys(key for row in rows for key in row)), declared.columns, found)
    theirs = {ours: key for key, ours in names.inside.items()}
    made = [[str(row.get(theirs.get(name))) for name in ("user", "query", "url")] for row in rows]
    return pl.DataFrame(made, schema=["user", "query", "url"], orient="row")


def _is_object(line):
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def clicks_of_anybody(source, found, declared):
    """UBI whose clicks count for whoever asked the query they name, as it once was."""
    rows = [json.loads(line) for block in source.blocks() for line in block.data.split(b"\n") if _is_object(line)]
    asked = {row.get("query_id"): row["client_id"] for row in rows if type(row.get("client_id")) is str}
    clicks = [asked.get(str(row.get("query_id"))) for row in rows if row.get("action_name") == "click"]
    users = [user for user in [*asked.values(), *clicks] if user]
    return pl.DataFrame({"user": users, "query": ["x"] * len(users)})


def aol_that_ends_at_a_bad_line(source, found, declared):
    """A reader that gives up where it meets the first line it cannot read."""
    frame = FORMATS["aol"].read(source, found, declared)
    bad = [problem.line for problem in found.problems]
    return frame.head(min(bad) - 2) if bad else frame


@pytest.mark.parametrize(
    ("name", "planted"),
    [("jsonl", names_of_all_rows), ("ubi", clicks_of_anybody), ("aol", aol_that_ends_at_a_bad_line)],
)
def test_a_reader_with_a_planted_dependence_on_other_rows_is_caught(name, planted):
    twin = dataclasses.replace(FORMATS[name], read=planted)

    def road(path, format_):
        return planted_frame(path, twin)

    with pytest.raises(AssertionError, match="read differently"):
        check_format(twin, users=USERS_BY_LIBRARY, road=road)


def planted_frame(path, twin):
    from queryveil.log.formats import Declared
    from queryveil.log.formats.format import Findings
    from queryveil.log.source import LogFile as File

    return twin.read(File(path), Findings(1000), Declared())


# The cases that were found, through a whole release


def released(tmp_path, name, lines, **options):
    """The (query, url) pairs of a safe release of these lines."""
    path = tmp_path / name
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    folder = tmp_path / f"release-{len(list(tmp_path.iterdir()))}"
    made = release(
        Sanitize(epsilon=2.0, delta=1e-7),
        Source(path=path, on_error="skip", **options),
        Target(folder=folder, format="csv"),
        Noise.seeded(3),
    )
    return set(made.release.log.frame.select("query", "url").rows())


def searches(number, **more):
    return {"query_id": f"q{number}", "client_id": f"user {number}", "user_query": "weather", **more}


def click(number, client, url):
    return {
        "action_name": "click",
        "query_id": f"q{number}",
        "client_id": client,
        "timestamp": "2026-03-01T09:00:00Z",
        "event_attributes": {"object": {"object_id": url}},
    }


HONEST_UBI = [row for n in range(400) for row in (searches(n), click(n, f"user {n}", "weather.example"))]


def test_clicks_on_other_peoples_queries_publish_nothing(tmp_path):
    foreign = [click(n, "mallory", "evil.example") for n in range(400)]
    assert released(tmp_path, "a.ubi.jsonl", HONEST_UBI + foreign) == released(tmp_path, "b.ubi.jsonl", HONEST_UBI)


def test_one_users_key_of_another_name_leaves_everybody_elses_clicks(tmp_path):
    honest = [{"AnonID": f"u{n}", "Query": "weather", "ClickURL": "weather.example"} for n in range(400)]
    odd = [{"user": "mallory", "query": "x", "url": None}]
    assert released(tmp_path, "a.jsonl", honest + odd) == {("weather", "weather.example")}


def test_one_users_client_id_leaves_everybody_elses_user_id(tmp_path):
    honest = [{**row, "user_id": row["client_id"], "client_id": None} for row in HONEST_UBI]
    odd = [searches("mal", client_id="mallory", user_id="mallory")]
    assert released(tmp_path, "a.ubi.jsonl", odd + honest, user_field="user_id") == {("weather", "weather.example")}


def test_one_users_repeated_ids_leave_everybody_elses_queries(tmp_path):
    repeated = [searches(n, client_id="mallory") for n in range(400)]
    assert released(tmp_path, "a.ubi.jsonl", repeated + HONEST_UBI) == {("weather", "weather.example")}


def test_a_first_record_that_looks_like_another_format_decides_nothing(tmp_path):
    honest = [{"user": f"u{n}", "query": "weather", "url": "weather.example"} for n in range(400)]
    odd = [{"user_query": "x", "action_name": "click", "client_id": "mallory"}]
    assert released(tmp_path, "a.jsonl", odd + honest) == {("weather", "weather.example")}
    assert ubi.sniff(json.dumps(odd[0]).encode(), tmp_path)
    assert json_lines.sniff(json.dumps(honest[0]).encode(), tmp_path)


@pytest.mark.parametrize("first", ["user\tquery\t2006-03-01 00:00:00\t1\tu", "AnonID\tQuery\t2006-03-01 00:00:00"])
def test_a_record_that_holds_names_of_columns_is_no_header(tmp_path, first):
    (tmp_path / "log.tsv").write_text(f"{first}\nann\ttulips\t2006-03-01 00:00:00\n")
    assert format_by_structure(tmp_path / "log.tsv") is None
    (tmp_path / "log.txt").write_text(f"PAR1{first}\n")
    assert format_by_structure(tmp_path / "log.txt") is None
