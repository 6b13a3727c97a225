"""Kafka on a real broker: transactions, what readers of uncommitted messages see, fences, offsets that are gone."""

import threading
import time
from types import SimpleNamespace

import pytest
from confluent_kafka import TopicPartition

from live.checks import checked, lines_of, worked
from live.scenes import some_records
from queryveil.errors import RefusedError, UsageError
from queryveil.live import _kafka_cluster, _kafka_source, kafka
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError, FencedError
from queryveil.live.shard import ShardLoop
from queryveil.live.worker import Worker
from waiting import LONG, wait_until

pytestmark = pytest.mark.service("kafka")


def test_a_call_that_never_comes_back_is_given_up_and_other_errors_pass(monkeypatch):
    """librdkafka was seen to wait for ever for the coordinator of a transaction that had died."""
    monkeypatch.setattr(_kafka_cluster, "PATIENCE", 0.01)
    never = threading.Event()
    with pytest.raises(AwayError, match="does not answer"):
        _kafka_cluster.call_in_time(never.wait)
    never.set()
    with pytest.raises(ZeroDivisionError):
        _kafka_cluster.call_in_time(lambda: 1 // 0)
    _kafka_cluster.call_in_time(lambda: None)


class Crash(BaseException):
    """As if the process had died here."""


def test_an_aborted_transaction_shows_readers_nothing_and_others_no_second_draw(kafka_scene):
    """Readers of uncommitted messages see records of a round that failed; the round that succeeds draws the same."""
    records = some_records(400)
    kafka_scene.feed(lines_of(records))
    settings = settings_from(kafka_scene.settings(batch=30))
    for crash_at in (2, 3, 4):
        passes = 0

        def crash(label, crash_at=crash_at):
            nonlocal passes
            passes += label == "before commit"
            if label == "mid publish" and passes == crash_at:
                raise Crash

        engine = ShardLoop(settings, on_step=crash)
        engine.open()
        before = kafka_scene.visible()
        with pytest.raises(Crash):
            while engine.round().read:
                before = kafka_scene.visible()
        assert kafka_scene.visible() == before
        engine.close()
        del engine
    worked(kafka_scene, batch=35)
    assert not checked(kafka_scene, records)
    committed = kafka_scene.visible()
    uncommitted = kafka_scene.client.messages(kafka_scene.output, isolation="read_uncommitted")
    assert len(uncommitted) > len(committed)  # there were failed rounds indeed
    assert set(uncommitted) == set(committed)


def test_a_fenced_worker_comes_back_only_after_the_other_is_silent(kafka_scene, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(kafka, "time", SimpleNamespace(monotonic=lambda: now))
    kafka_scene.feed(lines_of(some_records(300)))
    settings = settings_from(kafka_scene.settings(to=f"{kafka_scene.settings()['to']}?lease=10"))
    older, newer = ShardLoop(settings), ShardLoop(settings)
    older.open()
    older.round()
    newer.open()
    with pytest.raises(FencedError):
        older.round()
    older.close()
    again = ShardLoop(settings)
    with pytest.raises(AwayError, match="another worker holds"):
        again.open()
    now += 6
    assert newer.round().read  # the other is alive
    for _ in range(2):
        with pytest.raises(AwayError, match="another worker holds"):
            again.open()
        now += 6
    newer.close()
    wait_until(lambda: opens(again), "the fenced worker may come back")
    while again.round().read:
        pass
    again.close()
    assert not checked(kafka_scene, some_records(300))


def opens(engine):
    try:
        engine.open()
    except AwayError:
        return False
    return True


def test_records_removed_before_they_were_read_are_not_passed_over_in_silence(kafka_scene):
    kafka_scene.feed(lines_of(some_records(100)))
    worked(kafka_scene)
    kafka_scene.feed(lines_of(some_records(50)))
    place = TopicPartition(kafka_scene.source, 0, 120)
    kafka_scene.client.admin.delete_records([place])[place].result()
    with pytest.raises(RefusedError, match="removed before they were read"):
        worked(kafka_scene)


def test_records_removed_between_the_first_start_and_the_first_read_are_not_passed_over(kafka_scene):
    engine = ShardLoop(settings_from(kafka_scene.settings()))
    engine.open()
    engine.close()
    kafka_scene.feed(lines_of(some_records(50)))
    place = TopicPartition(kafka_scene.source, 0, 20)
    kafka_scene.client.admin.delete_records([place])[place].result()
    with pytest.raises(RefusedError, match="removed before they were read"):
        worked(kafka_scene)


def test_a_run_begins_with_the_first_records_that_are_there(kafka_scene):
    records = some_records(150)
    kafka_scene.feed(lines_of(records))
    place = TopicPartition(kafka_scene.source, 0, 20)
    kafka_scene.client.admin.delete_records([place])[place].result()
    worked(kafka_scene)
    assert not checked(kafka_scene, records[20:])


def test_another_topic_of_the_same_name_is_refused_however_long_it_is(kafka_scene):
    kafka_scene.feed(lines_of(some_records(60)))
    worked(kafka_scene)
    before = kafka_scene.state()
    kafka_scene.client.make_anew(kafka_scene.source)
    kafka_scene.feed(lines_of(some_records(100, seed=9)))
    with pytest.raises(RefusedError, match="another topic of the same name"):
        worked(kafka_scene)
    assert kafka_scene.state() == before


def test_no_record_of_a_topic_that_was_made_anew_while_it_was_read_is_handed_out(kafka_scene):
    kafka_scene.feed([b"%d" % number for number in range(60)])
    source = kafka.open_source(settings_from(kafka_scene.settings()).source_end(0))
    source.seek({})
    wait_until(lambda: source.read(100, 1).after[str(0)] == 60, "all records are read")
    kafka_scene.client.make_anew(kafka_scene.source)
    kafka_scene.feed([b"another %d" % number for number in range(100)])
    deadline = time.monotonic() + LONG
    with pytest.raises((RefusedError, AwayError)):  # the engine opens it anew after an AwayError, and is refused then
        while time.monotonic() < deadline:
            assert not source.read(100, 1).lines
    source.close()


def test_a_compacted_topic_is_refused(kafka_scene):
    topic = f"compacted-{kafka_scene.run}"
    kafka_scene.client.make(topic, config={"cleanup.policy": "compact,delete"})
    with pytest.raises(RefusedError, match="is compacted"):
        worked(kafka_scene, **{"from": f"kafka://{kafka_scene.server.bootstrap}/{topic}"})


def test_a_topic_that_would_forget_the_state_is_refused(kafka_scene):
    kafka_scene.client.make(f"queryveil-{kafka_scene.run}-state", config={"cleanup.policy": "compact,delete"})
    with pytest.raises(UsageError, match="would forget the state"):
        worked(kafka_scene)


def test_a_state_from_before_topics_were_told_apart_is_taken_and_tells_them_apart_from_then_on(kafka_scene):
    kafka_scene.feed(lines_of(some_records(30)))
    source = kafka.open_source(settings_from(kafka_scene.settings()).source_end(0))
    positions = source.seek({"0": 10})
    assert positions == {"0": 10, "topic": source.cluster.identity(kafka_scene.source)}
    assert source.offsets(positions) == [TopicPartition(kafka_scene.source, 0, 10)]
    source.close()


def test_a_partition_that_was_added_since_is_read_from_its_beginning_or_not_at_all(kafka_scene):
    topic, url = f"wide-{kafka_scene.run}", f"kafka://{kafka_scene.server.bootstrap}"
    kafka_scene.client.make(topic, 2)
    kafka_scene.client.publish(topic, [b"record"] * 5, partition=1)
    routing = {"from": f"{url}/{topic}", "to": f"{url}/parts-{kafka_scene.run}", "shards": 2, "route": True}
    source = kafka.open_source(settings_from(kafka_scene.settings(**routing)).source_end(0))
    assert source.seek({"0": 0})["1"] == 0
    place = TopicPartition(topic, 1, 3)
    kafka_scene.client.admin.delete_records([place])[place].result()
    with pytest.raises(RefusedError, match="does not hold offset 0 of partition 1"):
        source.seek({"0": 0})
    assert source.seek({})["1"] == 3
    source.close()


def test_a_topic_with_another_number_of_partitions_than_shards_is_refused(kafka_scene):
    with pytest.raises(UsageError, match="has 1 partitions and the run 2 shards"):
        worked(kafka_scene, shards=2, shard=0)
    topic = f"wide-{kafka_scene.run}"
    kafka_scene.client.make(topic, 3)
    url = f"kafka://{kafka_scene.server.bootstrap}/{topic}"
    with pytest.raises(UsageError, match="a router needs a partition for each shard"):
        worked(kafka_scene, to=url, shards=2, route=True, run=f"r-{kafka_scene.run}")
    with pytest.raises(UsageError, match="Spread the records"):
        worked(kafka_scene, **{"from": url}, run=f"s-{kafka_scene.run}")


def test_a_run_cannot_change_its_number_of_shards(kafka_scene):
    worked(kafka_scene)
    with pytest.raises(RefusedError, match="was made for 1 shards, the run has 2"):
        worked(kafka_scene, shards=2, shard=0)


def test_settings_of_the_client_come_from_a_file_but_not_those_that_the_promise_hangs_on(kafka_scene, tmp_path):
    told = tmp_path / "client.properties"
    told.write_text("# our own\nsocket.keepalive.enable = true\n\n")
    kafka_scene.feed(lines_of(some_records(60)))
    ends = {end: f"{kafka_scene.settings()[end]}?config={told}" for end in ("from", "to")}
    worked(kafka_scene, **ends)
    assert not checked(kafka_scene, some_records(60))
    told.write_text("isolation.level=read_uncommitted\n")
    with pytest.raises(UsageError, match=r"client\.properties: isolation\.level cannot be set"):
        worked(kafka_scene, **ends)
    with pytest.raises(UsageError, match="cannot be read"):
        kafka.KafkaCluster(settings_from({**ends, "run": "r", "from": "kafka://h/t?config=/nowhere"}).source_end(0))


@pytest.mark.parametrize(
    "url", ["kafka://h", "kafka:///t", "kafka://h/t/u", "kafka://h/t?nonsense=1", "kafka://h/t?lease=no"]
)
def test_a_wrong_url_is_told(url):
    with pytest.raises(UsageError, match="kafka URL"):
        ShardLoop(settings_from({"from": url, "to": "kafka://h/x", "run": "r"}))


def test_a_cluster_that_is_not_there_is_waited_for(monkeypatch):
    monkeypatch.setattr(_kafka_cluster, "PATIENCE", 0.3)
    engine = ShardLoop(settings_from({"from": "kafka://127.0.0.1:1/a", "to": "kafka://127.0.0.1:1/b", "run": "r"}))
    with pytest.raises(AwayError, match="cannot be reached"):
        engine.open()
    engine.close()


def test_a_cluster_that_is_not_there_when_workers_share_the_shards_is_waited_for(monkeypatch):
    monkeypatch.setattr(_kafka_cluster, "PATIENCE", 0.3)
    ends = {"from": "kafka://127.0.0.1:1/a", "to": "kafka://127.0.0.1:1/b"}
    worker = Worker(settings_from({**ends, "run": "r", "shards": 2}))
    asked = threading.Event()
    plain = kafka.KafkaMembers.wanted

    def wanted(members):
        try:
            return plain(members)
        except AwayError:
            asked.set()
            raise

    monkeypatch.setattr(kafka.KafkaMembers, "wanted", wanted)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert asked.wait(LONG)
    assert thread.is_alive()
    worker.stop()
    thread.join()


def test_a_batch_is_over_after_so_many_bytes_however_few_records_that_are(kafka_scene, monkeypatch):
    monkeypatch.setattr(_kafka_source, "READ_BYTES", 100_000)
    kafka_scene.feed([b"x" * 10_000] * 200)
    source = kafka.open_source(settings_from(kafka_scene.settings()).source_end(0))
    source.seek({})
    sizes = []
    deadline = time.monotonic() + LONG
    while sum(sizes) < 200 and time.monotonic() < deadline:
        sizes.append(len(source.read(20_000, 0.5)))
    source.close()
    assert sum(sizes) == 200
    assert max(sizes) <= 10 + _kafka_source.AT_ONCE
