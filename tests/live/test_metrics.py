"""What a live stream shows of itself: coarse, and on the loopback address only."""

import dataclasses
import io
import json
import re
import urllib.error
import urllib.request

import numpy as np
import pytest
from rich.console import Console

from live.scenes import some_records
from queryveil.errors import UsageError
from queryveil.live.config import settings_from
from queryveil.live.event_log import EventWriter, log_event
from queryveil.live.metrics import MeterReading, Meters, MetricsServer, PowersOfTwo, draw, prometheus
from queryveil.live.shard import ShardLoop
from queryveil.live.worker import Worker

SAMPLE = re.compile(r'queryveil_[a-z_]+(\{(quantile|shard)="[0-9.]+"\})? [0-9.e+]+')


def meters_after(scene, records):
    scene.feed([json.dumps(record).encode() for record in records])
    worker = Worker(settings_from(scene.settings()))
    worker.run()
    return worker.meters


def test_counts_are_cut_to_hundreds(file_scene, tmp_path):
    meters = meters_after(file_scene, some_records(2345))
    first = meters.reading()
    assert first.read == 2300
    assert first.released % 100 == first.pending % 100 == 0
    second = meters_after(file_scene, some_records(1, seed=9)).reading()
    assert (second.read, second.released, second.pending) == (first.read, first.released, first.pending)


def test_a_round_of_a_single_record_does_not_show_as_a_round(file_scene):
    """In the quiet hours a round is one record: counting rounds to the last one would tell of each."""
    assert meters_after(file_scene, some_records(100)).reading().commits == 0
    meters = Meters()
    engine = ShardLoop(settings_from(file_scene.settings()))
    engine.open()
    done = engine.report()
    engine.close()
    shown = []
    for _ in range(250):
        meters.add(0, dataclasses.replace(done, read=1))
        shown.append(meters.reading().commits)
    assert shown == [number // 100 * 100 for number in range(1, 251)]


def test_prometheus_can_read_every_line(file_scene):
    text = prometheus(meters_after(file_scene, some_records(2000)).reading())
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in samples), samples
    assert 'queryveil_delay_records{quantile="0.5"}' in text
    names = {line.split("{")[0].split(" ")[0] for line in samples}
    assert {f"queryveil_records_{what}" for what in ("read_total", "released_total", "pending", "withheld")} <= names
    for name in names:
        assert f"# TYPE {name} " in text
        assert f"# HELP {name} " in text


def test_quantiles_are_powers_of_two_and_untold_while_releases_are_few():
    counts = PowersOfTwo()
    counts.add(np.full(999, 5))
    assert counts.quantile(0.5) is None
    counts.add(np.array([1000]))
    assert counts.quantile(0.5) == 8
    assert counts.quantile(1.0) == 1024
    counts.add(np.array([0, 1, 2]))
    assert counts.quantile(0.0) == 1


def test_metrics_and_health_are_served_on_the_loopback_address(file_scene):
    meters = meters_after(file_scene, some_records(500))
    server = MetricsServer(meters, 0)
    try:
        base = f"http://127.0.0.1:{server.port}"
        with urllib.request.urlopen(f"{base}/metrics") as answer:
            assert b'queryveil_records_read_total{shard="0"} 500' in answer.read()
        with urllib.request.urlopen(f"{base}/health") as answer:
            assert json.load(answer) == {"status": "ok"}
        meters.away(0)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{base}/health")
        assert refused.value.code == 503
        refused.value.close()
        with pytest.raises(urllib.error.HTTPError) as unknown:
            urllib.request.urlopen(f"{base}/else")
        assert unknown.value.code == 404
        unknown.value.close()
        with pytest.raises(UsageError, match=f"port {server.port} cannot be used"):
            MetricsServer(Meters(), server.port)
    finally:
        server.close()


def test_the_monitor_shows_throughput_delay_and_released_share():
    console = Console(file=io.StringIO(), width=100)
    delays = {0.5: 256, 0.9: 1024, 0.99: None}
    console.print(draw(MeterReading(10_000, 7_500, 2_000, 1_500, 500, 0, 12_300.0, delays, {}, 5, 0, True)))
    text = console.file.getvalue()
    assert "12,300" in text
    assert "7,500 (75%)" in text
    assert "50%: up to 256, 90%: up to 1,024" in text
    assert "running" in text
    with EventWriter(None) as events:
        log_event("shard_waiting", shard=3, reason="[redis] cannot be reached.", seconds=0.2)
    console.print(draw(MeterReading(0, 0, 0, 0, 0, 0, 0.0, away=2, healthy=False), events.last))
    assert "2 shards away" in console.file.getvalue()
    assert "shard_waiting shard=3 reason=[redis] cannot be reached. seconds=0.2" in console.file.getvalue()
