"""NATS JetStream on a real server, as an input: redelivery, thieves, messages that are gone, other streams."""

import threading
import time

import pytest

from live.checks import checked, lines_of, worked, worker_of
from live.scenes import some_records
from live.verifier import opened
from queryveil.errors import RefusedError
from queryveil.live import nats
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError
from queryveil.live.shard import ShardLoop
from waiting import wait_until

pytestmark = pytest.mark.service("nats")


def test_messages_that_come_again_are_taken_once(nats_scene, monkeypatch):
    monkeypatch.setattr(nats, "ACKNOWLEDGED_WITHIN", 0.2)
    nats_scene.feed([b"%d" % number for number in range(20)])
    source = nats.open_source(settings_from(nats_scene.settings()).source_end(0))
    source.seek({})
    lines = []

    def took(upto):
        batch = source.read(min(7, max(1, upto - len(lines))), 0.1)
        places = [batch.place(number) for number in range(len(batch))]
        assert places == [str(number + 1) for number in range(len(lines), len(lines) + len(batch))]
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
    engine = ShardLoop(settings_from(nats_scene.settings()))
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
    engine = ShardLoop(settings_from(nats_scene.settings(batch=15)))
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
    engine = ShardLoop(settings_from(nats_scene.settings()))
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
