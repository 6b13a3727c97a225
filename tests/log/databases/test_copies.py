"""A release's log in a database: whole or not there at all, and no other than the manifest says."""

import hashlib
import itertools
import json
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import queryveil as qv
from queryveil.cli import main as command_line
from queryveil.errors import FormatError, QueryVeilError, RefusedError, UsageError, VerificationError
from queryveil.log import QueryLog, read
from queryveil.log.databases import database
from queryveil.release import manifest
from queryveil.release.copies import copy, read_release, rows_digest, verify_copy
from queryveil.release.pipeline import Source, Target, release

KILLED_COPY = Path(__file__).with_name("killed_copy.py")
POINTS = {
    "duckdb": ["half", "commit"],
    "postgres": ["half", "commit"],
    "opensearch": ["_bulk#2", "_aliases#1"],  # one index is full and the other empty; all is done but the last step
}
"""Where a copy is killed."""


def released(folder, records=8000):
    log = qv.synth(users=300, records=records, seed=5)
    made = qv.mechanism("suppress", k_text=2, time="hour").protect(log, qv.Noise.secure())
    return made.write(folder, format="jsonl")


def there(address):
    """Whether anything at all is seen under the address."""
    try:
        read(address)
    except QueryVeilError as missing:
        assert "no such" in str(missing) or "no index" in str(missing), missing
        return False
    return True


def of_kind(address):
    return address.partition(":")[0]


def test_the_digest_of_rows_is_what_its_definition_says():
    log = QueryLog.of(
        [("ann", 'a "b"\\\t\x01é\u2028😀'), ("bob", "q", qv.synth(users=1, records=1).frame["time"][0], 3, "u", "s")]
    )
    log = QueryLog(log.frame.with_columns(shop=qv.QueryLog.of([("x", "y"), ("z", "w")]).frame["user"]))
    names = ["user", "query", "time", "rank", "url", "session", "shop"]
    lines = []
    for row in log.frame.rows(named=True):
        moment = None if row["time"] is None else row["time"].strftime("%Y-%m-%dT%H:%M:%S.%f")
        values = [
            {"time": moment, "rank": None if row["rank"] is None else str(row["rank"])}.get(n, row[n]) for n in names
        ]
        lines.append(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode())
    names_line = json.dumps(names, separators=(",", ":")).encode()
    digests = [hashlib.sha256(names_line).digest(), *sorted(hashlib.sha256(line).digest() for line in lines)]
    assert rows_digest(log) == hashlib.sha256(b"".join(digests)).hexdigest()


def test_a_copy_holds_the_rows_of_its_release_and_verification_sees_every_change(place, tmp_path):
    folder = released(tmp_path / "release")
    copy(folder, place)
    verify_copy(folder, place)
    log, _ = read_release(folder)
    assert len(read(place)) == len(log) > 50
    with pytest.raises(UsageError, match="there already"):
        copy(folder, place)
    other = released(tmp_path / "other", records=7000)
    with pytest.raises(VerificationError, match="does not hold the rows"):
        verify_copy(other, place)
    # One row twice is a change too, in a copy made apart from the package's own check.
    twice = place.replace("=", "=twice_")
    database(twice).write(QueryLog(log.frame.vstack(log.frame.head(1))))
    with pytest.raises(VerificationError, match="does not hold the rows"):
        verify_copy(folder, twice)


def test_asking_whether_a_copy_fits_makes_no_file_and_a_link_is_not_followed(tmp_path):
    for name in ("new.db", "link.db", "linked.db"):
        place = database(f"duckdb:{tmp_path / name}?table=t")
        if name == "new.db":
            place.check_free()
            assert not (tmp_path / name).exists()
            continue
        target = tmp_path / f"behind-{name}"
        if name == "linked.db":
            database(f"duckdb:{target}?table=other").write(QueryLog.of([("ann", "tulips")]))
        (tmp_path / name).symlink_to(target)
        before = target.exists()
        for step in (place.check_free, lambda place=place: place.write(QueryLog.of([("ann", "tulips")]))):
            with pytest.raises(UsageError, match="symbolic link"):
                step()
        assert target.exists() == before
    with pytest.raises(UsageError, match="no such file"):
        database(f"duckdb:{tmp_path / 'none' / 'new.db'}?table=t").check_free()


def test_a_refused_release_is_not_copied(tmp_path):
    folder, place = released(tmp_path / "release"), f"duckdb:{tmp_path / 'out.db'}?table=t"
    fields = dict.fromkeys(manifest.DECISION_FIELDS, "x") | {"decision": "refuse"}
    manifest.add_decision(folder, fields)
    with pytest.raises(RefusedError, match="has refused it"):
        copy(folder, place)
    assert not (tmp_path / "out.db").exists()
    with pytest.raises(UsageError, match="goes to a database"):
        copy(folder, str(tmp_path / "out.csv"))


def test_a_release_from_a_database_into_a_database(place, tmp_path):
    """The road of the command line: in from one place, out to a folder and to another."""
    kind = of_kind(place)
    source = place.replace("=", "=raw_")
    database(source).write(qv.synth(users=40, records=600, seed=8))
    mechanism = qv.mechanism("suppress", k_text=2, time="hour")
    steps = []
    outcome = release(
        mechanism, Source.of(source), Target(folder=tmp_path / "release", copy=place), qv.Noise.secure(), steps.append
    )
    assert outcome.report.format == kind
    assert steps[-2:] == ["in place", "copied"]
    said = json.loads((tmp_path / "release" / "manifest.json").read_text())
    assert said["output"]["rows_sha256"] == rows_digest(read(place)) == rows_digest(outcome.release.log)
    assert said["output"]["format"] == ("ubi" if kind == "opensearch" else "parquet")
    text = json.dumps(said)
    assert "127.0.0.1" not in text
    assert str(tmp_path) not in text
    verify_copy(tmp_path / "release", place)
    # What is taken already is told before anything is read or spent.
    with pytest.raises(UsageError, match="there already"):
        release(mechanism, Source.of(source), Target(folder=tmp_path / "second", copy=place), qv.Noise.secure())
    assert not (tmp_path / "second").exists()


