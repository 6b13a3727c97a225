"""NATS JetStream on a real server: outboxes cut short, redelivery, thieves, retention, full streams."""

import threading
import time

import pytest

from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.run.live import _nats_sink, nats
from queryveil.run.live.config import settings_from
from queryveil.run.live.connector import AwayError, FencedError, Step
from run.live_checks import checked, lines_of, worked, worker_of
from run.live_scenes import some_records
from run.live_verifier import opened
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
        engine = settings_from(brief_window.settings(batch=130)).engine(on_step=crashing)
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

    zombie = settings.engine(on_step=freeze)
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

    zombie = settings_from(nats_scene.settings(batch=130)).engine(on_step=freeze)
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
    nats_scene.make("out", duplicate_window=1, **QUEUE)
    nats_scene.client.publish("out", [b"of another time"], ["kills-0-1"])
    nats_scene.take_away()
    end = settings_from(nats_scene.settings()).sink_end(0)
    nothing = nats.open_source(settings_from(nats_scene.settings()).source_end(0))
    sink = nats.open_sink(end)
    sink.claim(bytes(32))
    sink.load()
    with pytest.raises(AwayError, match="refuses what comes on subject out"):
        sink.commit(Step([b"one"], [], b"state", {}), nothing)
    sink.close()

    def published():
        again = nats.open_sink(end)
        try:
            again.claim(bytes(32))
            again.load()
        except AwayError:
            return False
        finally:
            again.close()
        return True

    wait_until(published, "the server forgot the id")
    nothing.close()
    assert nats_scene.take_away() == [b"one"]


def test_messages_that_come_again_are_taken_once(nats_scene, monkeypatch):
    monkeypatch.setattr(nats, "ACKNOWLEDGED_WITHIN", 0.2)
    nats_scene.feed([b"%d" % number for number in range(20)])
    source = nats.open_source(settings_from(nats_scene.settings()).source_end(0))
    source.seek({})
    lines = []

    def took(upto):
        batch = source.read(min(7, max(1, upto - len(lines))), 0.1)
        assert batch.places == [str(number + 1) for number in range(len(lines), len(lines) + len(batch))]
        lines.extend(batch.lines)
        return len(lines) >= upto

    def delivered():
        return nats_scene.client.do(nats_scene.client.jetstream.consumer_info("in", "queryveil-kills")).delivered

    wait_until(lambda: took(12), "the first twelve are here")
    time.sleep(0.5)  # nobody acknowledges: the server sends them again, before and between the others
    wait_until(lambda: took(20), "the others are here")
    wait_until(lambda: took(20) and delivered().consumer_seq > 20, "there were redeliveries indeed")
    assert lines == [b"%d" % number for number in range(20)]
    source.acknowledge({"sequence": 20})
    wait_until(lambda: nats_scene.lag() == 0, "the acknowledgement is there")
    source.close()


def test_a_producer_that_sends_twice_under_one_id_is_heard_once(nats_scene):
    records = some_records(300)
    ids = [f"record {number}" for number in range(300)]
    nats_scene.client.publish("in", lines_of(records), ids)
    nats_scene.client.publish("in", lines_of(records)[::-1], ids[::-1])
    worked(nats_scene)
    assert not checked(nats_scene, records)


def test_messages_that_somebody_else_took_are_noticed_and_read_again(nats_scene):
    records = some_records(300)
    nats_scene.feed(lines_of(records[:200]))
    engine = settings_from(nats_scene.settings()).engine()
    engine.open()
    engine.round()
    client = nats_scene.client
    client.do(client.connection.request("$JS.API.CONSUMER.MSG.NEXT.in.queryveil-kills", b"", old_style=True))
    with pytest.raises(AwayError, match="went missing on the way"):
        while True:
            engine.round()
    engine.close()
    nats_scene.feed(lines_of(records[200:]))
    worked(nats_scene)
    assert not checked(nats_scene, records)


def test_messages_removed_before_they_were_read_are_not_passed_over_in_silence(nats_scene):
    client = nats_scene.client
    nats_scene.feed(lines_of(some_records(100)))
    worked(nats_scene)
    nats_scene.feed(lines_of(some_records(50)))
    client.do(client.jetstream.purge_stream("in", seq=121))
    with pytest.raises(RefusedError, match="removed before they were read"):
        worked(nats_scene)


def test_messages_erased_before_the_run_began_are_no_loss_of_it(nats_scene):
    client, records = nats_scene.client, some_records(100)
    nats_scene.feed(lines_of(records))
    client.do(client.jetstream.purge_stream("in", seq=11))
    for number in (31, 32, 51, 99, 100):
        client.do(client.jetstream.delete_msg("in", number))
    worked(nats_scene, batch=15)
    nats_scene.feed(lines_of(records[:20]))
    worked(nats_scene)
    assert not checked(nats_scene, records[10:30] + records[32:50] + records[51:98] + records[:20])


