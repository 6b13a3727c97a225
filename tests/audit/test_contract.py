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

    nothing = lambda *_: None  # noqa: E731
    broken = changed(LogVolume(), value=upside_down, better=lambda *_: "higher", low=nothing, high=nothing)
    with pytest.raises(AssertionError, match="better on a release of noise than on the raw log"):
        check_measure(broken)
