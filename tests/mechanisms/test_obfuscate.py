"""Obfuscation of queries: same query same answer, budgets, unknown words, bad input, conformance."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostile_values import NOT_A_NUMBER
from properties import examples
from queryveil.errors import DataError, KnowledgeError, ParameterError, RefusedError
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.mechanisms.obfuscate import Obfuscate, SearchSession, answer, obfuscation, own_noise, session
from queryveil.mechanisms.obfuscate.words import MOST_WORDS, Deniability
from queryveil.privacy import Noise
from queryveil.testing import CANARY, check_mechanism
from vectors.obfuscate import COMPOSITION

WORDS = ["public", "throat", "cancer", "weather", "train", "times", "chess", "football", "apple", "pie", "recipe",
         "symptoms", "doctor", "hospital", "garden", "river"]  # fmt: skip
ALL = ["cmp", "mhl", "vkr-cmp", "vkr-mhl", "tem", "santext", "custext", "wbb"]


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    vectors = np.random.default_rng(1).standard_normal((len(WORDS), 3)).astype(np.float32)
    np.savez(folder / "toy.npz", words=np.array(WORDS), vectors=vectors)
    return str(folder / "toy.npz")


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYVEIL_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(session, "alerts", lambda query: [])  # tested by themselves; WordNet takes long to compile
        yield


def made(embedding, **changes) -> Obfuscate:
    return Obfuscate(**{"mechanism": "cmp", "epsilon": 4.0, "embedding": embedding, **changes})


# The same query, the same obfuscations


@pytest.mark.parametrize("mechanism", ALL)
def test_the_same_query_gives_the_same_obfuscations_and_another_key_gives_others(embedding, mechanism):
    ours = made(embedding, mechanism=mechanism, n=30)
    first = ours.obfuscate("throat cancer", 30, Noise.seeded(1))
    assert len(first) == 30
    assert first == ours.obfuscate("  Throat CANCER ", 30, Noise.seeded(1))
    assert first != ours.obfuscate("throat cancer", 30, Noise.seeded(2))
    assert {len(sent.split()) for sent in first} == {2}
    assert {word for sent in first for word in sent.split()} <= set(WORDS)


@pytest.mark.parametrize("mechanism", ALL)
def test_five_obfuscations_are_the_beginning_of_twenty_at_the_same_epsilon_for_each(embedding, mechanism):
    five = made(embedding, mechanism=mechanism, epsilon=10.0, n=5).obfuscate("throat cancer", 5, Noise.seeded(1))
    twenty = made(embedding, mechanism=mechanism, epsilon=40.0, n=20).obfuscate("throat cancer", 20, Noise.seeded(1))
    assert twenty[:5] == five
    paper = made(embedding, mechanism=mechanism, epsilon=2.0, mode="paper", lambda_=0.5)
    same_law = mechanism != "wbb"
    assert (paper.obfuscate("throat cancer", 20, Noise.seeded(1))[:5] == five) == same_law


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(1, 99_999), st.sampled_from([1, 10, 100, 1000]), st.integers(1, 1000))
def test_a_share_of_epsilon_is_the_epsilon_that_was_meant_and_never_more(units, scale, n):
    """Decimals that divide evenly, such as 2.1 over 3, which floats do not."""
    each, whole = units / scale, units * n / scale
    if whole <= 1e6:
        assert Obfuscate(epsilon=whole, n=n).epsilon_each == Obfuscate(epsilon=each).epsilon_each == each
    share = Obfuscate(epsilon=each, n=n).epsilon_each
    assert Fraction(repr(share)) * n <= Fraction(repr(each))
    assert share == pytest.approx(each / n, rel=1e-10)


@pytest.mark.parametrize("change", [{"epsilon": 4.1}, {"mechanism": "tem"}, {"mechanism": "vkr-cmp"}])
def test_other_settings_draw_other_noise(embedding, change):
    base = made(embedding, n=40).stream_of(np.array([1, 2]), Noise.seeded(1)).words(4)
    other = made(embedding, n=40, **change).stream_of(np.array([1, 2]), Noise.seeded(1)).words(4)
    assert base.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("mechanism", "change"),
    [
        ("cmp", {"t": 0.5}),
        ("cmp", {"lambda_": 0.3}),
        ("cmp", {"mode": "paper"}),
        ("vkr-cmp", {"mode": "paper"}),
        ("tem", {"mode": "paper", "t": 0.1}),
        ("mhl", {"t": 0.1}),
        ("custext", {"lambda_": 0.1}),
    ],
)
def test_a_parameter_without_effect_draws_no_new_noise(embedding, mechanism, change):
    first = made(embedding, mechanism=mechanism).stream_of(np.array([1, 2]), Noise.seeded(1)).words(4)
    same = made(embedding, mechanism=mechanism, **change).stream_of(np.array([1, 2]), Noise.seeded(1)).words(4)
    assert first.tolist() == same.tolist()


@pytest.mark.parametrize(("mechanism", "change"), [("vkr-cmp", {"t": 0.5}), ("mhl", {"lambda_": 0.3})])
def test_a_parameter_with_effect_draws_new_noise(embedding, mechanism, change):
    first = made(embedding, mechanism=mechanism).stream_of(np.array([1, 2]), Noise.seeded(1)).words(4)
    other = made(embedding, mechanism=mechanism, **change).stream_of(np.array([1, 2]), Noise.seeded(1)).words(4)
    assert first.tolist() != other.tolist()


def test_the_searchers_own_noise_is_kept_and_nothing_else_is(embedding, tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYVEIL_KEYS", str(tmp_path))
    ours = made(embedding, n=9)
    assert ours.obfuscate("throat cancer", 9, own_noise()) == ours.obfuscate("throat cancer", 9, own_noise())
    assert [path.name for path in tmp_path.iterdir()] == ["obfuscate.key"]
    assert (tmp_path / "obfuscate.key").stat().st_mode & 0o077 == 0


# Budgets


def test_safe_mode_splits_epsilon_over_the_obfuscations_and_paper_mode_does_not(embedding):
    safe, paper = made(embedding, n=4, epsilon=8.0), made(embedding, n=4, epsilon=8.0, mode="paper")
    assert (safe.epsilon_each, paper.epsilon_each) == (2.0, 8.0)
    assert (safe.guarantee().epsilon, paper.guarantee().epsilon) == (8.0, 32.0)
    assert (safe.lambda_used, paper.lambda_used) == (0.5, 1.0)


def test_safe_mode_refuses_more_obfuscations_than_epsilon_was_split_over(embedding):
    with pytest.raises(RefusedError, match="cost more than was promised"):
        made(embedding, n=4).obfuscate("throat cancer", 5, Noise.seeded(1))
    assert len(made(embedding, n=4, mode="paper").obfuscate("throat cancer", 5, Noise.seeded(1))) == 5


def test_twenty_queries_of_three_words_as_in_the_paper_lose_what_was_computed_apart(embedding):
    ours = made(embedding, n=COMPOSITION["queries"], epsilon=COMPOSITION["epsilon"], mode="paper")
    losses = answer(ours, "throat cancer symptoms", Noise.seeded(1), SearchSession(key=bytes(32))).losses
    assert losses.per_query * COMPOSITION["distance"] == COMPOSITION["log-ratio"]
    assert math.log(2) / losses.per_obfuscation == pytest.approx(COMPOSITION["radius for ln 2"])


def test_all_three_losses_are_told(embedding):
    given = answer(
        made(embedding, n=4, epsilon=8.0), "throat cancer symptoms", Noise.seeded(1), SearchSession(key=bytes(32))
    )
    assert (given.losses.per_obfuscation, given.losses.per_word, given.losses.per_query) == (2.0, 8.0, 24.0)
    assert (given.losses.session, given.losses.worst_word) == (24.0, 8.0)
    assert len(given.deniability) == 3
    assert all(1 <= count.words <= len(WORDS) for count in given.deniability)


def test_a_session_charges_what_is_new_and_only_that(embedding):
    session, ours = SearchSession(key=bytes(32)), made(embedding, epsilon=2.0, n=5, mode="paper")
    assert session.charge(ours, "throat cancer", 5).epsilon_added == 20.0
    assert session.charge(ours, "Throat  cancer", 5).epsilon_added == 0.0
    assert session.charge(ours, "throat cancer", 7).epsilon_added == 8.0
    assert session.charge(ours, "throat cancer", 3).epsilon_added == 0.0
    again = session.charge(ours, "cancer symptoms", 5)
    assert again.epsilon_added == 20.0
    assert again.epsilon_of_worst_word == 24.0  # cancer: 7 · 2 and 5 · 2
    changed = session.charge(made(embedding, epsilon=3.0, n=5, mode="paper"), "throat cancer", 1)
    assert changed.epsilon_added == 6.0
    assert changed.epsilon_of_session == 20.0 + 8.0 + 20.0 + 6.0


def test_the_same_query_under_another_key_is_new_noise_and_charged(embedding):
    session, ours = SearchSession(key=bytes(32)), made(embedding, epsilon=2.0, n=5, mode="paper")
    one, other = Noise.seeded(1), Noise.seeded(2)
    charged = [session.charge(ours, "throat cancer", 5, noise).epsilon_added for noise in (one, one, other, other)]
    assert charged == [20.0, 0.0, 20.0, 0.0]
    assert one.fingerprint() == Noise.seeded(1).fingerprint() != other.fingerprint()


@pytest.mark.parametrize("value", ["NaN", "-1e9", "Infinity", "1" + "0" * 400])
@pytest.mark.parametrize("part", ["asked", "words"])
def test_a_tally_whose_numbers_cannot_be_is_refused(embedding, tmp_path, part, value):
    file = tmp_path / "tally.json"
    SearchSession(file).charge(made(embedding), "throat", 1)
    content = json.loads(file.read_text())
    name = next(iter(content[part]))
    content[part][name] = "PLACE"
    file.write_text(json.dumps(content).replace('"PLACE"', value))
    with pytest.raises(DataError, match="not the tally"):
        SearchSession(file)


def test_the_true_word_always_fits():
    assert Deniability(0, "estimated").words == 1
    assert Deniability(7, "estimated").words == 7


def test_mechanisms_that_measure_alike_add_up_for_a_word_and_others_do_not(embedding):
    session = SearchSession(key=bytes(32))
    worst = [
        session.charge(made(embedding, mechanism=name, epsilon=epsilon), "cancer", 1).epsilon_of_worst_word
        for name, epsilon in [
            ("tem", 10.0), ("tem", 11.0), ("cmp", 1.0), ("santext", 2.0), ("vkr-cmp", 3.0), ("mhl", 4.0),
            ("vkr-mhl", 5.0), ("custext", 6.0),
        ]
    ]  # fmt: skip
    assert worst == [10.0, 21.0, 22.0, 24.0, 27.0, 27.0, 27.0, 27.0]


def test_a_word_twice_in_a_query_is_charged_twice(embedding):
    spent = SearchSession(key=bytes(32)).charge(made(embedding, epsilon=1.0), "weather weather", 1)
    assert (spent.epsilon_added, spent.epsilon_of_worst_word) == (2.0, 2.0)


def test_a_session_in_a_file_goes_on_and_holds_no_word(embedding, tmp_path):
    ours, path = made(embedding, epsilon=2.0), tmp_path / "tally.json"
    SearchSession(path).charge(ours, "throat cancer", 1)
    assert SearchSession(path).charge(ours, "throat cancer", 1).epsilon_added == 0.0
    assert SearchSession(path).charge(ours, "throat symptoms", 1).epsilon_of_session == 8.0
    text = path.read_text()
    assert "throat" not in text
    assert path.stat().st_mode & 0o077 == 0
    assert [file.name for file in tmp_path.iterdir()] == ["tally.json"]


def test_two_sessions_on_one_file_forget_nothing_of_each_other(embedding, tmp_path):
    ours, path = made(embedding, epsilon=2.0), tmp_path / "tally.json"
    first, second = SearchSession(path), SearchSession(path)
    first.charge(ours, "throat", 1)
    assert second.charge(ours, "cancer", 1).epsilon_of_session == 4.0
    assert first.charge(ours, "weather", 1).epsilon_of_session == 6.0
    assert SearchSession(path).charge(ours, "throat", 1).epsilon_of_session == 6.0


def test_many_at_once_on_one_file_are_all_counted(embedding, tmp_path):
    """Eight threads, each with a session of its own; without the lock most of the 64 charges are lost."""
    path, ours = tmp_path / "tally.json", made(embedding, epsilon=2.0)
    ours.words.metric  # noqa: B018 - loaded before the race begins

    def ask(number):
        for word in WORDS[number * 2 : number * 2 + 2]:
            for other in ("throat", "cancer", "river", "garden"):
                SearchSession(path).charge(ours, f"{word} {other}", 1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    assert SearchSession(path).charge(ours, "public throat", 1).epsilon_of_session == 16 * 4 * 4.0


def test_a_tally_in_a_folder_that_is_not_there_is_told(embedding, tmp_path):
    with pytest.raises(DataError, match="cannot keep the tally"):
        SearchSession(tmp_path / "none" / "tally.json").charge(made(embedding), "throat", 1)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"asked": 1, "words": {}}', '{"asked": {"a": "x"}, "words": {}}'])
def test_a_broken_tally_is_refused(tmp_path, content):
    (tmp_path / "tally.json").write_text(content)
    with pytest.raises(DataError, match="not the tally of a session"):
        SearchSession(tmp_path / "tally.json")


# Unknown words and bad input


def test_an_unknown_word_becomes_a_public_word_in_safe_mode_and_is_dropped_in_paper_mode(embedding):
    safe, paper = made(embedding, epsilon=1e5), made(embedding, epsilon=1e5, mode="paper")
    assert safe.obfuscate("zzyzx cancer", 1, Noise.seeded(1)) == ["public cancer"]
    assert paper.obfuscate("zzyzx cancer", 1, Noise.seeded(1)) == ["cancer"]


@pytest.mark.parametrize(("mode", "n"), [("safe", 400), ("paper", 1)])
def test_only_words_that_were_typed_count_as_unchanged_and_not_their_stand_ins(embedding, mode, n):
    """At ε = 4 a draw the stand-ins change and the typed word stays: that is one typed word kept."""
    ours = made(embedding, epsilon=4.0 * (n if mode == "safe" else 1), n=n, mode=mode)
    given = answer(ours, "zzyzx cancer qwfp", Noise.seeded(1), None)
    place = 1 if mode == "safe" else 0
    assert given.unchanged == sum(sent.split()[place] == "cancer" for sent in given.queries)
    assert mode == "paper" or given.unchanged > sum(sent == "public cancer public" for sent in given.queries)


@pytest.mark.parametrize("mechanism", ALL)
@pytest.mark.parametrize("mode", ["safe", "paper"])
def test_an_unknown_word_never_comes_out(embedding, mechanism, mode):
    ours = made(embedding, mechanism=mechanism, mode=mode, n=50)
    sent = ours.obfuscate("zzyzx cancer qwfp 4711", 50, Noise.seeded(3))
    assert {word for text in sent for word in text.split()} <= set(WORDS)


def test_two_queries_that_differ_in_an_unknown_word_only_get_the_same_obfuscations(embedding):
    ours = made(embedding, n=20)
    assert ours.obfuscate("zzyzx cancer", 20, Noise.seeded(1)) == ours.obfuscate("qwfp cancer", 20, Noise.seeded(1))


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", "no words"),
        ("   ", "no words"),
        ("🌷🏳️‍🌈", "no words"),
        ("!?", "no words"),
        ("zzyzx qwfp", "no word of the query is in the vocabulary"),
        ("cancer " * 10_000, f"at most {MOST_WORDS:,} words"),
    ],
)
@pytest.mark.parametrize("mode", ["safe", "paper"])
def test_a_query_that_cannot_be_obfuscated_is_an_error_that_does_not_quote_it(embedding, query, told, mode):
    session = SearchSession(key=bytes(32))
    with pytest.raises(DataError, match=told) as caught:
        answer(made(embedding, mode=mode), query, Noise.seeded(1), session)
    assert "Nothing was sent" in str(caught.value)
    assert "zzyzx" not in str(caught.value)
    assert session.charge(made(embedding), "cancer", 1).epsilon_of_session == 4.0  # and nothing was charged


@pytest.mark.parametrize("epsilon", [*NOT_A_NUMBER, 0, -1.0, 1e-9, 1e9])
def test_a_bad_epsilon_is_refused(epsilon):
    with pytest.raises(ParameterError, match="epsilon must be"):
        Obfuscate(epsilon=epsilon)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"mechanism": "none"}, "mechanism must be one of"),
        ({"n": 0}, "n must be"),
        ({"n": 10**6}, "n must be"),
        ({"t": 1.5}, "t must be"),
        ({"lambda_": -0.1}, "lambda must be"),
        ({"mode": "fast"}, "mode must be"),
        ({"embedding": " "}, "embedding must be"),
        ({"epsilon": None}, "epsilon must be"),
        ({"epsilon": 2e-6, "n": 100}, "split over them"),
        ({"mechanism": "aed"}, "epsilon has no meaning"),
        ({"mechanism": "fsh", "epsilon": None}, "fsh needs a local collection"),
    ],
)
def test_bad_parameters_are_refused_with_the_rule(wrong, told):
    with pytest.raises(ParameterError, match=told):
        Obfuscate(**{"epsilon": 1.0, **wrong})


def test_vectors_that_are_not_there_and_a_vocabulary_of_one_word_are_told(tmp_path):
    with pytest.raises(KnowledgeError, match="no word vectors at"):
        Obfuscate(epsilon=1.0, embedding=str(tmp_path / "none.npz")).guarantee()
    np.savez(tmp_path / "one.npz", words=np.array(["alone"]), vectors=np.ones((1, 2), np.float32))
    with pytest.raises(KnowledgeError, match="fewer than two words"):
        Obfuscate(epsilon=1.0, embedding=str(tmp_path / "one.npz")).obfuscate("alone", 1, Noise.seeded(1))


# The promise


def test_the_statement_has_every_number_of_the_template(embedding):
    told = made(embedding, mechanism="vkr-mhl", epsilon=6.0, n=3).guarantee().statement()
    for part in (
        "Local model", "3 · 2 · Σ d(w, w′)", "regularised Mahalanobis, λ = 0.5", "sha256", "Median distance",
        "changes the odds by at most e^", "not ε-differential privacy", "Smallest eigenvalue", "computational",
        "how many words a query has and in which order", "clicked", "in several different queries",
        "in a log released again",
    ):  # fmt: skip
        assert part in told


def test_the_odds_are_told_for_the_median_word_and_for_nine_in_ten(tmp_path):
    """Pairs of words: six at distance 1, three at distance 5, one at distance 9."""
    gaps = [1.0] * 6 + [5.0] * 3 + [9.0]
    rows = [[100.0 * place + step, 0.0] for place, gap in enumerate(gaps) for step in (0.0, gap)]
    words = [f"{a}{b}" for a in "abcd" for b in "vwxyz"]
    np.savez(tmp_path / "pairs.npz", words=np.array(words), vectors=np.array(rows, np.float32))
    told = made(str(tmp_path / "pairs.npz"), epsilon=2.0).guarantee().statement()
    assert "for the median word replacing it by its nearest changes the odds by at most e^2 = 7.39" in told
    assert "for nine words in ten by at most e^10 " in told


def test_custext_tells_the_odds_inside_a_set_and_no_infinite_number(tmp_path):
    """A cloud of 60 words in which many a word's nearest belongs to another set."""
    vectors = np.random.default_rng(3).standard_normal((60, 8)).astype(np.float32)
    words = [f"{a}{b}" for a in "abcdef" for b in "qrstuvwxyz"]
    np.savez(tmp_path / "cloud.npz", words=np.array(words), vectors=vectors)
    told = made(str(tmp_path / "cloud.npz"), mechanism="custext", epsilon=2.0, n=2).guarantee().statement()
    assert "Two words of one set: the odds change by at most e^2 = 7.39" in told
    assert "inf." not in told
    assert "e^inf" not in told