@pytest.mark.parametrize("number", [1, 51, 99])
def test_a_message_erased_after_the_run_began_and_before_it_was_read_stops_it(nats_scene, number):
    """Also where others had been erased before, and at the end of the stream, where no later message tells."""
    client = nats_scene.client
    nats_scene.feed(lines_of(some_records(100)))
    for gone in (50, 76, 100):
        client.do(client.jetstream.delete_msg("in", gone))
    engine = settings_from(nats_scene.settings(batch=15)).engine()
    engine.open()
    client.do(client.jetstream.delete_msg("in", number))
    with pytest.raises(RefusedError, match="removed before they were read"):
        for _ in range(20):
            engine.round()
    engine.close()


def test_a_message_erased_after_it_was_read_is_no_loss(nats_scene):
    client, records = nats_scene.client, some_records(120)
    nats_scene.feed(lines_of(records[:100]))
    worked(nats_scene)
    for number in (51, 100):
        client.do(client.jetstream.delete_msg("in", number))
    nats_scene.feed(lines_of(records[100:]))
    worked(nats_scene)
    assert not checked(nats_scene, records)


def test_unread_messages_that_a_limit_for_each_subject_removes_stop_the_run(nats_scene):
    """The first message of the stream is still there: only the numbers tell."""
    client = nats_scene.client
    client.do(client.jetstream.delete_stream("in"))
    client.do(client.jetstream.add_stream(name="in", subjects=["in.*"], max_msgs_per_subject=20))
    client.publish("in.a", lines_of(some_records(1)))
    worked(nats_scene)
    client.publish("in.b", lines_of(some_records(1)))
    client.publish("in.a", lines_of(some_records(100)))
    with pytest.raises(RefusedError, match="removed before they were read"):
        worked(nats_scene)


def test_messages_removed_between_the_first_start_and_the_first_read_are_not_passed_over(nats_scene):
    client = nats_scene.client
    engine = settings_from(nats_scene.settings()).engine()
    engine.open()
    engine.close()
    nats_scene.feed(lines_of(some_records(50)))
    client.do(client.jetstream.purge_stream("in", seq=21))
    with pytest.raises(RefusedError, match="removed before they were read"):
        worked(nats_scene)


def test_another_stream_of_the_same_name_is_refused_however_long_it_is(nats_scene):
    nats_scene.feed(lines_of(some_records(60)))
    worked(nats_scene)
    nats_scene.client.do(nats_scene.client.jetstream.delete_stream("in"))
    nats_scene.make("in")
    nats_scene.feed(lines_of(some_records(100, seed=9)))
    with pytest.raises(RefusedError, match="is another stream than the one that was read up to 60"):
        worked(nats_scene)


def test_a_stream_that_is_made_anew_while_the_run_reads_it_is_refused(nats_scene):
    nats_scene.feed(lines_of(some_records(60)))
    worker = worker_of(nats_scene)
    fault = []

    def work():
        try:
            worker.run()
        except RefusedError as refused:
            fault.append(str(refused))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_until(lambda: nats_scene.state() and opened(nats_scene.state())[0]["taken"] == 60, "everything is taken")
        nats_scene.client.do(nats_scene.client.jetstream.delete_stream("in"))
        nats_scene.make("in")
        nats_scene.feed(lines_of(some_records(100, seed=9)))
        wait_until(lambda: bool(fault), "the worker refuses the new stream")
    finally:
        worker.stop()
        thread.join()
    assert "is another stream" in fault[0]


def test_a_state_from_before_streams_were_told_apart_is_taken_and_tells_them_apart_from_then_on(nats_scene):
    nats_scene.feed(lines_of(some_records(30)))
    source = nats.open_source(settings_from(nats_scene.settings()).source_end(0))
    positions = source.seek({"sequence": 10})
    made = nats_scene.client.do(nats_scene.client.jetstream.stream_info("in")).created.isoformat()
    assert positions == {"sequence": 10, "made": made}
    assert source.read(5, 0.1).after == {"sequence": 15, "made": made}
    source.close()


def test_a_stream_that_forgets_what_was_acknowledged_is_refused(nats_scene):
    nats_scene.make("queue", retention="workqueue")
    with pytest.raises(RefusedError, match="retention=limits"):
        worked(nats_scene, **{"from": f"{nats_scene.server.url}?stream=queue"})


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
    engine = settings_from(nats_scene.settings()).engine()
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
    worked(nats_scene, run="first")
    before = nats_scene.visible()
    worked(nats_scene)
    assert not checked(nats_scene, some_records(300), visible=nats_scene.visible()[len(before) :])


@pytest.mark.parametrize(
    "url", ["nats://h", "nats://h?stream=a&nonsense=1", "nats://h?stream=a&lease=no", "nats://h?stream=a.b"]
)
def test_a_wrong_url_is_told(url):
    with pytest.raises(UsageError, match="nats URL"):
        settings_from({"from": "nats://h?stream=x", "to": url, "run": "r"}).engine()


def test_a_server_that_is_not_there_is_waited_for():
    ends = {"from": "nats://127.0.0.1:1?stream=a", "to": "nats://127.0.0.1:1?stream=b"}
    engine = settings_from({**ends, "run": "r"}).engine()
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
