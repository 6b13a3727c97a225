"""A worker that died around a commit: the next one checks that the same records come again, whoever saw the commit."""

import dataclasses

import pytest

from live.checks import checked, engine_at_work, lines_of, worked
from live.scenes import some_records
from live.verifier import opened
from queryveil.errors import RefusedError
from queryveil.live.checkpoint import Header, Mark, Marker
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError, FencedError
from queryveil.live.shard import ShardLoop


class DeathError(BaseException):
    """Of a worker, which does nothing more."""


def died_unsure(scene, label):
    """A worker that died around its commit: its mark tells only that the commit was tried."""

    ready = False

    def die(reached):
        if ready and reached == label:
            raise DeathError

    engine = engine_at_work(scene, on_step=die, batch=1000)
    ready = True
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


@pytest.mark.parametrize("scene", ["file", pytest.param("redis", marks=pytest.mark.service("valkey"))], indirect=True)
def test_a_tried_end_of_an_epoch_published_nothing_and_needs_no_repeating(scene, monkeypatch):
    """A server that may forget may take it yet from a worker that is only frozen: there the next one does the same."""
    scene.feed(lines_of(some_records(300)))
    engine = ShardLoop(settings_from(scene.settings(batch=1000)))
    engine.open()
    engine.round()
    with monkeypatch.context() as dying:
        dying.setattr(type(engine._sink), "commit", lambda *step: (_ for _ in ()).throw(DeathError()))
        with pytest.raises(DeathError):
            engine.stop(suppress=True)
    engine.close()
    assert Marker("stream-kills-shard-0.begun").read().forced == 1
    worked(scene)
    carried_out = engine._sink.may_forget
    assert opened(scene.state())[0]["forced"] == carried_out
    assert not checked(scene, some_records(300), finished=carried_out)


class SlowToOpen(ShardLoop):
    """Is frozen while it opens the shard: before it reads the mark, or behind its second reading of the input."""

    before_the_mark = behind_the_input = staticmethod(lambda: None)

    def _accept(self, committed, offered):
        self.before_the_mark()
        return super()._accept(committed, offered)

    def _digest_again(self, since, taken):
        digest = super()._digest_again(since, taken)
        self.behind_the_input()
        return digest


@pytest.mark.service("valkey")
def test_a_worker_overtaken_while_it_opens_does_not_set_the_mark_back(redis_scene):
    """Else, with all workers dead, the server set back and other records after it, the next one draws a second time."""
    redis_scene.feed(lines_of(some_records(300)))
    worked(redis_scene)
    redis_scene.feed(lines_of(some_records(60, seed=2)))
    died_unsure(redis_scene, "mid publish")
    kept = None

    def overtake():
        nonlocal kept
        other = engine_at_work(redis_scene, batch=60)
        other.round()
        kept = redis_scene.kept()
        redis_scene.feed(lines_of(some_records(60, seed=3)))
        other.round()
        other.close()

    slow = SlowToOpen(settings_from(redis_scene.settings()))
    slow.behind_the_input = overtake
    redis_scene.wait_for_lease()
    with pytest.raises(FencedError, match="took the shard over, as stream-kills-shard-0"):
        slow.open()
    slow.close()
    assert Marker("stream-kills-shard-0.begun").read().taken == 420
    seen = redis_scene.visible()
    redis_scene.set_back(kept)
    before = redis_scene.visible()
    assert len(before) < len(seen)
    redis_scene.feed(lines_of(some_records(60, seed=4)))
    redis_scene.client.delete("queryveil:kills:0:lease")
    with pytest.raises(RefusedError, match="the input since then is not the same"):
        worked(redis_scene)
    assert redis_scene.visible() == before


@pytest.mark.service("valkey")
def test_records_that_must_come_again_are_compared_with_those_that_were_there_when_that_was_decided(redis_scene):
    """The server may be set back in between, to where the slow worker's own token stands; found by the model."""
    redis_scene.feed(lines_of(some_records(300)))
    worked(redis_scene)
    redis_scene.wait_for_lease()
    slow = SlowToOpen(settings_from(redis_scene.settings()))
    kept = seen = None

    def overtake():
        nonlocal kept, seen
        kept = redis_scene.kept()
        redis_scene.feed(lines_of(some_records(60, seed=2)))
        other = engine_at_work(redis_scene, batch=60)
        other.round()
        other.close()
        seen = redis_scene.visible()

    def lose():
        redis_scene.set_back(kept)
        redis_scene.feed(lines_of(some_records(60, seed=3)))

    slow.before_the_mark, slow.behind_the_input = overtake, lose
    slow.open()
    before = redis_scene.visible()
    assert len(before) < len(seen)
    with pytest.raises(FencedError, match="the input is not what it was when the shard was opened"):
        slow.round()
    slow.close()
    assert redis_scene.visible() == before
    with pytest.raises(RefusedError, match="the input since then is not the same"):
        worked(redis_scene)


def test_of_two_that_begin_at_once_the_later_one_opens_anew():
    """It found no state; the other has begun, and perhaps committed, since."""
    first = Mark(source="file a", place="/a")
    Marker("one").replace(None, dataclasses.replace(first, generation=3, taken=9, made=True))
    later = Marker("one")
    with pytest.raises(FencedError):
        later.replace(None, first)
    assert later.read().generation == 3


def test_a_late_note_does_not_make_others_marks_one_s_own():
    """Who slept through the commits of others and wakes to note an old one must still see that the mark is theirs."""
    header = Header(run="a", shard=0, shards=1, source="file a", generation=1, taken=5, digest="aa")
    sleeper, other = Marker("one"), Marker("one")
    sleeper.replace(None, Mark(source="file a", place="/a"))
    sleeper.note(header, made=False, alone=True)
    other.read()
    other.note(dataclasses.replace(header, generation=2, taken=7), made=True, alone=True)
    sleeper.note(header, made=True)
    with pytest.raises(FencedError):
        sleeper.note(dataclasses.replace(header, generation=2, taken=6), made=False, alone=True)
