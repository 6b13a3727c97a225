"""The Open Directory (ODP, DMOZ) as a classifier and as a taxonomy: what a term is filed under, best first.

Erola et al. (2011), "Semantic Microaggregation for the Anonymization of Query Logs", asks the Open Directory for the
ordered categories of each term. The directory closed in 2017, so its search is gone; here its dump, or a table, is
imported once into an index file and searched at home. A category is found by the words of its name, of the names
above it, of its description, and of the titles and descriptions of the pages it lists; each kind counts differently,
rare words count more, long categories count less per word (Okapi BM25 over weighted counts). Ties go to the category
with more pages, then to the alphabet, so that the same index always answers the same.

Words lose their plural ending only, because Porter's stemmer would file *anime* under animals. A word's weakest
postings beyond two thousand are not kept.

Cost: import streams, memory in the number of distinct (word, category) pairs; a query costs the postings of its
words.

>>> import tempfile
>>> folder = FilePath(tempfile.mkdtemp())
>>> _ = (folder / "categories.tsv").write_text("Science/Biology\\t5\\nComputers/Programming/Python\\t9\\n")
>>> report = import_directory([folder / "categories.tsv"], folder / "toy.odp")
>>> OpenDirectory(folder / "toy.odp").classify(["python programming", "biology", "xyz"])
[[('Computers', 'Programming', 'Python'), ('Computers', 'Programming')], [('Science', 'Biology')], []]
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path as FilePath

import numpy as np

from queryveil.checks import require, whole_number
from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Array, Ints, Lists, Strings
from queryveil.knowledge._odp_reader import Entry, ImportReport, read_entries
from queryveil.knowledge._store import cache_folder, compiled_once, read_arrays, write_arrays
from queryveil.knowledge.categories import CategoryTree, Classifier, Path
from queryveil.knowledge.phrases import label_words
from queryveil.knowledge.tagging import STOP_WORDS
from queryveil.knowledge.taxonomy import Taxonomy

SCHEMA = 1
NAME_WEIGHT, NAME_ABOVE_WEIGHT, DESCRIPTION_WEIGHT = 8, 2, 2
PAGE_TITLE_WEIGHT, PAGE_DESCRIPTION_WEIGHT = 3, 1
SATURATION, LENGTH_SHARE = 1.2, 0.75  # k1 and b of BM25
MOST_POSTINGS = 2000
REMEMBERED_WORDS = 1 << 20
POSTINGS_AT_ONCE = 1 << 22
MOST_CATEGORIES = 50


def import_directory(
    sources: Iterable[str | os.PathLike[str]],
    index: str | os.PathLike[str],
    progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Read dumps or tables into an index file. `progress` is told the number of entries now and then."""
    report = ImportReport()
    builder = _Builder()
    for source in sources:
        for entry in read_entries(FilePath(source), report):
            builder.add(entry)
            report.pages += entry.is_page
            if progress is not None and builder.entries % 10_000 == 0:
                progress(builder.entries)
    if not builder.categories:
        raise KnowledgeError("no category was found; an index needs at least one. Give structure.rdf.u8 or a table.")
    arrays = builder.finish()
    report.categories = len(arrays["parents"])
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    write_arrays(FilePath(index), {"kind": "odp", "schema": SCHEMA, "digest": digest.hexdigest()}, arrays)
    return report


