"""Redis Streams on a real server: what only they have, fields of entries, leases, trimming and back-pressure."""

from functools import partial

import pytest
import redis

from live.checks import checked, lines_of, worked, worker_of
from live.scenes import mixed_input, some_records
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError, FencedError
from queryveil.live.shard import ShardLoop
from waiting import wait_until

pytestmark = pytest.mark.service("valkey")


def test_an_entry_may_have_the_record_s_fields_and_a_bad_one_is_a_dead_letter(redis_scene):
    client = redis_scene.client
    for record in some_records(200):
        client.xadd("in", record)
    bad = [client.xadd("in", {"user": b"\xff", "query": b"x"}), client.xadd("in", {"nonsense": "1"})]
    bad.append(client.xadd("in", {"record": b'{"user": "' + b"x" * 10_000_000 + b'", "query": "y"}'}))
    for record in some_records(200, seed=2):
        client.xadd("in", record)
    worked(redis_scene)
    assert not checked(redis_scene, some_records(200) + some_records(200, seed=2), dead=3)
    assert [letter["place"].encode() for letter in redis_scene.dead()] == bad
    assert all(set(letter) == {"place", "reason"} for letter in redis_scene.dead())


def test_the_server_tells_how_many_entries_are_left_also_before_the_last_is_read(redis_scene):
    redis_scene.feed(lines_of(some_records(100)))
    engine = ShardLoop(settings_from(redis_scene.settings()))
    engine.open()
    left = []
    while engine.round().read:
        left.append(redis_scene.client.xinfo_groups("in")[0]["lag"])
    engine.close()
    assert left == [40, 0]


def test_a_lease_that_ran_out_and_nobody_wanted_is_taken_again(redis_scene):
    redis_scene.feed(lines_of(some_records(100)))
    engine = ShardLoop(settings_from(redis_scene.settings()))
    engine.open()
    held = partial(redis_scene.client.exists, "queryveil:kills:0:lease")
    wait_until(lambda: not held(), "the lease ran out")
    assert engine.round().read == 60
    wait_until(lambda: held() or (engine.round() and held()), "a round takes the lease")  # for 0.3 s each time
    engine.close()
    assert not redis_scene.client.exists("queryveil:kills:0:lease")


def test_a_worker_that_is_overtaken_during_its_commit_publishes_nothing(redis_scene):
    records = some_records(200)
    redis_scene.feed(lines_of(records))
    settings = settings_from(redis_scene.settings())
    taken_over = []

    def overtake(label):
        if label == "mid publish" and len(taken_over) == 1:
            redis_scene.client.set("queryveil:kills:0:fence", "another")
        if label == "before read":
            taken_over.append(1)

    zombie = ShardLoop(settings, on_step=overtake)
    zombie.open()
    with pytest.raises(FencedError):
        zombie.round()
    assert not redis_scene.visible()
    zombie.close()
    worked(redis_scene)
    assert not checked(redis_scene, records)


def test_a_worker_pauses_while_too_many_outputs_are_unread(redis_scene):
    redis_scene.feed(lines_of(some_records(600)))
    to = redis_scene.settings()["to"] + "&backlog=50"
    engine = ShardLoop(settings_from(redis_scene.settings(to=to, batch=60)))
    engine.open()
    while not engine.round().waiting:
        pass
    assert 50 <= redis_scene.client.xlen("out") < 50 + 130
    assert engine.round().waiting
    redis_scene.client.xtrim("out", maxlen=0)
    assert engine.round().read == 60
    engine.close()


def test_a_file_goes_to_a_stream_and_a_stream_to_a_file(redis_scene, file_scene):
    lines, good, suppressed, dead = mixed_input(600)
    file_scene.feed(lines)
    worker_of(redis_scene, **{"from": file_scene.settings()["from"]}).run()
    assert not checked(redis_scene, good, suppressed, dead)
    redis_scene.feed(lines)
    worked(redis_scene, len(lines), to=str(file_scene.output), run="other")
    assert not checked(file_scene, good, suppressed, dead, run="other")


def test_another_stream_of_the_same_name_is_refused(redis_scene):
    redis_scene.feed(lines_of(some_records(60)))
    worked(redis_scene)
    redis_scene.client.delete("in")
    redis_scene.client.xadd("in", {"record": "{}"}, id="1-1")
    with pytest.raises(RefusedError, match="it is another stream"):
        worked(redis_scene)


