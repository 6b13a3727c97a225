"""A searcher's session: one question answered whole, what to think about before sending it, and what was lost so far.

`answer` gives the queries to send, the promise, the losses and the deniability. Its alerts are about names and numbers:
obfuscation replaces a name by some other word, but a name or a number in several queries, or beside a rare word, still
points at a person. A word counts as a name where it is written with a capital behind the first word, or where WordNet
does not know it in any form: names, brands, misspellings. The messages never quote the query.

Over a session every word of every new query counts. Noise that is drawn again costs again. The same query with the same
settings is answered from the same noise and costs nothing more; more obfuscations of it cost the new ones only. A
changed ε, another key of the noise, or a word used again in another query, is charged. Losses add up for each word in
the unit of its distance (ε for each unit of distance), over all mechanisms that measure it alike: cmp, vkr-cmp, santext
and tem in Euclidean distance, mhl and vkr-mhl for each λ, custext by sets, wbb between any two words. Losses in
different units are told apart for a word; the sum of a session adds them as they are. Words and queries are kept as
keyed hashes (BLAKE2b under the searcher's own key), so the tally tells nothing to who finds it without the key.

>>> from queryveil.mechanisms.obfuscate import Obfuscate
>>> session = SearchSession(key=bytes(32))
>>> five = Obfuscate(mechanism="cmp", epsilon=10.0, n=5, mode="paper")
>>> session.charge(five, "throat cancer", 5).epsilon_added, session.charge(five, "throat cancer", 5).epsilon_added
(100.0, 0.0)
>>> session.charge(five, "throat cancer", 20).epsilon_added
300.0
>>> session.charge(five, "cancer screening", 5).epsilon_of_worst_word
250.0
>>> from queryveil.privacy import Noise
>>> given = answer(Obfuscate(mechanism="tem", epsilon=10.0, n=2), "throat cancer", Noise.seeded(1), session)
>>> len(given.queries), given.losses.per_word, given.losses.per_query, len(given.deniability)
(2, 10.0, 20.0, 2)
>>> alerts("flights to Paris for 2"), alerts("throat cancer")
(['a number was typed', 'a word may be a name'], [])
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from queryveil.errors import BudgetError, DataError
from queryveil.knowledge.tagging import STOP_WORDS, Tagger
from queryveil.knowledge.wordnet import WordNet
from queryveil.log.identifying import is_identifying
from queryveil.mechanisms.obfuscate.obfuscation import Obfuscate, own_noise
from queryveil.mechanisms.obfuscate.words import TOKEN, Deniability, stems_of, tokens_of
from queryveil.privacy import Guarantee, NoGuarantee, Noise, keys
from queryveil.privacy.guarantee import rounded_down, rounded_up
from queryveil.privacy.keys import alone_with, refuse_release_folders, replace_private

KEY = "obfuscate-session.key"
TALLY = "obfuscate-session.json"
LARGEST_FILE = 1 << 26


@dataclass(frozen=True)
class SessionLoss:
    """What one question added and where the session stands, each as ε for each unit of distance."""

    epsilon_added: float
    epsilon_of_session: float
    epsilon_of_worst_word: float


class SearchSession:
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
    def load(cls) -> SearchSession:
        """The searcher's own tally, beside the key of the noise in the key folder: it goes on from call to call."""
        key = keys.own(KEY)  # makes the folder on first use
        return cls(keys.key_folder() / TALLY, key=key)

    def charge(
        self, mechanism: Obfuscate, query: str, n: int, noise: Noise | None = None, *, limit: float | None = None
    ) -> SessionLoss:
        """Count a question before its obfuscations are shown; a file is written first, so a crash never forgets.

        `noise` is what they are drawn from, the searcher's own unless given: under another key they are new.
        The file is read again and written under a lock: two terminals at once forget nothing of each other. What would
        bring the session above `limit` is refused, and not counted.
        """
        with self._locked():
            asked, words, loss = self._with(mechanism, query, n, noise)
            if loss.epsilon_added and limit is not None and loss.epsilon_of_session > limit:
                raise BudgetError(
                    f"this query would bring the session to ε = {rounded_up(loss.epsilon_of_session)}, and its limit "
                    f"is {rounded_down(limit)}. Nothing was sent. What was asked before may be asked again at no cost."
                )
            if loss.epsilon_added:
                self._asked, self._words = asked, words
                self._write()
            return loss

    def price(self, mechanism: Obfuscate, query: str, n: int, noise: Noise | None = None) -> SessionLoss:
        """What `charge` would give; nothing is counted."""
        with self._locked():
            return self._with(mechanism, query, n, noise)[2]

    def standing(self) -> SessionLoss:
        """Where the session stands; nothing is added."""
        return SessionLoss(0.0, sum(self._words.values()), max(self._words.values(), default=0.0))

    def _with(
        self, mechanism: Obfuscate, query: str, n: int, noise: Noise | None
    ) -> tuple[dict[str, int], dict[str, float], SessionLoss]:
        """How often each query, and how much each word, counts once this question does; and its loss."""
        added = 0.0
        if self._path is not None and self._path.exists():
            self._read(self._path)
        times, words = dict(self._asked), dict(self._words)
        if mechanism.draws_words:
            indices = mechanism.reader.query(query)
            asked = self._hidden("query", (noise or own_noise()).fingerprint() + mechanism.settings(indices))
            each = max(0, n - times.get(asked, 0)) * mechanism.epsilon_each
            added = each * len(indices)
            measure = f"{mechanism.words.metric} {mechanism.vectors.digest}"
            for index in indices.tolist():
                word = self._hidden("word", f"{measure} {index}".encode())
                words[word] = words.get(word, 0.0) + each
            times[asked] = max(n, times.get(asked, 0))
        return times, words, SessionLoss(added, sum(words.values()), max(words.values(), default=0.0))

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
            if not all(math.isfinite(value) and value >= 0 for value in (*self._asked.values(), *self._words.values())):
                raise ValueError  # with a NaN or a number below 0 no limit would hold
        except (OSError, ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError):
            raise DataError(f"{path} is not the tally of a session. Give another file, or none.") from None

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            replace_private(self._path, json.dumps({"asked": self._asked, "words": self._words}))
        except OSError as problem:
            raise DataError(f"cannot write the tally {self._path}: {problem.strerror}. Nothing was sent.") from None


