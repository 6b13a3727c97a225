"""The searcher's gateway: a question is drawn and shown first, then sent, and its answers are ranked at home.

`Gateway.ask` draws the obfuscations of a query and says how deniable each word is. Nothing goes out and nothing is
charged. `Gateway.send` charges the session and sends what was drawn, every different text once, all with the same
headers and without a cookie, in a shuffled order and several at one time. Where the engine fails to answer some, the
others count, and a second `send` sends only what was not answered. The settings are those of the gateway: nobody
chooses them for a query.

**One draw for one query.** The noise is a keyed function of words and settings (see `obfuscation`), so asking again
sends the same texts and is charged nothing; new words are new noise, and are charged. Who looks at a draw and sends it
only where they like it tells the engine something by what is not sent, which no promise of the mechanism covers.

Everything is kept in memory: the last `MOST_KEPT` questions, and the session's tally unless it is one with a file.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from queryveil.checks import real_number, require
from queryveil.errors import EngineError
from queryveil.mechanisms.obfuscate import Answer, Obfuscate, SearchSession, answer
from queryveil.mechanisms.obfuscate.session import SessionLoss, alerts, unchanged_shares
from queryveil.mechanisms.obfuscate.words import tokens_of
from queryveil.privacy import Guarantee, MetricDP, Noise, PureDP
from queryveil.search.private_search import (
    BY_WORDS,
    EngineAddress,
    Hit,
    ask_together,
    by_shared_words,
    pool_answers,
    ranker,
    to_send,
)

MOST_KEPT = 20
MOST_RANKED = 100
"""Results that are ranked under the query; what fewer queries found follows as it was pooled."""
MOST_READ, TOKENS_READ = 20, 64
"""The best of these by shared words are read for their meaning, by so many of their first tokens: reading takes most of
the time of a search. Chosen on queries of `benchmarks/gateway.py`, where whole texts and twice as many ranked alike.
"""
WEIGHT_OF_MEANING = 2
"""A text's place by meaning counts twice, and that by shared words once: words know the whole text."""
WARM_UP = "the"
METRIC, PURE = "metric privacy per word", "ε-differential privacy per word"
KINDS: dict[type[Guarantee], str] = {MetricDP: METRIC, PureDP: PURE}


@dataclass(frozen=True, repr=False)
class Word:
    """A word of a query, and what an observer of everything that is sent for this query could make of it."""

    text: str
    known: bool
    unchanged: float
    """How often it comes out as it went in."""
    could_be: int
    """Words, this one included, that are at least half as likely behind what is sent for this query alone."""


