"""The gateway's work against a real engine on loopback: what is drawn, charged, sent, and told of failures."""

import json
import threading
from urllib.parse import quote

import numpy as np
import pytest

from queryveil.errors import BudgetError, DataError, ParameterError
from queryveil.knowledge.sentences import SentenceEncoder
from queryveil.mechanisms.obfuscate import Obfuscate, SearchSession
from queryveil.mechanisms.obfuscate.session import unchanged_shares
from queryveil.privacy import Noise
from queryveil.search import gateway as gateway_module
from queryveil.search.gateway import Gateway
from queryveil.search.private_search import EngineAddress, Hit, Ranker, by_shared_words
from small_engine import MADE_UP, over, running
from waiting import LONG

QUERY = "throat cancer treatment"
PATIENT = min(LONG, 600)


@pytest.fixture(autouse=True)
def by_words(monkeypatch):
    """Rank as where the extra neural is not installed: it is quicker to load."""
    monkeypatch.setattr(SentenceEncoder, "available", staticmethod(lambda: False))


def gateway_to(engine, *, seed=1, limit=None, tally=None, **settings):
    chosen = {"mechanism": "cmp", "epsilon": 60.0, "n": 6} | settings
    return Gateway(
        Obfuscate(**chosen),
        EngineAddress.parse(engine.template),
        noise=Noise.seeded(seed),
        tally=tally or SearchSession(key=bytes(32)),
        limit=limit,
        timeout=PATIENT,
    )


def test_what_was_announced_is_received_and_nothing_else():
    with running(over(MADE_UP)) as engine:
        gateway = gateway_to(engine)
        question = gateway.ask(QUERY)
        assert engine.asked == []
        assert gateway.standing().epsilon_of_session == 0
        gateway.send(question)
    assert sorted(engine.asked) == sorted(set(question.given.queries)) == sorted(question.sent)
    # The whole of every request: path and headers hold what was announced and what is the same for all.
    announced = {f"GET /search?q={quote(text, safe='')}&format=json HTTP/1.1" for text in question.sent}
    assert set(engine.requests) == announced
    assert len({json.dumps(headers, sort_keys=True) for headers in engine.headers}) == 1
    assert set(engine.headers[0]) == {"Accept-Encoding", "Host", "User-Agent", "Accept", "Connection"}
    assert question.hits
    assert gateway.texts_sent == len(engine.asked)


def test_the_same_query_is_the_same_draw_and_free_and_a_new_word_is_charged():
    with running(over(MADE_UP)) as engine:
        gateway = gateway_to(engine)
        first, again = gateway.ask(QUERY), gateway.ask("Throat  CANCER, treatment!")
        assert again.given.queries == first.given.queries
        assert gateway.price(again).epsilon_added == 180.0  # nothing was sent, so nothing was spent
        gateway.send(first)
        assert gateway.price(again).epsilon_added == 0
        gateway.send(again)
        assert (first.loss.epsilon_added, again.loss.epsilon_added) == (180.0, 0.0)
        gateway.send(gateway.ask("throat tea"))
    assert gateway.standing().epsilon_of_session == 300.0
    assert gateway.standing().epsilon_of_worst_word == 120.0  # throat, twice


def test_other_noise_is_another_draw():
    """The broken twin of the test above: with noise drawn anew, the same query would be sent in other words."""
    with running(over(MADE_UP)) as engine:
        drawn = {tuple(gateway_to(engine, seed=seed).ask(QUERY).given.queries) for seed in (1, 2)}
    assert len(drawn) == 2


def test_above_the_limit_nothing_is_sent_but_what_was_asked_before_still_is():
    with running(over(MADE_UP)) as engine:
        gateway = gateway_to(engine, limit=200.0)
        gateway.send(gateway.ask(QUERY))
        sent = len(engine.asked)
        refused = gateway.ask("rose gardens")
        with pytest.raises(BudgetError, match=r"ε = 300.*limit is 200.*Nothing was sent") as problem:
            gateway.send(refused)
        assert len(engine.asked) == sent
        assert gateway.standing().epsilon_of_session == 180.0
        assert "rose" not in str(problem.value)
        gateway.send(gateway.ask(QUERY))
        assert len(engine.asked) == 2 * sent


