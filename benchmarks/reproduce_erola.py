"""Figures 2, 3 and 4 of Erola et al. (2011) on synthetic users and the AOL sample, with WordNet and the Open Directory.

    python benchmarks/reproduce_erola.py

Needs the shared sample data (QUERYVEIL_DATA) for the AOL users and the Open Directory; without it only synthetic users
and WordNet are shown. Writes its section of RESULTS.md and plots to benchmarks/out/. Only shares and times are written.
"""

from __future__ import annotations

import os
import platform
import tempfile
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import process_time
from typing import Any

import altair as alt
import numpy as np
import polars as pl

from _results import write_section
from queryveil.audit.measures.srp import attribution, release_srp, srp
from queryveil.knowledge.categories import Classifier, load_classifier
from queryveil.knowledge.odp import import_directory
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms.microaggregate import Microaggregate, partition
from queryveil.mechanisms.microaggregate.profiles import CountedLog, Profiles, Vocabulary
from queryveil.privacy import Noise
from reference.group_baselines import mdav_groups, paper_logs, random_groups

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("QUERYVEIL_DATA", ROOT.parent / "shared/data"))
OUT = Path(__file__).with_name("out")
GROUP_SIZES = (2, 3, 4, 5)
LEVELS = 5
DEEPEST = 10


@dataclass(frozen=True)
class World:
    """A log with what its words mean."""

    name: str
    log: QueryLog
    source: str

    @property
    def classifier(self) -> Classifier:
        return load_classifier(self.source)

    def vocabulary(self, counted: CountedLog, categories: int, levels: int = LEVELS) -> Vocabulary:
        return Vocabulary.of(counted.texts, self.classifier, categories=categories, levels=levels)


def worlds() -> list[World]:
    found = [World("synthetic, WordNet", synth(users=1017, records=92_856), "wordnet")]
    sample, directory = DATA / "aol/aol-1017-users.tsv.gz", DATA / "odp"
    if sample.exists() and directory.is_dir():
        index = Path(tempfile.mkdtemp()) / "sample.odp"
        import_directory([directory / "categories.tsv", directory / "pages.tsv"], index)
        raw = pl.read_csv(sample, separator="\t", quote_char=None, infer_schema=False)
        log = QueryLog(raw.select(user="AnonID", query="Query").filter(pl.col("query") != ""))
        found += [World("AOL, WordNet", log, "wordnet"), World("AOL, Open Directory", log, str(index))]
    return found


def figure_2(world: World) -> list[dict[str, Any]]:
    """The share of queries with a term that is filed at least so deep, of those with any category."""
    counted = CountedLog.of(world.log.frame)
    vocabulary = world.vocabulary(counted, 1, DEEPEST)
    term_depth = np.zeros(len(vocabulary.term_categories), np.int32)
    term_depth[vocabulary.term_categories.owners()] = world.classifier.tree.depths[vocabulary.term_categories.values]
    depth = np.zeros(len(counted.texts), np.int32)
    np.maximum.at(depth, vocabulary.text_terms.owners(), term_depth[vocabulary.text_terms.values])
    records = np.bincount(counted.pair_texts, counted.pair_counts, len(counted.texts))
    filed = records[depth > 0].sum()
    return [
        {"log": world.name, "level": level, "share": float(records[depth >= level].sum() / filed)}
        for level in range(1, DEEPEST + 1)
    ] + [{"log": world.name, "level": 0, "share": float(filed / records.sum())}]


def published(world: World, counted: CountedLog, groups: Any, categories: int) -> tuple[Profiles, Profiles, Any]:
    """Profiles of the users in groups, before and after the paper's aggregation."""
    vocabulary = world.vocabulary(counted, categories)
    shared = paper_logs(counted, groups, Noise.seeded(2).stream("records"))
    names = pl.Series([str(group) for group in range(int(groups.max()) + 1)])
    by_group = CountedLog(names, counted.texts, shared.groups, shared.texts, shared.copies)
    kept = np.flatnonzero(groups >= 0)
    return vocabulary.profiles(counted).take(kept), vocabulary.profiles(by_group).take(groups[kept]), vocabulary