@dataclass(repr=False)
class Question:
    """A query, what stands for it, and what came back; nothing of it shows when an error prints it."""

    query: str
    given: Answer
    words: tuple[Word, ...] = ()
    how: str = ""
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    loss: SessionLoss | None = None
    """What sending it cost; None as long as nothing was sent."""
    answers: dict[str, list[Hit]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    hits: list[Hit] = field(default_factory=list)
    ranked_by: str = ""
    sending: threading.Lock = field(default_factory=threading.Lock)

    @property
    def sent(self) -> list[str]:
        """The different texts that go out."""
        return list(dict.fromkeys(text for text in self.given.queries if text.strip()))

    def problems(self) -> list[tuple[str, int]]:
        """Why some were not answered, and how many."""
        return Counter(self.failures.values()).most_common()


def rank_pool(query: str, pool: list[Hit]) -> tuple[list[Hit], str]:
    """The results, best first: by shared words, the best of these also by meaning where that can be; and by which."""
    rank = ranker(TOKENS_READ)
    best = by_shared_words().ranked(query, pool[:MOST_RANKED])
    if rank.name != BY_WORDS:
        by_meaning = {hit.key: place for place, hit in enumerate(rank.ranked(query, best[:MOST_READ]))}
        places = {
            hit.key: place + WEIGHT_OF_MEANING * by_meaning[hit.key] for place, hit in enumerate(best[:MOST_READ])
        }
        best[:MOST_READ] = sorted(best[:MOST_READ], key=lambda hit: places[hit.key])
    return [*best, *pool[MOST_RANKED:]], rank.name


class Gateway:
    """Draws, sends and remembers for one searcher at one engine."""

    def __init__(
        self,
        mechanism: Obfuscate,
        address: EngineAddress,
        *,
        noise: Noise,
        tally: SearchSession,
        limit: float | None = None,
        timeout: float = 10.0,
    ) -> None:
        self.kind = KINDS.get(type(mechanism.guarantee()))
        """What ε is in the session's sum; None where nothing is promised, and nothing adds up."""
        require(
            real_number("timeout", timeout, above=0, at_most=600, suggest=10.0),
            real_number("limit", limit, above=0, suggest=1000.0, optional=True),
            "limit has no meaning where nothing formal is promised; there is no ε to add up."
            if limit is not None and self.kind is None else None,
        )  # fmt: skip
        self.mechanism, self.address, self.limit, self.timeout = mechanism, address, limit, timeout
        self.texts_sent = 0
        self._noise, self._tally = noise, tally
        self._questions: OrderedDict[str, Question] = OrderedDict()
        self._lock = threading.Lock()

    def prepare(self) -> None:
        """Load what the first question would have to wait for; sends nothing."""
        if self.mechanism.draws_words:
            self.mechanism.draw(self.mechanism.reader.query(WARM_UP), 1, Noise.seeded(0))
        texts = ["something about anything at all", "something"]
        rank_pool(WARM_UP, [Hit(text, text, text) for text in texts])
        to_send(texts, Noise.secure())
        alerts(WARM_UP)
        self.mechanism.warnings()

    def ask(self, query: str, *, deniable: bool = True) -> Question:
        """Draw for a query; `deniable` False leaves out how deniable its words are, which takes most of the time."""
        with self._lock:  # one at a time, since each fills the machine
            given = answer(self.mechanism, query, self._noise, None, deniable=deniable)
            question = Question(query, given)
            if given.deniability:
                question.words = self._words(query, given)
                question.how = given.deniability[0].how
            self._questions[question.id] = question
            while len(self._questions) > MOST_KEPT:
                self._questions.popitem(last=False)
            return question

    def _words(self, query: str, given: Answer) -> tuple[Word, ...]:
        """In safe mode an unknown word keeps its place, behind a stand-in; in paper mode it is dropped."""
        numbers, safe = self.mechanism.vectors.numbers, self.mechanism.mode == "safe"
        read = [(token, token in numbers) for token in tokens_of(query) if safe or token in numbers]
        shares = unchanged_shares(self.mechanism, query, self._noise)
        rows = zip(read, shares, given.deniability, strict=False)  # deniability is counted for the first words only
        return tuple(Word(text, known, share, count.words) for (text, known), share, count in rows)

    def price(self, question: Question) -> SessionLoss:
        """What sending the question would cost, and where it would bring the session."""
        with self._lock:
            if self.kind is None:
                return self._tally.standing()
            return self._tally.price(self.mechanism, question.query, self.mechanism.n, self._noise)

    def standing(self) -> SessionLoss:
        """What the session has cost so far."""
        with self._lock:
            return self._tally.standing()

    def question(self, identity: str) -> Question | None:
        """A question that was asked not long ago."""
        return self._questions.get(identity)

    def forget(self) -> None:
        """Forget all questions and answers; what they cost stays counted."""
        with self._lock:
            self._questions.clear()

    def send(self, question: Question) -> None:
        """Charge the session, send what was not answered yet, pool and rank."""
        with question.sending:
            waiting = [text for text in question.sent if text not in question.answers]
            if question.sent and not waiting:
                return  # the button was pressed twice
            order = to_send(waiting, Noise.secure())
            with self._lock:
                loss = self._charged(question.query)
                question.loss = question.loss or loss
                self.texts_sent += len(order)
            question.failures = {}
            for text, outcome in ask_together(self.address, order, timeout=self.timeout).items():
                if isinstance(outcome, EngineError):
                    question.failures[text] = outcome.message
                else:
                    question.answers[text] = outcome
            pool = pool_answers([question.answers[text] for text in question.sent if text in question.answers])
            question.hits, question.ranked_by = rank_pool(question.query, pool)

    def _charged(self, query: str) -> SessionLoss:
        if self.kind is None:
            return self._tally.standing()
        return self._tally.charge(self.mechanism, query, self.mechanism.n, self._noise, limit=self.limit)
