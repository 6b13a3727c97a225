"""NATS JetStream on a real server, as an output: publications cut short, frozen workers, streams that forget."""

import time

import pytest

from live.checks import checked, lines_of, worked
from live.scenes import some_records
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.live import _nats_sink, nats
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError, FencedError, Step
from queryveil.live.shard import ShardLoop
from waiting import wait_until

pytestmark = pytest.mark.service("nats")
SINK = ("mid publish", "state safe", "half published")
SHARED = {"subjects": ["out", "other"]}
QUEUE = {"retention": "workqueue"}


class Crash(BaseException):
    """As if the process had died here."""


class Crashing:
    """Dies at the n-th pass of a label of the sink after it was armed."""

    def __init__(self):
        self.left = 0

    def __call__(self, label):
        if label in SINK and self.left:
            self.left -= 1
            if not self.left:
                raise Crash


@pytest.fixture(params=[{}], ids=["alone"])
def brief_window(request, nats_scene, monkeypatch):
    """An output stream that forgets message ids at once, and small batches: nothing but our own care helps."""
    nats_scene.make("out", duplicate_window=0.1, **request.param)
    monkeypatch.setattr(_nats_sink, "MOST_IN_A_BATCH", 10)
    return nats_scene


@pytest.fixture
def crashed_at(brief_window):
    """A worker that has published something dies at the n-th step of its next publication."""
    engines = []

    def crash(passes):
        brief_window.feed(lines_of(some_records(400)))
        crashing = Crashing()
        engine = ShardLoop(settings_from(brief_window.settings(batch=130)), on_step=crashing)
        engines.append(engine)
        engine.open()
        while not brief_window.visible():
            engine.round()
        crashing.left = passes
        with pytest.raises(Crash):
            while True:
                engine.round()
        time.sleep(0.4)  # the lease runs out, and the ids are forgotten
        return brief_window

    yield crash
    for engine in engines:
        engine.close()


@pytest.mark.parametrize(
    ("brief_window", "passes"),
    [*(({}, passes) for passes in range(1, 7)), (SHARED, 2), (SHARED, 4)],
    indirect=["brief_window"],
)
def test_a_publication_cut_short_is_finished_without_repeating_anything(crashed_at, passes):
    scene = crashed_at(passes)
    worked(scene)
    assert not checked(scene, some_records(400))


def test_a_worker_frozen_in_the_middle_of_a_publication_repeats_nothing_when_it_wakes(brief_window):
    records = some_records(400)
    brief_window.feed(lines_of(records))
    settings = settings_from(brief_window.settings(batch=130))
    passes = 0

    def freeze(label):
        nonlocal passes
        passes += label in SINK and bool(brief_window.visible())
        if passes == 1:
            passes += 1
            time.sleep(0.4)
            worked(brief_window)

    zombie = ShardLoop(settings, on_step=freeze)
    zombie.open()
    with pytest.raises(FencedError):
        while True:
            zombie.round()
    zombie.close()
    assert passes >= 2
    assert not checked(brief_window, records)


@pytest.mark.parametrize(
    ("config", "publication", "newest_only"),
    [(QUEUE, 1, False), (QUEUE, 3, True), (SHARED, 1, False), (SHARED, 3, False)],
    ids=["work queue", "work queue, the newest first", "shared, empty", "shared"],
)
def test_a_worker_frozen_before_a_publication_repeats_nothing_where_all_was_taken_away_when_it_wakes(
    nats_scene, config, publication, newest_only
):
    """What it expects of the stream holds again by then, but for numbers that never go back."""
    records = some_records(400)
    nats_scene.feed(lines_of(records))
    nats_scene.make("out", duplicate_window=0.1, **config)
    seen, publications = [], 0

    def freeze(label):
        nonlocal publications
        if label != "state safe" or not zombie._sink._kept.outputs:
            return
        publications += 1
        if publications == publication:
            upto = max((message.seq for message in nats_scene.client.messages("out")), default=0)
            time.sleep(0.4)  # the lease runs out, and the ids are forgotten
            worked(nats_scene)
            if newest_only:
                seen.extend(nats_scene.take_away(upto))
            else:
                seen.extend(nats_scene.take_away())

    zombie = ShardLoop(settings_from(nats_scene.settings(batch=130)), on_step=freeze)
    zombie.open()
    with pytest.raises(FencedError):
        for _ in range(10):
            zombie.round()
    zombie.close()
    older = nats_scene.take_away()
    assert bool(older) == newest_only
    assert not checked(nats_scene, records, visible=older + seen)


