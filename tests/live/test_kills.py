"""SIGKILL at every labelled point: nothing is lost, nothing is repeated, nobody sees two draws of one record."""

import dataclasses
import random

import pytest

from live.scenes import HALF_PUBLISHED, MECHANISM, RULES, FileScene, mixed_input, outside_reader
from live.verifier import opened, verify
from waiting import wait_until

SCENES = [
    "file",
    pytest.param("redis", marks=pytest.mark.service("valkey")),
    pytest.param("nats", marks=pytest.mark.service("nats")),
    pytest.param("kafka", marks=pytest.mark.service("kafka")),
]


SHORT = dataclasses.replace(RULES, window=150, epoch=210)
"""Texts are forgotten, and epochs end, the last window of each cut short, between kills and at them."""


def finished(scene, zygote, settings):
    """Let one work until nothing comes, and say whether nothing was left: a busy broker may be slow to send."""
    done = zygote.run(settings)
    assert done["status"] == 0, done["error"]
    return scene.lag() == 0


def killed_over_and_over(scene, zygote, kills, seed, records, rules=RULES):
    """Feed, kill, restart, until so many have died; then let one finish.

    Returns the number of deaths by label. Of a file, some kill must have left the output in the middle of a line.
    """
    drawn = random.Random(seed)
    settings = scene.settings(wait=0.3, mechanism=MECHANISM | {"window": rules.window, "epoch": rules.epoch})
    lines, good, suppressed, bad = mixed_input(records, seed)
    deaths = dict.fromkeys(scene.labels, 0)
    torn = 0
    with outside_reader(scene) as complaints:
        fed = 0
        for number in range(kills):
            upto = len(lines) * (number + 1) // (kills + 1)
            scene.feed(lines[fed:upto])
            fed = upto
            label = scene.labels[number % len(scene.labels)]
            passes = 1 if label == HALF_PUBLISHED else drawn.randrange(1, 3)
            done = zygote.run(settings, (label, passes))
            assert done["status"] in (-9, 0), done["error"]
            deaths[label] += done["status"] == -9
            torn += isinstance(scene, FileScene) and scene.torn()
        scene.feed(lines[fed:])
        wait_until(lambda: finished(scene, zygote, settings), "one takes all that is left")
    assert not complaints, complaints[:3]
    key = (zygote.keys / f"stream-{scene.settings()['run']}.key").read_bytes()
    assert not verify(
        arrivals=good,
        suppressed=suppressed,
        dead=bad,
        visible=scene.visible(),
        state=scene.state(),
        key=key,
        rules=rules,
    )
    assert len(scene.dead()) == bad
    assert scene.visible()
    if isinstance(scene, FileScene):
        assert torn, "no kill tore the output"
        assert not list(scene.folder.glob(".*.draft")), "who was killed left a checkpoint that nobody removed"
    return deaths


BY_SOAK = [*SCENES[:2], *(pytest.param(*scene.values, marks=[*scene.marks, pytest.mark.soak]) for scene in SCENES[2:])]
"""NATS and Kafka each day by the fewer kills of the harness (test_harness.py)."""


@pytest.mark.parametrize("scene", BY_SOAK, indirect=True)
def test_ten_kills_lose_nothing_and_repeat_nothing(scene, zygote):
    deaths = killed_over_and_over(scene, zygote, kills=18, seed=1, records=900)
    assert sum(deaths.values()) >= 10, deaths
    assert all(deaths.values()), deaths


@pytest.mark.parametrize("scene", ["file"], indirect=True)
def test_kills_lose_nothing_and_repeat_nothing_while_texts_expire_and_epochs_end(scene, zygote):
    deaths = killed_over_and_over(scene, zygote, kills=18, seed=3, records=1800, rules=SHORT)
    assert sum(deaths.values()) >= 10, deaths
    assert opened(scene.state())[1]["epoch"] == 1800 // SHORT.epoch


@pytest.mark.soak
@pytest.mark.parametrize("scene", SCENES, indirect=True)
def test_a_hundred_kills_lose_nothing_and_repeat_nothing(scene, zygote):
    deaths = killed_over_and_over(scene, zygote, kills=140, seed=2, records=7000)
    assert sum(deaths.values()) >= 100, deaths
    assert all(deaths.values()), deaths


@pytest.mark.soak
@pytest.mark.parametrize("scene", SCENES, indirect=True)
def test_a_hundred_kills_do_no_harm_while_texts_expire_and_epochs_end(scene, zygote):
    deaths = killed_over_and_over(scene, zygote, kills=140, seed=4, records=7000, rules=SHORT)
    assert sum(deaths.values()) >= 100, deaths
    assert opened(scene.state())[1]["epoch"] == 7000 // SHORT.epoch