def test_the_baselines_promise_nothing():
    told = Obfuscate(mechanism="aed").guarantee()
    assert told.model == "none"
    assert make("obfuscate", mechanism="aed").charge().scope == "nothing"


def test_aed_and_fsh_are_reached_by_their_names_and_fsh_reads_a_folder(monkeypatch, tmp_path):
    seen = []
    baseline = type("Baseline", (), {"obfuscations": lambda self, query, n: [f"other {i}" for i in range(n)]})
    monkeypatch.setattr("queryveil.mechanisms.obfuscate.aed.AED", lambda: baseline())
    monkeypatch.setattr("queryveil.mechanisms.obfuscate.fsh.FSH", lambda corpus: seen.append(corpus) or baseline())
    obfuscation._baseline.cache_clear()
    aed, fsh = Obfuscate(mechanism="aed", n=2), Obfuscate(mechanism="fsh", corpus=str(tmp_path), n=2)
    assert aed.obfuscate("throat cancer", 2, Noise.seeded(1)) == ["other 0", "other 1"]
    said = aed.protect(QueryLog.of([("ann", "throat cancer")]), Noise.seeded(1)).columns["query"]
    assert said == "replaced by fixed rules (aed)"  # no noise is in them, and none is claimed
    assert fsh.obfuscate("throat cancer", 2, Noise.seeded(1)) == ["other 0", "other 1"]
    assert seen == [tmp_path]
    obfuscation._baseline.cache_clear()