def test_times_that_a_copy_needs_are_asked_for_before_anything_is_read(tmp_path):
    target = Target(folder=tmp_path / "release", format="csv", copy="opensearch:http://127.0.0.1:1?queries=a&events=b")
    with pytest.raises(UsageError, match="ubi needs times"):
        release(qv.mechanism("suppress", time="drop"), Source(path=tmp_path / "none"), target, qv.Noise.secure())


def test_a_copy_that_fails_leaves_the_release_whole_and_says_so(tmp_path, monkeypatch):
    qv.write(qv.synth(users=40, records=400, seed=5), tmp_path / "log.csv")
    place = f"duckdb:{tmp_path / 'out.db'}?table=t"
    target = Target(folder=tmp_path / "release", copy=place)

    def fails(self, log):
        raise FormatError("the database went away.")

    monkeypatch.setattr("queryveil.log.databases.duckdb.DuckDB.write", fails)
    with pytest.raises(FormatError, match=r"went away\. Nothing of it was copied\. The release itself is whole"):
        release(qv.mechanism("suppress"), Source(path=tmp_path / "log.csv"), target, qv.Noise.secure())
    monkeypatch.undo()
    copy(tmp_path / "release", place)
    verify_copy(tmp_path / "release", place)


def test_the_command_line_reads_copies_and_verifies(tmp_path, monkeypatch, capsys):
    source, place = f"duckdb:{tmp_path / 'in.db'}?table=queries", f"duckdb:{tmp_path / 'out.db'}?table=released"
    database(source).write(qv.synth(users=40, records=600, seed=8))
    folder = str(tmp_path / "release")
    second = f"duckdb:{tmp_path / 'second.db'}?table=released"
    lines = (
        ["inspect", source],
        ["release", "suppress", source, "--k-text", "2", "-o", folder, "--to", place],
        ["verify", folder, "--copy", place],
        ["copy", folder, "--to", second],
        ["verify", folder, "--copy", second, "--json"],
    )
    run_lines([shlex.join(["queryveil", *words]) for words in lines], monkeypatch, capsys)


def run_lines(lines, monkeypatch, capsys):
    for line in lines:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as stop:
            command_line.main()
        told = capsys.readouterr()
        assert not stop.value.code, f"{line}\n{told.err}"


@pytest.mark.service("postgresql")
@pytest.mark.service("opensearch")
def test_the_commands_of_the_docs_that_need_a_server_run(postgres, opensearch, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    where = {"PGHOST": "127.0.0.1", "PGPORT": str(postgres.port), "PGUSER": "holder", "PGDATABASE": "postgres"}
    for name, value in where.items():
        monkeypatch.setenv(name, value)
    released(tmp_path / "release")
    page = (Path(__file__).parents[3] / "docs" / "databases.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page.replace("https://search.example:9200", opensearch.url), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == 7
    run_lines(lines, monkeypatch, capsys)


def run_killed(point, folder, place, kill_after=None):
    """Exit status and seconds of a copy in a process of its own, killed at a point or after some seconds of work."""
    command = [sys.executable, KILLED_COPY, point, folder, place]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        began = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(kill_after)
        process.kill()  # does nothing to one that has ended
    return process.returncode, time.monotonic() - began


def test_killed_in_the_middle_nothing_is_seen_and_a_second_try_is_whole(place, tmp_path):
    folder = released(tmp_path / "release")
    points = POINTS[of_kind(place)]
    for point in points:
        assert run_killed(point, folder, place)[0] == -signal.SIGKILL
        assert not there(place), f"killed at {point}, something is seen"
    copy(folder, place)
    verify_copy(folder, place)


def test_a_copy_that_commits_in_the_middle_would_be_seen(tmp_path):
    folder, place = released(tmp_path / "release"), f"duckdb:{tmp_path / 'out.db'}?table=t"
    assert run_killed("half-committed", folder, place)[0] == -signal.SIGKILL
    assert there(place)
    with pytest.raises(VerificationError):
        verify_copy(folder, place)


@pytest.mark.soak
def test_killed_at_any_moment_all_is_seen_or_nothing(place, tmp_path):
    """40 kills at random moments of a copy of tens of thousands of records; one that comes too late is no kill."""
    folder = released(tmp_path / "release", records=100_000)
    status, longest = run_killed("none", folder, place)
    assert status == 0
    draw, whole, killed = random.Random(), 0, 0
    for number in itertools.count():
        address = place.replace("=", f"=kill{number}_")
        status, seconds = run_killed("none", folder, address, kill_after=draw.uniform(0, longest))
        if status == 0:
            longest = seconds  # the machine is quicker than it was
        else:
            assert status == -signal.SIGKILL
            killed += 1
        if there(address):
            whole += 1
        else:
            assert status != 0
            copy(folder, address)
        verify_copy(folder, address)
        if killed == 40:
            break
    print(f"{killed} killed of {number + 1}, {whole} whole at once")
