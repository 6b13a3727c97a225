"""Noisy words on a GPU with PyTorch: another road to the answers of `noisy.py`.

A point is scored against every word, x·q − ‖x‖²/2, on the tensor cores in half precision with sums in single
precision, and only the best score of each run of 128 words is kept. What half precision can be off by is bounded from
the rounding that really happened: with x = x̃ + r and q = q̃ + s, x·q − x̃·q̃ = r·q̃ + x·s, so at most ‖r‖‖q̃‖ + ‖x‖‖s‖,
besides the sums' own rounding. Every run whose best comes within twice that bound of the second best run is scored
again in single precision, the few that remain within its bound are compared in double precision, and where too many
remain the point is compared with all words in double precision. So the answer is exact, whatever the first pass did.

Random words come from the caller, as on the CPU, and become noise by the same formulas.

With Triton the first two passes are one kernel each that never writes the scores; without it they are plain PyTorch,
slower, on any device. This file needs PyTorch and NumPy and nothing of QueryVeil.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

try:
    import torch
except ImportError:  # an extra: queryveil[gpu]
    torch = None
try:
    import triton
    import triton.language as tl
except ImportError:  # PyTorch for CPUs comes without it
    triton = None

RUN = 128
FIRST_RUNS = 8
FINALISTS = 6
HALF_LARGEST = 60000.0
SUM_ROUNDING = 2.0**-22
"""What one addition on the tensor cores may lose; they cut off, with at least 22 bits kept."""
SINGLE = 2.0**-24
BATCH = 16384
NORM_PARTS = 3

if triton is not None:

    @triton.jit
    def _best_of_runs(
        q,
        x,
        out,
        query_blocks,
        runs,
        depth: tl.constexpr,
        block_q: tl.constexpr,
        block_x: tl.constexpr,
        block_k: tl.constexpr,
    ):
        """out[query, run] = the largest x·q in the run. Queries vary fastest, so that they stay in the cache."""
        place = tl.program_id(0)
        rows = (place % query_blocks) * block_q + tl.arange(0, block_q)
        run = place // query_blocks
        columns = run * block_x + tl.arange(0, block_x)
        inner = tl.arange(0, block_k)
        q_places = q + rows[:, None] * depth + inner[None, :]
        x_places = x + columns[None, :].to(tl.int64) * depth + inner[:, None]
        sums = tl.zeros((block_q, block_x), dtype=tl.float32)
        for _ in range(0, depth, block_k):
            sums = tl.dot(tl.load(q_places), tl.load(x_places), sums)
            q_places += block_k
            x_places += block_k
        tl.store(out + rows.to(tl.int64) * runs + run, tl.max(sums, axis=1))

    @triton.jit
    def _score_runs(
        q, x, half_norms, chosen, best, floors, out, words,
        dimension: tl.constexpr, block_d: tl.constexpr, run_size: tl.constexpr, count: tl.constexpr,
    ):  # fmt: skip
        """Single-precision scores of the chosen runs; a run whose best lies below the floor is left out."""
        query = tl.program_id(0).to(tl.int64)
        floor = tl.load(floors + query)
        inside = tl.arange(0, run_size)
        inner = tl.arange(0, block_d)
        for number in range(count):
            target = out + (query * count + number) * run_size + inside
            if tl.load(best + query * count + number) >= floor:
                rows = tl.load(chosen + query * count + number).to(tl.int64) * run_size + inside
                real = rows < words
                sums = tl.zeros((run_size,), dtype=tl.float32)
                for start in range(0, dimension, block_d):
                    there = (start + inner) < dimension
                    part = tl.load(q + query * dimension + start + inner, mask=there, other=0.0)
                    both = real[:, None] & there[None, :]
                    block = tl.load(x + rows[:, None] * dimension + (start + inner)[None, :], mask=both, other=0.0)
                    sums += tl.sum(block * part[None, :], axis=1)
                score = sums - tl.load(half_norms + rows, mask=real, other=0.0)
                tl.store(target, tl.where(real, score, float("-inf")))
            else:
                tl.store(target, tl.full((run_size,), float("-inf"), tl.float32))


class TorchWords:
    """A vocabulary on a device, and the answers of the noisy mechanisms over it."""

    def __init__(self, matrix: np.ndarray, device: str = "cuda", *, use_triton: bool | None = None) -> None:
        self.device = torch.device(device)
        self.use_triton = (triton is not None and self.device.type == "cuda") if use_triton is None else use_triton
        self.tile = {"block_q": 128, "block_x": RUN, "block_k": 64, "num_warps": 4, "num_stages": 3}
        if self.device.type == "cuda":
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
            torch.backends.cuda.matmul.allow_tf32 = False
        self.x = torch.from_numpy(np.array(matrix, np.float32)).to(self.device)
        self.words, self.dimension = self.x.shape
        self.compared_with_all = 0
        """Points so far that the faster passes could not decide."""
        self.runs = -(-self.words // RUN)
        self.padded = -(-(self.dimension + NORM_PARTS) // 64) * 64
        self._prepare()

    def _prepare(self) -> None:
        """The matrix in half precision, with the norms as three more columns, and how far off it is."""
        largest = float(self.x.abs().max())
        self.scale = 2.0 ** math.ceil(math.log2(largest)) if largest else 1.0
        self.x16 = torch.zeros((self.runs * RUN, self.padded), dtype=torch.float16, device=self.device)
        self.half_norms = torch.empty(self.words, dtype=torch.float32, device=self.device)
        longest = rounded = largest_norm = 0.0
        for start in range(0, self.words, 1 << 16):
            rows = self.x[start : start + (1 << 16)].double()
            halves = (rows**2).sum(dim=1) / 2
            self.half_norms[start : start + len(rows)] = halves.float()
            longest = max(longest, float(halves.max()))
            rows /= self.scale
            target = self.x16[start : start + len(rows)]
            target[:, : self.dimension] = rows.half()
            rounded = max(rounded, float((rows - target[:, : self.dimension].double()).norm(dim=1).max()))
            rest = -halves / self.scale**2
            largest_norm = max(largest_norm, float(rest.abs().max()))
            for part in range(NORM_PARTS):
                target[:, self.dimension + part] = rest.clamp(-HALF_LARGEST, HALF_LARGEST).half()
                rest = rest - target[:, self.dimension + part].double()
            self._norm_rest = max(getattr(self, "_norm_rest", 0.0), float(rest.abs().max()))
        self.x16[self.words :] = self.x16[self.words - 1]  # the last run is filled with its own last word
        self.longest = math.sqrt(2 * longest)
        self._rounded, self._largest_norm = rounded, largest_norm

    # The two nearest words

    def two(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Numbers of the nearest and second nearest word of each point (double precision), and both distances."""
        parts = [self._two(points[start : start + BATCH]) for start in range(0, len(points), BATCH)]
        return torch.cat([a for a, _ in parts]), torch.cat([b for _, b in parts])

    def _two(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        single = points.float()
        best, margins = self._best_of_runs(points)
        count = min(FIRST_RUNS, self.runs)
        top, chosen = torch.topk(best, count, dim=1)
        floors = top[:, min(1, count - 1)] - margins
        undecided = top[:, -1] >= floors if count < self.runs else torch.zeros_like(floors, dtype=torch.bool)
        if count == 1:
            floors = torch.full_like(floors, -math.inf)  # both words are in the only run
        scores = self._scores_of_runs(single, chosen.int(), top, floors)
        finalists = min(FINALISTS, scores.shape[1])
        high, where = torch.topk(scores, finalists, dim=1)
        words = torch.gather(chosen, 1, where // RUN) * RUN + where % RUN
        terms = (self.dimension + 2) * SINGLE
        length = single.double().norm(dim=1)
        size = self.longest * length + self.longest**2
        slack = 2.02 * (
            self.longest * (terms / (1 - terms) * length + (points - single.double()).norm(dim=1)) + 2 * SINGLE * size
        )
        undecided |= ~(size < 1e15) | ~torch.isfinite(margins)
        if finalists < scores.shape[1] and finalists < self.words:
            undecided |= high[:, -1].double() >= high[:, 1].double() - slack
        words = torch.where(torch.isfinite(high), words, words[:, :1])
        nearest = self._ordered(points, words, torch.isfinite(high))
        for q in torch.nonzero(undecided).flatten().tolist():
            self.compared_with_all += 1
            nearest[q] = self._by_comparing_all(points[q])
        away = self.x[nearest].double() - points[:, None, :]
        return nearest, away.norm(dim=2)

    def _best_of_runs(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """For each point the best score of each run, in a unit of the point's own, and twice the bound of its error."""
        largest = points.abs().amax(dim=1)
        unit = torch.exp2(torch.ceil(torch.log2(largest.clamp(min=1e-30))))
        scaled = points / unit[:, None]
        ratio = self.scale / unit
        count = len(points)
        block = self.tile["block_q"]
        q16 = torch.zeros((-(-count // block) * block, self.padded), dtype=torch.float16, device=self.device)
        q16[:count, : self.dimension] = scaled.half()
        q16[:count, self.dimension : self.dimension + NORM_PARTS] = ratio.clamp(max=HALF_LARGEST).half()[:, None]
        kept = q16[:count, : self.dimension].double()
        ratio_off = (ratio - q16[:count, self.dimension].double()).abs()
        length = self.longest / self.scale
        products = length * kept.norm(dim=1) * 1.01 + NORM_PARTS * self._largest_norm * ratio
        bound = (
            self._rounded * kept.norm(dim=1)
            + length * (scaled - kept).norm(dim=1)
            + self._norm_rest * ratio
            + NORM_PARTS * self._largest_norm * ratio_off
            + self.padded * SUM_ROUNDING * products
        )
        return self._maxima(q16)[:count], (2.02 * bound).float()

    def _maxima(self, q16: torch.Tensor) -> torch.Tensor:
        best = torch.empty((len(q16), self.runs), dtype=torch.float32, device=self.device)
        if self.use_triton:
            query_blocks = len(q16) // self.tile["block_q"]
            _best_of_runs[(query_blocks * self.runs,)](
                q16, self.x16, best, query_blocks, self.runs, depth=self.padded, **self.tile
            )
            return best
        step = 256 * RUN
        for start in range(0, len(self.x16), step):
            rows = self.x16[start : start + step]
            scores = _product(q16, rows)
            best[:, start // RUN : start // RUN + len(rows) // RUN] = scores.view(len(q16), -1, RUN).amax(dim=2)
        return best

    def _scores_of_runs(
        self, single: torch.Tensor, chosen: torch.Tensor, top: torch.Tensor, floors: torch.Tensor
    ) -> torch.Tensor:
        count = chosen.shape[1]
        if self.use_triton:
            out = torch.empty((len(single), count * RUN), dtype=torch.float32, device=self.device)
            _score_runs[(len(single),)](
                single.contiguous(), self.x, self.half_norms, chosen.contiguous(), top.contiguous(),
                floors.contiguous(), out, self.words,
                dimension=self.dimension, block_d=32, run_size=RUN, count=count, num_warps=4,
            )  # fmt: skip
            return out
        parts = []
        inside = torch.arange(RUN, device=self.device)
        for start in range(0, len(single), 512):
            runs = chosen[start : start + 512].long()
            rows = (runs[:, :, None] * RUN + inside).reshape(len(runs), -1)
            wanted = top[start : start + 512] >= floors[start : start + 512, None]
            real = (rows < self.words) & wanted.repeat_interleave(RUN, dim=1)
            rows = rows.clamp(max=self.words - 1)
            scores = torch.bmm(self.x[rows], single[start : start + 512, :, None])[:, :, 0] - self.half_norms[rows]
            parts.append(torch.where(real, scores, -math.inf))
        return torch.cat(parts)

    def _ordered(self, points: torch.Tensor, words: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """The two nearest of a few words, in double precision; ties to the word that comes first.

        ‖a − p‖² − ‖b − p‖² = (a − b)·(a + b − 2p) against the first finalist b: exact to the last bits for near twins.
        """
        rows = self.x[words].double()
        against = rows[:, :1]
        key = ((rows - against) * (rows + against - 2 * points[:, None, :])).sum(dim=2)
        key = torch.where(real, key, math.inf)
        words = torch.where(real, words, self.words + 1)
        by_number = torch.argsort(words, dim=1)
        words, key = torch.gather(words, 1, by_number), torch.gather(key, 1, by_number)
        order = torch.sort(key, dim=1, stable=True).indices[:, :2]
        return torch.gather(words, 1, order)

    def _by_comparing_all(self, point: torch.Tensor) -> torch.Tensor:
        squared = torch.cat([((part.double() - point) ** 2).sum(dim=1) for part in torch.split(self.x, 1 << 16)])
        return torch.sort(squared, stable=True).indices[:2]

    # Noise

    def replace(
        self, indices: np.ndarray, words: np.ndarray, *, epsilon: float, root: np.ndarray | None, t: float
    ) -> np.ndarray:
        """An answer for each word from its row of random words: direction, radius, and the Vickrey choice last."""
        drawn = np.empty(len(indices), np.int64)
        for start in range(0, len(indices), BATCH):
            part = torch.from_numpy(np.ascontiguousarray(words[start : start + BATCH]).view(np.int64))
            if self.device.type == "cuda":
                part = part.pin_memory()
            number = torch.from_numpy(indices[start : start + BATCH]).to(self.device, non_blocking=True)
            answer = self.answers(number, part.to(self.device, non_blocking=True), epsilon=epsilon, root=root, t=t)
            drawn[start : start + len(number)] = answer.cpu().numpy()
        return drawn

    def answers(
        self, indices: torch.Tensor, words: torch.Tensor, *, epsilon: float, root: Any, t: float
    ) -> torch.Tensor:
        """The same with everything on the device already; the random words as the bits of signed integers."""
        noise = laplace_vectors(words[:, :-1], self.dimension) / epsilon
        if root is not None:
            noise = noise @ torch.as_tensor(root, dtype=torch.float64, device=self.device)
        nearest, distances = self._two(self.x[indices].double() + noise)
        if t == 0.0:
            return nearest[:, 0]
        against, towards = t * distances[:, 0], (1.0 - t) * distances[:, 1]
        total = against + towards
        first = torch.where(distances[:, 0] == 0, 1.0, towards / torch.where(total == 0, 1.0, total))
        chance = ((words[:, -1] >> 11) & ((1 << 53) - 1)).double() * 2.0**-53
        return torch.where(chance < first, nearest[:, 0], nearest[:, 1])


def laplace_vectors(words: torch.Tensor, dimension: int) -> torch.Tensor:
    """As `queryveil.privacy.noise.laplace_vectors`, from the bits of signed integers."""
    even = dimension + dimension % 2
    high, low = (words >> 32) & 0xFFFFFFFF, words & 0xFFFFFFFF
    uniform = (high.double() * 2.0**32 + low.double() + 0.5) * 2.0**-64
    length = torch.sqrt(-2.0 * torch.log(uniform[:, 0:even:2]))
    angle = 2.0 * math.pi * uniform[:, 1:even:2]
    normal = torch.cat([length * torch.cos(angle), length * torch.sin(angle)], dim=1)
    radius = (normal**2).sum(dim=1) / 2 - torch.log(uniform[:, even:]).sum(dim=1)
    direction = normal[:, :dimension]
    return direction * (radius / direction.norm(dim=1))[:, None]


def _product(q16: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """q·x with half-precision numbers and single-precision sums and result."""
    if q16.device.type == "cuda":
        return torch.mm(q16, rows.T, out_dtype=torch.float32)
    return q16.float() @ rows.float().T


def on_gpu(matrix: np.ndarray) -> TorchWords | None:
    """The vocabulary on a GPU, where there is one."""
    return TorchWords(matrix) if torch is not None and torch.cuda.is_available() else None
