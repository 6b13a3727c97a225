"""`queryveil obfuscate`, and obfuscation through plan and release."""

import json

import numpy as np
import pytest

from queryveil.log import read, write
from queryveil.release.manifest import verify
from queryveil.testing import CANARY, sample_log
from small_engine import running


def told(text):
    return " ".join(text.split())


def test_the_queries_come_first_then_the_promise_the_losses_and_the_deniability(run):
    code, out, _ = run("obfuscate", "throat cancer", "--epsilon", "12.5", "-n", "3", "--seed", "1")
    assert code == 0
    sent = out.split("\n\n")[0].splitlines()
    assert len(sent) == 3
    assert all(len(query.split()) == 2 for query in sent)
    assert "ln(P/P′) ≤ 3 · 4.167 · Σ d(w, w′)" in told(out)
    assert "12.5 a word over 3, 25 this query" in told(out)
    assert "Deniability of word 2" in told(out)


def test_json_holds_the_same_and_nothing_of_the_query(run):
    options = ["--epsilon", "5", "--mechanism", "vkr-mhl", "--lambda", "0.3", "--t", "0.5", "--json", "--seed", "2"]
    code, out, _ = run("obfuscate", "zzyzx throat", *options)
    content = json.loads(out)
    assert code == 0
    assert len(content["queries"]) == 1
    assert content["guarantee"]["model"] == "metric-dp"
    assert "λ = 0.3" in content["guarantee"]["distance"]
    assert content["losses"]["per_query"] == 10.0
    assert len(content["deniability"]) == 2
    assert "zzyzx" not in out


def test_the_same_query_is_answered_alike_and_a_session_goes_on(run, tmp_path):
    command = ["obfuscate", "throat cancer", "--epsilon", "5", "--json", "--session", tmp_path / "tally.json"]
    _, first, _ = run(*command)
    _, second, _ = run(*command)
    assert json.loads(first)["queries"] == json.loads(second)["queries"]
    assert json.loads(second)["losses"]["session"] == 10.0
    _, third, _ = run(*command[:1], "throat symptoms", *command[2:])
    assert json.loads(third)["losses"]["session"] == 20.0
    assert json.loads(third)["losses"]["worst_word"] == 10.0


