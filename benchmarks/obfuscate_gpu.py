"""Words a second of the PyTorch backend on a GPU, after checking that it is exact and has the right law.

python benchmarks/obfuscate_gpu.py [--words 400000] [--dimension 300] [--epsilon 10] [--batches 64]

Needs PyTorch and NumPy only: the backend is loaded from its file, so that a machine without QueryVeil can run this.
Prints one line a finding and writes its section of RESULTS.md; exits with 1 where a check fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from _results import write_section

BACKEND = Path(__file__).parents[1] / "src/queryveil/mechanisms/obfuscate/_torch_search.py"
# P(answer | word) for words at 0, 1 and 3 on a line at ε = 1, by exact integration
PLAIN = [
    [0.69673467, 0.23559769, 0.06766764],
    [0.30326533, 0.51279495, 0.18393972],
    [0.04104250, 0.14289722, 0.81606028],
]
VICKREY = [
    [0.44432391, 0.49269521, 0.06298088],
    [0.30059439, 0.52820583, 0.17119978],
    [0.04781255, 0.41776501, 0.53442245],
]
LINE = {0.0: PLAIN, 0.75: VICKREY}
LINE_DRAWS = 60_000
LARGEST_STATISTIC = 33.4
"""χ² with 2 degrees of freedom exceeds 33.4 with probability 5.6e-8, so one of six tests with less than 1e-6."""


def load_backend() -> ModuleType:
    """The backend's file as a module of its own."""
    spec = importlib.util.spec_from_file_location("torch_search", BACKEND)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["torch_search"] = module
    spec.loader.exec_module(module)
    return module


def word_source() -> tuple[str, Callable[[int], Callable[[np.ndarray], None]]]:
    """Something that fills arrays with random words: AES-256-CTR as in QueryVeil where `cryptography` is installed."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:

        def numpy_filler(number: int) -> Callable[[np.ndarray], None]:
            generator = np.random.Generator(np.random.SFC64([number, 7]))

            def fill(out: np.ndarray) -> None:
                flat = out.reshape(-1)
                for start in range(0, len(flat), 1 << 20):
                    part = flat[start : start + (1 << 20)]
                    part[:] = generator.integers(0, 2**64, len(part), dtype=np.uint64)

            return fill

        return "NumPy's SFC64, for lack of the package cryptography", numpy_filler

    def aes_filler(number: int) -> Callable[[np.ndarray], None]:
        cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
        zeros = bytes(8 << 20)

        def fill(out: np.ndarray) -> None:
            flat = out.reshape(-1)
            for start in range(0, len(flat), 1 << 20):
                part = flat[start : start + (1 << 20)]
                cipher.update_into(zeros[: part.nbytes], part.view(np.uint8).data)

        return fill

    return "AES-256-CTR", aes_filler


def words_each(dimension: int) -> int:
    """Random words for one answer: normal draws, exponential draws, the Vickrey choice."""
    return dimension + dimension % 2 + dimension // 2 + 1


def numpy_points(matrix: np.ndarray, indices: np.ndarray, words: np.ndarray, epsilon: float) -> np.ndarray:
    """The noisy points by NumPy, as QueryVeil makes them on a CPU."""
    dimension = matrix.shape[1]
    even = dimension + dimension % 2
    uniform = (words[:, :-1].astype(np.float64) + 0.5) * 2.0**-64
    length = np.sqrt(-2.0 * np.log(uniform[:, 0:even:2]))
    angle = 2.0 * np.pi * uniform[:, 1:even:2]
    normal = np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)
    radius = (normal**2).sum(axis=1) / 2 - np.log(uniform[:, even:]).sum(axis=1)
    direction = normal[:, :dimension]
    return matrix[indices] + direction * (radius / np.linalg.norm(direction, axis=1))[:, None] / epsilon


def check_line(backend: ModuleType, device: str, fill: Callable[[np.ndarray], None], **options: object) -> bool:
    """The law on three words of a line, plain and Vickrey, against exact probabilities."""
    line = backend.TorchWords(np.array([[0.0], [1.0], [3.0]], np.float32), device, **options)
    good = True
    for (t, rows), word in itertools.product(LINE.items(), range(3)):
        words = np.empty((LINE_DRAWS, words_each(1)), np.uint64)
        fill(words)
        drawn = line.replace(np.full(LINE_DRAWS, word), words, epsilon=1.0, root=None, t=t)
        expected = np.array(rows[word]) * LINE_DRAWS
        statistic = float((((np.bincount(drawn, minlength=3) - expected) ** 2) / expected).sum())
        good &= statistic < LARGEST_STATISTIC
        print(f"law: t = {t}, word {word}: chi-square {statistic:.2f} (limit {LARGEST_STATISTIC})")
    return good


def check_exact(
    words_on_device: object, matrix: np.ndarray, fill: Callable[[np.ndarray], None], epsilon: float, count: int
) -> bool:
    """Answers for `count` words against double-precision comparison with every word, by NumPy's noise."""
    words = np.empty((count, words_each(matrix.shape[1])), np.uint64)
    fill(words)
    indices = np.arange(count) * 7919 % len(matrix)
    points = numpy_points(matrix, indices, words, epsilon)
    on_device = torch.from_numpy(points).to(words_on_device.device)
    nearest, _ = words_on_device.two(on_device)
    squared = torch.cat(
        [
            torch.stack([((part.double() - point) ** 2).sum(dim=1) for point in on_device])
            for part in torch.split(words_on_device.x, 1 << 14)
        ],
        dim=1,
    )
    expected = torch.sort(squared, dim=1, stable=True).indices[:, :2]
    wrong = int((nearest != expected).any(dim=1).sum())
    drawn = words_on_device.replace(indices, words, epsilon=epsilon, root=None, t=0.0)
    differs = int((drawn != expected[:, 0].cpu().numpy()).sum())
    print(f"exact at epsilon {epsilon:g}: {wrong} of {count} pairs differ from brute force in double precision")
    print(f"same noise at epsilon {epsilon:g}: {differs} of {count} answers differ from NumPy's noise and brute force")
    return wrong == 0 and differs == 0


