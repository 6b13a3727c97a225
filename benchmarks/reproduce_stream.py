"""Figures 6 to 14 and table 2 of Pàmies-Estrems and Garcia-Alfaro (2023), beside the base algorithm.

    python benchmarks/reproduce_stream.py [--log FILE] [--records N] [--full]

The paper ran on 27 million AOL records that may not be had any more; this runs on the synthetic categorised log of
`benchmarks/stream.py` (its first 200,000 records unless told otherwise) and on the AOL sample where it is there
(QUERYVEIL_DATA), so shapes can be compared, not values. Tables go to RESULTS.md, plots to benchmarks/out/.
`--full` takes all of k = 3, 10, 30, 50 … 210 and ℓ = 1 … 11.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from dataclasses import replace
from datetime import date
from pathlib import Path
from time import process_time

import altair as alt
import numpy as np
import polars as pl

from _results import write_section
from queryveil.audit.attacks.neighbours import repeated_texts, window_plurality
from queryveil.audit.attacks.profiles import halves, profile_linkage
from queryveil.audit.attacks.released_stream import ReleasedStream
from queryveil.audit.attacks.rematching import repair
from queryveil.audit.finding import Success
from queryveil.log import QueryLog, read
from queryveil.mechanisms.stream import Stream
from queryveil.mechanisms.stream import _layout as at
from queryveil.mechanisms.stream._tree import Tree
from queryveil.privacy import Noise
from reference.linked_repeats import linked_repeats, watched
from reference.ordinary_log import standard_stream
from reference.stream_survey import binomial_verdict, kolmogorov_smirnov, published_loss, survey
from stream import ROOT, blocks, categorised_log, parsed

OUT = Path(__file__).with_name("out")
ALL_K = (3, 10, *range(30, 211, 20))
SOME_K, SOME_DEPTHS = (3, 10, 30, 90, 210), (1, 2, 3, 5, 7, 9, 11)
SAMPLE = Path(os.environ.get("QUERYVEIL_DATA", ROOT.parent / "shared/data")) / "aol/aol-1017-users.tsv.gz"
PUBLISHED_MATCH = {3: 13.19, 10: 5.31, 30: 2.32, 50: 1.59, 70: 1.26, 90: 1.06, 110: 0.918, 130: 0.818, 150: 0.741,
                   170: 0.683, 190: 0.634, 210: 0.594}  # fmt: skip
AOL_COLUMNS = ("matched % simple", "matched % full", "loss %", "loss as published %", "own level %", "released %",
               "delay")  # fmt: skip
PUBLISHED_LOSS = (43.26, 34.21, 24.58, 15.32, 9.04, 5.03, 2.44, 1.07, 0.37, 0.10, 0.02)
PUBLISHED_LEFT = {"base": (22, 2899, 35004, 155779, 280851, 237149, 237945, 181947, 116852, 54647, 22924),
                  "self-adjusting": (0, 5, 48, 65, 80, 28, 11, 17, 8, 1, 0)}  # fmt: skip


def one_run(log: QueryLog, k: int, depth: int, base: bool) -> dict[str, object]:
    """One row of the grid: the anonymizer, both de-anonymizers and the surveyor."""
    made = Stream(k=k, depth=depth, mode="paper", base=base, category_column="category")
    running = made.open(Noise.seeded(1))
    before = process_time()
    parts = running.push_with_owners(log)
    seconds = process_time() - before
    stream = ReleasedStream.of(parts)
    found, published = survey(parts, len(log), stream), published_loss(stream, depth)
    own_level = np.minimum(stream.depths[stream.categories], depth)
    released_at = np.concatenate([part.depths for part in parts])
    row: dict[str, object] = {
        "algorithm": "base" if base else "self-adjusting", "k": k, "ℓ": depth, "released %": 100 * found.released_share,
        "final |Q|": found.final_size, "pool": found.pool_users, "loss %": 100 * found.loss.loss,
        "loss as published %": 100 * published.loss, "steps a record": found.loss.per_record,
        "steps as published": published.per_record, "own level %": 100 * float((released_at == own_level).mean()),
        "delay": found.delay,
        "µs per record": 1e6 * seconds / len(log), "memory MB": memory(running),
        "left": tokens_by_depth(running.tree),
    }  # fmt: skip
    for name in ("simple", "full"):
        before = process_time()
        matched = repair(stream, k=k, depth=depth, noise=Noise.seeded(2), algorithm=name)
        row |= {f"matched % {name}": 100 * matched.share, f"verdict {name}": binomial_verdict(matched, k)}
        row[f"µs {name}"] = 1e6 * (process_time() - before) / max(len(stream), 1)
    return row


def memory(running) -> float:  # type: ignore[no-untyped-def]
    """What the state takes, without the interpreter: its arrays and the texts that wait."""
    return len(running.snapshot()) / 1e6


def tokens_by_depth(tree: Tree) -> list[int]:
    """How many users wait at each depth, index 0 the root: table 2 of the paper."""
    vertices = tree.used_vertices()
    depths = tree.depths[vertices[:, at.V_CATEGORY]]
    return np.bincount(depths, weights=vertices[:, at.V_TOKENS]).astype(np.int64).tolist()


def chart(frame: pl.DataFrame, title: str, y: str, name: str, *, log_scale: bool = False) -> None:
    """Lines over ℓ, one for each k, one panel for each algorithm."""
    scale = alt.Scale(type="log") if log_scale else alt.Scale(zero=True)
    if log_scale:
        frame = frame.filter(pl.col(y) > 0)  # nothing was released there
    lines = (
        alt.Chart(
            alt.Data(values=frame.select("algorithm", "k", "ℓ", y).to_dicts()), title=title, width=320, height=240
        )
        .mark_line(point=True)
        .encode(
            x=alt.X("ℓ:Q", axis=alt.Axis(tickMinStep=1), title="depth ℓ"),
            y=alt.Y(f"{y}:Q", scale=scale, title=y),
            color=alt.Color("k:O", scale=alt.Scale(scheme="viridis")),
            column=alt.Column("algorithm:N", title=None),
        )
    )
    lines.save(OUT / f"{name}.svg")
    lines.save(OUT / f"{name}.png", scale_factor=1.5)


def plots(frame: pl.DataFrame) -> None:
    """One image for each figure of the paper."""
    OUT.mkdir(exist_ok=True)
    chart(frame, "Figure 6: matched by the simple de-anonymizer", "matched % simple", "fig06_simple", log_scale=True)
    chart(frame, "Figure 6: matched by the full de-anonymizer", "matched % full", "fig06_full", log_scale=True)
    chart(frame, "Figure 8: final |Q|", "final |Q|", "fig08", log_scale=True)
    chart(frame, "Figure 9 as published: steps below level ℓ only", "loss as published %", "fig09")
    chart(frame, "Utility loss, whole paths", "loss %", "fig09_whole_paths")
    chart(frame, "Figure 10: released", "released %", "fig10")
    chart(frame, "Figure 11: anonymizer", "µs per record", "fig11")
    chart(frame, "Figure 12: simple de-anonymizer", "µs simple", "fig12_simple")
    chart(frame, "Figure 12: full de-anonymizer", "µs full", "fig12_full")
    chart(frame, "Figure 13: delay", "delay", "fig13", log_scale=True)
    chart(frame, "Figure 14: state kept in memory", "memory MB", "fig14", log_scale=True)


def test_of_figure_7(flat: list[dict[str, object]]) -> str:
    """Matched shares at ℓ = 1 against 1/k, as the paper tests them and as it should."""
    rows = [row for row in flat if row["k"] != 3]
    test = kolmogorov_smirnov([float(row["matched % full"]) / 100 for row in rows], [1 / int(row["k"]) for row in rows])  # type: ignore[arg-type,call-overload]
    above = [str(row["k"]) for row in flat if row["verdict full"] == "above"]
    return (
        f"Figure 7, Kolmogorov–Smirnov over {len(rows)} values of k at ℓ = 1: D = {test.distance:.2f}, "
        f"p = {test.exact:.4f} (paper: 0.18, 0.9971; such a test cannot reject below D = 7/11). Exact binomial verdict "
        f"per k: above 1/k for k = {', '.join(above) or 'none'}."
    )


def table(headers: list[str], rows: list[list[object]]) -> list[str]:
    told = ["| " + " | ".join(header.replace("|", "\\|") for header in headers) + " |", "|" + "---|" * len(headers)]
    for row in rows:
        told.append("| " + " | ".join(f"{v:,.2f}" if isinstance(v, float) else f"{v}" for v in row) + " |")
    return told


def attacks() -> list[str]:
    """The gates on the stated stream: A0 to A3, paper beside safe."""
    log = standard_stream()
    raw = {u: i for i, u in enumerate(log.frame["user"].unique(maintain_order=True))}
    people = np.array([raw[u] for u in log.frame["user"]])
    rows: list[list[object]] = []
    for k in (3, 10, 30):
        for mode in ("paper", "safe"):
            # mix = 1: the attackers see the order of release, which a live stream in safe mode shuffles
            made = Stream(k=k, depth=1, k_text=3, window=20_000, mix=1, mode=mode, category_column="category")
            running = made.open(Noise.seeded(1))
            parts = running.push_with_owners(log)
            through = len(log) - running.suppressed - running.withheld
            parts += running.finish_with_owners()
            stream = ReleasedStream.of(parts)
            excluded = mode == "paper"
            a0 = max(
                (repair(stream, k=k, depth=1, noise=Noise.seeded(2), algorithm=a, owner_excluded=excluded)
                 for a in ("simple", "full")), key=lambda s: s.share)  # fmt: skip
            a1 = max(window_plurality(stream, depth=1, owner_excluded=excluded).values(), key=lambda s: s.share)
            a2 = repeated_texts(stream, depth=1)
            a3 = profile_linkage(stream.receivers, stream.at_depth(1), halves(len(stream)))
            delay = float(np.concatenate([part.delays for part in parts]).mean())
            rows.append([
                k, mode, f"{100 / k:.2f} %", share(a0), share(a1), f"{a2.right} of {a2.eligible}",
                repeats_linked(replace(made, mix=1000), log) if mode == "safe" else "not counted", share(a3),
                f"{100 / max(a3.tried, 1):.2f} %", f"{100 * len(stream) / through:.1f} %",
                f"{100 * (1 - through / len(log)):.1f} %", f"{delay:,.0f}",
            ])  # fmt: skip
    top = log.frame["category"].str.split(": ").list.first().rank("dense").cast(pl.Int64).to_numpy()
    on_raw = profile_linkage(people, top, halves(len(log)))
    headers = ["k", "mode", "1/k", "A0", "A1", "A2", "linked repeats", "A3", "A3 by chance",
               "released of those that meet k_text", "withheld by k_text", "delay"]  # fmt: skip
    return [
        f"Attacks on the stated stream ({len(log):,} records, {len(raw)} people, a quarter of the records personal "
        "texts that come back, bursts), ℓ = 1, k_text = 3, window 20,000, cap 3; shares with the upper bound of their "
        "exact 95 % interval. The end of the stream is handed out; A0 to A2 see the order of release (mix = 1). "
        "*Linked repeats*: pairs of a pseudonym and a text whose pools have one person in common, and how many of them "
        "are mostly that person's, by somebody who knows every pool; 1/(k+1) is allowed. Only safe mode counts owners. "
        f"A3 on the raw log: {share(on_raw)}.",
        "",
        *table(headers, rows),
    ]


def repeats_linked(made: Stream, log: QueryLog) -> str:
    """The attack that rules out sticky receivers, on what safe mode releases."""
    found = linked_repeats(*watched(made, log, Noise.seeded(1)))
    return f"{found.right} of {found.tried}: {share(found)}" if found.measured else "no such pair"


def share(success: Success) -> str:
    return f"{100 * success.share:.2f} % (≤ {100 * success.at_most:.2f} %)"


def wrong_guesses(log: QueryLog) -> list[str]:
    """The full de-anonymizer with a wrong k or depth."""
    made = Stream(k=10, depth=3, mode="paper", category_column="category")
    stream = ReleasedStream.of(made.observe(log, Noise.seeded(1)))
    rows = []
    for k in (3, 10, 30):
        found = [repair(stream, k=k, depth=d, noise=Noise.seeded(2)) for d in (1, 3, 5)]
        rows.append([f"k = {k}", *(f"{100 * success.share:.2f} %" for success in found)])
    return ["Full de-anonymizer on k = 10, ℓ = 3 with right and wrong guesses:", "",
            *table(["guess", "ℓ = 1", "ℓ = 3", "ℓ = 5"], rows)]  # fmt: skip


def aol_sample() -> list[str]:
    """The same shapes on real queries, categorised by WordNet; counts and shares only."""
    if not SAMPLE.is_file():
        return ["The AOL sample is not there (QUERYVEIL_DATA)."]
    log = read(SAMPLE, format="aol")
    log = QueryLog(log.frame.sort("time", maintain_order=True))
    made = Stream()
    paths = made.categories(log)
    known = QueryLog(log.frame.with_columns(paths.alias("category")).filter(paths.is_not_null()))
    rows: list[list[object]] = []
    for k, depth in ((3, 1), (3, 3), (3, 5), (3, 7), (3, 9), (3, 11), (10, 1), (30, 1), (30, 5), (30, 9)):
        row = one_run(known, k, depth, base=False)
        rows.append([k, depth, *(row[n] for n in AOL_COLUMNS)])
    return [
        f"AOL sample, WordNet categories: {len(known):,} of {len(log):,} records have one "
        f"({100 * len(known) / len(log):.0f} %).",
        "",
        *table(["k", "ℓ", *AOL_COLUMNS], rows),
    ]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--log", type=Path)
    arguments.add_argument("--records", type=int, default=200_000)
    arguments.add_argument("--full", action="store_true")
    given = arguments.parse_args()
    source = given.log or categorised_log(Path(tempfile.gettempdir()))
    frames, have = [], 0
    for content in blocks(source):
        frames.append(parsed(content))
        have += frames[-1].height
        if have >= given.records:
            break
    log = QueryLog(pl.concat(frames)[: given.records])
    one_run(QueryLog(log.frame[:2000]), 3, 2, base=False)  # compile
    ks, depths = (ALL_K, range(1, 12)) if given.full else (SOME_K, SOME_DEPTHS)
    grid = []
    for base in (False, True):
        for k in ks:
            for depth in depths:
                grid.append(one_run(log, k, depth, base))
            print(f"{'base' if base else 'self-adjusting'} k = {k} done", flush=True)
    flat = [row for row in grid if row["ℓ"] == 1 and row["algorithm"] == "self-adjusting"]
    flat += [one_run(log, k, 1, base=False) for k in ALL_K if k not in ks]
    flat.sort(key=lambda row: int(row["k"]))  # type: ignore[call-overload]
    plots(pl.DataFrame([{n: v for n, v in row.items() if n != "left"} for row in grid]))
    lines = [
        "## Stream: the paper's figures",
        "",
        f"{date.today()}, Python {platform.python_version()}, `python benchmarks/reproduce_stream.py"
        f"{' --full' if given.full else ''}`, {len(log):,} records of the synthetic categorised log (published values: "
        "27 million AOL records; compare shapes). Plots in benchmarks/out/.",
        "",
        "Figure 6 at ℓ = 1 (full de-anonymizer), matched % and whether it is below 1/k beyond chance:",
        "",
        *table(["k", "matched %", "100/k", "verdict", "published matched %"],
               [[r["k"], r["matched % full"], 100 / int(r["k"]), r["verdict full"], PUBLISHED_MATCH[int(r["k"])]]  # type: ignore[call-overload]
                for r in flat]),
        "",
        test_of_figure_7(flat),
        "",
        "By depth, k = 3 (figures 6, 8, 9, 10, 11, 13, 14; base algorithm in brackets). *final |Q|*: queries in the "
        "vertex a query left; *pool*: distinct users in the pool it was drawn from (the published final |Q| is 3.4 at "
        "ℓ = 1 and 3.1 at ℓ = 11). *loss %*: whole paths, over the way through the root. *loss as published %*: steps "
        "inside the first ℓ levels not counted, over the way through the root to level 13 (docs/stream.md says why "
        "this is what figure 9 shows). *own level %*: released at its own category of level ℓ.",
        "",
        *by_depth(grid, depths),
        "",
        "By k at ℓ = 5 (self-adjusting):",
        "",
        *table(["k", "matched %", "final |Q|", "pool", "loss %", "loss as published %", "released %", "delay",
                "µs per record"],
               [[r["k"], r["matched % full"], r["final |Q|"], r["pool"], r["loss %"], r["loss as published %"],
                 r["released %"], r["delay"], r["µs per record"]]
                for r in grid if r["ℓ"] == 5 and r["algorithm"] == "self-adjusting"]),
        "",
        "Table 2, users left per level at k = 3, ℓ = 11:",
        "",
        *left_over(grid),
        "",
        *attacks(),
        "",
        *wrong_guesses(log),
        "",
        *aol_sample(),
    ]  # fmt: skip
    write_section("reproduce_stream", "\n".join(lines))
    print("\n".join(lines))


def by_depth(grid: list[dict[str, object]], depths: object) -> list[str]:
    columns = [
        "matched % simple",
        "matched % full",
        "final |Q|",
        "pool",
        "loss %",
        "loss as published %",
        "own level %",
        "released %",
        "delay",
        "µs per record",
        "memory MB",
    ]
    rows: list[list[object]] = []
    for depth in depths:  # type: ignore[attr-defined]
        new, old = (
            next(r for r in grid if (r["k"], r["ℓ"], r["algorithm"]) == (3, depth, name))
            for name in ("self-adjusting", "base")
        )
        rows.append([depth, *(f"{new[c]:,.2f} ({old[c]:,.2f})" for c in columns), PUBLISHED_LOSS[depth - 1]])
    return table(["ℓ", *columns, "published loss %"], rows)


def left_over(grid: list[dict[str, object]]) -> list[str]:
    left = {str(r["algorithm"]): r["left"] for r in grid if (r["k"], r["ℓ"]) == (3, 11)}
    rows: list[list[object]] = []
    for level in range(1, 12):
        here = [counts[level] if level < len(counts) else 0 for counts in (left["base"], left["self-adjusting"])]  # type: ignore[arg-type,index]
        rows.append([level, *here, PUBLISHED_LEFT["base"][level - 1], PUBLISHED_LEFT["self-adjusting"][level - 1]])
    return table(["level", "base", "self-adjusting", "published base", "published self-adjusting"], rows)


if __name__ == "__main__":
    main()
