"""The experiments of Hong et al. (2012), section 6, on a synthetic log of the paper's size and on the AOL sample.

    python benchmarks/reproduce_hong.py      tables to RESULTS.md, plots to benchmarks/out/hong-*.png

The printed sizes are shown beside the cap n·b that the paper's own constraints impose and that they exceed; so |O| is
not 3,000 to 8,000 here but the same shares of the greatest size. The patterns are what can be compared.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

from _click_logs import aol_sample, paper_sized
from _results import write_section
from queryveil.audit.measures import clicks
from queryveil.mechanisms.sanitize import blocks, diversity, linear, objectives
from queryveil.mechanisms.sanitize.constraints import Constraints, limit
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.packing import PackingProgram
from queryveil.mechanisms.sanitize.sanitization import shared_counts
from queryveil.privacy import Noise
from reference.exact_diversity import most_diverse

OUT = Path(__file__).with_name("out")
E_TO_EPSILON = (1.001, 1.01, 1.1, 1.4, 1.7, 2.0, 2.3)
DELTAS = (1e-4, 1e-3, 1e-2, 0.1, 0.2, 0.5, 0.8)
SUPPORTS = (1 / 1000, 1 / 750, 1 / 500, 1 / 250, 1 / 100)
SIZES_PRINTED = (3000, 4000, 5000, 6000, 7000, 8000)
LARGEST_PRINTED = 13088
TABLE_4 = {
    1.001: (3759, 4007, 4007, 4007, 4007, 4007, 4007),
    1.01: (3759, 4007, 4879, 4879, 4879, 4879, 4879),
    1.1: (3759, 4007, 4891, 8382, 8382, 8382, 8382),
    1.4: (3759, 4007, 4891, 8874, 10445, 11419, 11419),
    1.7: (3759, 4007, 4891, 8874, 10445, 12438, 12438),
    2.0: (3759, 4007, 4891, 8874, 10445, 13088, 13088),
    2.3: (3759, 4007, 4891, 8874, 10445, 13088, 13901),
}
SEARCH_SECONDS = 8.0
OUTPUTS = 10


@dataclass(frozen=True)
class Experiment:
    """One log, all experiments."""

    name: str
    counts: ClickCounts

    @cached_property
    def per_unit(self) -> linear.LinearAnswer:
        """The greatest size at b = 1; every other b scales it."""
        return linear.greatest_size(Constraints.of(self.counts, 1.0))

    def at(self, b: float) -> Constraints:
        return Constraints.of(self.counts, b)

    def whole_size(self, b: float, rounding: objectives.Rounding) -> int:
        return int(objectives.rounded(self.at(b), self.per_unit.x * b, rounding).sum())

    def searched_size(self, b: float) -> int:
        start = objectives.greatest_size(self.at(b))
        return objectives.searched_size(self.at(b), Noise.seeded(1), start).size

    def describe(self) -> str:
        c = self.counts
        return f"{c.users:,} users, {c.pairs:,} shared pairs, |D| = {c.total:,}"

    def sizes(self) -> pl.DataFrame:
        rows = []
        for e, printed in TABLE_4.items():
            for delta, paper in zip(DELTAS, printed, strict=True):
                b = limit(epsilon=math.log(e), delta=delta)
                rows.append((e, delta, b, self.per_unit.value * b, self.counts.users * b, 1980 * b, paper))
        columns = ["e", "delta", "b", "relaxed", "cap", "cap of the paper's log", "printed"]
        frame = pl.DataFrame(rows, schema=columns, orient="row")
        bs = frame["b"].unique().to_list()
        floor = {b: self.whole_size(b, "floor") for b in bs}
        filled = {b: self.whole_size(b, "fill") for b in bs}
        searched = {b: self.searched_size(b) for b in bs}
        return frame.with_columns(
            pl.col("b").replace_strict(sizes, return_dtype=pl.Int64).alias(name)
            for name, sizes in (("floor", floor), ("filled", filled), ("whole", searched))
        )

    def frequent(self, b: float, size: int, support: float) -> clicks.ClickUtility:
        optimum = objectives.closest_supports(self.at(b), size=size, support=support)
        return clicks.measure(self.counts.totals(), optimum.x, support=support)

    def frequent_by_budget(self, support: float) -> pl.DataFrame:
        """Figure 3 (a), (b): |O| is what whole numbers allow, up to the paper's share of the greatest size."""
        reference = round(3000 / LARGEST_PRINTED * self.per_unit.value * math.log(2))
        done: dict[float, tuple[float, float, int]] = {}
        rows = []
        for e in E_TO_EPSILON:
            for delta in DELTAS:
                b = limit(epsilon=math.log(e), delta=delta)
                if b not in done:
                    size = min(reference, self.whole_size(b, "fill"))
                    if size:
                        u = self.frequent(b, size, support)
                        done[b] = (u.recall, u.support_distance.total, size)
                    else:
                        frequent = clicks.is_frequent(self.counts.totals(), support)
                        done[b] = (0.0, float(self.counts.supports()[frequent].sum()), 0)
                rows.append((e, delta, b, *done[b]))
        return pl.DataFrame(rows, schema=["e", "delta", "b", "recall", "distance", "size"], orient="row")

    def frequent_by_size(self) -> pl.DataFrame:
        """Tables 5 and 6 and Figure 3 (c) at e^ε = 2, δ = 0.5."""
        b = math.log(2)
        rows = []
        for support in SUPPORTS:
            for printed in SIZES_PRINTED:
                size = max(1, round(printed / LARGEST_PRINTED * self.per_unit.value * b))
                relaxed = objectives.closest_supports(self.at(b), size=size, support=support).relaxed
                frequent = clicks.is_frequent(self.counts.totals(), support)
                least = float(self.counts.supports()[frequent].sum()) - relaxed.value
                u = self.frequent(b, size, support)
                rows.append((support, printed, size, u.recall, u.precision, least, least / frequent.sum(), u.size))
        columns = ["support", "printed", "size", "recall", "precision", "distance", "average", "whole"]
        return pl.DataFrame(rows, schema=columns, orient="row")

    def diversities(self) -> pl.DataFrame:
        """Table 7 (a) and Figure 4: pairs kept at e^ε = 2 by δ."""
        rows = []
        for delta in DELTAS[1:]:
            constraints = self.at(limit(epsilon=math.log(2), delta=delta))
            best = most_diverse(constraints, Noise.seeded(1), seconds=SEARCH_SECONDS)
            kept = {
                "SPE as printed": int(diversity.eliminate_as_printed(constraints).sum()),
                "SPE corrected": int(diversity.eliminate(constraints).sum()),
                "ours": best.value,
                "bound": best.bound,
            }
            rows += [(delta, who, n, n / self.counts.pairs) for who, n in kept.items()]
        return pl.DataFrame(rows, schema=["delta", "solver", "pairs", "share"], orient="row")

    def runtimes(self) -> pl.DataFrame:
        """Figure 5, at e^ε = 2, δ = 0.5 (at the paper's setting, δ = 10^-3, no two pairs fit)."""
        constraints = self.at(math.log(2))
        program = PackingProgram.of(constraints, distinct_queries=False)
        work = {
            "SPE as printed": lambda: diversity.eliminate_as_printed(constraints),
            "SPE corrected": lambda: diversity.eliminate(constraints),
            "linear program with cuts, rounded": lambda: program.rounded(program.relaxation()[0]),
            "with local search": lambda: diversity.reproducibly_diverse(constraints, Noise.seeded(1)).y,
        }
        rows = []
        for name, solve in work.items():
            started = time.process_time()
            rows.append((name, int(solve().sum()), time.process_time() - started))
        return pl.DataFrame(rows, schema=["solver", "pairs", "seconds"], orient="row")

    def ratios(self) -> pl.DataFrame:
        """Figure 6: DiffRatio of the triplets of frequent pairs, averaged over outputs, at two sizes."""
        b, support, rows = math.log(2), 1 / 500, []
        frequent = clicks.is_frequent(self.counts.totals(), support)
        triplets = np.flatnonzero(frequent[self.counts.pair])
        for printed in (4000, 6000):
            size = max(1, round(printed / LARGEST_PRINTED * self.per_unit.value * b))
            x = objectives.closest_supports(self.at(b), size=size, support=support).x
            histogram = np.zeros(len(clicks.EDGES))
            for seed in range(OUTPUTS):
                drawn = blocks.sample_users(self.counts, x, Noise.seeded(seed).stream("users"))
                cell = drawn.pair * self.counts.users + drawn.user
                mine = self.counts.pair * self.counts.users + self.counts.user
                sampled = np.zeros(len(mine), dtype=np.int64)
                sampled[np.searchsorted(mine, cell)] = drawn.count
                ratio = clicks.diff_ratio(
                    self.counts.count[triplets],
                    sampled[triplets],
                    given_size=self.counts.total,
                    released_size=int(x.sum()),
                )
                histogram += clicks.diff_ratio_histogram(ratio) / OUTPUTS
            labels = [f"{round(100 * e)}-{round(100 * e) + 10} %" for e in clicks.EDGES[:-1]] + ["> 100 %"]
            rows += [(f"|O| = {size}", k, label, n) for k, (label, n) in enumerate(zip(labels, histogram, strict=True))]
        return pl.DataFrame(rows, schema=["size", "bin", "ratio", "triplets"], orient="row")


