"""Every mechanism tells how far it is: in rising shares, in fixed words, and with no effect on the release."""

import numpy as np
import pytest

from mechanisms.block_checks import released, whole
from progress_checks import check_course, everything_told
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.mechanisms.microaggregate import partition
from queryveil.mechanisms.obfuscate import selecting
from queryveil.mechanisms.semantic import sealed
from queryveil.privacy import Noise
from queryveil.progress import listening, tell

TEXTS = ["throat cancer", "flu", "asthma", "chess", "weather", "river trout", "tennis", "garden"]
DISEASE = {"epsilon": 2.0, "domain": "disease"}
PAPER = {"mode": "paper", "per": "user", **DISEASE}
WORDS = {"epsilon": 4.0, "n": 2}
CASES = {
    "suppress": ("suppress", {"k_text": 2}, {"going through the texts", "going through the users"}),
    "microaggregate": ("microaggregate", {"k": 2, "k_text": 2}, {"going through the texts", "grouping the users"}),
    "microaggregate paper": ("microaggregate", {"k": 2, "mode": "paper"}, {"grouping the users"}),
    "sanitize": ("sanitize", {"contribution": 3}, {"going through the users"}),
    "sanitize size": ("sanitize", {"mode": "paper"}, {"solving a linear program", "searching for more pairs"}),
    "sanitize frequent": ("sanitize", {"mode": "paper", "objective": "frequent"}, {"solving a linear program"}),
    "sanitize diversity": ("sanitize", {"mode": "paper", "objective": "diversity"}, {"solving with cuts"}),
    "sanitize laplace": (
        "sanitize", {"mode": "paper", "laplace_d": 1.0, "laplace_epsilon": 0.5}, {"solving without each user"},
    ),
    "semantic": ("semantic", {"per": "query", "criterion": "sqc1", **DISEASE}, {"calibrating the law"}),
    "semantic repeated": (
        "semantic",
        {"per": "user", "delta": 1e-6, "max_queries": 5, "epsilon": 2.0, "domain": "contact_sport"},
        {"calibrating the law"},
    ),
    "semantic paper": ("semantic", {"criterion": "sqc1", **PAPER}, {"reading the texts", "drawing concepts"}),
    "semantic histogram": ("semantic", {"criterion": "hbdp", **PAPER}, {"reading the texts"}),
    "stream": ("stream", {"k": 2, "k_text": 2}, {"finding categories", "streaming the records"}),
    "stream by category": ("stream", {"k": 2, "k_text": 2, "by_category": True}, {"finding categories"}),
    "obfuscate aed": ("obfuscate", {"mechanism": "aed"}, {"going through the users"}),
    "obfuscate cmp": ("obfuscate", {"mechanism": "cmp", **WORDS}, {"going through the users"}),
    "obfuscate tem": ("obfuscate", {"mechanism": "tem", **WORDS}, {"going through the users"}),
    "obfuscate custext": (
        "obfuscate", {"mechanism": "custext", **WORDS}, {"going through the users", "cutting the vocabulary into sets"},
    ),
}  # fmt: skip
ALL_WORDS = set().union(*(works for _, _, works in CASES.values())) | {
    "comparing concepts", "going through the records", "preparing public knowledge, once",
}  # fmt: skip


def log_of(user: str, text: str) -> QueryLog:
    """The same log under other names: who and what differs, how often does not."""
    picks = np.random.default_rng(1).integers(0, len(TEXTS), 240)
    rows = [
        (f"{user}{i * 7 % 24}", f"{TEXTS[pick]} {text}", None, 1, f"{text}{pick % 3}.example")
        for i, pick in enumerate(picks)
    ]
    return QueryLog.of(rows)


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "toy.npz"
    words = sorted({word for text in TEXTS for word in text.split()} | {f"word{number}" for number in range(60)})
    vectors = np.random.default_rng(1).standard_normal((len(words), 3)).astype(np.float32)
    np.savez(path, words=np.array(words), vectors=vectors)
    return str(path)


@pytest.fixture
def mechanism(case, embedding, monkeypatch):
    """A mechanism that has everything to do anew."""
    monkeypatch.setattr(sealed, "read", lambda claim: None)
    monkeypatch.setattr(sealed, "write", lambda *kept: None)
    monkeypatch.setattr(selecting, "compiled_once", lambda path, build: build())
    name, parameters, _ = CASES[case]
    if "epsilon" in parameters and name == "obfuscate":
        parameters = parameters | {"embedding": embedding}
    return make(name, **parameters)


@pytest.mark.parametrize("case", CASES)
def test_what_is_told_rises_to_the_end_in_fixed_words(case, mechanism, monkeypatch):
    with everything_told() as told:
        released(mechanism, log_of("Ann Canary ", "canary"), monkeypatch, blocks=4)
    check_course(told)
    words = {what for what, _ in told}
    assert CASES[case][2] <= words <= ALL_WORDS
    assert not any(secret in what.lower() for what in words for secret in ("canary", *TEXTS))


@pytest.mark.parametrize("case", ["suppress", "microaggregate", "sanitize size", "semantic", "stream", "obfuscate cmp"])
@pytest.mark.parametrize("blocks", [1, 4])
def test_who_listens_changes_nothing_even_by_raising(case, mechanism, blocks, monkeypatch):
    def broken(what, share):
        raise ValueError("the terminal is gone")

    log = log_of("ann ", "again")
    alone = released(mechanism, log, monkeypatch, blocks=blocks)
    for listener in (lambda what, share: None, broken):
        with listening(listener, every=0):
            heard = released(mechanism, log, monkeypatch, blocks=blocks)
        assert whole(heard).equals(whole(alone))
        assert (heard.parameters, heard.columns, heard.guarantee) == (alone.parameters, alone.columns, alone.guarantee)


@pytest.mark.parametrize("case", ["obfuscate cmp", "obfuscate aed", "obfuscate tem"])
def test_a_single_block_tells_how_far_it_is_within(case, mechanism, monkeypatch):
    monkeypatch.setattr("queryveil.mechanisms.obfuscate.noisy.DRAWS_AT_ONCE", 16)
    with everything_told() as told:
        released(mechanism, log_of("ann ", "again"), monkeypatch, blocks=1)
    assert len({share for _, share in told}) > 5


def test_grouping_many_users_tells_of_both_halves_of_every_round():
    rng = np.random.default_rng(1)
    nodes = np.sort(rng.integers(0, 40, (600, 6)).astype(np.int32), axis=1)
    profiles = partition.Profiles(np.arange(601) * 6, nodes.ravel(), np.ones(3600, np.int32), 40)
    with everything_told() as told:
        groups = partition.greedy(profiles, 3)
    check_course(told)
    assert len(told) > 2 * partition.PIECES
    assert np.array_equal(groups, partition.greedy(profiles, 3))


@pytest.mark.parametrize("case", ["suppress"])
def test_a_mechanism_that_counts_back_or_stops_short_is_noticed(case, mechanism):
    class Backwards(type(mechanism)):
        def _shared(self, block, rows):
            tell("withholding", 0.5 - 0.1 * block)
            return super()._shared(block, rows)

        def protect(self, log, noise):
            tell("withholding", 0.9)
            tell("withholding", 0.5)
            return super().protect(log, noise)

    with everything_told() as told:
        Backwards(k_text=2).protect(log_of("ann ", "again"), Noise.seeded(1))
    with pytest.raises(AssertionError, match="falls"):
        check_course(told)
