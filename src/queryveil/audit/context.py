"""What an audit works on: the two logs, what the manifest promises, and what only the holder knows.

Everything that several measures need is made here once: numbers for users and texts, and the category of each text by
the public classifier (or by the log's own column, where the release was made with one).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil import mechanisms
from queryveil.audit.attacks.released_stream import numbered_paths
from queryveil.audit.both_logs import RECEIVER, both_logs, known_as_in, text_counts
from queryveil.audit.finding import NEEDS_OWNERS, NOBODY_BEHIND, LeftOut
from queryveil.audit.out_of_core import OF_ANOTHER, ReleaseOnDisk
from queryveil.audit.past import Past
from queryveil.audit.raw_side import RawSide
from queryveil.errors import DataError, QueryVeilError
from queryveil.knowledge.categories import Classifier, load_classifier
from queryveil.knowledge.collections import Collection
from queryveil.knowledge.sentences import Encoder
from queryveil.log import QueryLog
from queryveil.log.query_log import LocalTable, Schema, Table
from queryveil.privacy import Noise
from queryveil.release.mechanism import Mechanism, declares
from queryveil.release.secrets import Secrets

if TYPE_CHECKING:
    from queryveil.audit.attacks.knowing import Knowing
    from queryveil.audit.held_out.judging import Judging

PEOPLE: Schema = {"user": pl.String(), "person": pl.String()}
Ints = npt.NDArray[np.int32]
Made = TypeVar("Made")

USUAL_K_TEXT = 5
PEOPLE_SEED = 99
MOST_STREAMED = 50_000
"""Records of a stream that is run again to see its pools."""
MOST_PEOPLE = 5000
"""Whose profiles are measured person by person; in a larger log a sample of so many."""


@dataclass(frozen=True)
class Categories:
    """A category for each distinct text, as numbers on a tree whose root is 0; texts without one are at the root."""

    of_text: Ints
    parents: Ints
    depths: Ints


@dataclass(frozen=True, kw_only=True)
class AuditContext:
    """The two logs and what is known about them."""

    original: QueryLog
    released: QueryLog
    manifest: Mapping[str, Any]
    secrets: Secrets | None = field(repr=False)
    other: QueryLog | None = None
    other_secrets: Secrets | None = field(default=None, repr=False)
    made_by: Mechanism | None = None
    collection: Collection | None = None
    encoder: Encoder | None = None
    """Turns texts into sentence vectors, where somebody wants to wait for that."""
    past: Past | None = None
    """What the attacker knows of people's earlier queries; None where nothing is."""
    held_out: QueryLog | None = field(default=None, repr=False)
    """What people asked whom the mechanism never saw; None where nobody was kept aside."""
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict, repr=False)
    """What is published beside the log, by name."""
    digest: str = ""
    """Of the release: the audit's own draws follow from it, so that the same release gives the same figures."""
    raw: RawSide | None = field(default=None, repr=False)
    """What other audits of the same raw log have made of it; None where there are none."""
    _seeds: list[Iterator[int]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        told = self.released.original if isinstance(self.released, ReleaseOnDisk) else None
        for log, secrets in ((self.released, self.secrets), (self.other, self.other_secrets)):
            if secrets is not None and (log is None or not log.frame["user"].equals(secrets.pseudonyms)):
                raise DataError(OF_ANOTHER)
        known = (told or {}) if self.secrets is None else self.secrets.original
        counts = {"records": len(self.original), "users": self.original.user_count()}
        if known.get("similar_ids", "different") != self.original.similar_ids:
            del counts["users"]  # of ids that are merged here because they were so in the other release
        if any(known.get(name, count) != count for name, count in counts.items()):
            raise DataError(
                "the original is not the log that this release was made from: the secrets tell other counts."
            )

    def begin(self, part: str) -> None:
        """From here on the draws are those of an attack or a measure, whatever others drew before."""
        seed = hashlib.sha256(f"{self.digest} {part}".encode()).digest()
        self._seeds[:] = [count(int.from_bytes(seed[:7], "big"))]

    def fresh_noise(self) -> Noise:
        """Noise of its own for one more draw, the same in every audit of the release."""
        if not self._seeds:
            self.begin("")
        return Noise.seeded(next(self._seeds[0]))

    def once(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """What is made of the raw log alone, kept under a name where more of its releases are audited."""
        return make() if self.raw is None else self.raw.once(name, make)

    # What was promised

    @property
    def mechanism(self) -> str | None:
        """The name in the manifest; None for a log made by another tool."""
        return self.manifest.get("mechanism")

    @property
    def safe(self) -> bool:
        """Whether the release was made in safe mode."""
        return self.manifest.get("mode") == "safe"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public parameters of the mechanism."""
        return self.manifest.get("parameters") or {}

    @property
    def promise(self) -> Mapping[str, Any]:
        """The guarantee as the manifest tells it."""
        return self.manifest.get("guarantee") or {}

    def promised_k(self, *models: str) -> int | None:
        """k, where the guarantee is of one of these kinds."""
        return int(self.promise["k"]) if self.promise.get("model") in models else None

    @property
    def promised_k_text(self) -> int | None:
        """How many users a released text must have, where the release withholds rarer ones."""
        return self.parameters.get("k_text") if self.declares("withholds_rare_texts") else None

    def declares(self, name: str) -> bool:
        """Whether the release's mechanism declares a property of the protocol (`queryveil.release.mechanism`)."""
        known = mechanisms.names()
        made_by = self.made_by or (mechanisms.load(self.mechanism) if self.mechanism in known else None)
        return declares(made_by, name, self.manifest.get("mode"))

    def made_again(self) -> Mechanism:
        """The mechanism that made the release: the one at hand, or one with the manifest's parameters and no state."""
        if self.made_by is not None:
            return self.made_by
        made: Mechanism = mechanisms.recreate(self.manifest)
        return made

    @cached_property
    def labels(self) -> pl.Series | None:
        """Every text that the mechanism may make up, from public knowledge; None where that cannot be told here."""
        known = self.mechanism in mechanisms.names()
        kind: Any = self.made_by or (mechanisms.load(str(self.mechanism)) if known else None)
        if kind is None or not hasattr(kind, "labels"):
            return pl.Series([], dtype=pl.String)
        # A manifest may tell more than parameters, such as the digest of what a parameter names.
        fields = {field.name for field in dataclasses.fields(kind)}
        given = {name: value for name, value in self.parameters.items() if name in fields}
        try:
            made: Any = self.made_by or mechanisms.make(str(self.mechanism), mode=self.manifest["mode"], **given)
            labels: pl.Series = made.labels()
        except QueryVeilError:
            return None
        return labels

    # Who is who

    @cached_property
    def owners(self) -> pl.Series | None:
        """The true author of each released record."""
        return None if self.secrets is None else self.known_people(self.secrets.owners)

    @cached_property
    def receivers(self) -> pl.Series | None:
        """The true user behind the pseudonym of each released record."""
        return None if self.secrets is None else self.known_people(self.secrets.receivers)

    def why_no_owners(self) -> str:
        """Why nobody is known behind the pseudonyms."""
        return NOBODY_BEHIND if self.secrets is not None or self.declares("synthetic_users") else NEEDS_OWNERS

    def not_attacked(self, title: str) -> LeftOut:
        """An attack that could not be judged because nobody is known behind the pseudonyms."""
        reason = self.why_no_owners()
        return LeftOut(title=title, reason=reason, required=reason == NEEDS_OWNERS, by_settings=True)

    def nothing_to_go_by(self, title: str) -> LeftOut | None:
        """Why an attacker who knows the past could not be judged; None where it can."""
        if self.owners is None or self.receivers is None:
            return self.not_attacked(title)
        if self.past is None or not len(self.past.log):
            return LeftOut(title=title, reason="nothing is known of anybody's past")
        return None

    def known_people(self, names: pl.Series) -> pl.Series | None:
        """The names as the original has them, null where one is not known; None where nobody is behind any record."""
        if names.null_count() == len(names):
            return None
        return known_as_in(self.original, names)

    # In blocks, for what can be counted so

    @property
    def in_blocks(self) -> bool:
        """Whether a log outgrows the memory: then only parts that declare `counts_in_blocks` are run."""
        return self.original.outgrows_memory or self.released.outgrows_memory

    @cached_property
    def both(self) -> Table:
        """The records of both logs, a block of texts at a time."""
        return both_logs(self.original, self.released, self.owners)

    @cached_property
    def text_counts(self) -> pl.DataFrame:
        """How many texts are in so many records of either log."""
        return text_counts(self.both)

    def behind_pseudonyms(self) -> pl.DataFrame | None:
        """`user`, `person`: who is behind each pseudonym, the first of several; None where nobody is known."""
        if isinstance(self.released, ReleaseOnDisk):
            if not self.released.receivers_known:
                return None
            table = self.released.table(RECEIVER).map_rows(
                lambda rows: rows.select("user", person=known_as_in(self.original, rows[RECEIVER])), PEOPLE, ["user"]
            )
        elif self.receivers is None:
            return None
        else:
            table = LocalTable(self.released.frame.select("user", self.receivers.alias("person")), blocks=1)
        first = pl.col("person").drop_nulls().min()
        found = table.map_blocks("user", lambda _, rows: rows.group_by("user").agg(first), PEOPLE).collect()
        return found.sort("user")

    # As numbers

    @cached_property
    def users(self) -> pl.Series:
        """The users of the raw log, sorted."""
        return self.once("users", self.original.users)

    @cached_property
    def texts(self) -> pl.Series:
        """The distinct texts of both logs, sorted."""
        return pl.concat([self.original.frame["query"], self.released.frame["query"]]).unique().sort()

    @cached_property
    def original_texts(self) -> Ints:
        """The number of each raw record's text."""
        return numbers(self.original.frame["query"], self.texts)

    @cached_property
    def released_texts(self) -> Ints:
        """The number of each released record's text."""
        return numbers(self.released.frame["query"], self.texts)

    @cached_property
    def original_users(self) -> Ints:
        """The number of each raw record's user."""
        return self.once("users of records", lambda: numbers(self.original.frame["user"], self.users))

    @cached_property
    def released_names(self) -> Ints:
        """A number for the pseudonym of each released record."""
        return numbers(self.released.frame["user"], self.released.users())

    def people(self, names: pl.Series) -> Ints:
        """True users as numbers of the raw log's users; −1 for one who is not in it or not known."""
        everybody = pl.concat([self.users, names]).drop_nulls().unique().sort()
        places = np.full(len(everybody) + 1, -1, np.int32)  # the last is for who is not known
        places[numbers(self.users, everybody)] = np.arange(len(self.users), dtype=np.int32)
        return places[numbers(names, everybody)]

    def some_people(self, most: int = MOST_PEOPLE) -> npt.NDArray[np.int64]:
        """At most so many of the raw log's users, the same in every measure."""
        order = Noise.seeded(PEOPLE_SEED).stream("audit: people").permutation(len(self.users))
        return np.sort(order[:most])

    @cached_property
    def knowing(self) -> Knowing:
        """The attacker who knows the past, as numbers."""
        from queryveil.audit.attacks.knowing import Knowing

        assert self.past is not None, "who knows no past has nothing to go by"
        return Knowing(self, self.past)

    @cached_property
    def pools(self) -> Any:
        """Who could have written each record, where records come out of pools: of a run made again; None elsewhere."""
        if not self.declares("pools"):
            return None
        try:
            mechanism: Any = self.made_again()
        except QueryVeilError:
            return None
        seed = int.from_bytes(hashlib.sha256(f"{self.digest} pools".encode()).digest()[:7], "big")
        later = self.original.frame if self.past is None else self.past.later(self.original)
        return mechanism.pools(QueryLog(later.head(MOST_STREAMED)), Noise.seeded(seed))

    @cached_property
    def judging(self) -> Judging:
        """The held-out people, and what they judge."""
        from queryveil.audit.held_out.judging import Judging

        return Judging(self)

    # What texts are about

    @cached_property
    def classifier(self) -> Classifier:
        """The one the release was made with, where it can be loaded here; else WordNet's."""
        load = load_classifier if self.raw is None else self.raw.classifier
        try:
            return load(str(self.parameters.get("classifier") or "wordnet"))
        except QueryVeilError:
            return load("wordnet")

    @cached_property
    def categories(self) -> Categories:
        """The category of each distinct text."""
        column = self.parameters.get("category_column")
        if column is not None and column in self.original.frame.columns:
            separator = str(self.parameters.get("category_separator") or ": ")
            told = self.original.frame.select("query", pl.col(column).cast(pl.String).alias("path"))
            usual = told.drop_nulls().group_by("query").agg(pl.col("path").mode().sort().first())
            paths = self.texts.to_frame("query").join(usual, on="query", how="left", maintain_order="left")["path"]
            return _of_paths(paths, separator)
        tree = self.classifier.tree
        best = self.classifier.best(self.texts.to_list())
        # The classifier's tree has several tops and no root; here the root is 0 and every category moves up by one.
        parents = np.concatenate([np.zeros(1, np.int32), tree.parents.astype(np.int32) + 1])
        depths = np.concatenate([np.zeros(1, np.int32), tree.depths.astype(np.int32)])
        return Categories((best + 1).astype(np.int32), parents, depths)


def numbers(values: pl.Series, distinct: pl.Series) -> Ints:
    """The place of each value in a sorted list without repetitions; −1 for null."""
    if not len(values):
        return np.zeros(0, np.int32)
    return values.cast(pl.Enum(distinct)).to_physical().cast(pl.Int32).fill_null(-1).to_numpy()


def _of_paths(paths: pl.Series, separator: str) -> Categories:
    has_path = paths.is_not_null() & (paths != "")
    found, parents, depths = numbered_paths(paths.filter(has_path), separator)
    of_text = np.zeros(len(paths), np.int32)
    of_text[has_path.to_numpy()] = found
    return Categories(of_text, parents, depths)
