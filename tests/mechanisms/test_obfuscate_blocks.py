"""Obfuscation block by block: the cut and the order of records leave no trace, and workers answer like the driver."""

import hashlib
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from mechanisms.block_checks import depends_on_the_order_of_rows, released, sent
from queryveil.errors import KnowledgeError
from queryveil.knowledge import _store
from queryveil.log import QueryLog
from queryveil.mechanisms.obfuscate import Obfuscate, obfuscation, selecting
from queryveil.privacy import Noise
from queryveil.privacy.noise import integer_weights, random_names
from queryveil.release.release import ORDER, OWNER, Renaming

WORDS = ["public", "throat", "cancer", "weather", "train", "times", "chess", "football", "apple", "pie", "recipe",
         "symptoms", "doctor", "hospital", "garden", "river"]  # fmt: skip
KINDS = ["cmp", "vkr-mhl", "tem", "custext"]


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYVEIL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def save(path, seed):
    vectors = np.random.default_rng(seed).standard_normal((len(WORDS), 3)).astype(np.float32)
    np.savez(path, words=np.array(WORDS), vectors=vectors)
    return str(path)


@pytest.fixture(scope="module")
def embedding(tmp_path_factory):
    return save(tmp_path_factory.mktemp("vectors") / "toy.npz", seed=1)


@pytest.fixture(scope="module")
def log():
    picks = np.random.default_rng(2).integers(0, len(WORDS), (400, 3))
    rows = [(f"user {i * 7 % 31}", " ".join(WORDS[word] for word in pick[: 1 + i % 3])) for i, pick in enumerate(picks)]
    return QueryLog.of([*rows, *rows[:100], ("user 1", "zzyzx")])


def made(embedding, kind="cmp", **changes) -> Obfuscate:
    return Obfuscate(**{"mechanism": kind, "epsilon": 4.0, "embedding": embedding, "n": 2, **changes})


@pytest.mark.parametrize("kind", KINDS)
def test_the_order_of_records_leaves_no_trace(embedding, log, kind, monkeypatch):
    assert not depends_on_the_order_of_rows(made(embedding, kind), log, monkeypatch)


class UnsortedRenaming(Renaming):
    """Broken twin: numbers the records as they come."""

    def __call__(self, block, rows):
        named = random_names(rows["user"], self.names[block])
        return rows.with_columns(
            pl.col("user").alias(OWNER),
            pl.col("user").replace_strict(named["user"], named["pseudonym"], return_dtype=pl.String),
            pl.Series(ORDER, self.order[block].permutation(rows.height)),
        )


