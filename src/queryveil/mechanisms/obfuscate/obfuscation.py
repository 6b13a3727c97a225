"""Send other queries, get the answer.

Faggioli and Ferro (2024), "Query Obfuscation for Information Retrieval through Differential Privacy": the searcher
replaces each word of a query by a random word near it in an embedding, several times over, sends these queries to an
engine that need not cooperate, pools the results and ranks them at home. The word mechanisms are in `noisy.py` (cmp,
mhl, vkr-cmp, vkr-mhl), `selecting.py` (tem, santext, custext) and `blending.py` (wbb); `aed` and `fsh` are the paper's
baselines without a formal promise.

Where safe mode departs from the paper, and why (spec 003-2, 003-4, 003-6):

- `epsilon` is the total over the n obfuscations of a query, each has ε / n, and n is 1 unless you say otherwise: twenty
  independent answers to one question lose twenty times as much. Paper mode takes ε for each.
- λ = 0.5 for the Mahalanobis mechanisms, because small eigenvalues make the promise weak; paper mode has λ = 1.
- Unknown words become a public word before the noise; paper mode drops them (`words.py`).

In both modes the same query gives the same obfuscations: the noise is a keyed pseudo-random function of the words and
the settings, so that nobody who watches a query typed again and again can average the noise away. Nothing but the key
is stored. Asking for more obfuscations continues the list (n = 5 is the beginning of n = 20) at the same ε for each; in
safe mode that means a larger total. A changed ε is new noise and a new loss. A person protected by a log release has
noise of their own.

>>> noise = Noise.seeded(1)
>>> mechanism = Obfuscate(mechanism="cmp", epsilon=60.0, n=3)
>>> queries = mechanism.obfuscate("throat cancer", 3, noise)
>>> len(queries), queries == mechanism.obfuscate("Throat  CANCER!", 3, noise)
(3, True)
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.checks import one_of, real_number, require, whole_number
from queryveil.errors import DataError, KnowledgeError, RefusedError, Remedy
from queryveil.knowledge._store import file_digest
from queryveil.knowledge.embeddings import WordVectors, files_of
from queryveil.log import QueryLog
from queryveil.log.query_log import Schema, in_canonical_order
from queryveil.mechanisms.obfuscate import promise
from queryveil.mechanisms.obfuscate.words import (
    LARGEST_EPSILON,
    SMALLEST_EPSILON,
    WORD_MECHANISMS,
    Reader,
    WordMechanism,
    word_mechanism,
)
from queryveil.privacy import Charge, Guarantee, Noise, keys
from queryveil.privacy.noise import NoiseStream, Repeating
from queryveil.progress import each
from queryveil.release.mechanism import MODES, PSEUDONYM, Mode
from queryveil.release.release import Release, Renaming

if TYPE_CHECKING:
    from queryveil.mechanisms.obfuscate.text_law import WordLaw

Choice: TypeAlias = Literal["cmp", "mhl", "vkr-cmp", "vkr-mhl", "tem", "santext", "custext", "wbb", "aed", "fsh"]
HOW: Final = {
    "cmp": "noise on word vectors",
    "mhl": "noise shaped like the vocabulary",
    "vkr-cmp": "noise, leaning to the second nearest",
    "vkr-mhl": "shaped noise, leaning to the second nearest",
    "tem": "a word drawn near",
    "santext": "a word drawn from all",
    "custext": "a word drawn from a few",
    "wbb": "a word drawn near, but not too near",
    "aed": "unrelated queries beside it",
    "fsh": "queries that find the same documents",
}
"""What the authors' names stand for."""
CHOICES: tuple[Choice, ...] = ("cmp", "mhl", "vkr-cmp", "vkr-mhl", "tem", "santext", "custext", "wbb", "aed", "fsh")
GLOVE = "glove"
KEY = "obfuscate.key"
SAFE_LAMBDA, PAPER_LAMBDA = 0.5, 1.0
RELEASED: Schema = {"user": pl.String(), "query": pl.String()}
ANSWERS = "__answers"
TWELVE_DIGITS = Context(prec=12, rounding=ROUND_FLOOR)


def own_noise() -> Noise:
    """The searcher's own noise: its key is made on first use and kept in the key folder (see `keys`)."""
    return Noise(keys.own(KEY), "secure", fresh=False)


