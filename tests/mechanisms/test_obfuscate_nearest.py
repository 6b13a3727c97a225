"""The two nearest words: as by comparing with every word, whatever bytes and single precision do."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mechanisms.obfuscation_oracle import two_nearest
from properties import examples
from queryveil.mechanisms.obfuscate import _bytes_kernel, _torch_search, byte_codes, nearest
from queryveil.mechanisms.obfuscate._nearest_kernel import OVERFULL
from queryveil.mechanisms.obfuscate.byte_codes import ByteCodes
from queryveil.mechanisms.obfuscate.nearest import NearestWords

FIXTURE = [HealthCheck.function_scoped_fixture]
"""The same way for all examples is what is meant."""
needs_bytes = pytest.mark.skipif(not byte_codes.available(1), reason="the processor has no products of bytes")


@pytest.fixture(params=["single", pytest.param("bytes", marks=needs_bytes)])
def first_look(request, monkeypatch):
    """Bytes first, or single precision from the start."""
    if request.param == "single":
        monkeypatch.setattr(byte_codes, "available", lambda dimension: False)
    return request.param


both_ways = pytest.mark.usefixtures("first_look")


def agrees(matrix, points) -> None:
    found, distances = NearestWords(matrix).two(points)
    expected, expected_distances = two_nearest(matrix, points)
    assert found.tolist() == expected.tolist()
    assert distances == pytest.approx(expected_distances, rel=1e-12, abs=1e-12)


@both_ways
@settings(max_examples=examples(60), deadline=None, suppress_health_check=FIXTURE)
@given(
    st.integers(0, 2**32),
    st.integers(2, 300),
    st.integers(1, 70),
    st.sampled_from([1e-3, 0.4, 5.0]),
    st.sampled_from([0.0, 0.01, 1.0, 30.0, 1e6]),
)
def test_the_fast_search_finds_what_the_slow_one_finds(seed, words, dimension, spread, noise):
    random = np.random.default_rng(seed)
    matrix = (random.standard_normal((words, dimension)) * spread).astype(np.float32)
    points = matrix[random.integers(0, words, 20)] + random.standard_normal((20, dimension)) * noise
    agrees(matrix, points)


@both_ways
@settings(max_examples=examples(60), deadline=None, suppress_health_check=FIXTURE)
@given(st.integers(0, 2**32), st.integers(2, 400), st.integers(1, 70), st.sampled_from([1e-7, 1e-5, 1e-3]))
def test_words_that_differ_less_than_a_byte_can_tell_are_told_apart(seed, words, dimension, apart):
    """Clusters far smaller than a step of the codes, of words of very different lengths, and points between twins."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((max(1, words // 5), dimension)) * 10.0 ** random.integers(
        -3, 3, (words // 5 or 1, 1)
    )
    matrix = centres[random.integers(0, len(centres), words)]
    matrix = (matrix * (1 + apart * random.standard_normal(matrix.shape))).astype(np.float32)
    first, second = matrix[random.integers(0, words, (2, 20))].astype(np.float64)
    agrees(matrix, (first + second) / 2)
    agrees(matrix, first + (first - second) * 1e3)


@both_ways
@settings(max_examples=examples(40), deadline=None, suppress_health_check=FIXTURE)
@given(st.integers(0, 2**32), st.integers(2, 200), st.integers(1, 4))
def test_words_that_share_their_vector_are_told_apart_by_their_order(seed, words, dimension):
    random = np.random.default_rng(seed)
    matrix = random.integers(-2, 3, (words, dimension)).astype(np.float32)
    agrees(matrix, random.integers(-3, 4, (20, dimension)).astype(np.float64))


@both_ways
def test_blocks_of_words_and_points_meet_without_a_seam(monkeypatch):
    monkeypatch.setattr(nearest, "WORDS_AT_ONCE", 300)
    monkeypatch.setattr(nearest, "POINTS_AT_ONCE", 9)
    random = np.random.default_rng(1)
    matrix = random.standard_normal((1001, 8)).astype(np.float32)
    agrees(matrix, random.standard_normal((50, 8)) * 2)


