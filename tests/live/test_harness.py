"""The operators' harness finds nothing wrong with the workers, and finds what is wrong with broken ones."""

from dataclasses import replace

import pytest

from live.nats_scene import NatsServer
from live.redis_scene import ValkeyServer
from queryveil.testing.harness.__main__ import main, tried
from queryveil.testing.harness.ends import FileEnd
from queryveil.testing.harness.pipe_end import PipeEnd
from queryveil.testing.harness.trial import Events, Trial

FEW = Events(kills=5, freezes=2, set_backs=1, full_disks=1)
"""Every kind of event at every connector; that each labelled place is struck is for test_kills.py."""
MANY = Events(kills=420, freezes=70, set_backs=20, full_disks=20)
"""Some come too late, since the worker is done before it reaches the place."""
CONNECTORS = [
    "files",
    "pipes",
    pytest.param("redis", marks=pytest.mark.service("valkey")),
    pytest.param("nats", marks=pytest.mark.service("nats")),
    pytest.param("kafka", marks=pytest.mark.service("kafka")),
]


def put_to_trial(connector, events, seed, request):
    """The verdict; NATS and Kafka are set back whole, since their servers are the tests' own."""
    zygote = request.getfixturevalue("zygote")
    if connector in ("files", "pipes"):
        return tried(connector, str(request.getfixturevalue("tmp_path")), events, seed, zygote)
    server = request.getfixturevalue(f"{'valkey' if connector == 'redis' else connector}_session")
    if isinstance(server, ValkeyServer):
        return tried(connector, f"redis://127.0.0.1:{server.port}/0", events, seed, zygote)
    url = server.url if isinstance(server, NatsServer) else f"kafka://{server.bootstrap}"
    return tried(connector, url, events, seed, zygote, server)


@pytest.mark.parametrize("connector", CONNECTORS)
def test_a_few_events_violate_nothing(connector, request):
    events = FEW if connector != "kafka" else replace(FEW, set_backs=0)  # a broker set back takes long: by `make soak`
    verdict = put_to_trial(connector, events, 1, request)
    assert not verdict.problems, verdict.in_words()
    assert verdict.done["kills"] >= 2
    assert verdict.done["freezes"] >= 1
    assert verdict.done["set_backs"] == (0 if connector == "pipes" else events.set_backs)
    assert verdict.not_tried == (["set-backs"] if connector == "pipes" else [])
    assert "No violation" in verdict.in_words()


@pytest.mark.soak
@pytest.mark.parametrize("connector", CONNECTORS)
def test_hundreds_of_events_violate_nothing(connector, request):
    verdict = put_to_trial(connector, MANY, 2, request)
    print(f"{connector}: {verdict.in_words()}")
    assert not verdict.problems, verdict.in_words()
    assert verdict.done["kills"] >= 300
    assert verdict.done["freezes"] >= 50
    assert verdict.done["full_disks"] >= 20
    assert connector == "pipes" or verdict.done["set_backs"] >= 20


class Forgetful(FileEnd):
    """Shows readers lines that were never released, and takes them back."""

    looks = 0

    def visible(self):
        self.looks += 1
        return [*super().visible(), b"a line for look %d alone" % self.looks]


class Repeating(PipeEnd):
    """Writes its last line twice, which no replay does."""

    def visible(self):
        seen = super().visible()
        return [*seen, *seen[-1:]]


def test_a_line_of_a_pipe_that_comes_twice_is_told(tmp_path, zygote):
    verdict = Trial(Repeating(str(tmp_path), "harness-twice"), zygote, Events(kills=2), seed=3).run()
    assert any("not that of a replay" in problem for problem in verdict.problems)


def test_what_is_wrong_is_told_in_words(tmp_path, zygote):
    """Neither a line that changes nor an output that is not the replay's is overlooked."""
    end = Forgetful(str(tmp_path), "harness-broken")
    verdict = Trial(end, zygote, Events(kills=6), seed=3).run()
    assert any("changed" in problem for problem in verdict.problems)
    assert any("not that of a replay" in problem for problem in verdict.problems)
    assert "VIOLATIONS" in verdict.in_words()


def test_a_broker_that_cannot_be_had_is_no_violation(capsys):
    with pytest.raises(SystemExit):
        main(["carrier-pigeon"])
    assert "invalid choice" in capsys.readouterr().err
