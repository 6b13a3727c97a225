"""WordNet 3.0: what English nouns mean and which part of speech a word is, compiled once into arrays.

Fellbaum (1998), "WordNet: An Electronic Lexical Database", in Princeton's WNDB files (`data.*`, `index.*`, and where
present `index.sense` or `cntlist.rev` for sense counts and `*.exc` for irregular forms). WordNet 3.0 comes with this
package, without exception lists: inflections are then undone by rules alone. Another WNDB folder is chosen with
`WordNet.load(folder)` or the setting QUERYVEIL_WORDNET.

Cost: first compile a few seconds, later a memory-mapped load; the cache is tied to the SHA-256 of every file that was
read.

>>> wordnet = WordNet.load()
>>> len(wordnet.nouns), wordnet.nouns.labels(wordnet.nouns.concept("disease.n.01"))
(82115, ['disease'])
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Array, Ints, Lists, Strings
from queryveil.knowledge._store import cache_folder, compiled_once
from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.packaged import packaged

SCHEMA = 1  # raise when what is compiled changes, so that older caches are left alone
PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
SYNSETS_OF_WORDNET_3_0 = {"noun": 82_115, "verb": 13_767, "adj": 18_156, "adv": 3_621}
NEEDED = tuple(f"{kind}.{pos}" for pos in PARTS_OF_SPEECH for kind in ("data", "index"))
USED_WHERE_PRESENT = ("index.sense", "cntlist.rev", *(f"{pos}.exc" for pos in PARTS_OF_SPEECH))
NOUN_FILES = (
    "tops", "act", "animal", "artifact", "attribute", "body", "cognition", "communication", "event", "feeling", "food",
    "group", "location", "motive", "object", "person", "phenomenon", "plant", "possession", "process", "quantity",
    "relation", "shape", "state", "substance", "time",
)  # fmt: skip
"""The lexicographer files of nouns, numbers 3 to 28 in WNDB; `tops` holds the unique beginners of all others."""
FIRST_NOUN_FILE = 3
SHA256_OF_PACKAGED = {
    "data.adj": "f24b635368be441501c9b8001e9271fd3b30b203f00d91e332979e6f8fe35646",
    "data.adv": "e66dbbda0e0359e41b7f225bff71dd0c263dc7c66c1b61abc9ba334973d92979",
    "data.noun": "489f145e0f68877c0be5bd0eb4117adaaac52f38f6204eb8d85dbe2158b614cc",
    "data.verb": "7fff397e93b4fb152fdaee116747cf1c40d7badedccb4b63f5503e8e962d9102",
    "index.adj": "42f58dda2c7cff66eb8fa55ba62e0a873a9b3f43c878e8201108f5dab6dcff28",
    "index.adv": "6f5465ed5758fe9c8a2f7ec17b1300f3aa875756c70ff7cba162f7e71bcf88ea",
    "index.noun": "a490d99d93d017bf4822fe2f0ffa51fd73911ce271dc7535fade21f8814b5a04",
    "index.sense": "68b3a468cddfd8e92134b9b0624339a02a1b837159243c297c5f138a3d618392",
    "index.verb": "c7c79b558d787f1e31c6f8b3eeadb8fcbb26a64545ecc1241e21d9b61f95ee8e",
}


class WordNet:
    """Nouns and verbs as taxonomies, how often each word is which part of speech, and irregular forms."""

    def __init__(self, header: dict[str, str], arrays: dict[str, Array]) -> None:
        self.source_digest = header["source"]
        self.edition = header["edition"]
        self._arrays = arrays

    @classmethod
    def load(cls, folder: str | os.PathLike[str] | None = None) -> WordNet:
        """WordNet from a folder, else from QUERYVEIL_WORDNET, else the one that comes with this package."""
        setting = folder if folder is not None else os.environ.get("QUERYVEIL_WORDNET") or None
        return _loaded(None if setting is None else str(Path(setting).resolve()), str(cache_folder()))

    @cached_property
    def nouns(self) -> Taxonomy:
        """All nouns under *entity*, instances (Paris is an instance of a city) counted as kinds."""
        return Taxonomy.from_arrays(_section(self._arrays, "noun"))

    @cached_property
    def nouns_without_instances(self) -> Taxonomy:
        """The nouns that are kinds of things, without named individuals."""
        return self.nouns.without_edges(self._arrays["instance_edges"])

    @cached_property
    def verbs(self) -> Taxonomy:
        """All verbs. They have many beginners, so a root `verb` without labels stands above them."""
        return Taxonomy.from_arrays(_section(self._arrays, "verb"))

    @property
    def offsets(self) -> Ints:
        """For each noun its byte offset in `data.noun`, the number by which papers name it."""
        return self._arrays["offsets"]

    @property
    def noun_files(self) -> npt.NDArray[np.int8]:
        """For each noun the place of its lexicographer file in `NOUN_FILES`."""
        return self._arrays["files"]

    @cached_property
    def holonyms(self) -> Lists:
        """For each noun the wholes that it is a member, a part or the substance of."""
        return Lists(self._arrays["holonyms.offsets"], self._arrays["holonyms.values"])

    @cached_property
    def word_counts(self) -> dict[str, tuple[int, int, int, int]]:
        """Each single word with how often it was seen as noun, verb, adjective, adverb in tagged text.

        One is added where the word has such a sense at all, so zero means that it has none.
        """
        words = Strings(self._arrays["words.text"], self._arrays["words.offsets"]).to_list()
        counts = self._arrays["word_counts"].tolist()
        return {word: tuple(row) for word, row in zip(words, counts, strict=True)}

    @cached_property
    def noun_counts(self) -> dict[str, int]:
        """Each noun label (lower case) with how often it was seen as a noun in tagged text."""
        labels = self.nouns.label_texts.to_list()
        return {text.lower(): count for text, count in zip(labels, self._arrays["label_counts"].tolist(), strict=True)}

    @cached_property
    def irregular_nouns(self) -> dict[str, str]:
        """Irregular plural to singular; empty where the source has no exception list."""
        return self._exceptions("noun")

    @cached_property
    def irregular_verbs(self) -> dict[str, str]:
        """Irregular verb form to base form; empty where the source has no exception list."""
        return self._exceptions("verb")

    def _exceptions(self, pos: str) -> dict[str, str]:
        pairs = Strings(self._arrays[f"{pos}.exc.text"], self._arrays[f"{pos}.exc.offsets"]).to_list()
        return dict(zip(pairs[::2], pairs[1::2], strict=True))


def _section(arrays: dict[str, Array], name: str) -> dict[str, Array]:
    return {key[len(name) + 1 :]: array for key, array in arrays.items() if key.startswith(name + "/")}


@lru_cache(maxsize=4)
def _loaded(folder: str | None, cache: str) -> WordNet:
    texts = {} if folder is None else _folder_texts(Path(folder))
    digests = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()} or SHA256_OF_PACKAGED
    source = hashlib.sha256("\n".join(f"{name} {digests[name]}" for name in sorted(digests)).encode()).hexdigest()
    path = Path(cache) / f"wordnet-{SCHEMA}-{source[:16]}.arrays"

    def build() -> tuple[dict[str, str], dict[str, Array]]:
        from queryveil.knowledge._wordnet_compiler import compile_wordnet

        edition, compiled = compile_wordnet(texts or _packaged_texts())
        return {"source": source, "edition": edition}, compiled

    header, arrays = compiled_once(path, build)
    return WordNet(header, arrays)


def _packaged_texts() -> dict[str, bytes]:
    texts = {name: _unpacked(packaged(f"wordnet/{name}.gz")) for name in SHA256_OF_PACKAGED}
    wrong = sorted(n for n, text in texts.items() if hashlib.sha256(text).hexdigest() != SHA256_OF_PACKAGED[n])
    if wrong:
        raise KnowledgeError(
            f"the WordNet files of this installation are not the published ones: {', '.join(wrong)}. "
            "Install QueryVeil again with pip."
        )
    return texts


def _unpacked(content: bytes) -> bytes:
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error):
        return b""  # told with its name, as any other wrong content


def _folder_texts(folder: Path) -> dict[str, bytes]:
    texts = {name: (folder / name).read_bytes() for name in NEEDED + USED_WHERE_PRESENT if (folder / name).is_file()}
    if missing := [name for name in NEEDED if name not in texts]:
        raise KnowledgeError(
            f"WordNet is incomplete in {folder}; missing: {', '.join(missing)}. "
            "Give a whole WNDB folder, or none: WordNet 3.0 comes with this package."
        )
    return texts