@both_ways
def test_a_thousand_words_at_the_same_distance_do_not_overflow_the_candidates():
    angles = np.linspace(0, 2 * np.pi, 1000, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    agrees(circle, np.array([[0.0, 0.0], [1e-9, 0.0], [0.5, 0.1]]))


@both_ways
def test_points_beyond_single_precision_are_compared_in_double():
    matrix = np.random.default_rng(2).standard_normal((50, 3)).astype(np.float32)
    agrees(matrix, np.random.default_rng(3).standard_normal((10, 3)) * 1e18)


@both_ways
def test_near_twins_far_from_the_point_are_told_apart():
    """Their squared distances differ in the last of 53 bits only; the difference itself is computed exactly."""
    twins = np.array([[1.0, 0.0], [1.0, 2.0**-20], [5.0, 0.0]], np.float32)
    points = np.array([[1.0 - 2.0**12, 2.0**-20], [1.0 - 2.0**12, 0.0]])
    found, _ = NearestWords(twins).two(points)
    assert found[:, 0].tolist() == [1, 0]


def near_quadruplets():
    random = np.random.default_rng(4)
    centres = np.repeat(random.standard_normal((100, 50)), 4, axis=0)
    matrix = (centres + random.standard_normal((400, 50)) * 1e-6).astype(np.float32)
    return matrix, matrix[random.integers(0, 400, 2000)] + random.standard_normal((2000, 50))


def test_a_margin_of_zero_would_lose_the_nearest_word(first_look, monkeypatch):
    """Broken twin: trusting the first look. Caught on near quadruplets under noise, in some of 2,000."""
    matrix, points = near_quadruplets()
    agrees(matrix, points)
    monkeypatch.setattr(NearestWords, "_margins", lambda self, points, single: np.zeros(len(points), np.float32))
    monkeypatch.setattr(ByteCodes, "_errors", lambda self, coded, lost: np.zeros((len(coded), 3), np.float32))
    found, _ = NearestWords(matrix).two(points)
    assert (found != two_nearest(matrix, points)[0]).any()


@both_ways
def test_many_points_are_shared_among_threads(monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    matrix, points = near_quadruplets()
    agrees(matrix, points)


@both_ways
def test_words_and_points_that_are_nothing_are_found():
    matrix = np.zeros((130, 3), np.float32)
    matrix[100:, 1] = np.arange(30)
    agrees(matrix, np.array([[0.0, 0.0, 0.0], [0.0, 2.9, 0.0], [0.0, -1e-300, 1e-300]]))


@both_ways
def test_numbers_too_small_for_single_precision_are_compared_in_double():
    random = np.random.default_rng(5)
    matrix = (random.standard_normal((60, 4)) * 1e-22).astype(np.float32)
    agrees(matrix, random.standard_normal((20, 4)) * 1e-22)


# Products of bytes


@needs_bytes
@pytest.mark.parametrize(("words", "dimension"), [(2, 1), (64, 4), (65, 5), (1000, 300)])
def test_what_bytes_say_of_a_score_is_true(words, dimension):
    """Every score lies within its bound, by products in Python; those left out are further away than two others."""
    random = np.random.default_rng(words)
    lengths = 10.0 ** random.uniform(-0.3, 0.3, (words, 1))
    matrix = (random.standard_normal((words, dimension)) * lengths).astype(np.float32)
    points = random.standard_normal((13, dimension)) * 10.0 ** random.uniform(-1, 2, (13, 1))
    kept = ByteCodes(matrix).candidates(points, np.ones(13, np.bool_))
    wide = matrix.astype(np.float64)
    scores = points @ wide.T - (wide**2).sum(axis=1) / 2
    assert (kept.counts > 0).sum() > 5
    for q, row in enumerate(scores):
        if kept.counts[q] == OVERFULL:
            continue
        found, upper = kept.found[q, : kept.counts[q]], kept.upper[q, : kept.counts[q]]
        assert (row[found] <= upper).all()
        assert kept.floors[q, 1] <= np.sort(row)[-2]
        assert set(np.argsort(-row)[:2].tolist()) <= set(found.tolist())


@needs_bytes
def test_the_largest_codes_do_not_overflow_their_sums():
    """All bytes at their ends, as many as are allowed: sums of products are exact."""
    matrix = np.ones((3, byte_codes.MOST_DIMENSIONS), np.float32)
    matrix[1] = -1
    matrix[2, ::2] = -1
    points = np.stack([np.ones(matrix.shape[1]), -np.ones(matrix.shape[1])]) * 5
    agrees(matrix, points)


def test_no_bytes_where_another_processor_was_asked_for(monkeypatch):
    monkeypatch.setattr(_bytes_kernel.config, "CPU_NAME", "generic")
    assert not _bytes_kernel.available()


# The road over PyTorch


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is an extra: pip install queryveil[gpu]")


@pytest.mark.parametrize(("words", "dimension"), [(2, 1), (130, 5), (1500, 50), (3001, 300)])
@pytest.mark.parametrize("noise", [0.0, 0.05, 1.0, 100.0])
def test_pytorch_finds_the_same_words(torch, words, dimension, noise):
    random = np.random.default_rng(words)
    matrix = (random.standard_normal((words, dimension)) * 0.4).astype(np.float32)
    matrix[-1] = matrix[0]
    points = matrix[random.integers(0, words, 100)] + random.standard_normal((100, dimension)) * noise
    found, distances = _torch_search.TorchWords(matrix, "cpu").two(torch.from_numpy(points))
    expected, expected_distances = two_nearest(matrix, points)
    assert found.tolist() == expected.tolist()
    assert distances.numpy() == pytest.approx(expected_distances, abs=1e-9)


def test_without_pytorch_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(_torch_search, "torch", None)
    assert _torch_search.on_gpu(np.zeros((2, 1), np.float32)) is None
