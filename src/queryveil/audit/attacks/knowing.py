"""The attacker who knows the past, as numbers: people, their earlier texts, and what is to be put down to them.

Made once for an audit (`AuditContext.knowing`) and shared by the attacks that use it. People are those of the past, and
a released record or pseudonym whose author is not among them is not tried: the figures speak of released people whose
past is known, and of their records.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.audit.attacks.interests import Longs, Table, Terms, side_by_side
from queryveil.privacy.noise import NoiseStream

if TYPE_CHECKING:
    from queryveil.audit.context import AuditContext
    from queryveil.audit.past import Past

PSEUDONYMS = 2000
RECORDS = 5000
BUSY = 50
ALIKE = 2.0
"""People are about as busy as a row if they asked between half and twice as much."""
POPULATION = "released people whose past is known"
BUSY_PEOPLE = f"released people with at least {BUSY} records before and {BUSY} released"
RECORDS_OF = "released records of people whose past is known"


@dataclass(frozen=True)
class Targets:
    """Texts to be put down to somebody: the row that each belongs to, and the person truly behind each row."""

    rows: Longs
    texts: Longs
    truth: Longs

    def __len__(self) -> int:
        return len(self.truth)

    @property
    def sizes(self) -> Longs:
        """How many records each row has."""
        return np.bincount(self.rows, minlength=len(self.truth))


class Knowing:
    """What the attacker has, and what is judged."""

    def __init__(self, context: AuditContext, past: Past) -> None:
        self._context, self._past = context, past
        self.people = past.log.users()
        judged = past.judged(context.released)
        self.judged = np.flatnonzero(judged)
        self.later = past.later(context.original)
        self.terms = Terms(past.log.frame["query"], self._released["query"], self.later["query"])
        self.past_people = self.places(past.log.frame["user"])
        self.past_texts = self.terms.numbers(past.log.frame["query"])

    @property
    def told(self) -> str:
        """What is known, in words, and on what that is tried."""
        if self._past.until is not None and len(self.judged) < len(self._context.released):
            return f"{self._past.told}, tried on what was released of later days"
        return self._past.told

    @cached_property
    def _released(self) -> pl.DataFrame:
        return self._context.released.frame[self.judged]

    @cached_property
    def released_texts(self) -> Longs:
        """The text of each judged record."""
        return self.terms.numbers(self._released["query"])

    @cached_property
    def pseudonyms(self) -> Longs:
        """The pseudonym of each judged record."""
        return self._released.select(pl.col("user").rank("dense")).to_series().to_numpy().astype(np.int64) - 1

    @cached_property
    def owners(self) -> Longs:
        """Who wrote each judged record: a person of the past, or −1."""
        assert self._context.owners is not None
        return self.places(self._context.owners.gather(self.judged))

    @cached_property
    def receivers(self) -> Longs:
        """Whose name each judged record carries: a person of the past, or −1."""
        assert self._context.receivers is not None
        return self.places(self._context.receivers.gather(self.judged))

    def places(self, names: pl.Series) -> Longs:
        """The number of each name among the people of the past; −1 for anybody else."""
        known = self.people.to_frame("name").with_row_index("place")
        found = names.to_frame("name").join(known, on="name", how="left", maintain_order="left")["place"]
        return found.cast(pl.Int64).fill_null(-1).to_numpy()

    # What is tried

    def pseudonyms_to_name(self, stream: NoiseStream, most: int = PSEUDONYMS) -> Targets:
        """At most so many released pseudonyms, each with all its judged records."""
        truth = np.full(int(self.pseudonyms.max(initial=-1)) + 1, -1, np.int64)
        truth[self.pseudonyms] = self.receivers
        return _some_rows(self.pseudonyms, self.released_texts, truth, stream, most)

    def people_to_name(self, stream: NoiseStream) -> Targets:
        """The same of the raw log: people, each with all their later records."""
        people = self.places(self.later["user"])
        known = people >= 0
        texts = self.terms.numbers(self.later["query"])
        return _some_rows(people[known], texts[known], np.arange(len(self.people)), stream)

    def records_to_name(self, stream: NoiseStream) -> Targets:
        """At most `RECORDS` judged records, each by itself."""
        return _some_records(self.released_texts, self.owners, stream)

    def raw_records_to_name(self, stream: NoiseStream) -> Targets:
        """The same of the raw log's later records."""
        return _some_records(self.terms.numbers(self.later["query"]), self.places(self.later["user"]), stream)

    def asked_before(self, texts: Longs) -> npt.NDArray[np.bool_]:
        """Which texts somebody asked in the past."""
        known = np.zeros(len(self.terms.texts), np.bool_)
        known[self.past_texts] = True
        return known[texts]

    def busy(self, of: Targets) -> npt.NDArray[np.bool_]:
        """Which rows have many records, of people who asked much before: there is most to go by."""
        asked = np.bincount(self.past_people, minlength=len(self.people))
        busy: npt.NDArray[np.bool_] = (of.sizes >= BUSY) & (asked[of.truth] >= BUSY)
        return busy

    # What activity alone tells, which every attacker sees

    def chance_of_rows(self, of: Targets) -> npt.NDArray[np.float64]:
        """For each row how often a person about as busy, taken at random, is the right one."""
        asked = np.bincount(self.past_people, minlength=len(self.people))
        ordered = np.sort(asked)
        low, high = of.sizes / ALIKE, of.sizes * ALIKE
        alike = np.searchsorted(ordered, high, side="right") - np.searchsorted(ordered, low, side="left")
        among = (asked[of.truth] >= low) & (asked[of.truth] <= high)
        return np.where(among, 1 / np.maximum(alike, 1), 0.0)

    def chance_of_records(self, of: Targets) -> float:
        """How often a record is right that is put down to people by how busy they were, or always to the busiest."""
        asked = np.bincount(self.past_people, minlength=len(self.people))
        wrote = np.bincount(of.truth, minlength=len(self.people)) / max(len(of), 1)
        return float(max(asked @ wrote / asked.sum(), wrote[asked.argmax()], 1 / len(asked)))

    # How rows are described

    @property
    def activity(self) -> npt.NDArray[np.float64]:
        """Who asked more before will have asked more since: √ of the number of records, as a logarithm."""
        return np.asarray(0.5 * np.log1p(np.bincount(self.past_people, minlength=len(self.people))), np.float64)

    @cached_property
    def past_by_words(self) -> Table:
        """The words of everybody's past."""
        return self.terms.by_words(self.past_people, self.past_texts, len(self.people))

    @cached_property
    def past_by_texts(self) -> Table:
        """The words and whole texts of everybody's past."""
        return self.terms.by_words_and_texts(self.past_people, self.past_texts, len(self.people))

    @cached_property
    def past_by_all(self) -> Table:
        """The words, texts and categories of everybody's past."""
        return side_by_side(self.past_by_texts, self.past_by_categories)

    @cached_property
    def past_by_categories(self) -> Table:
        """The categories of everybody's past."""
        return self._categories(self.past_people, self.past_texts, len(self.people))

    def by_words(self, of: Targets) -> Table:
        """The words of targets."""
        return self.terms.by_words(of.rows, of.texts, len(of))

    def by_texts(self, of: Targets) -> Table:
        """The words and whole texts of targets."""
        return self.terms.by_words_and_texts(of.rows, of.texts, len(of))

    def by_categories(self, of: Targets) -> Table:
        """The categories of targets."""
        return self._categories(of.rows, of.texts, len(of))

    def by_all(self, of: Targets) -> Table:
        """The words, texts and categories of targets."""
        return side_by_side(self.by_texts(of), self.by_categories(of))

    def _categories(self, rows: npt.NDArray[np.integer], texts: Longs, count: int) -> Table:
        return self.terms.by_categories(rows, texts, count, self._category_of_text, self._context.categories.parents)

    @cached_property
    def _category_of_text(self) -> npt.NDArray[np.int32]:
        """Of each text here; those that neither log holds (of another log that is known) are asked for."""
        context = self._context
        known = context.texts.to_frame("text").with_columns(pl.Series("category", context.categories.of_text))
        found = self.terms.texts.to_frame("text").join(known, on="text", how="left", maintain_order="left")["category"]
        missing = found.is_null().to_numpy()
        categories = found.fill_null(0).to_numpy().copy()
        if missing.any() and context.parameters.get("category_column") is None:
            categories[missing] = context.classifier.best(self.terms.texts.filter(pl.Series(missing)).to_list()) + 1
        return categories.astype(np.int32)


def _some_rows(rows: Longs, texts: Longs, truth: Longs, stream: NoiseStream, most: int = PSEUDONYMS) -> Targets:
    """Some rows whose person is known, numbered anew."""
    present = np.zeros(len(truth), np.bool_)
    present[rows] = True
    able = np.flatnonzero(present & (truth >= 0))
    chosen = np.sort(able[stream.permutation(len(able))[:most]])
    place = np.full(len(truth), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    kept = place[rows] >= 0
    return Targets(place[rows[kept]], texts[kept], truth[chosen])


def _some_records(texts: Longs, owners: Longs, stream: NoiseStream) -> Targets:
    able = np.flatnonzero(owners >= 0)
    chosen = np.sort(able[stream.permutation(len(able))[:RECORDS]])
    return Targets(np.arange(len(chosen)), texts[chosen], owners[chosen])
