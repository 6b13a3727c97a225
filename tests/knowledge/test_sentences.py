"""The sentence model: norms, meaning, and what happens where it is missing or changed."""

import subprocess
import sys

import numpy as np
import pytest

from queryveil.errors import KnowledgeError
from queryveil.knowledge import sentences
from queryveil.knowledge.sentences import SentenceEncoder

needs_model = pytest.mark.skipif(not SentenceEncoder.available(), reason="the extra neural is not installed")


@pytest.fixture
def not_loaded_yet():
    sentences._loaded.cache_clear()
    yield
    sentences._loaded.cache_clear()


@needs_model
def test_vectors_have_length_1_and_one_row_for_each_text():
    vectors = SentenceEncoder.load().encode(["tea", "", "a much longer text about nothing at all " * 40, "🌷"])
    assert vectors.shape == (4, 384)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert SentenceEncoder.load().encode([]).shape == (0, 384)


@needs_model
def test_texts_of_like_meaning_are_nearer():
    throat, neck, football = SentenceEncoder.load().encode(["throat cancer", "tumour of the neck", "football results"])
    assert throat @ neck > 0.5 > 0.2 > throat @ football


@needs_model
def test_a_vector_does_not_depend_on_its_company():
    encoder = SentenceEncoder.load()
    texts = ["tea", "what to do about a sore throat", "green tea " * 50]
    together = encoder.encode(texts)
    for text, vector in zip(texts, together, strict=True):
        assert encoder.encode([text])[0] @ vector == pytest.approx(1, abs=1e-3)


@needs_model
def test_of_a_text_only_the_first_tokens_are_read():
    start = "what to do about a sore throat"
    short, long = SentenceEncoder.load(8).encode([start, f"{start} or the results of football"])
    assert short @ long == pytest.approx(1, abs=1e-6)
    short, long = SentenceEncoder.load().encode([start, f"{start} or the results of football"])
    assert short @ long < 0.99


@needs_model
def test_the_packages_that_carry_the_model_are_never_imported():
    code = (
        "import sys; from queryveil.knowledge.sentences import SentenceEncoder; SentenceEncoder.load().encode(['tea']);"
        "print([m for m in sys.modules if 'minilm' in m or m in ('torch', 'sentence_transformers')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@needs_model
def test_a_changed_file_is_not_used(monkeypatch, not_loaded_yet):
    monkeypatch.setattr(sentences, "MODEL", (*sentences.MODEL[:2], "0" * 64))
    with pytest.raises(KnowledgeError, match=r"not the published file.*pip install --force-reinstall"):
        SentenceEncoder.load()


@pytest.mark.parametrize("missing", ["module", "package"])
def test_a_missing_extra_names_the_command_that_mends_it(monkeypatch, not_loaded_yet, missing):
    if missing == "module":
        monkeypatch.setattr(sentences, "MODULES", ("no_such_module_here",))
    else:
        monkeypatch.setattr(sentences, "MODEL", ("no-such-distribution", "model.onnx", ""))
    assert not SentenceEncoder.available()
    with pytest.raises(KnowledgeError, match=r"pip install 'queryveil\[neural\]'"):
        SentenceEncoder.load()