def grid(frame: pl.DataFrame, cell: str) -> list[str]:
    """A Markdown table e^ε × δ."""
    lines = ["| e^ε \\ δ | " + " | ".join(f"{d:g}" for d in DELTAS) + " |", "|---" * (len(DELTAS) + 1) + "|"]
    for (e,), rows in frame.group_by("e", maintain_order=True):
        lines.append(f"| {e:g} | " + " | ".join(cell.format(**row) for row in rows.iter_rows(named=True)) + " |")
    return lines


def by_support(frame: pl.DataFrame, cell: str) -> list[str]:
    sizes = frame["size"].unique(maintain_order=True).to_list()
    lines = ["| s \\ \\|O\\| | " + " | ".join(str(s) for s in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
    for (support,), rows in frame.group_by("support", maintain_order=True):
        cells = " | ".join(cell.format(**row) for row in rows.iter_rows(named=True))
        lines.append(f"| 1/{round(1 / support)} | {cells} |")
    return lines


def plots(experiment: Experiment, tables: dict[str, pl.DataFrame]) -> None:
    slug = "aol" if "AOL" in experiment.name else "synthetic"

    def save(name: str, chart: alt.TopLevelMixin) -> None:
        chart.save(OUT / f"hong-{slug}-{name}.png", scale_factor=2)

    sizes = tables["sizes"].filter(pl.col("e") == 2.0)
    long = sizes.select("delta", printed="printed", cap="cap of the paper's log", ours="whole", relaxed="relaxed")
    long = long.unpivot(index="delta", variable_name="what").with_columns(value=pl.col("value").clip(lower_bound=0.01))
    names = {
        "printed": "printed in the paper",
        "cap": "cap n·b of the paper's log",
        "relaxed": "here: relaxed",
        "ours": "here: whole",
    }
    long = long.with_columns(what=pl.col("what").replace_strict(names))
    save(
        "size",
        alt.Chart(long, width=420, height=280, title=f"Greatest output size at e^ε = 2, {experiment.name}")
        .mark_line(point=True)
        .encode(
            x=alt.X("delta:Q", scale=alt.Scale(type="log"), title="δ", axis=alt.Axis(values=list(DELTAS), format="~g")),
            y=alt.Y("value:Q", scale=alt.Scale(type="log"), title="records (0 drawn at 0.01)"),
            color=alt.Color("what:N", title=None, sort=list(names.values())),
        ),
    )
    budget = tables["budget"].with_columns(epsilon=pl.format("e^ε = {}", pl.col("e")))
    x = alt.X("delta:Q", scale=alt.Scale(type="log"), title="δ", axis=alt.Axis(values=list(DELTAS), format="~g"))
    base = alt.Chart(budget, width=300, height=240).mark_line(point=True)
    color = alt.Color("epsilon:N", title=None, sort=[f"e^ε = {e}" for e in E_TO_EPSILON])
    save(
        "frequent",
        alt.hconcat(
            base.encode(x=x, y=alt.Y("recall:Q", title="recall"), color=color).properties(title="Recall"),
            base.encode(x=x, y=alt.Y("distance:Q", title="sum of support distances"), color=color).properties(
                title="Sum of support distances"
            ),
            title=f"Frequent pairs, s = 1/500, {experiment.name}",
        ),
    )
    by_size = tables["by_size"].with_columns(s=pl.format("1/{}", (1 / pl.col("support")).round().cast(pl.Int64)))
    color = alt.Color("s:N", title="s", sort=["1/1000", "1/750", "1/500", "1/250", "1/100"])
    base = alt.Chart(by_size, width=300, height=240).mark_line(point=True)
    save(
        "support",
        alt.hconcat(
            base.encode(x=alt.X("size:Q", title="|O|"), y=alt.Y("distance:Q", title="sum"), color=color).properties(
                title="Sum of support distances"
            ),
            base.encode(x=alt.X("size:Q", title="|O|"), y=alt.Y("average:Q", title="average"), color=color).properties(
                title="Average support distance"
            ),
            title=f"e^ε = 2, δ = 0.5, {experiment.name}",
        ),
    )
    save(
        "diversity",
        alt.Chart(tables["diversity"], width=420, height=280, title=f"Distinct pairs at e^ε = 2, {experiment.name}")
        .mark_line(point=True)
        .encode(
            x=x,
            y=alt.Y("share:Q", title="share of pairs kept", axis=alt.Axis(format="%")),
            color=alt.Color("solver:N", title=None, sort=["bound", "ours", "SPE corrected", "SPE as printed"]),
            strokeDash=alt.condition("datum.solver == 'bound'", alt.value([3, 3]), alt.value([1, 0])),
        ),
    )
    save(
        "runtime",
        alt.Chart(tables["runtime"], width=380, height=160, title=f"CPU seconds for D-UMP, {experiment.name}")
        .mark_bar()
        .encode(
            x=alt.X("seconds:Q", scale=alt.Scale(type="symlog", constant=0.01), title="CPU seconds"),
            y=alt.Y("solver:N", title=None, sort=None, axis=alt.Axis(labelLimit=260)),
            tooltip=["pairs:Q"],
        ),
    )
    ratios = alt.Chart(tables["ratios"], width=300, height=220).mark_bar()
    sizes_in_order = tables["ratios"]["size"].unique(maintain_order=True).to_list()
    order = tables["ratios"].filter(pl.col("size") == tables["ratios"]["size"][0])["ratio"].to_list()
    save(
        "ratios",
        ratios.encode(
            x=alt.X("ratio:N", sort=order, title="difference ratio"),
            y=alt.Y("triplets:Q", title="triplets, on average"),
            column=alt.Column("size:N", sort=sizes_in_order, title=f"Triplets of frequent pairs, {experiment.name}"),
        ),
    )


def section(experiment: Experiment) -> str:
    tables = {
        "sizes": experiment.sizes(),
        "budget": experiment.frequent_by_budget(1 / 500),
        "by_size": experiment.frequent_by_size(),
        "diversity": experiment.diversities(),
        "runtime": experiment.runtimes(),
        "ratios": experiment.ratios(),
    }
    plots(experiment, tables)
    diversities = tables["diversity"].pivot("delta", index="solver", values="pairs")
    runtimes = [f"{r['solver']} {r['seconds']:.2f} s ({r['pairs']})" for r in tables["runtime"].iter_rows(named=True)]
    ratios = tables["ratios"]
    below = ratios.filter(pl.col("bin") < 4).group_by("size", maintain_order=True).agg(pl.col("triplets").sum())
    total = dict(ratios.group_by("size").agg(pl.col("triplets").sum()).iter_rows())
    shares = [f"{size}: {100 * n / total[size]:.1f} % of triplets below 40 %" for size, n in below.iter_rows()]
    precisions = tables["by_size"]["precision"]
    return "\n".join(
        [
            f"### {experiment.name}: {experiment.describe()}",
            "",
            "Table 4, greatest size: whole (relaxed) here, cap n·b here; printed in the paper.",
            "",
            *grid(tables["sizes"], "{whole} ({relaxed:.1f}), cap {cap:.1f}; {printed}"),
            "",
            f"Rounding down alone leaves {tables['sizes']['floor'].max()} of {tables['sizes']['relaxed'].max():.0f} at "
            f"the largest b; filling up reaches {tables['sizes']['filled'].max()}, local search "
            f"{tables['sizes']['whole'].max()}.",
            "",
            "Figure 3 (a, b), s = 1/500: recall, sum of support distances, |O|.",
            "",
            *grid(tables["budget"], "{recall:.2f}, {distance:.3f}, {size}"),
            "",
            "Table 5, recall at e^ε = 2, δ = 0.5 (|O| are the paper's shares of the greatest size).",
            "",
            *by_support(tables["by_size"], "{recall:.3f}"),
            "",
            "Table 6, least sum of support distances (average).",
            "",
            *by_support(tables["by_size"], "{distance:.4f} ({average:.5f})"),
            "",
            f"Precision is between {precisions.min():.3f} and {precisions.max():.3f}, not always 1 as the paper says.",
            "",
            "Table 7 (a), distinct pairs at e^ε = 2 by δ:",
            "",
            "| | " + " | ".join(f"{d:g}" for d in DELTAS[1:]) + " |",
            "|---" * len(DELTAS) + "|",
            *(f"| {row[0]} | " + " | ".join(str(n) for n in row[1:]) + " |" for row in diversities.iter_rows()),
            "",
            "Figure 5, CPU time (pairs kept): " + "; ".join(runtimes) + ".",
            "",
            "Figure 6: "
            + "; ".join(shares)
            + f". An output of some hundred records out of {experiment.counts.total:,} "
            "clicks leaves most triplets without any, which is a ratio of 100 %.",
            "",
            "Patterns of the paper that show: size and recall do not fall as ε or δ grow, and stay constant once "
            "ε > ln 1/(1−δ); distances grow with |O|; SPE is fastest. Patterns that do not: the average distance does "
            "not grow as s falls; difference ratios do not move left, because outputs this small are mostly zeros.",
        ]
    )


def main() -> None:
    OUT.mkdir(exist_ok=True)
    experiments = [Experiment("Synthetic log", paper_sized())]
    sample = aol_sample()
    if sample is not None:
        experiments.append(Experiment("AOL sample (query and rank)", shared_counts(sample)))
    text = [
        "## Hong et al. (2012), section 6",
        "",
        f"`python benchmarks/reproduce_hong.py`, {datetime.now(UTC).date().isoformat()}. The printed sizes cannot come "
        "from the paper's constraints: summing all users' constraints gives Σx ≤ n·b, b = min(ε, ln 1/(1−δ)), and the "
        "paper's n is 1,980 (docs/sanitize.md). The relaxed optimum is exactly proportional to b; the printed one is "
        "not.",
    ]
    for experiment in experiments:
        text += ["", section(experiment)]
    write_section("reproduce_hong", "\n".join(text))


if __name__ == "__main__":
    main()
