"""A comparison as it grows: first advice from the quick mechanisms, and how long the others may take."""

import pytest

from queryveil.experiments.comparison import Outcome
from queryveil.experiments.sweep import Sweep
from queryveil.log.synthetic import synth
from queryveil.web import comparing
from queryveil.web.comparing import Course, compare_settings

SWEEP = {
    "mechanism": [{"name": "semantic", "epsilon": [1.0, 10.0], "per": "query"}, {"name": "suppress", "k_text": [2, 5]}],
    "rule": [{"name": "frequency", "k": 5}],
}


def outcome(setting, seconds):
    return Outcome(setting=setting, seconds=seconds)


@pytest.fixture
def settings():
    return Sweep.of(SWEEP).settings


def test_nothing_is_guessed_before_anything_was_tried(settings):
    come = Course(settings).to_come()
    assert [row["seconds"] for row in come] == [None] * 3
    assert [(row["done"], row["of"]) for row in come] == [(0, 2), (0, 1), (0, 2)]
    assert come[0]["title"] == "Withhold rare queries"  # the quick ones first


def test_the_rest_is_guessed_by_declared_effort_and_then_by_what_the_mechanism_itself_took(settings):
    slow, slower, quick, other, rule = settings
    course = Course(settings, [outcome(quick, 3.0)])
    assert [row["seconds"] for row in course.to_come()] == [3.0, 3.0, 2 * 4 * 3.0]  # semantic declares an effort of 4
    course.done.append(outcome(slow, 30.0))
    assert [row["seconds"] for row in course.to_come()][-1] == 30.0
    course.done += [outcome(other, 1.0), outcome(rule, 1.0), outcome(slower, 9.0)]
    assert course.to_come() == []


def test_there_is_advice_once_a_mechanism_was_tried_at_all_its_settings(settings):
    slow, _, quick, other, rule = settings
    course = Course(settings, [outcome(rule, 1.0), outcome(quick, 1.0), outcome(slow, 1.0)])
    assert not course.may_advise()
    course.done.append(outcome(other, 1.0))
    assert course.may_advise()


class Kept:
    """As much of a job, its store and its log's folder as a comparison needs; keeps what it was told."""

    def __init__(self, folder):
        self.request, self.job = {"task": "query frequency", "max_risk": 0.5}, {"id": "job"}
        self.folder, self.store, self.results, self.points = folder, self, [], {}

    def step(self, name, share):
        pass

    def set_job(self, _, *, result):
        self.results.append(result)

    def add_point(self, _, place, content):
        self.points[place] = content


def test_the_first_advice_comes_before_the_slow_mechanisms(tmp_path, monkeypatch):
    few = {"mechanism": [{"name": "suppress", "k_text": [2, 5]}, {"name": "stream", "k": 5}]}
    monkeypatch.setattr(comparing.Sweep, "usual", classmethod(lambda cls: cls.of(few)))
    kept = Kept(tmp_path)
    last = compare_settings(kept, synth(users=60, records=900, seed=1))
    first = next(result for result in kept.results if result.get("reasons"))
    assert [row["title"] for row in first["to_come"]] == [row["title"] for row in kept.results[0]["to_come"]][1:]
    assert len(first["to_come"]) == 1 and first["to_come"][0]["seconds"] > 0
    assert kept.results[-1]["to_come"] == [] and last["reasons"]
    assert sorted(kept.points) == [0, 1, 2] and last["of"] == 3