def timed(work: Callable[[], object], repeats: int = 5) -> float:
    """Median seconds of a piece of device work."""
    work()
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[repeats // 2]


def pinned_batches(shape: tuple[int, int], count: int, threads: int) -> Iterator[torch.Tensor]:
    """Batches of random words in pinned memory, drawn ahead by several threads, each from a stream of its own."""
    _, filler = word_source()
    fillers = [filler(number) for number in range(threads)]
    buffers = [torch.empty(shape, dtype=torch.int64).pin_memory() for _ in range(threads)]

    def draw(number: int) -> torch.Tensor:
        fillers[number % threads](buffers[number % threads].numpy().view(np.uint64))
        return buffers[number % threads]

    with ThreadPoolExecutor(threads) as pool:
        ahead = [pool.submit(draw, number) for number in range(min(threads, count))]
        for number in range(count):
            yield ahead[number].result()
            torch.cuda.current_stream().synchronize()  # the copy is done before the buffer is drawn into again
            if number + threads < count:
                ahead.append(pool.submit(draw, number + threads))


def end_to_end(words: object, epsilon: float, t: float, batches: int, threads: int) -> float:
    """Words a second with everything: random words on the host, copy, noise, search, answers back on the host."""
    size = (16384, words_each(words.dimension))
    copies = torch.cuda.Stream()
    indices = torch.arange(size[0], device="cuda") * 7919 % words.words
    results = []
    start = time.perf_counter()
    waiting: torch.Tensor | None = None
    source = pinned_batches(size, batches, threads)
    with torch.cuda.stream(copies):
        waiting = next(source).to("cuda", non_blocking=True)
    for _ in range(batches):
        torch.cuda.current_stream().wait_stream(copies)
        batch = waiting
        batch.record_stream(torch.cuda.current_stream())
        with torch.cuda.stream(copies):
            following = next(source, None)
            waiting = None if following is None else following.to("cuda", non_blocking=True)
        results.append(words.answers(indices, batch, epsilon=epsilon, root=None, t=t).to("cpu"))
    torch.cuda.synchronize()
    return batches * size[0] / (time.perf_counter() - start)


def main() -> None:
    """Check, then time."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=400_000)
    parser.add_argument("--dimension", type=int, default=300)
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--batches", type=int, default=64)
    parser.add_argument("--threads", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--checked", type=int, default=256)
    given = parser.parse_args()
    backend = load_backend()
    kind, filler = word_source()
    fill = filler(99)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    print(f"{name}, torch {torch.__version__}, Triton {'yes' if backend.triton else 'no'}; random words: {kind}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    good = check_line(backend, device, fill)
    matrix = (np.random.default_rng(1).standard_normal((given.words, given.dimension)) * 0.4).astype(np.float32)
    words = backend.TorchWords(matrix, device)
    for epsilon in sorted({1.0, given.epsilon, 50.0}):
        good &= check_exact(words, matrix, fill, epsilon, given.checked)
    if not good:
        print("FAILED: the figures below mean nothing.")
    if device == "cpu":
        sys.exit(0 if good else 1)

    random = torch.empty((16384, words_each(given.dimension)), dtype=torch.int64)
    fill(random.numpy().view(np.uint64))
    random = random.cuda()
    indices = torch.arange(16384, device="cuda") * 7919 % given.words
    points = words.x[indices].double() + backend.laplace_vectors(random[:, :-1], given.dimension) / given.epsilon
    q16 = torch.zeros((16384, words.padded), dtype=torch.float16, device="cuda")
    q16[:, : given.dimension] = points.half()
    best_tile, best_seconds = words.tile, float("inf")
    for block, inner, warps, stages in itertools.product((128, 256), (64,), (4, 8), (3, 4)):
        words.tile = {
            "block_q": block,
            "block_x": backend.RUN,
            "block_k": inner,
            "num_warps": warps,
            "num_stages": stages,
        }
        try:
            seconds = timed(lambda: words._maxima(q16))
        except Exception as problem:  # a shape that this GPU has no room for
            print(f"first pass {block} x {backend.RUN}, {warps} warps, {stages} stages: {type(problem).__name__}")
            continue
        rate = 2 * 16384 * len(words.x16) * words.padded / seconds / 1e12
        print(f"first pass {block} x {backend.RUN}, {warps} warps, {stages} stages: {rate:.0f} TFLOP/s")
        if seconds < best_seconds:
            best_tile, best_seconds = words.tile, seconds
    words.tile = best_tile
    print(f"best shape: {best_tile}")
    print(f"first pass alone: {16384 / best_seconds:,.0f} words/s")
    print(
        f"noise alone: {16384 / timed(lambda: backend.laplace_vectors(random[:, :-1], given.dimension)):,.0f} words/s"
    )
    print(f"search on the device: {16384 / timed(lambda: words._two(points)):,.0f} words/s")
    plain = backend.TorchWords(matrix, device, use_triton=False)
    print(f"search without Triton: {16384 / timed(lambda: plain._two(points), 3):,.0f} words/s")
    end_to_end(words, given.epsilon, 0.0, 4, given.threads)
    rows = []
    for label, t in (("cmp", 0.0), ("vkr-cmp", 0.75)):
        rate = end_to_end(words, given.epsilon, t, given.batches, given.threads)
        print(f"{label}, with random words, copies and noise: {rate:,.0f} words/s")
        print(f"points compared with all words in double precision so far: {words.compared_with_all}")
        rows.append(f"| {name} | {label} | {given.words:,} × {given.dimension} | {given.epsilon:g} | {rate:,.0f} |")
        print(rows[-1])
    if good:
        write_section(
            f"obfuscate_gpu_{given.dimension}",
            f"## Obfuscation on a GPU, {given.dimension} dimensions\n\n`python benchmarks/obfuscate_gpu.py --dimension "
            f"{given.dimension}`, {date.today()}, random words: {kind}; exact: {3 * given.checked} answers equal brute "
            "force in double precision on the same noise, and the law on a line passes its test. Random words, copies "
            "and noise included.\n\n| GPU | mechanism | vocabulary | ε | words/s |\n|---|---|---|---|---|\n"
            + "\n".join(rows),
        )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
