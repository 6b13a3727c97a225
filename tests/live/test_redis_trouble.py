"""Redis servers that are set back or unwilling: nothing comes out twice, nothing is lost in silence."""

import os
import shutil
from pathlib import Path

import pytest
import redis

from live.checks import checked, engine_at_work, lines_of, worked
from live.scenes import some_records
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.live import redis as redis_module
from queryveil.live._redis_server import away
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError, Endpoint, FencedError
from queryveil.live.redis import RedisMembers
from queryveil.live.shard import ShardLoop

pytestmark = pytest.mark.service("valkey")
FENCE, LEASE = "queryveil:kills:0:fence", "queryveil:kills:0:lease"


# The fence


def test_a_worker_whose_claim_was_lost_with_the_server_s_last_writes_publishes_nothing(redis_scene):
    """A count would be given out twice: the one who lost its claim and the one who claims then would be the same."""
    records = some_records(800)
    redis_scene.feed(lines_of(records[:400]))
    worked(redis_scene)
    redis_scene.feed(lines_of(records[400:]))
    kept = redis_scene.kept()
    first = engine_at_work(redis_scene, batch=400)
    redis_scene.set_back(kept)
    second = engine_at_work(redis_scene, batch=400)
    before = redis_scene.visible()
    with pytest.raises(FencedError, match="or the redis server was set back"):
        first._commit(first._stage.finish(), [])
    with pytest.raises(FencedError):
        first.round()
    first.close()
    assert redis_scene.visible() == before
    second.close()
    worked(redis_scene)
    assert not checked(redis_scene, records)


def test_a_worker_whose_commits_were_lost_does_not_commit_on_top_of_an_older_state(redis_scene):
    records = some_records(600)
    redis_scene.feed(lines_of(records))
    engine = engine_at_work(redis_scene, batch=200)
    engine.round()
    kept = redis_scene.kept()
    engine.round()
    seen = redis_scene.visible()
    redis_scene.set_back(kept)
    assert len(redis_scene.visible()) < len(seen)
    with pytest.raises(FencedError):
        engine.round()
    engine.close()
    worked(redis_scene)
    assert redis_scene.visible()[: len(seen)] == seen
    assert not checked(redis_scene, records)


def test_a_worker_that_slept_through_commits_and_their_loss_does_not_go_on_with_other_records(redis_scene):
    """The server is again as this worker left it, and its token too; only the mark tells of the commits in between."""
    redis_scene.feed(lines_of(some_records(300)))
    sleeper = engine_at_work(redis_scene, batch=300)
    sleeper.round()
    kept = redis_scene.kept()
    redis_scene.feed(lines_of(some_records(60, seed=2)))
    worked(redis_scene)
    redis_scene.set_back(kept)
    redis_scene.feed(lines_of(some_records(60, seed=3)))
    before = redis_scene.visible()
    with pytest.raises(FencedError, match="another worker took"):
        sleeper.round()
    sleeper.close()
    assert redis_scene.visible() == before
    with pytest.raises(RefusedError, match="the input since then is not the same"):
        worked(redis_scene)


def test_a_lease_from_before_the_clock_was_set_back_ends_after_its_own_length(redis_scene):
    redis_scene.client.set(LEASE, "dead:300", px=3_600_000)
    engine_at_work(redis_scene).close()


# Commits


def all_but_writing_streams(client):
    client.execute_command("ACL", "SETUSER", "qv", "on", ">pw", "~*", "&*", "+@all", "-xadd")


def all_but_the_dead_letters(client):
    keys = ("~in", "~out", "~queryveil:kills:0:*", "%R~queryveil:kills:dead")
    client.execute_command("ACL", "SETUSER", "qv", "on", ">pw", *keys, "&*", "+@all")


@pytest.mark.parametrize("allow", [all_but_writing_streams, all_but_the_dead_letters])
def test_a_commit_that_is_not_allowed_leaves_everything_as_it_was(redis_scene, allow):
    client, records = redis_scene.client, some_records(400)
    redis_scene.feed([*lines_of(records), b"not a record"])
    client.execute_command("ACL", "SETUSER", "qv", "reset", "on", ">pw", "~*", "&*", "+@all")
    url = redis_scene.url.replace("//", "//qv:pw@")
    ends = {"from": f"{url}?stream=in", "to": f"{url}?stream=out&lease=0.3"}
    engine = engine_at_work(redis_scene, batch=1000, **ends)
    client.execute_command("ACL", "SETUSER", "qv", "reset")
    allow(client)
    before = redis_scene.state()
    with pytest.raises(UsageError, match="does not allow the user"):
        engine.round()
    engine.close()
    assert (redis_scene.state(), redis_scene.visible(), redis_scene.dead()) == (before, [], [])
    client.execute_command("ACL", "DELUSER", "qv")
    client.delete(LEASE)
    worked(redis_scene)
    assert not checked(redis_scene, records, dead=1)


def test_a_commit_to_a_key_that_became_something_else_leaves_everything_as_it_was(redis_scene):
    client, records = redis_scene.client, some_records(400)
    redis_scene.feed([*lines_of(records), b"not a record"])
    engine = engine_at_work(redis_scene, batch=1000)
    client.set("queryveil:kills:dead", "something else")
    before = redis_scene.state()
    with pytest.raises(UsageError, match="queryveil:kills:dead of the server is in use"):
        engine.round()
    engine.close()
    assert (redis_scene.state(), redis_scene.visible()) == (before, [])
    client.delete("queryveil:kills:dead")
    worked(redis_scene)
    assert not checked(redis_scene, records, dead=1)


