"""WordNet: counts and similarities of the specification, an independent parse, NLTK, other folders, damage."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from queryveil.errors import KnowledgeError
from queryveil.knowledge import wordnet as module
from queryveil.knowledge._store import cache_folder
from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.knowledge.wordnet import NOUN_FILES, WordNet
from vectors.semantic import CONCEPTS_WITHOUT_INSTANCES

DEBIAN = Path("/usr/share/wordnet")
DOMAINS = {  # name: (offset, concepts, least similarity)
    "disease.n.01": (14070360, 606, 0.04890960048094639),
    "science.n.01": (5999797, 435, 0.045803689613124754),
    "sport.n.01": (523513, 177, 0.061400544664143464),
    "social_event.n.01": (7288639, 255, 0.06711419585853695),
    "abstraction.n.06": (2137, 39914, 1 - np.log2(1 + 45 / 46)),
}


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("QUERYVEIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def small_wndb() -> dict[str, str]:
    """A hand-made WNDB: three nouns, two verbs in a circle under nothing, one adjective, one adverb."""
    return {
        "data.noun": "  licence\n"
        "00000100 03 n 01 entity 0 000 | x  \n"
        "00000200 05 n 02 Cat 0 true_cat 0 002 @ 00000100 n 0000 #m 00000300 n 0000 | x  \n"
        "00000300 05 n 01 Felix 0 001 @i 00000200 n 0000 | x  \n",
        "index.noun": "cat n 1 1 @ 1 1 00000200  \ntrue_cat n 1 1 @ 1 0 00000200  \n"
        "entity n 1 0 1 0 00000100  \nfelix n 1 1 @ 1 0 00000300  \n",
        "data.verb": "00000100 29 v 01 run 0 001 @ 00000200 v 0000 01 + 02 00 | x  \n"
        "00000200 29 v 01 go 0 001 @ 00000100 v 0000 01 + 02 00 | x  \n",
        "index.verb": "run v 1 1 @ 1 1 00000100  \ngo v 1 1 @ 1 1 00000200  \n",
        "data.adj": "00000100 00 a 01 feline 0 000 | x  \n",
        "index.adj": "feline a 1 0 1 0 00000100  \n",
        "data.adv": "00000100 02 r 01 fast 0 000 | x  \n",
        "index.adv": "fast r 1 0 1 0 00000100  \n",
        "noun.exc": "kittens cat\n",
        "cntlist.rev": "cat%1:05:00:: 1 7\nrun%2:29:00:: 1 9\n",
    }


def put(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def test_there_are_82115_nouns_under_entity(wordnet: WordNet) -> None:
    assert wordnet.edition == "WordNet 3.0"
    assert len(wordnet.nouns) == 82_115
    assert wordnet.nouns.keys[0] == "entity.n.01"
    assert len(wordnet.verbs) == 13_767 + 1


@pytest.mark.parametrize("name", DOMAINS)
def test_domains_of_the_paper_have_their_offset_size_and_least_similarity(wordnet: WordNet, name: str) -> None:
    offset, concepts, least = DOMAINS[name]
    root = wordnet.nouns.concept(name)
    domain = wordnet.nouns.under(root)
    assert wordnet.offsets[root] == offset
    assert len(domain) == concepts
    assert domain.minimum_similarity() == pytest.approx(least, abs=1e-9)


def test_abstraction_is_the_least_common_subsumer_of_the_four_topics(wordnet: WordNet) -> None:
    nouns = wordnet.nouns
    roots = [nouns.concept(name) for name in list(DOMAINS)[:4]]
    assert nouns.keys[nouns.least_common_subsumer(roots)] == "abstraction.n.06"
    common = set.intersection(*(set(nouns.subsumers(root).tolist()) for root in roots))
    assert {nouns.keys[c] for c in common} == {"abstraction.n.06", "entity.n.01"}
    topics = nouns.minimum_taxonomy(roots)
    assert np.bincount(topics.topics([topics.concept(n) for n in list(DOMAINS)[:4]]) + 1).tolist()[1:] == [
        606, 435, 177, 255,
    ]  # fmt: skip


def test_without_instances_abstraction_has_38669_concepts(wordnet: WordNet) -> None:
    kinds = wordnet.nouns_without_instances
    for offset, concepts in CONCEPTS_WITHOUT_INSTANCES.items():
        key = next(k for k, v in DOMAINS.items() if v[0] == offset)
        assert len(kinds.under(kinds.concept(key))) == concepts
    assert len(kinds.under(kinds.concept("abstraction.n.06"))) == 38_669


def test_similarity_of_1000_random_pairs_equals_an_independent_parse(wordnet: WordNet, wndb_files: dict) -> None:
    parents: dict[int, set[int]] = {}
    for line in wndb_files["data.noun"].decode("latin-1").splitlines():
        if not line.startswith("  "):
            tokens = line.split(" | ")[0].split(" ")
            parents[int(tokens[0])] = {
                int(tokens[i + 1]) for i, token in enumerate(tokens) if token in ("@", "@i") and tokens[i + 2] == "n"
            }

    def subsumers(offset: int) -> set[int]:
        return {offset}.union(*(subsumers(parent) for parent in parents[offset]))

    abstraction = wordnet.nouns.under(wordnet.nouns.concept("abstraction.n.06"))
    offsets = wordnet.offsets[abstraction.origin]
    rng = np.random.default_rng(7)
    for one, other in rng.integers(0, len(abstraction), (1000, 2)).tolist():
        a, b = subsumers(int(offsets[one])) - {1740}, subsumers(int(offsets[other])) - {1740}
        inside = [{o for o in s if o == 2137 or 2137 in subsumers(o)} for s in (a, b)]
        union, shared = inside[0] | inside[1], inside[0] & inside[1]
        expected = 1 - np.log2(1 + (len(union) - len(shared)) / len(union))
        assert abstraction.similarity(one, other) == pytest.approx(expected, abs=1e-9)
        assert abstraction.similarity_to_all(one)[other] == pytest.approx(expected, abs=1e-9)


@pytest.mark.filterwarnings("ignore:The multilingual functions")
def test_hypernyms_and_senses_are_those_of_nltk(
    wordnet: WordNet, wndb_files: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = pytest.importorskip("nltk.corpus.reader.wordnet")
    monkeypatch.setattr("nltk.data.path", [str(tmp_path)])  # NLTK opens files below its own folders only
    folder = tmp_path / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    for name, text in wndb_files.items():
        (folder / name).write_bytes(text)
    for name in ("noun.exc", "verb.exc", "adj.exc", "adv.exc"):
        (folder / name).write_text("")
    (folder / "lexnames").write_text("".join(f"{number:02d}\tany.name\t1\n" for number in range(45)))
    nltk = reader.WordNetCorpusReader(str(folder), None)
    nouns = wordnet.nouns
    rng = np.random.default_rng(11)
    for concept in rng.integers(0, len(nouns), 1000).tolist():
        synset = nltk.synset_from_pos_and_offset("n", int(wordnet.offsets[concept]))
        closure = {s.offset() for path in synset.hypernym_paths() for s in path}
        assert set(wordnet.offsets[nouns.subsumers(concept)].tolist()) == closure
        assert synset.name().lower() == nouns.keys[concept]
        wholes = synset.member_holonyms() + synset.part_holonyms() + synset.substance_holonyms()
        assert {s.offset() for s in wholes} == set(wordnet.offsets[wordnet.holonyms[concept]].tolist())
        label = nouns.labels(concept)[0]
        ranked = [s.offset() for s in nltk.synsets(label.replace(" ", "_"), "n")]
        assert wordnet.offsets[nouns.concept(label)] == ranked[0]


def test_word_counts_say_how_a_word_is_used(wordnet: WordNet) -> None:
    noun, verb, _, _ = wordnet.word_counts["buy"]
    assert verb > noun > 0
    assert wordnet.word_counts["new"][0] == 0
    assert wordnet.noun_counts["new york"] > 0


def test_noun_files_follow_wndb_numbers(wordnet: WordNet) -> None:
    nouns = wordnet.nouns
    assert NOUN_FILES[wordnet.noun_files[nouns.concept("dog.n.01")]] == "animal"
    assert NOUN_FILES[wordnet.noun_files[nouns.concept("pizza.n.01")]] == "food"
    assert NOUN_FILES[wordnet.noun_files[nouns.concept("entity.n.01")]] == "tops"
    assert len(NOUN_FILES) == 26


def test_a_small_folder_compiles_with_exceptions_counts_and_circles(
    tmp_path: Path, own_cache: Path, small_wndb: dict[str, str]
) -> None:
    small = WordNet.load(put(tmp_path / "wndb", small_wndb))
    assert small.edition == "WordNet with 3 nouns"
    assert small.nouns.labels(small.nouns.concept("cat")) == ["Cat", "true cat"]
    assert small.irregular_nouns == {"kittens": "cat"}
    assert small.irregular_verbs == {}
    assert small.word_counts["cat"] == (8, 0, 0, 0)
    assert small.noun_counts["cat"] == 7
    assert small.word_counts["fast"] == (0, 0, 0, 1)
    assert len(small.nouns_without_instances) == 2
    assert [small.nouns.keys[c] for c in small.holonyms[small.nouns.concept("cat")]] == ["felix.n.01"]
    assert sorted(small.verbs.keys) == ["go.v.01", "run.v.01", "verb"]
    assert [file.suffix for file in own_cache.iterdir()] == [".arrays"]


def test_the_setting_chooses_the_folder(
    tmp_path: Path, own_cache: Path, small_wndb: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUERYVEIL_WORDNET", str(put(tmp_path / "wndb", small_wndb)))
    assert len(WordNet.load().nouns) == 3


def test_a_damaged_cache_is_compiled_again(tmp_path: Path, own_cache: Path, small_wndb: dict[str, str]) -> None:
    folder = put(tmp_path / "wndb", small_wndb)
    WordNet.load(folder)
    (cached,) = own_cache.iterdir()
    cached.write_bytes(cached.read_bytes()[:-64])
    module._loaded.cache_clear()
    assert len(WordNet.load(folder).nouns) == 3


def test_changed_files_get_their_own_cache(tmp_path: Path, own_cache: Path, small_wndb: dict[str, str]) -> None:
    first = WordNet.load(put(tmp_path / "one", small_wndb))
    second = WordNet.load(put(tmp_path / "two", small_wndb | {"noun.exc": ""}))
    assert first.source_digest != second.source_digest
    assert len(list(own_cache.iterdir())) == 2


def test_what_is_missing_is_said_plainly(tmp_path: Path, own_cache: Path, small_wndb: dict[str, str]) -> None:
    del small_wndb["index.verb"]
    with pytest.raises(KnowledgeError, match=r"missing: index\.verb\. Give a whole WNDB folder"):
        WordNet.load(put(tmp_path / "wndb", small_wndb))


def test_a_broken_line_is_told_by_file_and_number_only(
    tmp_path: Path, own_cache: Path, small_wndb: dict[str, str]
) -> None:
    small_wndb = small_wndb | {"data.noun": small_wndb["data.noun"] + "nonsense words here\n", "index.verb": "go v 1\n"}
    with pytest.raises(KnowledgeError, match=r"^data\.noun, line 5: not a WNDB synset\.$"):
        WordNet.load(put(tmp_path / "wndb", small_wndb))
    with pytest.raises(KnowledgeError, match="holds no entries"):
        WordNet.load(put(tmp_path / "empty", small_wndb | {"data.noun": ""}))


def test_files_that_are_not_the_published_ones_are_refused(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.SHA256_OF_PACKAGED, "index.adv", "0" * 64)
    with pytest.raises(KnowledgeError, match=r"not the published ones: index\.adv"):
        WordNet.load()


@pytest.mark.parametrize(
    "content",
    [b"not packed", gzip.compress(b"data", mtime=0)[:-4], gzip.compress(b"other data", mtime=0)],
    ids=["not packed", "cut off", "other content"],
)
def test_a_damaged_file_of_the_package_is_named(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    whole = module.packaged
    monkeypatch.setattr(module, "packaged", lambda name: content if "data.verb" in name else whole(name))
    with pytest.raises(KnowledgeError, match=r"not the published ones: data\.verb\. Install QueryVeil again"):
        WordNet.load()


@pytest.mark.soak  # it compiles the whole of WordNet a second time; small folders are read above
@pytest.mark.skipif(not (DEBIAN / "data.noun").is_file(), reason="Debian's wordnet-base is not installed")
def test_debians_folder_gives_the_same_taxonomy_and_irregular_forms(wordnet: WordNet) -> None:
    debian = WordNet.load(DEBIAN)
    assert debian.nouns.digest == wordnet.nouns.digest
    assert debian.irregular_nouns["mice"] == "mouse"
    assert debian.irregular_verbs["went"] == "go"
    assert debian.source_digest != wordnet.source_digest


def test_the_cache_folder_is_the_users_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QUERYVEIL_CACHE", raising=False)
    assert cache_folder().name == "queryveil"
    monkeypatch.setenv("QUERYVEIL_CACHE", "/somewhere/else")
    assert cache_folder() == Path("/somewhere/else")


def test_verbs_hang_under_one_root(wordnet: WordNet) -> None:
    verbs: Taxonomy = wordnet.verbs
    assert verbs.keys[0] == "verb"
    assert verbs.labels(0) == []
    restrain, inhibit = verbs.concept("restrain.v.01"), verbs.concept("inhibit.v.04")
    assert restrain in verbs.subsumers(inhibit) or inhibit in verbs.subsumers(restrain)