class OpenDirectory(Classifier):
    """A searchable index made by `import_directory`."""

    name = "odp"

    def __init__(self, index: str | os.PathLike[str]) -> None:
        header, arrays = read_arrays(FilePath(index))
        if header.get("kind") != "odp" or header.get("schema") != SCHEMA:
            raise KnowledgeError(f"{index} is not an Open Directory index of this version. Import the directory again.")
        self.digest = str(header["digest"])
        self.tree = CategoryTree(Strings(arrays["names.text"], arrays["names.offsets"]), arrays["parents"])
        self.documents: Ints = arrays["documents"]
        """How many pages each category lists itself."""
        terms = Strings(arrays["terms.text"], arrays["terms.offsets"]).to_list()
        self._terms = {term: number for number, term in enumerate(terms)}
        self._postings = (arrays["posting_offsets"], arrays["posting_categories"], arrays["posting_weights"])

    def categories(self, queries: Sequence[str], at_most: int = 1) -> Lists:
        require(whole_number("at_most", at_most, at_least=1, at_most=MOST_CATEGORIES, suggest=5))
        from queryveil.knowledge._odp_kernel import best_categories, room

        asked = Lists.of(self._query_terms(query) for query in queries)
        scratch = room(len(queries), len(self.tree), at_most)
        best_categories(asked.offsets, asked.values, *self._postings, self.documents, at_most, *scratch)
        best, found = scratch[2], scratch[3]
        offsets = np.zeros(len(queries) + 1, np.int64)
        np.cumsum(found, out=offsets[1:])
        return Lists(offsets, best[np.arange(at_most) < found[:, None]])

    def _query_terms(self, query: str) -> list[int]:
        """The numbers of the words that the directory knows, sorted: word order must not change a sum's rounding."""
        known = self._terms
        words = {_without_plural(word) for word in label_words(query) if word not in STOP_WORDS}
        return sorted(known[word] for word in words if word in known)

    def taxonomy(self) -> Taxonomy:
        """The directory as a taxonomy under *Top*: a concept per category, its last name as the label.

        Of several categories with one name, the one that lists most pages is the first sense, then the highest one.
        """
        path = cache_folder() / f"odp-taxonomy-{SCHEMA}-{self.digest[:16]}.arrays"
        return Taxonomy.from_arrays(compiled_once(path, lambda: ({}, self._build_taxonomy().to_arrays()))[1])

    def _build_taxonomy(self) -> Taxonomy:
        names, above = self.tree.names.to_list(), self.tree.parents.tolist()
        keys = ["Top"]
        for name, parent in zip(names, above, strict=True):
            keys.append(name if parent < 0 else f"{keys[parent + 1]}/{name}")
        labels = [name.replace("_", " ") for name in names]
        senses: dict[str, list[int]] = {}
        for category in np.lexsort((self.tree.depths, -self.documents)).tolist():
            senses.setdefault(labels[category], []).append(category + 1)
        parents = [[], *([parent + 1] for parent in above)]
        return Taxonomy.build(keys, parents, [["Top"], *([label] for label in labels)], senses)


