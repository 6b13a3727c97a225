"""Open Directory: tables and dumps, damage survived and told, ranking, the toy of the specification, a taxonomy."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.errors import KnowledgeError, ParameterError
from queryveil.knowledge import _odp_reader as reader
from queryveil.knowledge import odp as module
from queryveil.knowledge.odp import OpenDirectory, import_directory
from queryveil.knowledge.phrases import PhraseMapper
from queryveil.knowledge.wordnet import WordNet
from sample_data import SampleData
from vectors.microaggregate import DIRECTORY

STRUCTURE = """<?xml version="1.0" encoding="UTF-8"?>
<RDF xmlns:r="http://www.w3.org/TR/RDF/" xmlns:d="http://purl.org/dc/elements/1.0/" xmlns="http://dmoz.org/rdf/">
  <Topic r:id="Top"><tag catid="1"/><d:Title>Top</d:Title></Topic>
  <Topic r:id="Top/Health/Conditions"><d:Title>Conditions</d:Title>
    <d:Description>Diseases such as flu &amp; asthma.</d:Description></Topic>
  <Topic r:id="Top/Sports/Soccer"><d:Title>Soccer</d:Title><narrow r:resource="Top/Sports/Soccer/UEFA"/></Topic>
  <Alias r:id="x"><Target r:resource="Top/Sports"/></Alias>
</RDF>
"""
CONTENT = """<?xml version="1.0" encoding="UTF-8"?>
<RDF xmlns:r="http://www.w3.org/TR/RDF/" xmlns:d="http://purl.org/dc/elements/1.0/" xmlns="http://dmoz.org/rdf/">
<Topic r:id="Top/Sports/Soccer"><catid>5</catid><link r:resource="http://a/"/></Topic>
<ExternalPage about="http://a/"><d:Title>FC Barcelona</d:Title>
  <d:Description>The club of Messi.</d:Description><topic>Top/Sports/Soccer</topic></ExternalPage>
<ExternalPage about="http://b/"><d:Title>Barcelona tourism</d:Title>
  <d:Description>Visit the city.</d:Description><topic>Top/Regional/Europe</topic></ExternalPage>