@dataclass(frozen=True)
class Losses:
    """ε for each unit of distance, by what it is counted over."""

    per_obfuscation: float
    per_word: float
    per_query: float
    session: float | None
    """Over all that the tally has seen; None where no tally is kept."""
    worst_word: float | None


@dataclass(frozen=True)
class Answer:
    """What to send and what to know before sending it. `losses` is None where nothing formal is promised."""

    queries: list[str]
    unchanged: int
    """How many keep every word of the query that the vocabulary knows: chance does that where ε is large."""
    guarantee: Guarantee
    losses: Losses | None
    deniability: tuple[Deniability, ...]
    """Of the first words of the query, at most 20; empty where it was not asked for."""
    alerts: tuple[str, ...]

    def warnings(self, mechanism: Obfuscate) -> list[str]:
        """What to think about before sending, in words that tell nothing of the query."""
        found = [f"{alert}: think again before you send anything like it." for alert in self.alerts]
        if self.unchanged:
            kept = f"{self.unchanged} of {mechanism.n} keep every word of yours that the vocabulary knows"
            found.append(f"{kept}: chance does that where ε is large.")
        found += mechanism.warnings()
        alone = ", ".join(str(place) for place, count in enumerate(self.deniability, 1) if count.words == 1)
        if alone:
            found.append(f"Deniability 1: nothing but your own word fits what is sent for word {alone}.")
        return found

    def as_dict(self) -> dict[str, Any]:
        """For JSON. Of the original query it holds what was drawn, the number of words, and the alerts' kinds."""
        return {
            "queries": self.queries,
            "unchanged": self.unchanged,
            "guarantee": self.guarantee.as_dict(),
            "losses": None if self.losses is None else dataclasses.asdict(self.losses),
            "deniability": [dataclasses.asdict(count) for count in self.deniability],
            "alerts": list(self.alerts),
        }


