"""What a searcher has lost over a session: every word of every new query counts.

Noise that is drawn again costs again. The same query with the same settings is answered from the same noise and costs
nothing more; more obfuscations of it cost the new ones only. A changed ε, or a word used again in another query, is
charged. Losses add up for each word in the unit of its distance (ε for each unit of distance), over all mechanisms that
measure it alike: cmp, vkr-cmp, santext and tem in Euclidean distance, mhl and vkr-mhl for each λ, custext by sets.
Losses in different units are told apart for a word; the sum of a session adds them as they are. Words and queries are
kept as keyed hashes (BLAKE2b under the searcher's own key), so the tally tells nothing to who finds it without the key.

>>> from queryveil.mechanisms.obfuscate import Obfuscation
>>> session = Session(key=bytes(32))
>>> five = Obfuscation(mechanism="cmp", epsilon=10.0, n=5, mode="paper")
>>> session.charge(five, "throat cancer", 5).epsilon_added, session.charge(five, "throat cancer", 5).epsilon_added
(100.0, 0.0)
>>> session.charge(five, "throat cancer", 20).epsilon_added
300.0
>>> session.charge(five, "cancer screening", 5).epsilon_of_worst_word
250.0
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from queryveil.errors import DataError
from queryveil.mechanisms.obfuscate.words import WORD_MECHANISMS
from queryveil.privacy import keys
from queryveil.privacy.keys import alone_with, refuse_release_folders, replace_private

if TYPE_CHECKING:
    from queryveil.mechanisms.obfuscate.mechanism import Obfuscation

KEY = "obfuscate-session.key"
TALLY = "obfuscate-session.json"
LARGEST_FILE = 1 << 26


@dataclass(frozen=True)
class SessionLoss:
    """What one question added and where the session stands, each as ε for each unit of distance."""

    epsilon_added: float
    epsilon_of_session: float
    epsilon_of_worst_word: float


class Session:
    """A tally in memory, or in a file that only its owner can read."""

    def __init__(self, path: str | Path | None = None, *, key: bytes | None = None) -> None:
        self._path = None if path is None else Path(path)
        if self._path is not None:
            refuse_release_folders(self._path)
        self._key = keys.own(KEY) if key is None else key
        self._asked: dict[str, int] = {}
        self._words: dict[str, float] = {}
        if self._path is not None and self._path.exists():
            self._read(self._path)

    @classmethod
    def kept(cls) -> Session:
        """The searcher's own tally, beside the key of the noise in the key folder: it goes on from call to call."""
        key = keys.own(KEY)  # makes the folder on first use
        return cls(keys.key_folder() / TALLY, key=key)

    def charge(self, mechanism: Obfuscation, query: str, n: int) -> SessionLoss:
        """Count a question before its obfuscations are shown; a file is written first, so a crash never forgets.

        The file is read again and written under a lock: two terminals at once forget nothing of each other.
        """
        with self._locked():
            return self._charge(mechanism, query, n)

    def _charge(self, mechanism: Obfuscation, query: str, n: int) -> SessionLoss:
        added = 0.0
        if self._path is not None and self._path.exists():
            self._read(self._path)
        if mechanism.mechanism in WORD_MECHANISMS:
            indices = mechanism.reader.query(query)
            asked = self._hidden("query", mechanism.settings(indices))
            new = max(0, n - self._asked.get(asked, 0))
            each = new * mechanism.epsilon_each
            added = each * len(indices)
            measure = f"{mechanism.words.metric} {mechanism.vectors.digest}"
            for index in indices.tolist():
                word = self._hidden("word", f"{measure} {index}".encode())
                self._words[word] = self._words.get(word, 0.0) + each
            self._asked[asked] = max(n, self._asked.get(asked, 0))
            self._write()
        return SessionLoss(added, sum(self._words.values()), max(self._words.values(), default=0.0))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time in the tally's folder: the file itself is replaced, a lock on it would hold nobody."""
        if self._path is None:
            yield
            return
        with ExitStack() as held:
            try:
                held.enter_context(alone_with(self._path.parent))
            except OSError as problem:
                raise DataError(f"cannot keep the tally {self._path}: {problem.strerror}. Nothing was sent.") from None
            yield

    def _hidden(self, kind: str, content: bytes) -> str:
        return hashlib.blake2b(content, key=self._key, person=f"session {kind}".encode(), digest_size=16).hexdigest()

    def _read(self, path: Path) -> None:
        try:
            if path.stat().st_size > LARGEST_FILE:
                raise ValueError
            content = json.loads(path.read_bytes())
            self._asked = {str(name): int(count) for name, count in content["asked"].items()}
            self._words = {str(name): float(loss) for name, loss in content["words"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(f"{path} is not the tally of a session. Give another file, or none.") from None

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            replace_private(self._path, json.dumps({"asked": self._asked, "words": self._words}))
        except OSError as problem:
            raise DataError(f"cannot write the tally {self._path}: {problem.strerror}. Nothing was sent.") from None