def test_a_tally_with_a_file_goes_on_and_holds_the_limit(tmp_path):
    file = tmp_path / "tally.json"
    with running(over(MADE_UP)) as engine:
        first = gateway_to(engine, limit=200.0, tally=SearchSession(file, key=bytes(32)))
        first.send(first.ask(QUERY))
        second = gateway_to(engine, limit=200.0, tally=SearchSession(file, key=bytes(32)))
        with pytest.raises(BudgetError):
            second.send(second.ask("rose gardens"))


def test_some_failures_are_told_and_only_those_are_sent_again():
    failing, sick = set(), threading.Event()
    sick.set()

    def answer(query):
        if sick.is_set() and query in failing:
            return 429, b""
        return over(MADE_UP)(query)

    with running(answer) as engine:
        gateway = gateway_to(engine, mechanism="vkr-cmp", epsilon=90.0)
        question = gateway.ask(QUERY)
        failing.update(question.sent[:2])
        gateway.send(question)
        assert set(question.failures) == failing
        [(reason, times)] = question.problems()
        assert "HTTP 429" in reason
        assert times == 2
        assert not any(word in reason for text in question.sent for word in text.split())
        assert question.hits
        engine.asked.clear()
        sick.clear()
        gateway.send(question)
        assert sorted(engine.asked) == sorted(failing)
        assert question.failures == {}
        assert gateway.standing().epsilon_of_session == 270.0
        engine.asked.clear()
        gateway.send(question)  # the button pressed once more
        assert engine.asked == []


def test_no_engine_at_all_is_told_and_no_error():
    with running(over(MADE_UP)) as engine:
        pass
    gateway = gateway_to(engine)
    question = gateway.ask(QUERY)
    gateway.send(question)
    assert question.hits == []
    assert len(question.failures) == len(question.sent)


def test_requests_are_under_way_together():
    together = threading.Barrier(3, timeout=LONG)  # who sends one after the other never gets past it

    def answer(query):
        together.wait()
        return over(MADE_UP)(query)

    with running(answer) as engine:
        gateway = gateway_to(engine, mechanism="vkr-cmp", epsilon=15.0, n=3)
        question = gateway.ask(QUERY)
        assert len(question.sent) == 3
        gateway.send(question)
    assert question.failures == {}


def test_the_best_by_words_are_ranked_by_meaning_and_no_more_are_read(monkeypatch):
    read = []

    class Reversing:
        """In place of the sentence model: what is put in comes out the other way round."""

        def __init__(self, texts):
            read.extend(texts)

        def search(self, queries, depth):
            return [np.arange(depth)[::-1]]

    monkeypatch.setattr(gateway_module, "MOST_READ", 3)
    monkeypatch.setattr(gateway_module, "ranker", lambda longest: Ranker("meaning", Reversing))
    texts = ["throat", "tea", "throat cancer treatment", "milk", "throat cancer", "bread"]
    results = [{"url": f"https://site/{number}", "title": text} for number, text in enumerate(texts)]
    with running(lambda query: (200, json.dumps({"results": results}).encode())) as engine:
        gateway = gateway_to(engine)
        question = gateway.ask(QUERY, deniable=False)
        gateway.send(question)
    assert question.ranked_by == "meaning"
    assert [hit.title for hit in question.hits] == [
        "throat", "throat cancer", "throat cancer treatment", "tea", "milk", "bread",
    ]  # fmt: skip
    assert len(read) == 3


def test_a_place_by_meaning_counts_twice_and_one_by_words_once(monkeypatch):
    """By words the order is a b c d, by meaning d c b a but for b: b first, since 2·0 + 1 < 2·2 + 0 < 2·1 + 3."""

    class Meaning:
        def __init__(self, texts):
            self.order = [next(i for i, text in enumerate(texts) if text.startswith(name)) for name in "bdac"]

        def search(self, queries, depth):
            return [np.array(self.order)]

    monkeypatch.setattr(gateway_module, "ranker", lambda longest: Ranker("meaning", Meaning))
    texts = ["a throat cancer treatment", "b throat cancer x", "c throat x y", "d z"]
    pool = [Hit(f"https://site/{text[0]}", text, "") for text in texts]
    assert [hit.title[0] for hit in by_shared_words().ranked(QUERY, pool)] == ["a", "b", "c", "d"]
    ranked, how = gateway_module.rank_pool(QUERY, pool)
    assert [hit.title[0] for hit in ranked] == ["b", "a", "d", "c"]
    assert how == "meaning"


