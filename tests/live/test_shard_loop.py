"""A run on files is what the verifier expects, and the verifier can find fault."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from live.checks import checked, key_of, lines_of, worked
from live.scenes import MECHANISM, RULES, identifying_records, mixed_input, some_records
from live.verifier import Replay, opened, too_few
from queryveil.errors import ParameterError
from queryveil.live.config import settings_from
from queryveil.live.shard import ShardLoop


def test_a_run_is_what_the_verifier_expects(file_scene):
    lines, good, suppressed, dead = mixed_input(1000)
    file_scene.feed(lines)
    worked(file_scene)
    assert not checked(file_scene, good, suppressed, dead)
    assert {letter["reason"] for letter in file_scene.dead()} >= {"not valid JSON", "not valid UTF-8"}


def test_a_run_refuses_one_stream_for_each_category_and_its_checkpoints_do_not_know_of_it(file_scene):
    with pytest.raises(ParameterError, match="Share a live stream out by its categories with shards"):
        settings_from(file_scene.settings(mechanism={**MECHANISM, "by_category": True}))
    file_scene.feed(lines_of(some_records(1)))
    assert "by_category" not in ShardLoop(settings_from(file_scene.settings())).header.settings


def test_a_run_with_a_pseudonym_for_each_person_is_what_the_verifier_expects(file_scene):
    records = some_records(800)
    rules = dataclasses.replace(RULES, pseudonym="epoch")
    file_scene.feed(lines_of(records))
    worked(file_scene, mechanism={**MECHANISM, "pseudonym": "epoch"})
    assert not checked(file_scene, records, rules=rules)
    visible = [json.loads(line) for line in file_scene.visible()]
    assert len({row["user"] for row in visible}) <= 30 < len(visible)
    assert checked(file_scene, records) == [
        "a record was released twice",
        "pseudonyms stand for other receivers than the key gives",
    ]
    other = next(row for row in visible if row["user"] != visible[0]["user"])
    visible[0]["user"] = other["user"]
    file_scene.output.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in visible))
    found = checked(file_scene, records, rules=rules)
    assert found == ["pseudonyms stand for other receivers than the key gives"]


@pytest.mark.parametrize("batch", [13, 10_000])
def test_where_batches_are_cut_changes_nothing(file_scene, batch, tmp_path):
    file_scene.feed(lines_of(some_records(600)))
    worked(file_scene, batch=100)
    first = file_scene.visible()
    for name in ("out.jsonl", "out.jsonl.checkpoint", "out.jsonl.dead.jsonl"):
        (tmp_path / name).unlink(missing_ok=True)
    (Path(os.environ["QUERYVEIL_KEYS"]) / "stream-kills-shard-0.begun").unlink()  # as if it had never begun
    worked(file_scene, batch=batch)
    assert file_scene.visible() == first


def test_a_finished_run_started_again_does_nothing_and_goes_on_when_there_is_more(file_scene):
    records = some_records(800)
    file_scene.feed(lines_of(records[:500]))
    worked(file_scene)
    before = file_scene.visible()
    worked(file_scene)
    assert file_scene.visible() == before
    file_scene.feed(lines_of(records[500:]))
    worked(file_scene)
    assert file_scene.visible()[: len(before)] == before
    assert not checked(file_scene, records)


@pytest.mark.parametrize("tamper", ["lost", "twice", "other text", "other category", "swapped windows", "rare"])
def test_the_verifier_finds(file_scene, tamper):
    records = [*some_records(800), {"user": "user 1", "query": "rare", "topic": "food"}]
    file_scene.feed(lines_of(records))
    worked(file_scene)
    visible = [json.loads(line) for line in file_scene.visible()]
    assert not checked(file_scene, records)
    if tamper == "lost":
        del visible[10]
    elif tamper == "twice":
        visible.insert(11, visible[10])
    elif tamper == "other text":
        visible[10]["query"] = visible[11]["query"] if visible[11]["query"] != visible[10]["query"] else "text 0"
    elif tamper == "other category":
        visible[10]["category"] = "sport: chess" if visible[10]["category"] != "sport: chess" else "food"
    elif tamper == "swapped windows":
        visible = visible[::-1]
    else:
        visible[10]["query"] = "rare"
    file_scene.output.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in visible))
    assert checked(file_scene, records)


RARE = "a text came out that too few people had asked"


def short_run(scene, **rules):
    """A run whose window and epochs end often; the last window of each epoch is cut short."""
    made = dataclasses.replace(RULES, window=150, epoch=210, **rules)
    mechanism = {**MECHANISM, **{name: value for name, value in dataclasses.asdict(made).items() if name != "shard"}}
    return made, {"mechanism": mechanism}


def test_a_run_with_a_short_window_and_short_epochs_is_what_the_verifier_expects(file_scene):
    records = some_records(1500)
    rules, more = short_run(file_scene)
    file_scene.feed(lines_of(records))
    worked(file_scene, **more)
    assert not checked(file_scene, records, rules=rules)
    counts = opened(file_scene.state())[1]
    assert counts["epoch"] == 1500 // 210
    assert counts["suppressed"] > 100
    assert len(file_scene.visible()) > 500
    for other in ({"window": 100}, {"epoch": 200}):
        assert checked(file_scene, records, rules=dataclasses.replace(rules, **other))


@pytest.mark.parametrize(
    ("stricter", "told"),
    [({"k": 4}, "a pool held records of too few people"), ({"k_text": 6}, RARE), ({"window": 60}, RARE)],
)
def test_the_verifier_counts_the_people_of_every_release_from_the_input_before_it(file_scene, stricter, told):
    """Draws of a run with laxer rules, as if worker and plain algorithm had the same fault, are found by counting."""
    records = some_records(600)
    rules = dataclasses.replace(RULES, window=150, epoch=210)
    file_scene.feed(lines_of(records))
    worked(file_scene)
    drawn = Replay.of(records, key_of("kills"), rules, 0, finished=False).drawn
    assert len(drawn) > 200
    assert not too_few(records, drawn, rules)
    assert told in too_few(records, drawn, dataclasses.replace(rules, **stricter))


def test_records_out_of_their_order_in_time_come_out_with_the_time_of_the_one_that_brought_them_out(file_scene):
    """Clocks of those who wrote the log jump, forth and back and over years: nothing but the day shown follows them."""
    days = ["2026-03-01", "2025-12-31", "2038-01-19", "1999-01-01", "2026-03-02"]
    records = [row | {"time": f"{days[n * 7 % 5]}T0{n % 10}:00:00"} for n, row in enumerate(some_records(800))]
    rules = dataclasses.replace(RULES, time="day")
    file_scene.feed(lines_of(records))
    worked(file_scene, mechanism={**MECHANISM, "time": "day"})
    assert not checked(file_scene, records, rules=rules)
    assert {json.loads(line)["time"][:10] for line in file_scene.visible()} == set(days)
    for row in records:
        row["time"] = "2026-03-01T00:00:00"
    assert checked(file_scene, records, rules=rules)


def test_the_verifier_finds_a_second_draw(file_scene, tmp_path):
    """A run that draws anew after its state was lost, as it would without the marker of begun shards."""
    records = some_records(800)
    file_scene.feed(lines_of(records))
    worked(file_scene)
    for name in ("out.jsonl", "out.jsonl.checkpoint", "out.jsonl.dead.jsonl"):
        (tmp_path / name).unlink(missing_ok=True)
    worked(file_scene, run="other")
    assert checked(file_scene, records)  # against the first run's key


@pytest.mark.parametrize(("mixed", "epochs"), [(209, 0), (210, 1)])
def test_records_that_are_left_out_at_once_are_no_arrivals_of_an_epoch(file_scene, mixed, epochs):
    """Neither those that name somebody nor those without a category nor what is no record."""
    nowhere = [{key: value for key, value in row.items() if key != "topic"} for row in some_records(40, seed=2)]
    left_out = [*lines_of(identifying_records(40)), *lines_of(nowhere), b"{", b""]
    file_scene.feed([*left_out, *lines_of(some_records(mixed))])
    worked(file_scene, mechanism={**MECHANISM, "epoch": 210})
    header, counts, _ = opened(file_scene.state())
    assert counts["epoch"] == epochs
    assert header["taken"] == mixed + 82