@dataclass(frozen=True, kw_only=True)
class Obfuscate:
    """Replace the words of a query by random words near them."""

    name: ClassVar[str] = "obfuscate"
    title: ClassVar[str] = "Blur each word"
    summary: ClassVar[str] = "Words are replaced by neighbours in meaning, at random."
    sweep: ClassVar = {"mechanism": "custext", "epsilon": [2.0, 10.0]}
    effort: ClassVar[float] = 20.0
    demo_parameters: ClassVar = {"mechanism": "vkr-mhl", "epsilon": 6.0, "n": 3, "mode": "paper"}
    citation: ClassVar[str] = """@inproceedings{faggioli2024query,
  author    = {Guglielmo Faggioli and Nicola Ferro},
  title     = {Query Obfuscation for Information Retrieval through Differential Privacy},
  booktitle = {European Conference on Information Retrieval (ECIR)},
  year      = {2024}
}"""
    replaces_texts: ClassVar[bool] = True
    replaces_words: ClassVar[bool] = True

    mechanism: Choice = field(
        default="cmp",
        metadata={"help": "how words are replaced: cmp, mhl, vkr-cmp, vkr-mhl (noise on vectors), tem, santext, "
                  "custext, wbb (a drawn word); aed and fsh make other queries without a formal promise",
                  "label": "how words are replaced", "shown": HOW},
    )  # fmt: skip
    epsilon: float | None = field(
        default=None,
        metadata={"help": "loss for each unit of distance: in all over the n queries (safe), or for each (paper); "
                  "not for aed and fsh"},
    )  # fmt: skip
    n: int = field(default=1, metadata={"help": "how many obfuscated queries stand for one query"})
    t: float = field(default=0.75, metadata={"help": "vkr-…: leaning to the second nearest word, 0 to 1"})
    lambda_: float | None = field(
        default=None,
        metadata={"help": "mhl, vkr-mhl: share of the covariance in the noise, 0 to 1; 0.5 in safe, 1 in paper mode"},
    )
    embedding: str = field(default=GLOVE, metadata={"help": "word vectors: glove, or a file of vectors"})
    corpus: str | None = field(default=None, metadata={"help": "fsh: folder of a local collection in BEIR layout"})
    mode: Mode = "safe"

    def __post_init__(self) -> None:
        promised = self.mechanism in WORD_MECHANISMS
        require(
            one_of("mechanism", self.mechanism, CHOICES, suggest="cmp"),
            real_number(
                "epsilon", self.epsilon, at_least=SMALLEST_EPSILON, at_most=LARGEST_EPSILON, suggest=10.0,
                optional=not promised,
            ),
            whole_number("n", self.n, at_least=1, at_most=1000, suggest=1),
            real_number("t", self.t, at_least=0, at_most=1, suggest=0.75),
            real_number("lambda", self.lambda_, at_least=0, at_most=1, suggest=SAFE_LAMBDA, optional=True),
            None if isinstance(self.embedding, str) and self.embedding.strip() else "embedding must be glove or a file",
            one_of("mode", self.mode, MODES, suggest="safe"),
        )  # fmt: skip
        require(
            f"epsilon has no meaning for {self.mechanism}, which promises nothing formal. Leave it out."
            if not promised and self.epsilon is not None else None,
            "fsh needs a local collection of documents: give corpus, a folder in BEIR layout."
            if self.mechanism == "fsh" and not self.corpus else None,
            f"epsilon must come to at least {SMALLEST_EPSILON:g} for each of the n queries; it is split over them."
            if promised and self.epsilon_each < SMALLEST_EPSILON else None,
        )  # fmt: skip

    # What is promised

    @property
    def epsilon_each(self) -> float:
        """ε of one obfuscation: the whole of it in paper mode, an equal share in safe mode.

        Divided as decimals and cut to 12 digits, never rounded up: 2.1 over 3 and 0.7 for each must be the same noise.
        """
        whole = Decimal(repr(float(self.epsilon or 0.0)))
        return float(TWELVE_DIGITS.divide(whole, Decimal(1 if self.mode == "paper" else self.n)))

    @property
    def lambda_used(self) -> float:
        """λ as given, else the mode's own."""
        if self.lambda_ is not None:
            return float(self.lambda_)
        return SAFE_LAMBDA if self.mode == "safe" else PAPER_LAMBDA

    @property
    def draws_words(self) -> bool:
        """Whether each word is drawn by a law; aed and fsh make other queries by fixed rules."""
        return self.mechanism in WORD_MECHANISMS

    @property
    def is_glove(self) -> bool:
        """Whether the vectors are the ones that come with the package, not a file."""
        return self.embedding == GLOVE

    @property
    def vectors(self) -> WordVectors:
        """The public vocabulary."""
        return _vectors(self.embedding, None if self.is_glove else _state_of(self.embedding))

    @property
    def words(self) -> WordMechanism:
        """The mechanism for one word."""
        return _words(self.vectors, self.mechanism, self.epsilon_each, float(self.t), self.lambda_used, self.mode)

    @property
    def words_prepared(self) -> bool:
        """False where the first answer has to wait for work that is then kept: custext's sets."""
        from queryveil.mechanisms.obfuscate.selecting import CustomisedWords

        words = self.words if self.draws_words else None
        return words.prepared if isinstance(words, CustomisedWords) else True

    def text_law(self) -> WordLaw | None:
        """How likely each word becomes each other one, where words come out of small sets; None elsewhere."""
        from queryveil.mechanisms.obfuscate.blending import BlendedWords
        from queryveil.mechanisms.obfuscate.selecting import CustomisedWords
        from queryveil.mechanisms.obfuscate.text_law import WordLaw

        words = self.words if self.draws_words else None
        return WordLaw(words) if isinstance(words, CustomisedWords | BlendedWords) else None

    @property
    def outputs_of_a_query(self) -> int:
        """How many outputs of each word of a query an attacker sees."""
        return self.n

    @property
    def reader(self) -> Reader:
        """Reads texts as words of the vocabulary."""
        return Reader(self.vectors, keep_places=self.mode == "safe")

    def guarantee(self) -> Guarantee:
        """What is promised for one word over all its obfuscations; nothing for aed and fsh."""
        if not self.draws_words:
            return promise.of_baseline(self.mechanism)
        return promise.of_words(self.words, n=self.n, mode=self.mode)

    def warnings(self) -> tuple[str, ...]:
        """What is as good as not protected with these settings, for who is about to use them; see `promise`."""
        if not self.draws_words:
            return ()
        return tuple(f"Not protected: {warning}." for warning in promise.warnings(self.words))

    def charge(self) -> Charge:
        """No loss that a ledger could add to another: a metric ε has a distance for its unit."""
        return Charge.nothing()

    # The work

    def obfuscate(self, query: str, n: int, noise: Noise) -> list[str]:
        """The first n obfuscations of a query, the same each time; at `epsilon_each` whatever n is asked for."""
        require(whole_number("n", n, at_least=1, at_most=1000, suggest=1))
        if self.mode == "safe" and n > self.n:
            raise RefusedError(
                f"epsilon was split over {self.n} obfuscations; {n} would cost more than was promised.",
                parameter="n",
                given=str(n),
                remedy=Remedy("n", n),
            )
        if not self.draws_words:
            return self.others(query, n)
        return [self.reader.text(words) for words in self.draw(self.reader.query(query), n, noise)]

    def others(self, query: str, n: int) -> list[str]:
        """What aed and fsh send in place of a query: without noise, the same for everybody."""
        found: list[str] = _baseline(self.mechanism, self.corpus).obfuscations(query, n)
        if not found:
            raise DataError(f"{self.mechanism} finds no other query for this one. Use other words. Nothing was sent.")
        return found

    def settings(self, indices: Longs, whose: str = "", digest: str | None = None) -> bytes:
        """Everything that the obfuscations of these words depend on but the key, and nothing else.

        A parameter without effect would give new noise for the same law, to be averaged with the old. `digest` is that
        of the vectors, where the caller has it at hand.
        """
        t = float(self.t) if self.mechanism.startswith("vkr") else None
        lambda_ = self.lambda_used if self.mechanism.endswith("mhl") else None
        mine = [self.mechanism, self.epsilon_each, t, lambda_, digest or self.vectors.digest]
        if self.mechanism == "wbb":  # the law of the two modes differs
            mine.append(self.mode)
        return json.dumps([*mine, whose, indices.tolist()]).encode()

    def stream_of(self, indices: Longs, noise: Noise) -> NoiseStream:
        """The searcher's noise that belongs to these words under these settings: the same in every version."""
        return noise.repeatable("obfuscate", self.settings(indices))

    def draw(self, indices: Longs, n: int, noise: Noise) -> Longs:
        """n rows of drawn words."""
        drawn = self.words.replace(np.tile(indices, n), self.stream_of(indices, noise))
        return drawn.reshape(n, len(indices))

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """n records for each record; a person's repeated query is answered alike, other people's noise is their own."""
        table = log.table()
        work = Obfuscating.of(self, noise, table.blocks)
        answered = table.map_blocks("user", work, Renaming.schema(RELEASED))
        words = self.draws_words
        become = "every word replaced by a random one, which may be itself" if words else "replaced by fixed rules"
        columns = {"user": PSEUDONYM, "query": f"{become} ({self.mechanism})"}
        release = Release.of_table(self, answered, noise=noise, columns=columns)
        by_content = {} if self.is_glove else {"embedding": f"sha256:{self.vectors.digest}"}
        if self.corpus is not None:  # by content: a path would tell about the holder's machine
            by_content["corpus"] = f"sha256:{_digest_of(self.corpus)}" if self.mechanism == "fsh" else "not used"
        return replace(release, parameters={**release.parameters, **by_content})

    @property
    def on_cluster(self) -> bool:
        """Everything but fsh, whose collection and its index would have to lie on every worker.

        Vectors from a file are read by the workers at the same path; custext's sets, where a worker does not find them
        in its cache folder, are made there, which takes minutes. What differs from the driver's is refused.
        """
        return self.mechanism != "fsh"

    def knowledge(self) -> str:
        """Names all public things that answers are made from: machines that share one work must have the same.

        Reads them, so that what is wrong with them is told before the work.
        """
        if not self.draws_words:
            _baseline(self.mechanism, self.corpus)  # what is wrong with it must not pass for a query it cannot answer
            return self.mechanism
        from queryveil.mechanisms.obfuscate.selecting import CustomisedWords

        words = self.words
        return f"{self.vectors.digest} {words.sets_digest if isinstance(words, CustomisedWords) else ''}"