</RDF>
"""


def put(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def directory(folder: Path, *texts: str | bytes) -> tuple[OpenDirectory, module.ImportReport]:
    sources = [put(folder / f"source{number}", text) for number, text in enumerate(texts)]
    report = import_directory(sources, folder / "index.odp")
    return OpenDirectory(folder / "index.odp"), report


@pytest.fixture(scope="module")
def sample(shared_data: SampleData, tmp_path_factory: pytest.TempPathFactory) -> OpenDirectory:
    index = tmp_path_factory.mktemp("odp") / "sample.odp"
    report = import_directory([shared_data / "odp" / "categories.tsv", shared_data / "odp" / "pages.tsv"], index)
    assert (report.pages, report.problem_count) == (9413, 0)
    return OpenDirectory(index)


def test_a_dump_is_read_with_titles_descriptions_and_entities(tmp_path: Path) -> None:
    found, report = directory(tmp_path, STRUCTURE, CONTENT)
    assert (report.categories, report.pages, report.problem_count) == (6, 2, 0)
    assert found.classify(["flu"]) == [[("Health", "Conditions")]]
    assert found.classify(["messi"]) == [[("Sports", "Soccer")]]
    assert set(found.classify(["barcelona"])[0]) == {("Sports", "Soccer"), ("Regional", "Europe")}
    assert found.classify(["soccer"])[0][0] == ("Sports", "Soccer")
    assert found.documents[found.tree.find(("Sports", "Soccer"))] == 1


def test_gzip_is_recognised_by_content_and_order_of_sources_leaves_no_trace(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain, _ = directory(tmp_path / "a", STRUCTURE, CONTENT)
    zipped, _ = directory(tmp_path / "b", gzip.compress(CONTENT.encode()), gzip.compress(STRUCTURE.encode()))
    assert zipped.digest == plain.digest


def test_a_small_directory_is_ranked_as_it_was_written(tmp_path: Path) -> None:
    pages = ["category\turl\ttitle\tdescription"]
    for term, paths in DIRECTORY.items():
        for place, path in enumerate(paths):
            pages += [f"{path.replace(':', '/')}\tu\t{term}\t"] * (9 - 8 * place)
    found, _ = directory(tmp_path, "\n".join(pages) + "\n")
    for term, paths in DIRECTORY.items():
        assert [":".join(path) for path in found.classify([term])[0]] == paths


@pytest.mark.parametrize("size", [16, 64, 1 << 22])
def test_damage_is_survived_and_told_by_line_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(reader, "PIECE", size)
    broken = (
        CONTENT.encode()
        .replace(b"</RDF>", b"")
        + b'<ExternalPage about="http://secret/"><d:Title>never closed\n'
        + b'<ExternalPage about="http://c/">\n<d:Title>no topic</d:Title></ExternalPage>\n'
        + b"<Topic><d:Title>no id</d:Title></Topic>\n"
        + b'<ExternalPage about="http://d/"><d:Title>bad \xff\xfe bytes \x07 kept</d:Title>'
        + b"<topic>Top/Arts/Odd//Name</topic></ExternalPage>\n"
        + b'<ExternalPage about="http://e/"><d:Title>zebra \xff</d:Title>'
        + b"<topic>Top/Science/Zoo</topic></ExternalPage>\n"
        + b'<ExternalPage about="http://f/"><d:Ti'
    )  # fmt: skip
    found, report = directory(tmp_path, broken)
    assert report.problems == [
        "source0, line 9: ExternalPage is not closed",
        "source0, line 10: ExternalPage names no category",
        "source0, line 12: Topic names no category",
        "source0, line 13: ExternalPage names no category",
        "source0, line 15: ExternalPage is not closed",
    ]
    assert report.problem_count == 5
    assert report.pages == 3
    assert found.classify(["zebra"]) == [[("Science", "Zoo")]]


def test_an_endless_entry_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PIECE", 1024)
    monkeypatch.setattr(reader, "LONGEST_ENTRY", 8192)
    endless = STRUCTURE.replace("</RDF>", '<ExternalPage about="x"><d:Title>' + "x" * 100_000)
    tail = '</d:Title></ExternalPage><Topic r:id="Top/Arts"></Topic></RDF>'
    found, report = directory(tmp_path, endless + tail)
    assert found.tree.find(("Arts",)) >= 0
    assert 1 <= report.problem_count <= 20
    assert "8 MiB" in report.problems[0]


def test_after_a_hundred_problems_only_their_number_grows(tmp_path: Path) -> None:
    _, report = directory(tmp_path, "Arts\t1\n" + "Arts\tmany\n" * 300)
    assert report.problem_count == 300
    assert len(report.problems) == 100
    assert report.problems[0] == "source0, line 2: expected a category and a count"


def test_bad_rows_of_tables_are_told(tmp_path: Path) -> None:
    rows = "category\turl\ttitle\tdescription\nArts\tu\tt\td\nArts\tu\tt\n\tu\tt\td\nA//B\tu\tt\td\n"
    _, report = directory(tmp_path, rows)
    assert report.problems == [
        "source0, line 3: expected 4 columns",
        "source0, line 4: no category",
        "source0, line 5: no category",
    ]


@pytest.mark.parametrize("text", ["", "<RDF></RDF>", "\n\n"])
def test_a_directory_without_categories_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(KnowledgeError, match="no category was found"):
        directory(tmp_path, text)


def test_files_that_are_no_index_are_refused(tmp_path: Path, wordnet: WordNet) -> None:
    with pytest.raises(KnowledgeError):
        OpenDirectory(put(tmp_path / "x", "text"))
    with pytest.raises(KnowledgeError, match="not there"):
        OpenDirectory(tmp_path / "nothing")
    with pytest.raises(KnowledgeError, match="cannot read"):
        import_directory([tmp_path / "nothing"], tmp_path / "y")
    damaged = put(tmp_path / "z.gz", gzip.compress(CONTENT.encode())[:-20])
    with pytest.raises(KnowledgeError, match="to its end"):
        import_directory([damaged], tmp_path / "y")
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize("at_most", [0, -1, 1.5, True, 51])
def test_the_number_of_categories_is_checked(tmp_path: Path, at_most: object) -> None:
    found, _ = directory(tmp_path, STRUCTURE)
    with pytest.raises(ParameterError, match="at_most"):
        found.categories(["x"], at_most)  # type: ignore[arg-type]


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["A", "A/B", "A/C", "D"]), st.sampled_from(["x y", "y z", "x", "z z"])), min_size=1
    ),
    st.lists(st.sampled_from(["x", "y", "z", "x y z", "q", "y x"]), max_size=5),
    st.integers(1, 4),
)
def test_ranking_equals_a_plain_dictionary_search(
    tmp_path_factory: pytest.TempPathFactory, pages: list[tuple[str, str]], queries: list[str], at_most: int
) -> None:
    folder = tmp_path_factory.mktemp("odp")
    rows = "category\turl\ttitle\tdescription\n" + "".join(f"{path}\tu\t{title}\t\n" for path, title in pages)
    found, _ = directory(folder, rows)
    offsets, categories, weights = found._postings
    pairs = list(zip(categories.tolist(), weights.tolist(), strict=True))
    postings = {term: dict(pairs[offsets[n] : offsets[n + 1]]) for term, n in found._terms.items()}
    ranked = found.categories(queries, at_most)
    for place, query in enumerate(queries):
        scores: dict[int, float] = {}
        for term in sorted(set(query.split())):
            for category, weight in postings.get(term, {}).items():
                scores[category] = scores.get(category, 0.0) + weight
        best = sorted(scores, key=lambda c: (-scores[c], -found.documents[c], c))
        assert ranked[place].tolist() == best[:at_most]


def test_weights_are_bm25_over_weighted_counts(tmp_path: Path) -> None:
    found, _ = directory(tmp_path, "category\turl\ttitle\tdescription\nArts\tu\ttea\t\nFood\tu\ttea tea\tmilk\n")
    offsets, categories, weights = found._postings
    tea = found._terms["tea"]
    counts, lengths = {"Arts": 3.0, "Food": 6.0}, {"Arts": 11.0, "Food": 15.0}
    rarity = np.log1p((2 - 2 + 0.5) / (2 + 0.5))
    span = slice(offsets[tea], offsets[tea + 1])
    assert span.stop - span.start == 2
    for category, weight in zip(categories[span], weights[span], strict=True):
        name = found.tree.names[category]
        norm = 0.25 + 0.75 * lengths[name] / 13.0
        assert weight == pytest.approx(rarity * counts[name] * 2.2 / (counts[name] + 1.2 * norm), rel=1e-6)


def test_pieces_are_summed_alike_however_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "category\turl\ttitle\tdescription\n" + "".join(
        f"A/{i % 7}\tu\tw{i % 5} w{i % 3}\tw{i % 11}\n" for i in range(300)
    )
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    whole, _ = directory(tmp_path / "a", rows)
    monkeypatch.setattr(module, "POSTINGS_AT_ONCE", 10)
    monkeypatch.setattr(module, "REMEMBERED_WORDS", 3)
    pieces, _ = directory(tmp_path / "b", rows)
    assert pieces.digest == whole.digest


def test_the_weakest_postings_of_a_common_word_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_POSTINGS", 3)
    rows = "category\turl\ttitle\tdescription\n" + "".join(f"C{i}\tu\t{'tea ' * (i + 1)}\t\n" for i in range(9))
    found, _ = directory(tmp_path, rows)
    assert {path[0] for path in found.classify(["tea"], at_most=9)[0]} == {"C6", "C7", "C8"}


def test_the_directory_is_a_taxonomy_too(tmp_path: Path, wordnet: WordNet) -> None:
    found, _ = directory(
        tmp_path, "Arts/Music\t5\nArts/Music/Jazz\t2\nShopping/Music\t9\nTop_Level/Old_Time_Radio\t1\n"
    )
    taxonomy = found.taxonomy()
    assert taxonomy.keys[0] == "Top"
    assert len(taxonomy) == 8
    assert taxonomy.keys[taxonomy.concept("music")] == "Shopping/Music"  # most pages first
    assert taxonomy.labels(taxonomy.concept("Top_Level/Old_Time_Radio")) == ["Old Time Radio"]
    arts, jazz = taxonomy.concept("Arts"), taxonomy.concept("jazz")
    assert arts in taxonomy.subsumers(jazz)
    assert taxonomy.similarity(arts, jazz) == pytest.approx(1 - np.log2(1 + 2 / 4))
    mapper = PhraseMapper(taxonomy, wordnet)
    assert [taxonomy.keys[c] for c in mapper.concepts(["old time radio shows", "cool jazz"]).values if c >= 0] == [
        "Arts/Music/Jazz"
    ]
    assert found.taxonomy().digest == taxonomy.digest


@pytest.mark.data
def test_the_sample_answers_plausibly(sample: OpenDirectory, shared_data: SampleData) -> None:
    assert sample.classify(["anime"])[0][0] == ("Arts", "Animation", "Anime")
    assert sample.classify(["chicken recipes"])[0][0][:2] == ("Home", "Cooking")
    with gzip.open(shared_data / "aol" / "aol-1017-users.tsv.gz", "rt", encoding="utf-8") as file:
        next(file)
        queries = sorted({line.split("\t")[1] for line in file})
    assert (sample.best(queries) >= 0).mean() == pytest.approx(0.78, abs=0.02)


@pytest.mark.data
def test_the_sample_is_usable_as_a_taxonomy(sample: OpenDirectory) -> None:
    taxonomy = sample.taxonomy()
    assert len(taxonomy) == len(sample.tree) + 1
    assert 0 < taxonomy.minimum_similarity() < 0.1
    assert taxonomy.similarity_to_all(taxonomy.concept("Arts/Animation/Anime")).argmax() == taxonomy.concept("Anime")