@pytest.mark.parametrize("query", ["", "?stream=a&nonsense=1", "?lease=3", "?stream=a&lease=no"])
def test_a_wrong_url_is_told(query):
    with pytest.raises(UsageError, match="redis URL"):
        ShardLoop(settings_from({"from": "redis://h/0?stream=x", "to": f"redis://h/0{query}", "run": "r"}))


def test_a_key_that_is_no_stream_is_refused_before_a_transaction_could_half_fail(redis_scene):
    redis_scene.client.set("out", "something else")
    with pytest.raises(UsageError, match="the key out of the server is in use"):
        worked(redis_scene)
    redis_scene.client.set("in", "something else")
    redis_scene.client.delete("out")
    with pytest.raises(DataError, match="in is no stream"):
        worked(redis_scene)


def test_a_server_without_memory_for_more_is_waited_for(redis_scene):
    records = some_records(300)
    redis_scene.feed(lines_of(records))
    engine = ShardLoop(settings_from(redis_scene.settings()))
    engine.open()
    redis_scene.client.config_set("maxmemory", "1")
    try:
        with pytest.raises(AwayError, match="takes no writes now"):
            engine.round()
    finally:
        redis_scene.client.config_set("maxmemory", "0")
    engine.close()
    worked(redis_scene)
    assert not checked(redis_scene, records)


def test_a_wrong_password_is_not_waited_for(redis_scene):
    ends = {"from": f"{redis_scene.url}?stream=a".replace("//", "//:wrong@"), "to": f"{redis_scene.url}?stream=b"}
    ends["to"] = ends["to"].replace("//", "//:wrong@")
    redis_scene.client.config_set("requirepass", "right")
    try:
        with pytest.raises(UsageError, match="refuses the user or password"):
            ShardLoop(settings_from({**ends, "run": "r"})).open()
    finally:
        redis_scene.client.auth("right")
        redis_scene.client.config_set("requirepass", "")


def test_a_server_that_is_not_there_is_waited_for():
    with redis.Redis(port=1) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    ends = {"from": "redis://127.0.0.1:1/0?stream=a", "to": "redis://127.0.0.1:1/0?stream=b"}
    engine = ShardLoop(settings_from({**ends, "run": "r"}))
    with pytest.raises(AwayError, match="cannot be reached"):
        engine.open()
    engine.close()


@pytest.mark.parametrize("removes", ["trim", "trim all", "delete"])
def test_entries_removed_before_they_were_read_are_not_passed_over_in_silence(redis_scene, removes):
    redis_scene.feed(lines_of(some_records(300)))
    worked(redis_scene)
    redis_scene.feed(lines_of(some_records(500, seed=2)))
    if removes == "delete":
        redis_scene.client.xdel("in", redis_scene.client.xrange("in")[400][0])
    else:
        redis_scene.client.xtrim("in", maxlen=0 if removes == "trim all" else 499, approximate=False)
    with pytest.raises(RefusedError, match="removed before they were read"):
        worked(redis_scene)


@pytest.mark.parametrize("removes", ["trim", "delete"])
def test_entries_removed_between_two_rounds_are_not_passed_over_in_silence(redis_scene, removes):
    redis_scene.feed(lines_of(some_records(500)))
    engine = ShardLoop(settings_from(redis_scene.settings(batch=100)))
    engine.open()
    engine.round()
    if removes == "delete":
        redis_scene.client.xdel("in", redis_scene.client.xrange("in")[150][0])
    else:
        redis_scene.client.xtrim("in", maxlen=399, approximate=False)
    with pytest.raises(RefusedError, match="removed before they were read"):
        engine.round()
    engine.close()


def test_what_was_read_may_be_removed_and_what_was_gone_before_the_run_is_no_loss(redis_scene):
    """Deleted, trimmed up to the last entry read, and all of it: the run goes on."""
    records = some_records(900)
    redis_scene.feed(lines_of([*some_records(5), *records[:300]]))
    entries = [entry for entry, _ in redis_scene.client.xrange("in")]
    redis_scene.client.xtrim("in", maxlen=301, approximate=False)
    redis_scene.client.xdel("in", entries[4])
    redis_scene.client.xadd("in", {"record": b"gone"})
    redis_scene.client.xdel("in", redis_scene.client.xrevrange("in", count=1)[0][0])
    worked(redis_scene)
    redis_scene.client.xdel("in", entries[100])
    redis_scene.feed(lines_of(records[300:600]))
    redis_scene.client.xtrim("in", maxlen=300, approximate=False)
    worked(redis_scene)
    redis_scene.client.xtrim("in", maxlen=0, approximate=False)
    redis_scene.feed(lines_of(records[600:]))
    worked(redis_scene)
    assert not checked(redis_scene, records)