@pytest.mark.parametrize("passes", [2, 3, 4])
def test_a_publication_cut_short_is_finished_after_what_was_out_was_taken_away(crashed_at, passes):
    scene = crashed_at(passes)
    seen = scene.take_away()
    worked(scene)
    assert not checked(scene, some_records(400), visible=seen + scene.take_away())


def test_others_who_write_to_the_stream_on_other_subjects_are_no_hindrance(nats_scene):
    nats_scene.make("out", **SHARED)
    records, met = some_records(400), []

    def meddle(label):
        if label == "state safe":
            nats_scene.client.publish("other", [b"of somebody else"])
            met.append(bool(engine._sink._kept.outputs) and not nats_scene.client.messages("out", "out"))

    nats_scene.feed(lines_of(records))
    engine = ShardLoop(settings_from(nats_scene.settings()), on_step=meddle)
    engine.open()
    while engine.header.taken < 400:
        engine.round()
    engine.close()
    assert any(met)  # the first publication, which goes by the numbers of the whole stream, was among them
    assert not checked(nats_scene, records, visible=nats_scene.take_away())


def test_of_a_work_queue_only_the_subject_of_the_run_may_be_the_streams(nats_scene):
    nats_scene.make("out", **SHARED, **QUEUE)
    with pytest.raises(UsageError, match="others can write to it too"):
        worked(nats_scene)


def test_an_output_stream_that_was_made_anew_is_refused(nats_scene):
    nats_scene.feed(lines_of(some_records(300)))
    worked(nats_scene)
    nats_scene.client.do(nats_scene.client.jetstream.delete_stream("out"))
    nats_scene.feed(lines_of(some_records(300)))
    with pytest.raises(RefusedError, match="out was deleted and made anew"):
        worked(nats_scene)
    assert not nats_scene.client.messages("out")


def test_an_output_whose_id_the_server_knows_already_is_not_taken_for_published(nats_scene):
    """Numbers begin anew where the state was lost and the outputs were taken away; the server answers kindly."""
    nats_scene.make("out", **QUEUE)
    nats_scene.client.publish("out", [b"of another time"], ["kills-0-1"])
    nats_scene.take_away()
    end = settings_from(nats_scene.settings()).sink_end(0)
    nothing = nats.open_source(settings_from(nats_scene.settings()).source_end(0))
    sink = nats.open_sink(end)
    sink.claim(bytes(32))
    sink.load(lambda committed, offered: False)
    with pytest.raises(AwayError, match="refuses what comes on subject out"):
        sink.commit(Step([b"one"], [], b"state", {}), nothing)
    sink.close()

    def published():
        again = nats.open_sink(end)
        try:
            again.claim(bytes(32))
            again.load(lambda committed, offered: False)
        except AwayError:
            return False
        finally:
            again.close()
        return True

    config = nats_scene.client.do(nats_scene.client.jetstream.stream_info("out")).config
    nats_scene.client.do(nats_scene.client.jetstream.update_stream(config, duplicate_window=0.1))
    wait_until(published, "the server forgot the id")
    nothing.close()
    assert nats_scene.take_away() == [b"one"]


def test_a_stream_that_would_forget_the_state_is_refused(nats_scene):
    nats_scene.make("queryveil-kills", subjects=["queryveil.kills.state.>"], max_age=1000)
    with pytest.raises(UsageError, match="would forget the state"):
        worked(nats_scene)


def test_an_output_stream_without_atomic_batches_is_refused(nats_scene):
    nats_scene.client.do(nats_scene.client.jetstream.add_stream(name="out", subjects=["out"]))
    with pytest.raises(UsageError, match="set allow_atomic on it"):
        worked(nats_scene)


def test_a_full_output_stream_is_waited_for(nats_scene):
    nats_scene.make("out", max_msgs=100, discard="new")
    records = some_records(400)
    nats_scene.feed(lines_of(records))
    engine = ShardLoop(settings_from(nats_scene.settings()))
    engine.open()
    with pytest.raises(AwayError, match="does not do it now"):
        while engine.round().read:
            pass
    engine.close()
    seen = len(nats_scene.visible())
    assert seen <= 100
    config = nats_scene.client.do(nats_scene.client.jetstream.stream_info("out")).config
    nats_scene.client.do(nats_scene.client.jetstream.update_stream(config, max_msgs=-1))
    worked(nats_scene)
    assert not checked(nats_scene, records)