@dataclass(frozen=True)
class Obfuscating:
    """n records for each record of a block of users, and the users renamed: for one machine and for a cluster alike.

    A person's answers depend on the person, the words and the settings alone, so every user and query is answered once
    in a block, and how a log is cut changes no answer. Workers fetch the vocabulary themselves; where it is not the one
    the work was planned with, they refuse.
    """

    mechanism: Obfuscate
    knowledge: str
    noise: Repeating
    renaming: Renaming

    @classmethod
    def of(cls, mechanism: Obfuscate, noise: Noise, blocks: int) -> Obfuscating:
        """The work of one release; a file of vectors goes by its whole path, since a worker has a folder of its own."""
        if not mechanism.is_glove:
            mechanism = replace(mechanism, embedding=str(Path(mechanism.embedding).resolve()))
        return cls(mechanism, mechanism.knowledge(), noise.repeating("obfuscate"), Renaming.of(noise, blocks))

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The records that stand for those of a block."""
        rows = rows.select("user", "query")
        asked = in_canonical_order(rows.unique())
        known = asked.with_columns(pl.Series(ANSWERS, self._answers(asked), dtype=pl.List(pl.String)))
        answered = rows.join(known, on=["user", "query"], how="left").explode(ANSWERS, empty_as_null=False)
        return self.renaming(block, answered.select("user", pl.col(ANSWERS).alias("query")))

    def _answers(self, asked: pl.DataFrame) -> list[list[str]]:
        """n texts for each user and query; none where paper mode, aed or fsh knows no word of it."""
        if self.mechanism.knowledge() != self.knowledge:
            raise KnowledgeError(
                "the words on this machine are not the ones the work was planned with. Install the same vectors and "
                "give all machines one cache folder (QUERYVEIL_CACHE)."
            )
        if not self.mechanism.draws_words:
            return [self._others(query) for query in each("looking for other queries", asked["query"].to_list())]
        n, reader, settings = self.mechanism.n, self.mechanism.reader, self.mechanism.settings
        questions = []
        for user, query in asked.iter_rows():
            indices = reader.indices(query)
            message = settings(indices, whose=user, digest=reader.vectors.digest)
            questions.append((np.tile(indices, n), self.noise.stream(message)))
        drawn = self.mechanism.words.replace_many(questions)
        return [[reader.text(row) for row in words.reshape(n, -1) if len(row)] for words in drawn]

    def _others(self, query: str) -> list[str]:
        try:
            return self.mechanism.others(query, self.mechanism.n)
        except DataError:
            return []


@lru_cache(maxsize=4)
def _vectors(embedding: str, state: str | None) -> WordVectors:
    return WordVectors.load(None if embedding == GLOVE else embedding)


def _state_of(embedding: str) -> str | None:
    """Changes when the files do, so that other vectors under the same name are seen."""
    path = Path(embedding)
    return " ".join(map(file_digest, files_of(path))) if path.is_file() else None


def _digest_of(corpus: str) -> str:
    """Of the documents of a collection."""
    return next(file_digest(path) for path in sorted(Path(corpus).glob("corpus.jsonl*")) if path.is_file())


@lru_cache(maxsize=8)
def _words(vectors: WordVectors, name: str, epsilon: float, t: float, lambda_: float, mode: Mode) -> WordMechanism:
    return word_mechanism(name, vectors, epsilon=epsilon, t=t, lambda_=lambda_, everywhere=mode == "safe")


@lru_cache(maxsize=2)
def _baseline(name: str, corpus: str | None) -> Any:
    """AED or FSH: other queries from a thesaurus, or from a local collection."""
    module = import_module(f"queryveil.mechanisms.obfuscate.{name}")
    return module.AED() if name == "aed" else module.FSH(Path(str(corpus)))