def answer(
    mechanism: Obfuscate, query: str, noise: Noise, session: SearchSession | None, *, deniable: bool = True
) -> Answer:
    """The first `mechanism.n` obfuscations; the session, if any, is charged before anything is shown.

    `deniable` False leaves out the deniability, which takes most of the time.
    """
    n = mechanism.n
    warned = tuple(alerts(query))
    if not mechanism.draws_words:
        queries = mechanism.obfuscate(query, n, noise)
        same = sum(stems_of(sent) == stems_of(query) for sent in queries)
        return Answer(queries, same, mechanism.guarantee(), None, (), warned)
    indices = mechanism.reader.query(query)
    promised = not isinstance(mechanism.guarantee(), NoGuarantee)
    spent = session.charge(mechanism, query, n, noise) if session is not None and promised else None
    losses = Losses(
        per_obfuscation=mechanism.epsilon_each,
        per_word=mechanism.epsilon_each * n,
        per_query=mechanism.epsilon_each * n * len(indices),
        session=None if spent is None else spent.epsilon_of_session,
        worst_word=None if spent is None else spent.epsilon_of_worst_word,
    )
    drawn = mechanism.draw(indices, n, noise)
    queries = [mechanism.reader.text(words) for words in drawn]
    again = mechanism.stream_of(indices, noise)
    deniability = mechanism.words.deniability(indices, drawn, again) if deniable else []
    typed = mechanism.reader.known(query)
    same = int((drawn[:, typed] == indices[typed]).all(axis=1).sum())
    return Answer(queries, same, mechanism.guarantee(), losses if promised else None, tuple(deniability), warned)


def unchanged_shares(mechanism: Obfuscate, query: str, noise: Noise, *, draws: int = 200) -> list[float]:
    """How often each word of a query comes out as it went in: a fact of the law, by draws that are never sent.

    Within 0.07 of the chance for 19 words in 20 at 200 draws. The same each time, as what is sent is.
    """
    indices = mechanism.reader.query(query)
    distinct, place = np.unique(indices, return_inverse=True)
    stream = noise.repeatable("obfuscate: law", mechanism.settings(indices))
    drawn = mechanism.words.replace(np.tile(distinct, draws), stream).reshape(draws, -1)
    return [float(share) for share in (drawn == distinct).mean(axis=0)[place]]


def alerts(query: str) -> list[str]:
    """What was found, in words that tell nothing of the query."""
    found = []
    if pl.DataFrame({"query": [query]}).select(is_identifying("query")).item():
        found.append("an address, a long number or credentials were typed")
    if any(character.isdigit() for character in query):
        found.append("a number was typed")
    typed = TOKEN.findall(query)
    shouted = all(word.isupper() for word in typed)
    capital = any(word[0].isupper() for word in typed[1:]) and not shouted
    if capital or any(word.isalpha() and not _is_a_word(word) for word in tokens_of(query)):
        found.append("a word may be a name")
    return found


@lru_cache(maxsize=1)
def _tagger() -> tuple[Tagger, dict[str, tuple[int, int, int, int]]]:
    wordnet = WordNet.load()
    return Tagger(wordnet), wordnet.word_counts


def _is_a_word(word: str) -> bool:
    tagger, counts = _tagger()
    forms = [word, *tagger.singulars(word), *tagger.verb_bases(word)]
    return len(word) == 1 or word in STOP_WORDS or any(form in counts for form in forms)