# Several machines


@pytest.mark.parametrize("setting", ["appendfsync", "no-appendfsync-on-rewrite", None])
def test_a_shard_of_another_machine_is_taken_over_only_from_a_server_that_keeps_every_commit(
    redis_scene, tmp_path, monkeypatch, setting
):
    """That machine alone would notice that its commits are gone. One with its key folder may go on in any case."""
    client, records = redis_scene.client, some_records(400)
    redis_scene.feed(lines_of(records[:100]))
    worked(redis_scene)
    home, elsewhere = Path(os.environ["QUERYVEIL_KEYS"]), tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(home / "stream-kills.key", elsewhere)
    good = client.config_get(setting)[setting] if setting else None
    if setting:
        client.config_set(setting, "everysec" if setting == "appendfsync" else "yes")
    try:
        redis_scene.feed(lines_of(records[100:200]))
        worked(redis_scene)
        monkeypatch.setenv("QUERYVEIL_KEYS", str(elsewhere))
        redis_scene.feed(lines_of(records[200:300]))
        if setting:
            with pytest.raises(RefusedError, match=rf"another key folder.*{setting}"):
                worked(redis_scene, join=True)
        else:
            worked(redis_scene, join=True)
        monkeypatch.setenv("QUERYVEIL_KEYS", str(home))
        redis_scene.feed(lines_of(records[300:]))
        worked(redis_scene)
    finally:
        if setting:
            client.config_set(setting, good)
    assert not checked(redis_scene, records)


# Who is there


def test_a_worker_that_died_before_the_clock_was_set_back_holds_no_shards(redis_scene, monkeypatch):
    """Nobody's clock is asked but the monotonic one of who looks."""
    clock = [1000.0]
    monkeypatch.setattr(redis_module.time, "monotonic", lambda: clock[0])
    end = Endpoint(url=f"{redis_scene.url}?stream=out&lease=10", run="kills", shards=4)
    dead, living = RedisMembers(end), RedisMembers(end)
    dead.wanted()
    for _ in range(9):
        clock[0] += 1
        assert len(living.wanted()) == 2
    dead.wanted()
    for _ in range(10):
        assert len(living.wanted()) == 2
        clock[0] += 1
    assert living.wanted() == {0, 1, 2, 3}
    assert len(dead.wanted()) == 2  # it was not dead after all
    assert len(living.wanted()) == 2
    dead.close()
    assert living.wanted() == {0, 1, 2, 3}
    living.close()


# Answers to wait for


@pytest.mark.parametrize(
    "answer",
    [
        "NOREPLICAS Not enough good replicas to write.",
        "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "READONLY You can't write against a read only replica.",
        "LOADING Valkey is loading the dataset in memory",
        "CLUSTERDOWN The cluster is down",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "OOM command not allowed when used memory > 'maxmemory'. script: 12ab, on @user_script:3.",
        "BUSY Valkey is busy running a script.",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        "TRYAGAIN Multiple keys request during rehashing of slot",
    ],
)
def test_an_answer_that_passes_is_waited_for(answer):
    with pytest.raises(AwayError, match="takes no writes now"), away():
        raise redis.connection.DefaultParser.parse_error(answer)


@pytest.mark.parametrize(
    ("answer", "kind"), [("NOPERM no", UsageError), ("WRONGPASS no", UsageError), ("ERR secret data", DataError)]
)
def test_an_answer_that_stays_ends_the_worker_and_is_not_repeated(answer, kind):
    with pytest.raises(kind) as caught, away():
        raise redis.connection.DefaultParser.parse_error(answer)
    assert not isinstance(caught.value, AwayError)
    assert "secret" not in str(caught.value)


def without_replicas(client):
    client.config_set("min-replicas-to-write", 1)
    return lambda: client.config_set("min-replicas-to-write", 0)


def as_a_replica(client):
    client.replicaof("127.0.0.1", 1)
    return lambda: client.replicaof("NO", "ONE")


@pytest.mark.parametrize("change", [without_replicas, as_a_replica])
@pytest.mark.parametrize("when", ["before it opens", "at work"])
def test_a_server_that_takes_no_writes_is_waited_for(redis_scene, change, when):
    records = some_records(200)
    redis_scene.feed(lines_of(records))
    engine = ShardLoop(settings_from(redis_scene.settings()))
    if when == "at work":
        engine.open()
    undo = change(redis_scene.client)
    try:
        with pytest.raises(AwayError, match="takes no writes now"):
            engine.round() if when == "at work" else engine.open()
    finally:
        undo()
    engine.close()
    worked(redis_scene)
    assert not checked(redis_scene, records)


# Back-pressure


def test_a_router_pauses_while_too_many_outputs_lie_in_the_streams_of_its_shards(redis_scene):
    redis_scene.feed(lines_of(some_records(600)), "raw")
    ends = {"from": f"{redis_scene.url}?stream=raw", "to": f"{redis_scene.url}?stream=in&backlog=50&lease=0.3"}
    router = engine_at_work(redis_scene, **ends, route=True, shards=2, batch=30)
    while not router.round().waiting:
        pass
    lengths = [redis_scene.client.xlen(f"in:{shard}") for shard in (0, 1)]
    assert all(lengths)
    assert sum(lengths) == 60
    for shard in (0, 1):
        redis_scene.client.xtrim(f"in:{shard}", maxlen=0)
    assert router.round().read == 30
    router.close()
