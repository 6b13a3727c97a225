"""Shards: cut along top-level categories, never through one."""

import json

import pytest

from live.checks import key_of, lines_of
from live.scenes import MECHANISM, RULES, some_records
from live.verifier import file_state, verify
from queryveil.errors import RefusedError
from queryveil.live.config import settings_from
from queryveil.live.connector import shard_of
from queryveil.live.worker import Worker


def test_routed_shards_release_what_one_process_would_per_category(tmp_path):
    records = some_records(900)
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines_of(records)))
    common = {"shards": 3, "batch": 100, "run": "kills"}
    route = {"from": str(path), "to": str(tmp_path / "part-{shard}.jsonl"), "route": True, "mechanism": MECHANISM}
    Worker(settings_from({**common, **route})).run()
    of_shard = {n: [r for r in records if shard_of(r["topic"], ": ", 3) == n] for n in range(3)}
    assert sum(bool(part) for part in of_shard.values()) > 1
    mixed = {
        "from": str(tmp_path / "part-{shard}.jsonl"),
        "to": str(tmp_path / "out-{shard}.jsonl"),
        "mechanism": {**MECHANISM, "category_column": "category"},
    }
    Worker(settings_from({**common, **mixed})).run()
    for shard, part in of_shard.items():
        visible = (tmp_path / f"out-{shard}.jsonl").read_bytes().splitlines()
        assert bool(visible) == bool(part)
        state = file_state(tmp_path / f"out-{shard}.jsonl.checkpoint")
        found = verify(
            arrivals=part,
            suppressed=[],
            dead=0,
            visible=visible,
            state=state,
            key=key_of("kills"),
            rules=RULES,
            shard=shard,
        )
        assert not found


def test_a_record_of_another_shard_is_a_dead_letter_and_no_category_is_split(tmp_path):
    records = some_records(200)
    path = tmp_path / "in-0.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines_of(records)))
    ends = {"from": str(tmp_path / "in-{shard}.jsonl"), "to": str(tmp_path / "out-{shard}.jsonl")}
    Worker(settings_from({**ends, "run": "kills", "shards": 3, "shard": 0, "mechanism": MECHANISM})).run()
    strays = [n for n, r in enumerate(records, 1) if shard_of(r["topic"], ": ", 3) != 0]
    dead = [json.loads(line) for line in (tmp_path / "out-0.jsonl.dead.jsonl").read_text().splitlines()]
    assert [letter["place"] for letter in dead] == [f"line {n}" for n in strays]
    assert all("its category belongs to shard" in letter["reason"] for letter in dead)


def test_another_number_of_shards_is_refused(tmp_path):
    path = tmp_path / "in-0.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines_of(some_records(50))))
    ends = {"from": str(tmp_path / "in-{shard}.jsonl"), "to": str(tmp_path / "out-{shard}.jsonl")}
    told = {**ends, "run": "kills", "shard": 0, "mechanism": MECHANISM}
    Worker(settings_from({**told, "shards": 3})).run()
    with pytest.raises(RefusedError, match="is of shards 3, this is shards 4"):
        Worker(settings_from({**told, "shards": 4})).run()