def test_how_deniable_each_word_is_stands_beside_it():
    with running() as engine:
        question = gateway_to(engine).ask("throat qwfpgj cancer")
        assert [(word.text, word.known) for word in question.words] == [
            ("throat", True), ("qwfpgj", False), ("cancer", True)
        ]  # fmt: skip
        assert all(0 <= word.unchanged <= 1 and word.could_be >= 1 for word in question.words)
        assert "throat" not in repr(question) + repr(question.words)
        quick = gateway_to(engine).ask(QUERY, deniable=False)
        assert quick.words == ()
        dropped = gateway_to(engine, mode="paper", epsilon=10.0).ask("throat qwfpgj cancer")
        assert [word.text for word in dropped.words] == ["throat", "cancer"]


def far_from_the_law(mechanism, asked):
    """Whether shares of 2,000 draws are further than 0.06 from the exact chances.

    By Hoeffding each word is, with the right law, in 1 of 700,000 runs; a chance that is off by 0.1 or more is found
    with the same odds at 0.04.
    """
    words = mechanism.reader.query(QUERY)
    exact = mechanism.words.chance_unchanged(words, words)
    return bool((np.abs(np.array(unchanged_shares(asked, QUERY, Noise.seeded(5), draws=2000)) - exact) > 0.06).any())


def test_the_share_that_comes_out_unchanged_is_that_of_the_law():
    mechanism = Obfuscate(mechanism="tem", epsilon=4.0)
    assert not far_from_the_law(mechanism, mechanism)
    assert far_from_the_law(mechanism, Obfuscate(mechanism="tem", epsilon=5.0))


def test_where_nothing_is_promised_nothing_is_added_up():
    with running(over(MADE_UP)) as engine:
        gateway = gateway_to(engine, mechanism="aed", epsilon=None)
        question = gateway.ask(QUERY)
        assert question.words == ()
        gateway.send(question)
        assert gateway.standing().epsilon_of_session == 0
        assert gateway.texts_sent == len(question.sent)
        with pytest.raises(ParameterError, match="limit has no meaning"):
            gateway_to(engine, mechanism="aed", epsilon=None, limit=10.0)


def test_the_sum_is_named_by_its_kind_and_no_stronger():
    with running(over(MADE_UP)) as engine:
        kinds = {
            (name, mode): gateway_to(engine, mechanism=name, mode=mode).kind
            for name in ("cmp", "tem", "wbb")
            for mode in ("safe", "paper")
        }
        assert kinds.pop(("wbb", "paper")) is None  # nothing holds between boxes
        assert kinds.pop(("wbb", "safe")) == "ε-differential privacy per word"
        assert set(kinds.values()) == {"metric privacy per word"}
        unpromised = gateway_to(engine, mechanism="wbb", mode="paper", epsilon=10.0, n=2)
        question = unpromised.ask(QUERY, deniable=False)
        unpromised.send(question)
        assert unpromised.standing().epsilon_of_session == question.loss.epsilon_added == 0


@pytest.mark.parametrize("query", ["", "🌷", "Xyzzy1984q"])
def test_a_query_that_cannot_be_obfuscated_is_refused_and_not_repeated(query):
    with running() as engine, pytest.raises(DataError, match="Nothing was sent") as problem:
        gateway_to(engine).ask(query)
    assert "Xyzzy" not in str(problem.value)


def test_only_the_last_questions_are_kept(monkeypatch):
    monkeypatch.setattr(gateway_module, "MOST_KEPT", 2)
    with running() as engine:
        gateway = gateway_to(engine)
        asked = [gateway.ask(text, deniable=False) for text in ("tea", "milk", "bread")]
    assert [gateway.question(one.id) for one in asked] == [None, *asked[1:]]
    gateway.forget()
    assert gateway.question(asked[2].id) is None


@pytest.mark.parametrize("wrong", [{"limit": 0.0}, {"limit": float("nan")}, {"limit": True}])
def test_wrong_settings_are_refused(wrong):
    with running() as engine, pytest.raises(ParameterError):
        gateway_to(engine, **wrong)
