"""Words Blending Boxes: boxes, both laws exactly, what holds between any two words, and what is drawn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.obfuscation_oracle import ALPHA, DRAWS, cloud, p_value, vocabulary
from properties import examples
from queryveil import synth, verify, write
from queryveil.mechanisms.obfuscate import Obfuscate, blending, promise, word_mechanism
from queryveil.mechanisms.obfuscate.blending import CANDIDATE_BOX, SAFE_BOX, BlendedWords, all_boxes
from queryveil.mechanisms.obfuscate.session import SearchSession, answer
from queryveil.privacy import NoGuarantee, Noise, PureDP
from queryveil.release.pipeline import Source, Target, release


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("QUERYVEIL_CACHE", str(tmp_path / "cache"))


def stream(seed=1):
    return Noise.seeded(seed).stream("test")


def made(vectors=None, epsilon=3.0, everywhere=True):
    return BlendedWords(vectors or cloud(), epsilon=epsilon, everywhere=everywhere)


def slow_law(vectors, epsilon, *, everywhere):
    """P(answer | word) by the definition, word by word: sort all words, leave out the nearest, weigh the next."""
    rows = np.asarray(vectors.matrix, np.float64)
    law = np.zeros((len(rows), len(rows)))
    for word, row in enumerate(rows):
        away = [math.dist(row, other) for other in rows]
        order = sorted(range(len(rows)), key=lambda u, away=away, word=word: (u != word, away[u], u))
        box = order[SAFE_BOX : SAFE_BOX + CANDIDATE_BOX]
        if everywhere:
            law[word] = 1.0
            law[word, box] = math.floor(math.exp(epsilon))
        else:
            near, far = away[box[0]], away[box[-1]]
            law[word, box] = [math.exp(-epsilon / 2 * (away[u] - near) / (far - near)) for u in box]
    return law / law.sum(axis=1, keepdims=True)


def law_of(mechanism):
    """From the whole numbers that are drawn from."""
    count = len(mechanism.vectors)
    law = np.full((count, count), float(mechanism.everywhere))
    for word in range(count):
        box, weights = mechanism.weights(word)
        law[word, box] = weights
    return law / law.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("everywhere", [True, False])
def test_the_law_is_that_of_the_definition(everywhere):
    assert law_of(made(everywhere=everywhere)) == pytest.approx(
        slow_law(cloud(), 3.0, everywhere=everywhere), abs=1e-12
    )


def test_neither_the_word_nor_its_nearest_come_out_in_paper_mode():
    law = law_of(made(everywhere=False))
    rows = np.asarray(cloud().matrix, np.float64)
    for word in range(len(law)):
        safe = np.argsort(np.linalg.norm(rows - rows[word], axis=1), kind="stable")[:SAFE_BOX]
        assert word in safe
        assert not law[word, safe].any()


@settings(max_examples=examples(40), deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0])] * 2), min_size=2, max_size=40).filter(
        lambda rows: len(set(rows)) > 1
    ),
    epsilon=st.floats(1e-6, 60.0),
)
def test_any_two_words_are_within_epsilon_exactly_whatever_the_vocabulary(rows, epsilon):
    mechanism = made(vocabulary(rows), epsilon)
    totals = set()
    for word in range(len(rows)):
        box, weights = mechanism.weights(word)
        assert len(set(box.tolist())) == len(box) == mechanism.size
        assert word not in box
        totals.add(int(weights.sum()) + mechanism._others)
        assert set(weights.tolist()) == {mechanism.box_weight}
    assert len(totals) == 1  # so that the odds between two words are those of their weights
    assert math.log(mechanism.box_weight) <= epsilon


def test_a_twin_whose_weights_follow_the_distance_breaks_the_promise():
    """The paper's law has outputs that another word cannot give at all."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = law_of(made(everywhere=False))[:, None] / law_of(made(everywhere=False))
    assert np.nanmax(ratios) == math.inf
    sound = law_of(made())
    assert (sound[:, None] / sound).max() <= math.exp(3.0)


@pytest.mark.parametrize("everywhere", [True, False])
def test_what_is_drawn_has_the_law_and_not_another(everywhere):
    """n = 20,000, α = 1e-6. A smaller ε by 1 (safe: in-box share .91 to .79) or half of it (paper) is told apart."""
    epsilon = 3.0 if everywhere else 8.0
    drawn = made(epsilon=epsilon, everywhere=everywhere).replace(np.full(DRAWS, 7), stream())
    assert p_value(drawn, slow_law(cloud(), epsilon, everywhere=everywhere)[7]) > ALPHA
    wrong = slow_law(cloud(), 2.0 if everywhere else 4.0, everywhere=everywhere)[7]
    assert p_value(drawn, wrong) < ALPHA