class _Builder:
    """Counts weighted words per category, in bounded pieces, then turns them into sorted postings."""

    def __init__(self) -> None:
        self.categories: dict[Path, int] = {}
        self.entries = 0
        self._documents: list[int] = []
        self._listed_pages: list[int] = []
        self._terms: dict[str, int] = {}
        self._remembered: dict[str, int] = {}
        self._keys, self._weights = array("Q"), array("B")
        self._runs: list[tuple[Array, Array]] = []

    def add(self, entry: Entry) -> None:
        self.entries += 1
        if not entry.path:  # the root itself
            return
        category = self._category(entry.path)
        if entry.is_page:
            self._listed_pages[category] += 1
            self._count(category, entry.title, PAGE_TITLE_WEIGHT)
            self._count(category, entry.description, PAGE_DESCRIPTION_WEIGHT)
        else:
            self._documents[category] = max(self._documents[category], entry.documents)
            self._count(category, entry.description, DESCRIPTION_WEIGHT)

    def _category(self, path: Path) -> int:
        found = self.categories.get(path)
        if found is None:
            if len(path) > 1:
                self._category(path[:-1])
            found = self.categories[path] = len(self.categories)
            self._documents.append(0)
            self._listed_pages.append(0)
            self._count(found, path[-1].replace("_", " "), NAME_WEIGHT)
            for name in path[:-1]:
                self._count(found, name.replace("_", " "), NAME_ABOVE_WEIGHT)
        return found

    def _count(self, category: int, text: str, weight: int) -> None:
        for word in label_words(text):
            term = self._remembered.get(word)
            if term is None:
                if len(self._remembered) >= REMEMBERED_WORDS:
                    self._remembered.clear()
                term = -1 if word in STOP_WORDS else self._terms.setdefault(_without_plural(word), len(self._terms))
                self._remembered[word] = term
            if term >= 0:
                self._keys.append(term << 32 | category)
                self._weights.append(weight)
        if len(self._keys) >= POSTINGS_AT_ONCE:
            self._compact()

    def _compact(self) -> None:
        """Sum equal pairs, and merge with earlier sums of similar size: each pair is moved only log times."""
        keys, weights = np.frombuffer(self._keys, np.uint64), np.frombuffer(self._weights, np.uint8).astype(np.float64)
        run = _summed(keys, weights)
        self._keys, self._weights = array("Q"), array("B")
        while self._runs and len(self._runs[-1][0]) <= 2 * len(run[0]):
            last = self._runs.pop()
            run = _summed(np.concatenate([last[0], run[0]]), np.concatenate([last[1], run[1]]))
        self._runs.append(run)

    def finish(self) -> dict[str, Array]:
        self._compact()
        while len(self._runs) > 1:
            one, other = self._runs.pop(), self._runs.pop()
            self._runs.append(_summed(np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])))
        keys, counts = self._runs[0]
        paths = sorted(self.categories)
        renumber = np.empty(len(paths), np.int64)
        old = np.array([self.categories[path] for path in paths], np.int64)
        renumber[old] = np.arange(len(paths))
        tree, _ = CategoryTree.of(paths)
        documents = np.maximum(np.array(self._documents), np.array(self._listed_pages))[old].astype(np.int32)
        # Terms and categories are numbered by their names, so that the order of the sources leaves no trace.
        texts = sorted(self._terms)
        term_renumber = np.empty(len(texts), np.int64)
        term_renumber[[self._terms[text] for text in texts]] = np.arange(len(texts))
        terms = term_renumber[(keys >> np.uint64(32)).astype(np.int64)]
        categories = renumber[(keys & np.uint64(0xFFFFFFFF)).astype(np.int64)]
        weights = _bm25(terms, categories, counts, len(texts), len(paths))
        offsets, kept = _strongest(terms, categories, weights, len(texts))
        names, packed = tree.names, Strings.of(texts)
        return {
            "names.text": names.text,
            "names.offsets": names.offsets,
            "parents": tree.parents,
            "documents": documents,
            "terms.text": packed.text,
            "terms.offsets": packed.offsets,
            "posting_offsets": offsets,
            "posting_categories": categories[kept].astype(np.int32),
            "posting_weights": weights[kept].astype(np.float32),
        }


def _without_plural(word: str) -> str:
    """Harman's (1991) three rules: -ies to -y, -es to -e, -s to nothing, each with its exceptions."""
    if len(word) > 3 and word[-1] == "s":
        if word.endswith("ies"):
            return word if word[-4] in "ea" else word[:-3] + "y"
        if word.endswith("es"):
            return word if word[-3] in "aeo" else word[:-1]
        return word if word[-2] in "us" else word[:-1]
    return word


def _summed(keys: Array, weights: Array) -> tuple[Array, Array]:
    distinct, place = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(place, weights, len(distinct))


def _bm25(terms: Array, categories: Array, counts: Array, term_count: int, category_count: int) -> Array:
    length = np.bincount(categories, counts, category_count)
    relative = 1 - LENGTH_SHARE + LENGTH_SHARE * length / max(float(length.mean()), 1e-9)
    spread = np.bincount(terms, minlength=term_count)
    rarity = np.log1p((category_count - spread + 0.5) / (spread + 0.5))
    return np.asarray(rarity[terms] * counts * (SATURATION + 1) / (counts + SATURATION * relative[categories]))


def _strongest(terms: Array, categories: Array, weights: Array, term_count: int) -> tuple[Array, Array]:
    """Which postings to keep, grouped by term: the heaviest of each, of equals the first category."""
    order = np.lexsort((categories, -weights, terms))
    offsets = np.zeros(term_count + 1, np.int64)
    np.cumsum(np.bincount(terms, minlength=term_count), out=offsets[1:])
    kept = order[np.arange(len(order)) - offsets[terms[order]] < MOST_POSTINGS]
    np.cumsum(np.bincount(terms[kept], minlength=term_count), out=offsets[1:])
    return offsets, kept