def test_without_a_file_the_tally_is_kept_beside_the_key_and_search_shares_it(run, tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYVEIL_KEYS", str(tmp_path))
    run("obfuscate", "throat", "--epsilon", "5")
    _, out, _ = run("obfuscate", "cancer", "--epsilon", "5")
    assert "5 this query, 10 in your tally so far (its most used word: 5)" in told(out)
    tally = (tmp_path / "obfuscate-session.json").read_text()
    assert "throat" not in tally
    with running() as engine:
        run("search", "garden", "--engine-url", engine.template, "--epsilon", "5", "--json")
    _, out, _ = run("obfuscate", "cancer", "--epsilon", "5", "--json")
    assert json.loads(out)["losses"]["session"] == 15.0


@pytest.mark.parametrize("options", [["--session", "none"], ["--seed", "1"]])
def test_where_no_tally_is_kept_no_sum_over_queries_is_told(run, tmp_path, monkeypatch, options):
    monkeypatch.setenv("QUERYVEIL_KEYS", str(tmp_path / "keys"))
    monkeypatch.chdir(tmp_path)
    _, out, _ = run("obfuscate", "throat", "--epsilon", "5", *options)
    assert "5 this query; no tally is kept" in told(out)
    assert not list(tmp_path.rglob("*session.json")) + list(tmp_path.rglob("none"))
    _, out, _ = run("obfuscate", "throat", "--epsilon", "5", "--json", *options)
    assert json.loads(out)["losses"]["session"] is None


def test_cutting_the_vocabulary_for_custext_is_told_before_it_starts_and_only_once(run, tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYVEIL_CACHE", str(tmp_path / "cache"))
    vectors = np.random.default_rng(1).standard_normal((60, 3)).astype(np.float32)
    words = [f"{a}{b}" for a in "abcdef" for b in "klmnopqrst"]
    np.savez(tmp_path / "toy.npz", words=np.array(words), vectors=vectors)
    command = ["obfuscate", "ak bm", "--epsilon", "5", "--seed", "1", "--embedding", tmp_path / "toy.npz"]
    code, _, err = run(*command, "--mechanism", "custext")
    assert code == 0
    assert "Cutting the vocabulary of 60 words" in told(err)
    for again in ("custext", "cmp"):
        code, _, err = run(*command, "--mechanism", again)
        assert code == 0
        assert "Cutting" not in err


def test_names_and_numbers_are_warned_about_on_stderr_without_being_quoted(run):
    code, out, err = run("obfuscate", "doctor Zebulon 4711", "--epsilon", "2")
    assert code == 0
    assert "a number was typed" in told(err)
    assert "may be a name" in told(err)
    assert "Zebulon" not in err + out
    assert "4711" not in err + out


def test_words_that_come_out_as_they_went_in_are_warned_about_on_stderr(run, tmp_path):
    words = [f"{a}{b}" for a in "abcdef" for b in "klmnopqrst"]
    np.savez(tmp_path / "toy.npz", words=np.array(words), vectors=np.eye(60, dtype=np.float32))
    settings = ["--epsilon", "900", "--embedding", tmp_path / "toy.npz"]
    for command in (["plan", "obfuscate"], ["obfuscate", "ak bm", "--seed", "1"]):
        code, out, err = run(*command, *settings)
        assert code == 0
        assert "Not protected: words that come out as they went in" in told(err)
        assert "words that come out as they went in" in told(out)
    assert "Deniability 1: nothing but your own word fits what is sent for word 1, 2." in told(err)
    _, _, err = run("obfuscate", "ak bm", "--seed", "1", "--epsilon", "1", "--embedding", tmp_path / "toy.npz")
    assert "Not protected" not in told(err)


@pytest.mark.parametrize(
    ("query", "options", "code"),
    [
        ("", ["--epsilon", "1"], 1),
        ("🌷", ["--epsilon", "1"], 1),
        ("zzyzxq qwfpgj", ["--epsilon", "1"], 1),
        ("cancer " * 10_000, ["--epsilon", "1"], 1),
        ("throat cancer", ["--epsilon", "0"], 2),
        ("throat cancer", ["--epsilon", "nan"], 2),
        ("throat cancer", [], 2),
        ("throat cancer", ["--epsilon", "1", "-n", "0"], 2),
        ("throat cancer", ["--epsilon", "1", "--mechanism", "mystery"], 2),
        ("throat cancer", ["--epsilon", "1", "--embedding", "no/such/file"], 1),
    ],
)
def test_bad_input_prints_no_query_and_says_why(run, query, options, code):
    got, out, err = run("obfuscate", query, *options)
    assert got == code
    assert out == ""
    assert err
    assert "cancer" not in err
    assert "zzyzxq" not in err


def test_plan_tells_the_promise_before_any_query(run):
    code, out, _ = run("plan", "obfuscate", "--mechanism", "mhl", "--epsilon", "10", "--lambda", "0.5", "-n", "2")
    assert code == 0
    assert "regularised Mahalanobis, λ = 0.5" in told(out)
    assert "Smallest eigenvalue" in told(out)


def test_a_release_is_signed_and_holds_nothing_of_the_input(run, tmp_path):
    write(sample_log(), tmp_path / "log.jsonl")
    code, _, _ = run("release", "obfuscate", tmp_path / "log.jsonl", "-o", tmp_path / "out", "--epsilon", "3")
    assert code == 0
    manifest = verify(tmp_path / "out").manifest
    assert manifest["guarantee"]["model"] == "metric-dp"
    assert CANARY not in json.dumps(manifest)
    assert CANARY not in read(tmp_path / "out" / "log.jsonl").queries()
