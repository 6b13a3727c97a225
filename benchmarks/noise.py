"""Random draws a second of `privacy/noise.py`, beside OpenDP (as exact) and NumPy (neither exact nor secure).

python benchmarks/noise.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date

import numpy as np
import opendp.prelude as dp

from _results import write_section
from queryveil.privacy.noise import Noise

DRAWS = 1_000_000


def draws_per_second(draw: Callable[[int], object], count: int = DRAWS) -> float:
    """By CPU time, after one warm-up that compiles."""
    draw(1000)
    start = time.process_time()
    draw(count)
    return count / (time.process_time() - start)


def opendp_sampler(make: Callable[..., dp.Measurement], distance: dp.Metric, scale: float) -> Callable[[int], object]:
    """OpenDP's noise on a vector of zeros."""
    measurement = make(dp.vector_domain(dp.atom_domain(T="i64")), distance, scale=scale)
    return lambda count: measurement(np.zeros(count, dtype=np.int64))


def main() -> None:
    """Measure and write the section."""
    dp.enable_features("contrib")
    ours = Noise.secure().stream("benchmark")
    numpy = np.random.default_rng()
    laplace = opendp_sampler(dp.m.make_laplace, dp.l1_distance(T="i64"), 20.0)
    gaussian = opendp_sampler(dp.m.make_gaussian, dp.l2_distance(T="f64"), 20.0)
    rows = [
        ("discrete Laplace, scale 20", lambda n: ours.discrete_laplace(20, n), laplace),
        ("discrete Gaussian, σ = 20", lambda n: ours.discrete_gaussian(20, n), gaussian),
        ("64-bit words", ours.words, lambda n: numpy.integers(0, 2**64, n, dtype=np.uint64)),
        ("permutation", ours.permutation, numpy.permutation),
    ]
    lines = ["| draw | ours, million/s | baseline, million/s | ratio | baseline |", "|---|---|---|---|---|"]
    for name, draw, baseline in rows:
        exact = "discrete" in name
        mine, theirs = draws_per_second(draw), draws_per_second(baseline, DRAWS // 5 if exact else DRAWS)
        judge = "OpenDP, exact" if exact else "NumPy, not secure"
        lines.append(f"| {name} | {mine / 1e6:.2f} | {theirs / 1e6:.2f} | {mine / theirs:.1f} | {judge} |")
    text = f"## Noise\n\n`python benchmarks/noise.py`, {date.today()}, one core, by CPU time.\n\n"
    write_section("noise", text + "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
