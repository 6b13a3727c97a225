"""`queryveil search` against a real server on loopback."""

import json

import pytest

from queryveil.knowledge.sentences import SentenceEncoder
from queryveil.mechanisms.obfuscate.noisy import NoisyWords
from small_engine import running


@pytest.fixture(autouse=True)
def by_words(monkeypatch):
    monkeypatch.setattr(SentenceEncoder, "available", staticmethod(lambda: False))


def test_other_queries_are_sent_and_results_are_shown_best_first(run):
    with running() as engine:
        code, out, err = run("search", "throat cancer", "--engine-url", engine.template, "--mechanism", "aed", "-n", 4)
    assert code == 0
    assert len(engine.asked) == 4
    assert "throat cancer" not in engine.asked
    assert out.splitlines()[0].strip().startswith("1. Sore throats")
    assert "ranked here by shared words" in err
    assert "pip install 'queryveil[neural]'" in err


def test_the_deniability_that_nobody_is_shown_is_not_computed(run, monkeypatch):
    monkeypatch.setattr(NoisyWords, "deniability", lambda *given: pytest.fail("computed"))
    with running() as engine:
        code, out, _ = run("search", "throat cancer", "--engine-url", engine.template, "--epsilon", 5, "--json")
    assert code == 0
    assert json.loads(out)["obfuscation"]["deniability"] == []


def test_json_tells_results_and_what_was_sent(run):
    with running() as engine:
        arguments = ["--mechanism", "cmp", "--epsilon", 5, "-n", 3, "--json", "--seed", 1]
        code, out, _ = run("search", "throat cancer", "--engine-url", engine.template, *arguments)
    told = json.loads(out)
    assert code == 0
    assert sorted(told["sent"]) == sorted(engine.asked)
    assert told["results"][0]["url"].startswith("https://site/")
    assert told["obfuscation"]["guarantee"]["model"] == "metric-dp"


def test_a_hostile_engine_cannot_repaint_or_reorder_the_screen_through_json(run):
    title = "a\x9b2J\u202eb\u2066c\x1b[1m"
    answer = json.dumps({"results": [{"url": "https://site/1", "title": title, "content": title}]}).encode()
    with running(lambda query: (200, answer)) as engine:
        arguments = ["--mechanism", "aed", "--json"]
        code, out, _ = run("search", "throat cancer", "--engine-url", engine.template, *arguments)
    assert code == 0
    assert out.isascii()
    assert not [c for c in out if c < " " and c != "\n"]
    assert json.loads(out)["results"][0]["title"] == title


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--epsilon", "0"], 2),
        (["--epsilon", "nan"], 2),
        (["--epsilon", "5", "-n", "0"], 2),
        (["--epsilon", "5", "--results", "0"], 2),
        (["--epsilon", "5", "--timeout", "-1"], 2),
        (["--mechanism", "aed", "--epsilon", "5"], 2),
    ],
)
def test_wrong_settings_send_nothing(run, arguments, code):
    with running() as engine:
        assert run("search", "throat cancer", "--engine-url", engine.template, *arguments)[0] == code
        assert engine.asked == []


@pytest.mark.parametrize("query", ["", "🌷", "Xyzzy1984q"])
def test_a_query_that_cannot_be_obfuscated_sends_nothing_and_is_not_shown(run, query):
    with running() as engine:
        code, out, err = run("search", query, "--engine-url", engine.template, "--epsilon", 5)
        assert engine.asked == []
    assert code == 1
    assert "Xyzzy" not in out + err


def test_a_url_without_a_place_for_the_words_sends_nothing(run):
    code, _, err = run("search", "tea", "--engine-url", "https://host/?key=sesame", "--epsilon", 5)
    assert code == 2
    assert "{query}" in err
    assert "sesame" not in err


def test_an_engine_that_fails_is_told_without_the_words(run):
    with running(lambda query: (500, b"")) as engine:
        arguments = ["--mechanism", "aed", "-n", "3"]
        code, out, err = run("search", "throat cancer", "--engine-url", engine.template, *arguments)
        assert len(engine.asked) == 1
    assert code == 1
    assert "HTTP 500" in err
    assert not {word for text in engine.asked for word in text.split()} & set((out + err).split())


def test_an_address_that_others_can_read_is_warned_about(run):
    # Port 9 of a documentation address: nothing listens there, and nothing needs to.
    arguments = ["--mechanism", "aed", "--timeout", "0.2"]
    _, _, err = run("search", "throat cancer", "--engine-url", "http://192.0.2.1:9/?q={query}", *arguments)
    assert "not https" in err
