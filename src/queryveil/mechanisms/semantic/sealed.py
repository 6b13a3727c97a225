"""Results that took long to compute, kept in the cache folder and believed only under the holder's own key.

Whoever can write to the cache folder could otherwise put a law there whose true loss is not the one beside it. A file
is 32 bytes of HMAC-SHA256 over the claim and everything behind them; the key lies with the holder's other keys
(`queryveil.privacy.keys`). The file is read once, checked, and only then looked into, so nothing changes between the
check and the use. Whatever does not authenticate counts as absent and is made again.

The name of a file comes from key and claim: holders who share a cache folder do not overwrite each other's files.

>>> import os, tempfile
>>> from unittest.mock import patch
>>> folder = tempfile.mkdtemp()
>>> with patch.dict(os.environ, QUERYVEIL_KEYS=folder, QUERYVEIL_CACHE=folder):
...     write("toy", {"epsilon": 0.5}, {"weights": np.arange(3)})
...     header, arrays = read("toy")
...     header["epsilon"], arrays["weights"].tolist(), read("another claim")
(0.5, [0, 1, 2], None)
"""

from __future__ import annotations

import hmac
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from queryveil.arrays import Array
from queryveil.errors import KnowledgeError
from queryveil.knowledge._store import cache_folder
from queryveil.privacy import keys
from queryveil.privacy.keys import replacing

KEY = "certificates.key"
HEADER = "header"
SEAL_BYTES = 32


def read(claim: str) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """What was kept for a claim under the holder's key, in memory of its own; None where nothing can be believed."""
    key = keys.own(KEY)
    try:
        content = _path(key, claim).read_bytes()
    except OSError:
        return None
    seal, body = content[:SEAL_BYTES], content[SEAL_BYTES:]
    if not hmac.compare_digest(seal, _seal(key, claim, body)):
        return None
    with np.load(io.BytesIO(body), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop(HEADER).tobytes()), arrays


def write(claim: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Keep a JSON-able header and arrays for a claim; the file appears whole or not at all."""
    key = keys.own(KEY)
    path = _path(key, claim)
    body = io.BytesIO()
    content: dict[str, Any] = {HEADER: np.frombuffer(json.dumps(dict(header)).encode(), np.uint8), **arrays}
    np.savez(body, **content)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, durable=False) as file:  # what is lost is made again
            file.write(_seal(key, claim, body.getvalue()))
            file.write(body.getvalue())
    except OSError as problem:
        raise KnowledgeError(
            f"cannot keep a certificate in {path.parent}: {problem.strerror}. Set QUERYVEIL_CACHE to a folder you own."
        ) from None


def _path(key: bytes, claim: str) -> Path:
    return cache_folder() / f"semantic-{hmac.digest(key, b'name ' + claim.encode(), 'sha256').hex()[:32]}.sealed"


def _seal(key: bytes, claim: str, body: bytes) -> bytes:
    said = claim.encode()
    return hmac.digest(key, b"seal " + len(said).to_bytes(8, "big") + said + body, "sha256")