def figure_3(world: World) -> list[dict[str, Any]]:
    """SRP by group size and level; groups by one or five categories, each measured by as many and also by one."""
    counted = CountedLog.of(world.log.frame)
    rows = []
    for k in GROUP_SIZES:
        ways = {}
        for categories in (1, 5):
            profiles = world.vocabulary(counted, categories).profiles(counted)
            name = "one category" if categories == 1 else "five categories"
            ways[name] = (partition.greedy(profiles, k), categories)
            if categories == 5:
                ways["five, measured by one"] = (ways[name][0], 1)
                ways["MDAV"] = (mdav_groups(profiles, k), 5)
                ways["random"] = (random_groups(len(counted.users), k, Noise.seeded(1)), 5)
        for name, (groups, categories) in ways.items():
            before, after, vocabulary = published(world, counted, groups, categories)
            remain = srp(before, after, depths=vocabulary.tree.depths, levels=LEVELS)
            for level in range(LEVELS):
                shares = {"srp": remain.by_level[level], "cumulative": remain.cumulative[level]}
                shares["pooled"] = remain.pooled[level]
                rows.append({"log": world.name, "k": k, "groups": name, "level": level + 1, **shares})
    return rows


def figure_4(world: World) -> list[dict[str, Any]]:
    """CPU seconds after classification, against the number of records and the levels used."""
    users = world.log.users()
    rows = []
    for share in (0.25, 0.5, 0.75, 1.0):
        some = QueryLog(world.log.frame.filter(pl.col("user").is_in(users.head(round(share * len(users))).implode())))
        counted = CountedLog.of(some.frame)
        for categories in (1, 5):
            for levels in range(1, LEVELS + 1) if share == 1 else (LEVELS,):
                vocabulary = world.vocabulary(counted, categories, levels)
                times = []
                for k in GROUP_SIZES:
                    spent = []
                    for _ in range(3):
                        begin = process_time()
                        groups = partition.greedy(vocabulary.profiles(counted), k)
                        paper_logs(counted, groups, Noise.seeded(k).stream("records"))
                        spent.append(process_time() - begin)
                    times.append(min(spent))
                way = "one category" if categories == 1 else "five categories"
                seconds = float(np.mean(times))
                rows.append({"log": world.name, "records": len(some), "levels": levels, "way": way, "seconds": seconds})
    return rows


def both_modes(world: World) -> list[str]:
    """SRP and attribution of whole releases."""
    lines = []
    for k in GROUP_SIZES:
        for mode in ("paper", "safe"):
            mechanism = Microaggregate(k=k, mode=mode, classifier=world.source)  # type: ignore[arg-type]
            release = mechanism.protect(world.log, Noise.seeded(3))
            remain = release_srp(world.log, release.log, release.members, world.classifier)
            seen = attribution(world.log, release.log, release.owners)
            shown = [f"{100 * share:.0f}" for share in (*remain.by_level, seen.texts_of_one_user)]
            shown += [f"{100 * share:.1f}" for share in (seen.largest_contributor, seen.largest_contributor_at_worst)]
            size = len(release.log) / len(world.log)
            lines.append(
                f"| {world.name} | {k} | {mode} | {' | '.join(shown)} | {100 * size:.0f} "
                f"| {len(release.members):,} of {world.log.user_count():,} |"
            )
    return lines


def save(chart: alt.Chart, name: str) -> None:
    OUT.mkdir(exist_ok=True)
    chart.save(OUT / f"{name}.png", scale_factor=2)


def table_3(rows: pl.DataFrame) -> list[str]:
    lines = ["| log | k | groups | 1 | 2 | 3 | 4 | 5 | 1-5 together | pooled, 1 | pooled, 5 |", "|---" * 11 + "|"]
    for (log, k, groups), part in rows.group_by("log", "k", "groups", maintain_order=True):
        shown = [
            f"{100 * share:.1f}" for share in (*part["srp"], part["cumulative"][-1], *part["pooled"].gather([0, 4]))
        ]
        lines.append(f"| {log} | {k} | {groups} | {' | '.join(shown)} |")
    return lines


