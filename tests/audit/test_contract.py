"""Every attack and measure passes its conformance kit, and the kit catches parts that break the contract."""

from dataclasses import replace
from itertools import count

import pytest

from queryveil.audit.attack import attacks
from queryveil.audit.attacks.uniqueness import Uniqueness
from queryveil.audit.finding import Finding
from queryveil.audit.measure import measures
from queryveil.audit.measures.volume import LogVolume
from queryveil.testing.audits import check_attack, check_measure


@pytest.mark.parametrize("attack", attacks(), ids=lambda attack: attack.key)
def test_every_attack_keeps_the_contract(attack):
    check_attack(attack)


@pytest.mark.parametrize("measure", measures(), ids=lambda measure: measure.key)
def test_every_measure_keeps_the_contract(measure):
    check_measure(measure)


def changed(part, **changes):
    """A part whose findings are changed on their way out."""

    class Changed(type(part)):
        def run(self, context):
            for found in super().run(context):
                if isinstance(found, Finding):
                    given = {name: value(found, context) for name, value in changes.items()}
                    yield replace(found, **given)
                else:
                    yield found

    return Changed()


TURNS = count()
BROKEN_ATTACKS = {
    "differ": changed(Uniqueness(), trials=lambda *_: next(TURNS)),
    "shows a query or a user": changed(Uniqueness(), detail=lambda found, context: context.original.users()[0]),
    "above its interval": changed(Uniqueness(), high=lambda found, context: found.value - 0.1, low=lambda *_: None),
    "more than chance on a release of noise": changed(
        Uniqueness(),
        chance=lambda *_: 0.001,
        value=lambda found, context: 0.5 + found.value / 2,
        low=lambda *_: 0.4,
        high=lambda *_: None,
    ),
    "does not find the leak": changed(Uniqueness(), value=lambda *_: 0.0, low=lambda *_: None, high=lambda *_: None),
    "depend on the mechanism's name": changed(Uniqueness(), detail=lambda found, context: str(context.mechanism)),
    "one key": changed(Uniqueness(), key=lambda *_: "same"),
    "must be a risk": changed(Uniqueness(), kind=lambda *_: "utility"),
    "release of noise": changed(
        Uniqueness(), value=lambda found, context: 1 - found.value, low=lambda *_: None, high=lambda *_: None
    ),
}


@pytest.mark.parametrize("reason", BROKEN_ATTACKS)
def test_the_kit_catches_an_attack_that_breaks_the_contract(reason):
    with pytest.raises(AssertionError, match=reason):
        check_attack(BROKEN_ATTACKS[reason])


def test_the_kit_catches_a_measure_that_is_best_on_noise():
    def upside_down(found, context):
        return float(not context.released.frame["query"].equals(context.original.frame["query"]))

    broken = changed(LogVolume(), value=upside_down, better=lambda *_: "higher", low=nothing, high=nothing)
    with pytest.raises(AssertionError, match="better on a release of noise than on the raw log"):
        check_measure(broken)


def nothing(*_):
    return None


def texts(context):
    """How many of the release's texts are the raw log's."""
    return float(context.released.frame["query"].is_in(context.original.frame["query"].implode()).mean() or 0.0)


BROKEN_MEASURES = {
    "not at its ceiling": {"value": lambda found, context: texts(context) / 2},
    "above its floor": {"value": lambda found, context: (1 + texts(context)) / 2},
    "not between floor and ceiling": {
        "value": lambda found, context: -0.1 if 0.1 < texts(context) < 0.9 else texts(context)
    },
}


@pytest.mark.parametrize("reason", BROKEN_MEASURES)
def test_the_kit_catches_a_measure_that_is_wrong_at_an_end_or_in_the_middle(reason):
    told = {"raw": lambda *_: 1.0, "chance": lambda *_: 0.0, "better": lambda *_: "higher"}
    broken = changed(LogVolume(), **told, **BROKEN_MEASURES[reason], low=nothing, high=nothing)
    with pytest.raises(AssertionError, match=reason):
        check_measure(broken)
