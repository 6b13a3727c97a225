"""Redis Streams on a real server: restarts, absence, two workers, rebalancing, back-pressure."""

import json
import os
import threading
import time
from pathlib import Path

import pytest
import redis

from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.run.live.config import settings_from
from queryveil.run.live.connector import AwayError, FencedError, shard_of
from queryveil.run.live.journal import Journal
from queryveil.run.live.worker import Worker
from run.conftest import started_valkey
from run.live_scenes import MECHANISM, RULES, RedisScene, mixed_input, some_records
from run.live_verifier import file_state, opened, verify

pytestmark = pytest.mark.service("valkey")


def lines_of(records):
    return [json.dumps(record).encode() for record in records]


def worked(scene, **more):
    """Run until nothing comes any more."""
    Worker(settings_from(scene.settings(**more)), Journal()).run(idle_rounds=2)


def checked(scene, good, suppressed=(), dead=0, *, visible=None, shard=0):
    key = (Path(os.environ["QUERYVEIL_KEYS"]) / "stream-kills.key").read_bytes()
    seen = scene.visible() if visible is None else visible
    return verify(
        arrivals=good,
        suppressed=list(suppressed),
        dead=dead,
        visible=seen,
        state=scene.state(shard),
        key=key,
        rules=RULES,
        shard=shard,
    )


@pytest.fixture
def own_server(tmp_path):
    """A server that a test may stop, kill and start again on its port."""
    folder = tmp_path / "server"
    folder.mkdir()
    servers = [started_valkey(folder)]

    class Handle:
        port = servers[0].port

        def kill(self):
            servers[-1]._process.kill()
            servers[-1]._process.wait()

        def start(self):
            servers.append(started_valkey(folder, self.port))

    yield Handle()
    for server in servers:
        if server._process is not None and server._process.poll() is None:
            server.stop()


def test_a_run_is_what_the_verifier_expects_and_the_group_tells_the_lag(redis_scene):
    lines, good, suppressed, dead = mixed_input(600)
    redis_scene.feed(lines)
    worked(redis_scene)
    assert not checked(redis_scene, good, suppressed, dead)
    (group,) = redis_scene.client.xinfo_groups("in")
    assert group["lag"] == 0
    assert group["last-delivered-id"] == redis_scene.client.xinfo_stream("in")["last-generated-id"]


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
    assert [letter[b"place"] for letter in redis_scene.dead()] == bad
    assert all(set(letter) == {b"place", b"reason"} for letter in redis_scene.dead())


