"""Everything that judgements of one release by held-out people share, made once.

What depends on the raw log and on the judges alone is kept for further releases of that log (`AuditContext.once`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np
import polars as pl

from queryveil.arrays import Floats
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Figures, Judged, NothingToSayError, judge
from queryveil.audit.held_out.searches import Searches
from queryveil.audit.held_out.splitting import id_hashes
from queryveil.audit.held_out.word_model import (
    PublishedModel,
    WordCounts,
    WordSource,
    estimates,
    halves,
    weights_for,
)
from queryveil.errors import QueryVeilError
from queryveil.log import QueryLog

if TYPE_CHECKING:
    from queryveil.audit.context import AuditContext

MOST_JUDGES: Final = 2000
"""Of more held-out people so many judge, the same for every release."""
READERS: Final = ("floor", "release", "ceiling")
Reader = Literal["floor", "release", "ceiling"]
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Judging:
    """The judges, and the three readers whom they judge: of public data, of the release, and of the raw log."""

    context: AuditContext
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def judges(self) -> Searches:
        """What held-out people asked."""
        return self.once("judges", lambda: Searches(_some(self.context.held_out)))

    @cached_property
    def raw(self) -> Searches:
        """The raw log."""
        return self.once("raw", lambda: Searches(self.context.original))

    @cached_property
    def released(self) -> Searches:
        """The released log."""
        return Searches(self.context.released)

    def once(self, name: str, make: Callable[[], Made]) -> Made:
        """What is made of the raw log and the judges alone."""
        if name not in self._made:
            self._made[name] = self.context.once(("held out", name), make)
        found: Made = self._made[name]
        return found

    # Words

    def sources(self, reader: Reader) -> Sequence[WordSource]:
        """What a reader knows of words."""
        public = WordCounts.public()
        if reader == "floor":
            return (public,)
        if reader == "ceiling":
            return (public, self.once("raw words", lambda: WordCounts.of(self.raw)))
        return (public, self._release_words)

    @cached_property
    def _release_words(self) -> WordSource:
        model = self.published_model
        return WordCounts.of(self.released) if model is None else PublishedModel(model)

    @cached_property
    def published_model(self) -> Any:
        """The model that the release publishes in its tables, by what its mechanism declares; None where it has none.

        A mechanism that this package does not know, or tables that it cannot read, leave the log to be read.
        """
        context = self.context
        if not context.tables or not context.declares("word_model"):
            return None
        try:
            mechanism: Any = context.made_again()
            return mechanism.word_model(context.tables)
        except QueryVeilError:
            return None

    @property
    def read_how(self) -> str:
        """How the release was read, in words."""
        return "its counts of words and pairs" if self.published_model is None else "the model that it publishes"

    def word_estimates(self, reader: Reader) -> Floats:
        """Each estimate of each of the judges' words."""
        _, before, word = self.judges.words

        def make() -> Floats:
            return estimates(self.sources(reader), before, word)

        return self._release_estimates if reader == "release" else self.once(f"words {reader}", make)

    @cached_property
    def _release_estimates(self) -> Floats:
        _, before, word = self.judges.words
        return estimates(self.sources("release"), before, word)

    def word_weights(self, reader: Reader) -> Floats:
        """The weights of a reader's estimates for each half of the judges."""
        half = halves(self.judges.words.person)

        def make() -> Floats:
            return weights_for(self.word_estimates(reader), half)

        return make() if reader == "release" else self.once(f"weights {reader}", make)

    # Judgements

    def judge(
        self,
        title: str,
        key: str,
        explanation: str,
        figure: str,
        figures: tuple[Figures, int],
        better: Literal["higher", "lower"] = "higher",
    ) -> Iterator[Judged | LeftOut]:
        """Value kept, or why there is none."""
        try:
            found = judge(*figures, self.context.fresh_noise(), better=better)
        except NothingToSayError as reason:
            yield LeftOut(title=title, reason=str(reason))
            return
        yield Judged(key=key, title=title, explanation=explanation, figure=figure, judgement=found)


def _some(log: QueryLog | None) -> QueryLog:
    """The log of at most `MOST_JUDGES` people: those whose ids have the smallest hashes."""
    assert log is not None, "only who has held-out people asks them"
    users = log.users()
    if len(users) <= MOST_JUDGES:
        return log
    chosen = users.gather(np.argsort(id_hashes(users), kind="stable")[:MOST_JUDGES])
    return QueryLog(log.frame.filter(pl.col("user").is_in(chosen.implode())))