def test_a_subject_that_somebody_else_writes_on_is_refused(crashed_at):
    scene = crashed_at(3)
    scene.client.publish("out", [b"not ours"])
    with pytest.raises(RefusedError, match="somebody else writes on subject out"):
        worked(scene)


@pytest.mark.parametrize("brief_window", [SHARED], indirect=True, ids=["shared"])
def test_outputs_that_vanished_after_a_crash_from_a_stream_of_many_are_not_guessed_at(crashed_at):
    scene = crashed_at(4)
    scene.client.do(scene.client.jetstream.purge_stream("out"))
    with pytest.raises(RefusedError, match="nobody can tell which"):
        worked(scene)


@pytest.mark.parametrize("config", [{}, SHARED], ids=["alone", "shared"])
def test_outputs_that_were_removed_after_they_were_all_out_are_not_missed(nats_scene, config):
    nats_scene.make("out", **config)
    records = some_records(600)
    nats_scene.feed(lines_of(records[:300]))
    worked(nats_scene)
    before = nats_scene.visible()
    nats_scene.client.do(nats_scene.client.jetstream.purge_stream("out"))
    nats_scene.feed(lines_of(records[300:]))
    worked(nats_scene)
    assert len(nats_scene.visible()) > len(before)
    assert not checked(nats_scene, records)


def test_a_state_that_was_set_back_behind_its_outputs_is_refused(nats_scene):
    """The same input would give the same outputs again, and they are out."""
    client, subjects = nats_scene.client, [f"queryveil.kills.state.0.{name}" for name in ("head", "done")]
    nats_scene.feed(lines_of(some_records(300)))
    worked(nats_scene)
    older = [client.do(client.jetstream.get_last_msg("queryveil-kills", subject)).data for subject in subjects]
    nats_scene.feed(lines_of(some_records(200)))
    worked(nats_scene)
    before = nats_scene.visible()
    for subject, content in zip(subjects, older, strict=True):
        client.publish(subject, [content])
    with pytest.raises(RefusedError, match="holds later outputs than the state"):
        worked(nats_scene)
    assert nats_scene.visible() == before


def test_a_run_may_follow_another_on_the_same_output_stream(nats_scene):
    nats_scene.feed(lines_of(some_records(300)))
    worked(nats_scene, 300, run="first")
    before = nats_scene.visible()
    worked(nats_scene)
    assert not checked(nats_scene, some_records(300), visible=nats_scene.visible()[len(before) :])


@pytest.mark.parametrize(
    "url", ["nats://h", "nats://h?stream=a&nonsense=1", "nats://h?stream=a&lease=no", "nats://h?stream=a.b"]
)
def test_a_wrong_url_is_told(url):
    with pytest.raises(UsageError, match="nats URL"):
        ShardLoop(settings_from({"from": "nats://h?stream=x", "to": url, "run": "r"}))


def test_a_server_that_is_not_there_is_waited_for():
    ends = {"from": "nats://127.0.0.1:1?stream=a", "to": "nats://127.0.0.1:1?stream=b"}
    engine = ShardLoop(settings_from({**ends, "run": "r"}))
    with pytest.raises(AwayError, match="cannot be reached"):
        engine.open()
    engine.close()


def test_an_output_that_somebody_put_into_the_kept_commit_is_refused_and_never_published(nats_scene):
    nats_scene.feed(lines_of(some_records(200)))
    worked(nats_scene)
    before, subject = nats_scene.visible(), "queryveil.kills.state.0.head"
    stream = nats_scene.client.jetstream
    head = nats_scene.client.do(stream.get_last_msg("queryveil-kills", subject)).data
    told, _, body = head.partition(b"\n")
    text = b'"query":"text '
    assert text in body
    nats_scene.client.publish(subject, [told + b"\n" + body.replace(text, b'"query":"TEXT ', 1)])
    with pytest.raises(DataError, match=r"the state of .* is torn or was altered"):
        worked(nats_scene)
    assert nats_scene.visible() == before