# A whole log


@pytest.mark.parametrize(
    ("mechanism", "mode"),
    [("cmp", "safe"), ("vkr-mhl", "paper"), ("tem", "safe"), ("custext", "safe"), ("wbb", "safe"), ("wbb", "paper")],
)
def test_it_conforms(embedding, mechanism, mode):
    check_mechanism(made(embedding, mechanism=mechanism, mode=mode, n=2))


def test_a_log_gets_n_records_for_each_and_nothing_of_the_input_but_by_chance(embedding):
    log = QueryLog.of([("ann", "throat cancer"), ("bob", "throat cancer"), ("ann", "throat cancer"), ("cy", CANARY)])
    release = made(embedding, n=3).protect(log, Noise.seeded(1))
    assert len(release.log) == 12
    assert {word for text in release.log.queries() for word in text.split()} <= set(WORDS)
    assert release.parameters["embedding"].startswith("sha256:")


def test_people_repeat_themselves_and_not_each_other(embedding):
    log = QueryLog.of([(f"u{i}", "throat cancer weather train") for i in range(30)] * 2)
    release = made(embedding, epsilon=1.0).protect(log, Noise.seeded(1))
    texts = release.log.frame.with_columns(owner=release.owners).group_by("owner").agg("query")["query"].to_list()
    assert all(len(set(mine)) == 1 for mine in texts)
    assert len({mine[0] for mine in texts}) > 20


def test_paper_mode_leaves_out_a_record_without_known_words_and_safe_mode_does_not(embedding):
    log = QueryLog.of([("ann", "zzyzx"), ("bob", "🌷")])
    assert len(made(embedding, mode="paper").protect(log, Noise.seeded(1)).log) == 0
    assert len(made(embedding).protect(log, Noise.seeded(1)).log) == 2
