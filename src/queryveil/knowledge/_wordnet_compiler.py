"""Reads WNDB text into the arrays that `wordnet.WordNet` serves. Used once per source; see the manual page wndb(5WN).

A line of `data.POS` is: offset, file number, type, word count in hexadecimal, words with ids, pointer count, pointers
(symbol, offset, part of speech, source/target), then a gloss. A line of `index.POS` is: lemma, part of speech, sense
count, pointer symbols, sense count again, tagged senses, offsets with the most frequent sense first.

>>> _synset(b"00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | gloss")
(1740, 3, ['entity'], [('~', 1930, 'n')])
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Array, Lists, Strings
from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.knowledge.wordnet import (
    FIRST_NOUN_FILE,
    NOUN_FILES,
    PARTS_OF_SPEECH,
    SYNSETS_OF_WORDNET_3_0,
)

Synset = tuple[int, int, list[str], list[tuple[str, int, str]]]
HYPERNYM, INSTANCE_HYPERNYM, HOLONYMS = "@", "@i", ("#m", "#s", "#p")
SENSE_KEY_TYPES = {"1": 0, "2": 1, "3": 2, "4": 3, "5": 2}  # 5 is an adjective satellite


def compile_wordnet(texts: dict[str, bytes]) -> tuple[str, dict[str, Array]]:
    """The edition and all arrays, from the text of each WNDB file by name."""
    synsets = {pos: _synsets(f"data.{pos}", texts[f"data.{pos}"]) for pos in PARTS_OF_SPEECH}
    indexes = {pos: _index(f"index.{pos}", texts[f"index.{pos}"]) for pos in PARTS_OF_SPEECH}
    counts = {pos: len(found) for pos, found in synsets.items()}
    edition = "WordNet 3.0" if counts == SYNSETS_OF_WORDNET_3_0 else f"WordNet with {counts['noun']:,} nouns"
    tags = _tag_counts(texts)

    nouns, noun_synsets = _taxonomy(synsets["noun"], indexes["noun"], "n", beginner=None)
    verbs, _ = _taxonomy(synsets["verb"], indexes["verb"], "v", beginner="verb")
    place = {noun_synsets[old][0]: new for new, old in enumerate(nouns.origin.tolist())}
    in_order = [noun_synsets[old] for old in nouns.origin.tolist()]
    holonyms = Lists.of(
        [place[target] for symbol, target, pos in pointers if symbol in HOLONYMS and pos == "n" and target in place]
        for _, _, _, pointers in in_order
    )
    labels = nouns.label_texts.to_list()
    words, rows = _word_counts(indexes, tags)
    arrays: dict[str, Array] = {
        "offsets": np.array([synset[0] for synset in in_order], np.int32),
        "files": np.array([synset[1] - FIRST_NOUN_FILE for synset in in_order], np.int8),
        "instance_edges": _instance_edges(nouns, in_order, place),
        "holonyms.offsets": holonyms.offsets,
        "holonyms.values": holonyms.values,
        "label_counts": np.array([tags.get((text.lower(), 0), 0) for text in labels], np.int32),
        "words.text": words.text,
        "words.offsets": words.offsets,
        "word_counts": rows,
    }
    if not ((arrays["files"] >= 0) & (arrays["files"] < len(NOUN_FILES))).all():
        raise KnowledgeError("data.noun: a noun stands in a lexicographer file that is not one of nouns.")
    arrays |= {f"noun/{name}": array for name, array in nouns.to_arrays().items()}
    arrays |= {f"verb/{name}": array for name, array in verbs.to_arrays().items()}
    for pos in ("noun", "verb"):
        pairs = Strings.of(word for pair in _exceptions(texts.get(f"{pos}.exc", b"")) for word in pair)
        arrays |= {f"{pos}.exc.text": pairs.text, f"{pos}.exc.offsets": pairs.offsets}
    return edition, arrays


def _lines(name: str, text: bytes) -> list[tuple[int, bytes]]:
    """Numbered lines without the licence, whose lines start with two spaces."""
    found = [(i, line) for i, line in enumerate(text.split(b"\n"), 1) if line and not line.startswith(b"  ")]
    if not found:
        raise KnowledgeError(f"{name} holds no entries; it is not a WNDB file.")
    return found


def _synset(line: bytes) -> Synset:
    fields = line.split(b" | ", 1)[0].decode("latin-1").split()
    words = int(fields[3], 16)
    after = 4 + 2 * words
    pointers = [
        (fields[i], int(fields[i + 1]), fields[i + 2]) for i in range(after + 1, after + 1 + 4 * int(fields[after]), 4)
    ]
    return int(fields[0]), int(fields[1]), fields[4:after:2], pointers


def _synsets(name: str, text: bytes) -> list[Synset]:
    found = []
    for number, line in _lines(name, text):
        try:
            found.append(_synset(line))
        except (ValueError, IndexError):
            raise KnowledgeError(f"{name}, line {number}: not a WNDB synset.") from None
    return found


def _index(name: str, text: bytes) -> dict[str, list[int]]:
    """Lemma to offsets, the most usual sense first."""
    found = {}
    for number, line in _lines(name, text):
        try:
            fields = line.decode("latin-1").split()
            found[fields[0]] = [int(field) for field in fields[-int(fields[2]) :]]
        except (ValueError, IndexError):
            raise KnowledgeError(f"{name}, line {number}: not a WNDB index entry.") from None
    return found


def _taxonomy(
    synsets: list[Synset], index: dict[str, list[int]], letter: str, *, beginner: str | None
) -> tuple[Taxonomy, list[Synset]]:
    """Concepts under their hypernyms; a concept called `beginner`, if given, stands above all that have none."""
    listed = list(synsets) if beginner is None else [*synsets, (-1, 0, [], [])]
    place = {synset[0]: number for number, synset in enumerate(listed)}
    sense_numbers = {
        (lemma, offset): number for lemma, offsets in index.items() for number, offset in enumerate(offsets, 1)
    }
    keys, parents = [], []
    for offset, _, words, pointers in listed:
        name = words[0].lower() if words else str(beginner)
        keys.append(f"{name}.{letter}.{sense_numbers.get((name, offset), 0):02d}" if words else name)
        above = [place[p[1]] for p in pointers if p[0] in (HYPERNYM, INSTANCE_HYPERNYM) and p[1] in place]
        parents.append(above)
    _open_circles(parents)
    if beginner is not None:
        parents = [above or [place[-1]] for above in parents[:-1]] + [[]]
    spelled: dict[str, str] = {}
    for _, _, words, _ in listed:
        for word in words:
            spelled.setdefault(word.lower(), word.replace("_", " "))
    senses = {
        spelled[lemma]: [place[o] for o in offsets if o in place]
        for lemma, offsets in index.items()
        if lemma in spelled
    }
    labels = [list(dict.fromkeys(spelled[word.lower()] for word in words)) for _, _, words, _ in listed]
    return Taxonomy.build(_unique(keys), parents, labels, senses), listed


def _instance_edges(nouns: Taxonomy, synsets: list[Synset], place: dict[int, int]) -> Array:
    """Which edges, in the order of `nouns.parents.values`, say "is one of" rather than "is a kind of"."""
    kinds = {
        (number, place[target])
        for number, (_, _, _, pointers) in enumerate(synsets)
        for symbol, target, _ in pointers
        if symbol == HYPERNYM and target in place
    }
    edges = zip(nouns.parents.owners().tolist(), nouns.parents.values.tolist(), strict=True)
    return np.array([edge not in kinds for edge in edges], bool)


def _open_circles(parents: list[list[int]]) -> None:
    """Drop edges that close a circle, in the order met. WordNet 3.0 has one: the verbs inhibit and restrain."""
    done, open_now = set(), set()
    for start in range(len(parents)):
        path = [start]
        while path:
            concept = path[-1]
            if concept not in done:
                open_now.add(concept)
                parents[concept] = [parent for parent in parents[concept] if parent not in open_now]
                ahead = next((parent for parent in parents[concept] if parent not in done), None)
                if ahead is not None:
                    path.append(ahead)
                    continue
            done.add(concept)
            open_now.discard(concept)
            path.pop()


def _unique(keys: list[str]) -> list[str]:
    """Keys as they are; one met again gets a mark, so that a faulty index cannot stop the work."""
    seen: dict[str, int] = defaultdict(int)
    for number, key in enumerate(keys):
        seen[key] += 1
        if seen[key] > 1:
            keys[number] = f"{key}~{seen[key]}"
    return keys


def _tag_counts(texts: dict[str, bytes]) -> dict[tuple[str, int], int]:
    """How often (lemma, part of speech) was seen in tagged text, from `index.sense`, else `cntlist.rev`."""
    total: dict[tuple[str, int], int] = defaultdict(int)
    source = texts.get("index.sense") or texts.get("cntlist.rev") or b""
    for line in source.split(b"\n"):
        fields = line.decode("latin-1").split()
        lemma, mark, rest = fields[0].partition("%") if fields else ("", "", "")
        if mark and fields[-1].isdigit() and rest[:1] in SENSE_KEY_TYPES:
            total[lemma.replace("_", " "), SENSE_KEY_TYPES[rest[0]]] += int(fields[-1])
    return total


def _word_counts(indexes: dict[str, dict[str, list[int]]], tags: dict[tuple[str, int], int]) -> tuple[Strings, Array]:
    rows: dict[str, list[int]] = {}
    for column, pos in enumerate(PARTS_OF_SPEECH):
        for lemma in indexes[pos]:
            if "_" not in lemma:
                rows.setdefault(lemma, [0, 0, 0, 0])[column] = 1 + tags.get((lemma, column), 0)
    words = sorted(rows)
    return Strings.of(words), np.array([rows[word] for word in words], np.int32)


def _exceptions(text: bytes) -> list[tuple[str, str]]:
    pairs = (line.decode("latin-1").replace("_", " ").split(" ") for line in text.split(b"\n"))
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2 and all(pair)]
