"""A worker that died around a commit: the next one checks that the same records come again, whoever saw the commit."""

import pytest

from live.checks import checked, engine_at_work, lines_of, worked
from live.scenes import some_records
from queryveil.errors import RefusedError
from queryveil.live.checkpoint import Marker
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError
from queryveil.live.file_sink import FileSink
from queryveil.live.shard import ShardLoop


class DeathError(BaseException):
    """Of a worker, which does nothing more."""


def died_unsure(scene, label):
    """A worker that died around its commit: its mark tells only that the commit was tried."""

    opened = False

    def die(reached):
        if opened and reached == label:
            raise DeathError

    engine = engine_at_work(scene, on_step=die, batch=1000)
    opened = True
    with pytest.raises(DeathError):
        while True:
            engine.round()
    engine.close()
    assert not Marker("stream-kills-shard-0.begun").read().made


@pytest.mark.service("valkey")
@pytest.mark.parametrize("same", [True, False])
def test_a_commit_that_was_tried_seen_and_lost_with_the_server_is_repeated_or_refused(redis_scene, same):
    redis_scene.feed(lines_of(some_records(360)))
    worked(redis_scene)
    kept, more = redis_scene.kept(), some_records(60, seed=5)
    redis_scene.feed(lines_of(more))
    died_unsure(redis_scene, "state safe")
    seen = redis_scene.visible()
    redis_scene.set_back(kept)
    before = redis_scene.visible()
    assert len(before) < len(seen)
    redis_scene.feed(lines_of(more if same else some_records(60, seed=6)))
    if same:
        worked(redis_scene, batch=7)
        assert redis_scene.visible() == seen
        return
    with pytest.raises(RefusedError, match="the input since then is not the same"):
        worked(redis_scene)
    assert redis_scene.visible() == before


def test_a_commit_that_was_tried_is_checked_until_all_of_it_is_taken_in_again(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(300)))
    died_unsure(file_scene, "mid publish")
    engine = ShardLoop(settings_from(file_scene.settings()))
    engine.open()
    engine.round()
    with pytest.raises(AwayError, match="not yet taken in again"):
        engine.stop(suppress=True)
    engine.close()
    path = tmp_path / "in.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:100] + lines[100:][::-1]))
    with pytest.raises(RefusedError, match="the input since then is not the same"):
        worked(file_scene)
    path.write_bytes(b"".join(lines))
    worked(file_scene)
    assert not checked(file_scene, some_records(300))


def test_a_tried_end_of_an_epoch_published_nothing_and_needs_no_repeating(file_scene, monkeypatch):
    file_scene.feed(lines_of(some_records(300)))
    engine = ShardLoop(settings_from(file_scene.settings(batch=1000)))
    engine.open()
    engine.round()
    with monkeypatch.context() as dying:
        dying.setattr(FileSink, "commit", lambda *step: (_ for _ in ()).throw(DeathError()))
        with pytest.raises(DeathError):
            engine.stop(suppress=True)
    engine.close()
    assert Marker("stream-kills-shard-0.begun").read().forced == 1
    worked(file_scene)
    assert not checked(file_scene, some_records(300))
