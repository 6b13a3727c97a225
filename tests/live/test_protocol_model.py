"""Every order of steps, deaths and set-backs within bounds: readers never see two outcomes of one record."""

import pytest

from live.protocol_model import Bounds, search

# Each without what the protocol once lacked. Nobody needs to die for them: workers that are frozen will do.
ONCE = {
    "a worker that opens a shard writes the mark blindly": Bounds(deaths=0, checked=False),
    "a worker that begins a shard takes the mark it finds for its own": Bounds(
        deaths=0, checked=False, begun=False, generations=3, records=1
    ),
    "what comes again is not compared with what was there": Bounds(deaths=0, compares=False),
}


@pytest.mark.parametrize("bounds", ONCE.values(), ids=ONCE)
def test_the_model_finds_what_was_wrong_once(bounds):
    found = search(bounds)
    assert found.violation
    assert "the server is set back" in found.violation
    assert found.violation[-1].split()[1] == "commits"


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(deaths=0, generations=3, records=1, begun=False),
        Bounds(deaths=0, generations=3, records=1, stops=1),
    ],
    ids=["beginning", "with a stop"],
)
def test_readers_never_see_two_outcomes_of_one_record(bounds):
    """All worlds within these bounds, more than a hundred thousand each."""
    found = search(bounds)
    assert found.violation is None
    assert found.worlds > 100_000


@pytest.mark.soak
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(deaths=0),
        Bounds(deaths=2, generations=3, records=1),
        Bounds(deaths=1, generations=3, records=1, stops=1),
        Bounds(deaths=0, generations=4, records=1, set_backs=2),
    ],
)
def test_readers_never_see_two_outcomes_of_one_record_in_millions_of_worlds(bounds):
    found = search(bounds, most=3_000_000)
    assert found.violation is None
    assert found.worlds > 100_000