def restarted(own_server, away, records):
    """A worker at work while its server is killed and, after a while, started again."""
    scene = RedisScene(own_server)
    lines, good, suppressed, dead = mixed_input(records)
    scene.feed(lines[: records // 2])
    worker = Worker(settings_from(scene.settings(batch=20)), Journal())
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        deadline = time.monotonic() + 30
        while not scene.client.exists("queryveil:kills:0:state") and time.monotonic() < deadline:
            time.sleep(0.01)
        own_server.kill()
        time.sleep(away)
        assert not worker.meters.reading().healthy or away < 1
        own_server.start()
        scene.feed(lines[records // 2 :])
        deadline = time.monotonic() + 90
        while opened(scene.state())[0]["taken"] < len(lines) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        worker.stop()
        thread.join()
        scene.client.close()
    assert not checked(scene, good, suppressed, dead)


def test_a_killed_and_restarted_server_loses_nothing(own_server):
    restarted(own_server, away=0.0, records=600)


def test_a_server_that_is_away_for_a_while_is_waited_for(own_server):
    restarted(own_server, away=2.0, records=600)


@pytest.mark.soak
def test_a_server_that_is_away_for_a_minute_is_waited_for(own_server):
    restarted(own_server, away=60.0, records=2000)


def test_of_two_workers_for_one_shard_the_older_is_fenced_and_publishes_nothing(redis_scene):
    records = some_records(400)
    redis_scene.feed(lines_of(records))
    labels = []
    settings = settings_from(redis_scene.settings())
    zombie = settings.engine(on_step=labels.append)
    zombie.open()
    zombie.round()
    waiting = settings.engine()
    with pytest.raises(AwayError, match="another worker holds shard 0"):
        waiting.open()
    time.sleep(0.4)  # the zombie's lease runs out, say in a long pause of its machine
    waiting.open()
    before = redis_scene.visible()
    with pytest.raises(FencedError, match="another worker took shard 0"):
        zombie.round()
    zombie._sink.ready = lambda: True  # it does not even ask
    with pytest.raises(FencedError, match="another worker took shard 0"):
        zombie.round()
    assert redis_scene.visible() == before
    zombie.close()
    while waiting.round().read:
        pass
    waiting.close()
    assert not checked(redis_scene, records)


def test_a_lease_that_ran_out_and_nobody_wanted_is_taken_again(redis_scene):
    redis_scene.feed(lines_of(some_records(100)))
    engine = settings_from(redis_scene.settings()).engine()
    engine.open()
    time.sleep(0.4)
    assert not redis_scene.client.exists("queryveil:kills:0:lease")
    assert engine.round().read == 60
    assert redis_scene.client.exists("queryveil:kills:0:lease")
    engine.close()
    assert not redis_scene.client.exists("queryveil:kills:0:lease")


def test_a_worker_that_is_overtaken_during_its_commit_publishes_nothing(redis_scene):
    records = some_records(200)
    redis_scene.feed(lines_of(records))
    settings = settings_from(redis_scene.settings())
    taken_over = []

    def overtake(label):
        if label == "mid publish" and len(taken_over) == 1:
            redis_scene.client.incr("queryveil:kills:0:fence")  # between WATCH and EXEC
        if label == "before read":
            taken_over.append(1)

    zombie = settings.engine(on_step=overtake)
    zombie.open()
    with pytest.raises(FencedError):
        zombie.round()
    assert not redis_scene.visible()
    zombie.close()
    worked(redis_scene)
    assert not checked(redis_scene, records)


def test_workers_share_the_shards_and_a_shard_moves_with_its_state(redis_scene):
    shards, records = 3, some_records(1200)
    of_shard = {n: [r for r in records if shard_of(r["topic"], ": ", shards) == n] for n in range(shards)}
    lease = redis_scene.settings()["to"].replace("lease=0.3", "lease=1.5")
    routing = {"from": f"{redis_scene.url}?stream=raw", "to": f"{redis_scene.url}?stream=in", "route": True}
    mixing = {"to": lease, "mechanism": {**MECHANISM, "category_column": "category"}, "shards": shards, "batch": 30}
    client = redis_scene.client

    def feed(part):
        for record in part:
            client.xadd("raw", {"record": json.dumps(record)})
        worked(redis_scene, **routing, shards=shards)

    def wait_for(count):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            states = [redis_scene.state(n) for n in range(shards)]
            if sum(opened(state)[0]["taken"] for state in states if state) == count:
                return
            time.sleep(0.05)
        raise AssertionError("the records were not taken in")

    workers = [Worker(settings_from(redis_scene.settings(**mixing)), Journal()) for _ in range(2)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    feed(records[:400])
    threads[0].start()
    wait_for(400)
    assert set(workers[0]._held) == {0, 1, 2}
    threads[1].start()
    deadline = time.monotonic() + 30
    while not workers[1]._held and time.monotonic() < deadline:
        time.sleep(0.05)
    feed(records[400:800])
    wait_for(800)
    held = [set(worker._held) for worker in workers]
    assert held[0] | held[1] == {0, 1, 2}
    assert not held[0] & held[1]
    assert all(held)
    workers[0].stop()
    threads[0].join()
    feed(records[800:])
    wait_for(1200)
    assert set(workers[1]._held) == {0, 1, 2}
    workers[1].stop()
    threads[1].join()
    visible = redis_scene.visible()
    for shard, part in of_shard.items():
        mine = [line for line in visible if shard_of(json.loads(line)["category"], ": ", shards) == shard]
        assert not checked(redis_scene, part, visible=mine, shard=shard)


def test_a_worker_pauses_while_too_many_outputs_are_unread(redis_scene):
    redis_scene.feed(lines_of(some_records(600)))
    to = redis_scene.settings()["to"] + "&backlog=50"
    engine = settings_from(redis_scene.settings(to=to, batch=60)).engine()
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
    to_stream = settings_from(redis_scene.settings(**{"from": file_scene.settings()["from"]}))
    Worker(to_stream, Journal()).run()
    assert not checked(redis_scene, good, suppressed, dead)
    redis_scene.feed(lines)
    to_file = settings_from(redis_scene.settings(to=str(file_scene.output), run="other"))
    Worker(to_file, Journal()).run(idle_rounds=2)
    key = (Path(os.environ["QUERYVEIL_KEYS"]) / "stream-other.key").read_bytes()
    state = file_state(file_scene.output.with_name("out.jsonl.checkpoint"))
    visible = file_scene.visible()
    assert not verify(
        arrivals=good, suppressed=suppressed, dead=dead, visible=visible, state=state, key=key, rules=RULES
    )


def test_a_lost_state_is_brought_back_from_a_saved_checkpoint_only(redis_scene, tmp_path):
    records = some_records(600)
    redis_scene.feed(lines_of(records[:300]))
    saved = tmp_path / "saved"
    worked(redis_scene, checkpoint=str(saved))
    assert saved.stat().st_mode & 0o777 == 0o600
    redis_scene.client.delete("queryveil:kills:0:state")
    with pytest.raises(RefusedError, match="has begun, but its state is gone"):
        worked(redis_scene)
    redis_scene.feed(lines_of(records[300:]))
    time.sleep(0.4)
    worked(redis_scene, from_checkpoint=str(saved))
    assert not checked(redis_scene, records)
    with pytest.raises(RefusedError, match="its outputs are out"):
        worked(redis_scene, from_checkpoint=str(saved))


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
        settings_from({"from": "redis://h/0?stream=x", "to": f"redis://h/0{query}", "run": "r"}).engine()


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
    engine = settings_from(redis_scene.settings()).engine()
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
            settings_from({**ends, "run": "r"}).engine().open()
    finally:
        redis_scene.client.auth("right")
        redis_scene.client.config_set("requirepass", "")


def test_a_server_that_is_not_there_is_waited_for():
    with redis.Redis(port=1) as client, pytest.raises(redis.ConnectionError):
        client.ping()
    ends = {"from": "redis://127.0.0.1:1/0?stream=a", "to": "redis://127.0.0.1:1/0?stream=b"}
    engine = settings_from({**ends, "run": "r"}).engine()
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
    engine = settings_from(redis_scene.settings(batch=100)).engine()
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
