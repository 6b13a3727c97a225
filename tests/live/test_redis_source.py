"""Which stream is the one a run began with: known again where it was moved, refused where it is another."""

import pytest
import redis

from live.checks import checked, engine_at_work, lines_of, worked
from live.scenes import some_records
from queryveil.errors import RefusedError
from queryveil.live._redis_source import RedisSource

pytestmark = pytest.mark.service("valkey")


def in_another_database(scene, records):
    with redis.Redis(port=scene.server.port, db=1) as other:
        for line in lines_of(records):
            other.xadd("in", {"record": line})
    return {"from": f"{scene.url[:-1]}1?stream=in"}


def made_anew(scene, records):
    scene.client.delete("in")
    scene.feed(lines_of(records))
    return {}


def made_anew_with_the_same_ids(scene, records):
    ids = [entry for entry, _ in scene.client.xrange("in")]
    scene.client.delete("in")
    for entry, line in zip(ids, lines_of(records), strict=True):
        scene.client.xadd("in", {"record": line}, id=entry)
    return {}


def made_anew_and_trimmed(scene, records):
    scene.client.delete("in")
    scene.feed(lines_of(records * 2))
    scene.client.xtrim("in", maxlen=len(records), approximate=False)
    return {}


def gone(scene, records):
    scene.client.delete("in")
    return {}


@pytest.mark.parametrize(
    "change", [in_another_database, made_anew, made_anew_with_the_same_ids, made_anew_and_trimmed, gone]
)
def test_another_stream_with_the_same_name_and_records_is_refused(redis_scene, change):
    records = some_records(300)
    redis_scene.feed(lines_of(records))
    worked(redis_scene)
    before = redis_scene.visible()
    more = change(redis_scene, records)
    with pytest.raises(RefusedError, match="it is another stream"):
        worked(redis_scene, **more)
    assert redis_scene.visible() == before


@pytest.mark.parametrize("change", [made_anew, made_anew_and_trimmed, gone])
def test_a_stream_that_is_made_anew_under_a_worker_is_refused(redis_scene, change):
    records = some_records(300)
    redis_scene.feed(lines_of(records))
    engine = engine_at_work(redis_scene, batch=1000)
    engine.round()
    before = redis_scene.visible()
    change(redis_scene, records)
    if change is gone:
        assert not engine.round().read
        redis_scene.feed(lines_of(records))
    with pytest.raises(RefusedError, match="it is another stream"):
        engine.round()
    engine.close()
    assert redis_scene.visible() == before


@pytest.mark.parametrize("other", ["newer entries", "another entry of the same number"])
def test_an_input_that_was_set_back_and_went_on_otherwise_is_refused(redis_scene, file_scene, other):
    """Its state is elsewhere, and not set back."""
    redis_scene.feed(lines_of(some_records(200)))
    kept = redis_scene.kept()
    worked(redis_scene, to=str(file_scene.output))
    kept = redis_scene.kept()
    entry = redis_scene.client.xadd("in", {"record": lines_of(some_records(1))[0]})
    worked(redis_scene, to=str(file_scene.output))
    redis_scene.set_back(kept)
    if other == "newer entries":
        redis_scene.feed(lines_of(some_records(5, seed=2)))
    else:
        redis_scene.client.xadd("in", {"record": lines_of(some_records(1, seed=2))[0]}, id=entry)
    with pytest.raises(RefusedError, match="it is another stream, or was set back"):
        worked(redis_scene, to=str(file_scene.output))


def test_a_stream_that_was_moved_whole_is_known_again(redis_scene):
    """As a replica has it: copied with its groups."""
    records = some_records(600)
    redis_scene.feed(lines_of(records[:300]))
    worked(redis_scene)
    redis_scene.client.copy("in", "in", destination_db=1)
    with redis.Redis(port=redis_scene.server.port, db=1) as other:
        for line in lines_of(records[300:]):
            other.xadd("in", {"record": line})
    worked(redis_scene, **{"from": f"{redis_scene.url[:-1]}1?stream=in"})
    assert not checked(redis_scene, records)


def test_a_stream_that_was_made_anew_before_its_first_record_was_read_is_refused(redis_scene):
    worked(redis_scene)
    redis_scene.feed(lines_of(some_records(100)))
    redis_scene.client.delete("in")
    redis_scene.feed(lines_of(some_records(10)))
    with pytest.raises(RefusedError, match="it is another stream"):
        worked(redis_scene)


def test_a_state_from_before_streams_had_names_is_taken_and_has_one_from_then_on(redis_scene, monkeypatch):
    records = some_records(300)
    with monkeypatch.context() as older:
        older.setattr(RedisSource, "_positions", lambda self: {"entry": self._last, "count": self._count})
        redis_scene.feed(lines_of(records[:200]))
        worked(redis_scene)
        redis_scene.client.xgroup_destroy("in", "queryveil-kills")
    redis_scene.feed(lines_of(records[200:]))
    worked(redis_scene)
    assert not checked(redis_scene, records)
    made_anew(redis_scene, records)
    with pytest.raises(RefusedError, match="it is another stream"):
        worked(redis_scene)


@pytest.mark.parametrize("removes", ["trim", "delete"])
def test_entries_removed_before_the_first_was_ever_read_are_not_passed_over_in_silence(redis_scene, removes):
    redis_scene.feed(lines_of(some_records(3)))
    redis_scene.client.xtrim("in", maxlen=0)
    worked(redis_scene)
    redis_scene.feed(lines_of(some_records(100)))
    if removes == "trim":
        redis_scene.client.xtrim("in", maxlen=10, approximate=False)
    else:
        redis_scene.client.xdel("in", redis_scene.client.xrange("in")[0][0])
    with pytest.raises(RefusedError, match="removed before they were read"):
        worked(redis_scene)