def test_work_that_does_not_sort_its_records_is_caught(embedding, log, monkeypatch):
    monkeypatch.setattr(obfuscation, "Renaming", UnsortedRenaming)
    assert depends_on_the_order_of_rows(made(embedding), log, monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_how_a_log_is_cut_changes_no_answer(embedding, log, kind, monkeypatch):
    one, eight = (released(made(embedding, kind), log, monkeypatch, blocks=count) for count in (1, 8))
    answers = [
        release.log.frame.select(owner=release.owners, query="query").sort("owner", "query") for release in (one, eight)
    ]
    assert answers[0].equals(answers[1])
    assert len(one.log) == 2 * len(log)
    assert one.log.frame["user"].n_unique() == eight.log.frame["user"].n_unique() == log.user_count()


def test_people_repeat_themselves_across_one_release_and_have_noise_of_their_own(embedding, monkeypatch):
    log = QueryLog.of([(f"u{i}", "throat cancer weather train") for i in range(60)] * 2)
    release = released(made(embedding, epsilon=1.0, n=1), log, monkeypatch, blocks=8)
    mine = release.log.frame.with_columns(owner=release.owners).group_by("owner").agg("query")["query"].to_list()
    assert all(len(set(texts)) == 1 for texts in mine)
    assert len({texts[0] for texts in mine}) > 40


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_does_what_the_driver_would_and_does_not_get_the_key(embedding, log, kind):
    noise = Noise.seeded(1)
    work = obfuscation.Obfuscating.of(made(embedding, kind), noise, 4)
    assert noise._key not in pickle.dumps(work)
    rows = log.table().collect()[:150]
    assert sent(work)(3, rows).equals(work(3, rows))
    assert sent(work)(3, rows).equals(sent(work)(3, rows.reverse()))
    assert not work(2, rows)["user"].equals(work(3, rows)["user"])


def test_a_worker_with_other_vectors_or_other_sets_refuses(tmp_path, log):
    path = tmp_path / "toy.npz"
    work = sent(obfuscation.Obfuscating.of(made(save(path, seed=1)), Noise.seeded(1), 1))
    rows = log.table().collect()[:10]
    assert work(0, rows).height == 20
    save(path, seed=2)
    with pytest.raises(KnowledgeError, match="not the ones the work was planned with"):
        work(0, rows)
    custext = obfuscation.Obfuscating.of(made(str(path), "custext"), Noise.seeded(1), 1)
    assert len(custext.knowledge.split()) == 2
    with pytest.raises(KnowledgeError, match="one cache folder"):
        replace(custext, knowledge=custext.knowledge[:-1])(0, rows)


def test_vectors_are_found_from_another_folder(tmp_path, log, monkeypatch):
    save(tmp_path / "toy.npz", seed=1)
    monkeypatch.chdir(tmp_path)
    work = sent(obfuscation.Obfuscating.of(made("toy.npz"), Noise.seeded(1), 1))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert work(0, log.table().collect()[:10]).height == 20


def test_aed_answers_alike_in_every_block_and_leaves_out_what_it_cannot_answer(monkeypatch, log):
    class Baseline:
        def obfuscations(self, query, n):
            return [] if "cancer" in query else [f"other {len(query)} {i}" for i in range(n)]

    monkeypatch.setattr("queryveil.mechanisms.obfuscate.aed.AED", Baseline)
    obfuscation._baseline.cache_clear()
    aed = Obfuscate(mechanism="aed", n=2)
    assert not depends_on_the_order_of_rows(aed, log, monkeypatch)
    release = released(aed, log, monkeypatch, blocks=8)
    answered = [query for query in log.queries() if "cancer" not in query]
    assert sorted(release.log.queries()) == sorted(f"other {len(query)} {i}" for query in answered for i in range(2))
    obfuscation._baseline.cache_clear()


def test_everything_but_fsh_runs_on_a_cluster(embedding, tmp_path):
    assert all(made(embedding, kind).on_cluster for kind in KINDS)
    assert Obfuscate(mechanism="aed").on_cluster
    assert made(embedding, mode="paper").on_cluster
    assert not Obfuscate(mechanism="fsh", corpus=str(tmp_path)).on_cluster


def test_threads_that_share_remembered_laws_draw_what_one_would_and_remember_no_more(embedding, monkeypatch):
    def slow(weights):
        time.sleep(1e-4)  # others get their turn in the middle of a law
        return integer_weights(weights)

    monkeypatch.setattr(selecting, "DRAWS_AT_ONCE", 2)
    monkeypatch.setattr(selecting, "integer_weights", slow)
    words = made(embedding, "santext", epsilon=5.0).words

    def draw(seed):
        return words.replace(np.arange(len(WORDS)), Noise.seeded(seed).stream("a")).tolist()

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(draw, range(40)))
    assert len(words._recent) <= 2
    assert together == [draw(seed) for seed in range(40)]


def test_a_file_of_vectors_is_hashed_once_however_many_blocks_use_it(tmp_path, log, monkeypatch):
    hashed = []
    digest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda file, kind: (hashed.append(file.name), digest(file, kind))[1])
    monkeypatch.setattr(_store, "SETTLED_NS", 0)
    path = save(tmp_path / "toy.npz", seed=3)
    assert len(released(made(path), log, monkeypatch, blocks=8).log) == 2 * len(log)
    assert hashed == [path]