def test_words_outside_a_box_are_numbered_without_gaps():
    box = np.array([9, 0, 4])
    assert [blending._outside(box, number) for number in range(7)] == [1, 2, 3, 5, 6, 7, 8]


def test_answers_do_not_depend_on_how_many_follow():
    long = made().replace(np.arange(120) % 60, stream())
    assert made().replace(np.arange(45), stream()).tolist() == long[:45].tolist()


def test_the_quick_boxes_of_all_words_are_those_of_each_word():
    rows = np.random.default_rng(5).standard_normal((700, 8)).astype(np.float32)
    rows[300] = rows[20]  # a twin is no neighbour nearer than the word itself
    mechanism = made(vocabulary(rows))
    quick = all_boxes(mechanism.vectors.matrix, mechanism.safe_box, mechanism.size)
    assert [set(box) for box in quick.tolist()] == [set(mechanism.box(word).tolist()) for word in range(700)]
    output = int(quick[3, 0])
    assert mechanism.sources(output).tolist() == [word for word in range(700) if output in quick[word]]


@pytest.mark.parametrize("everywhere", [True, False])
def test_chances_told_to_the_audit_are_those_of_the_law(everywhere):
    mechanism = made(everywhere=everywhere)
    law = slow_law(cloud(), 3.0, everywhere=everywhere)
    inputs = np.array([7, -1, 30, 59])
    for output in (0, 11, int(mechanism.box(7)[2])):
        told = mechanism.chances(output, inputs)
        assert told[1] == 0.0
        assert told[[0, 2, 3]] == pytest.approx(law[[7, 30, 59], output], abs=1e-12)


@pytest.mark.parametrize("everywhere", [True, False])
def test_deniability_counts_words_at_least_half_as_likely(everywhere):
    """With 60 words all of them are compared, so that the count is exact."""
    mechanism = made(everywhere=everywhere)
    drawn = mechanism.replace(np.tile([7, 30], 3), stream()).reshape(3, 2)
    law = slow_law(cloud(), 3.0, everywhere=everywhere)
    counted = mechanism.deniability(np.array([7, 30]), drawn, stream())
    for word, outputs, told in zip((7, 30), drawn.T, counted, strict=True):
        likely = law[:, outputs].prod(axis=1)
        assert told.words == (likely >= likely[word] / 2 - 1e-15).sum()


def test_the_promise_is_differential_privacy_in_safe_mode_and_nothing_in_paper_mode():
    safe = promise.of_words(made(epsilon=2.0), n=3, mode="safe")
    assert isinstance(safe, PureDP)
    assert (safe.epsilon, safe.unit) == (6.0, "word")
    assert "between any two words, however far apart" in safe.statement()
    published = promise.of_words(made(everywhere=False), n=3, mode="paper")
    assert isinstance(published, NoGuarantee)
    assert "does not hold" in published.statement()


def test_modes_of_the_mechanism_choose_the_law_and_never_share_noise():
    safe, paper = (Obfuscate(mechanism="wbb", epsilon=4.0, mode=mode) for mode in ("safe", "paper"))
    assert safe.words.everywhere
    assert not paper.words.everywhere
    assert safe.settings(np.array([1])) != paper.settings(np.array([1]))


def test_a_session_is_charged_for_what_is_promised_alone():
    session = SearchSession(key=bytes(32))
    told = answer(Obfuscate(mechanism="wbb", epsilon=4.0, mode="paper"), "throat cancer", Noise.seeded(1), session)
    assert told.losses is None
    told = answer(Obfuscate(mechanism="wbb", epsilon=4.0), "throat cancer", Noise.seeded(1), session)
    assert told.losses.session == 8.0


def test_a_vocabulary_of_two_words_can_be_blended():
    mechanism = word_mechanism("wbb", vocabulary([[0.0], [1.0]]), epsilon=1.0)
    assert set(mechanism.replace(np.zeros(200, np.int64), stream()).tolist()) == {0, 1}


def test_a_log_is_released_and_its_promise_says_that_it_is_for_a_word(tmp_path):
    log = synth(users=20, records=60, seed=2)
    write(log, tmp_path / "log.jsonl")
    mechanism = Obfuscate(mechanism="wbb", epsilon=4.0)
    release(mechanism, Source(path=tmp_path / "log.jsonl"), Target(folder=tmp_path / "out"), Noise.secure())
    promised = verify(tmp_path / "out").manifest["guarantee"]
    assert (promised["model"], promised["unit"], promised["epsilon"]) == ("pure-dp", "word", 4.0)