def main() -> None:
    known = worlds()
    deep = pl.DataFrame([row for world in known for row in figure_2(world)])
    kept = pl.DataFrame([row for world in known for row in figure_3(world)])
    time = pl.DataFrame([row for world in known for row in figure_4(world)])
    percent = alt.Axis(format="%")
    save(
        alt.Chart(deep.filter(pl.col("level") > 0))
        .mark_line(point=True)
        .encode(alt.X("level:O"), alt.Y("share", axis=percent, title="queries filed at least so deep"), color="log")
        .properties(width=420, height=280, title="Figure 2: how deep queries are filed"),
        "erola-figure-2",
    )
    for number, world in enumerate(known):
        shown = kept.filter((pl.col("log") == world.name) & (pl.col("groups") != "five, measured by one"))
        lines = (
            alt.Chart(shown)
            .mark_line(point=True)
            .encode(alt.X("level:O"), alt.Y("srp", axis=percent, title="SRP"), color="groups")
        )
        panels = [
            (
                lines.transform_filter(alt.datum.k == k)
                + alt.Chart(pl.DataFrame({"y": [1 / k]})).mark_rule(strokeDash=[4, 4]).encode(y="y")
            ).properties(width=200, height=200, title=f"k = {k}")
            for k in GROUP_SIZES
        ]
        save(alt.hconcat(*panels).resolve_scale(y="shared").properties(title=world.name), f"erola-figure-3-{number}")
    sizes = alt.Chart(time.filter(pl.col("levels") == LEVELS)).mark_line()
    sizes = sizes.encode(alt.X("records"), alt.Y("seconds", title="CPU seconds"), color="log", strokeDash="way")
    depth = alt.Chart(time.filter(pl.col("records") == pl.col("records").max().over("log"))).mark_line()
    depth = depth.encode(alt.X("levels:O"), alt.Y("seconds", title="CPU seconds"), color="log", strokeDash="way")
    charts = [sizes.properties(width=320, height=260), depth.properties(width=220, height=260)]
    save(alt.hconcat(*charts).properties(title="Figure 4: time after classification"), "erola-figure-4")
    whole = time.filter(pl.col("levels") == LEVELS, pl.col("records") == pl.col("records").max().over("log"))
    timing = [
        f"| {log} | {one:.2f} | {five:.2f} | {five / one:.1f} |"
        for (log,), part in whole.group_by("log", maintain_order=True)
        for one, five in [part["seconds"].to_list()]
    ]
    levels = [
        f"| {world.name} | "
        + " | ".join(f"{100 * share:.0f}" for share in deep.filter(pl.col("log") == world.name).sort("level")["share"])
        + " |"
        for world in known
    ]
    release_lines = [line for world in known for line in both_modes(world)]
    text = [
        "## Erola et al. (2011) again",
        "",
        f"{date.today()}, Python {platform.python_version()}, `python benchmarks/reproduce_erola.py`; "
        + "; ".join(f"{world.name}: {world.log.user_count():,} users, {len(world.log):,} records" for world in known)
        + ". The paper's log (1,000 AOL users, 55,666 lines) and directory are not at hand: compare shapes only.",
        "",
        "Figure 2, share of records in %: with any category; of those, with one so deep (paper: 57 at level 5):",
        "",
        "| log | any | " + " | ".join(map(str, range(1, DEEPEST + 1))) + " |",
        "|---" * (DEEPEST + 2) + "|",
        *levels,
        "",
        "Figure 3, SRP in % by level, paper mode; 'measured by one' are the groups of five categories measured by one; "
        "'pooled' is the share that all users together kept:",
        "",
        *table_3(kept),
        "",
        "Figure 4, CPU seconds after classification, mean over k = 2 … 5 (paper: a ratio of three):",
        "",
        "| log | one category | five categories | ratio |",
        "|---|---|---|---|",
        *timing,
        "",
        "Whole releases, five categories, k_text = 5; shares in %. In safe ones a label counts as the words it is:",
        "",
        "| log | k | mode | SRP 1 | 2 | 3 | 4 | 5 | text of one user | largest contributor, mean | worst "
        "| records | users |",
        "|---" * 13 + "|",
        *release_lines,
    ]
    write_section("reproduce_erola", "\n".join(text))


if __name__ == "__main__":
    main()
