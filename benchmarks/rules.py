"""Today's rules for sharing search data: what they keep and whom they give away, on the AOL sample and a synthetic log.

- *The proxy*: an allowlist of public words in place of the rule's own, as in the specification: what share of records
  it keeps, how many of those are a text of one person only, and how many people have such a text.
- *Detectors*: recall and precision on the identifiers that are planted in a synthetic log with details.
- *The bench*: every rule beside distill, with the figures of `queryveil rules` (people found, names tied again, value).
- *Time* of `commission`.

python benchmarks/rules.py [--quick] [--users N] [--records N]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from importlib.util import find_spec
from pathlib import Path

import polars as pl

import queryveil
from _distill_folds import DATA
from _results import write_section
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.policies import make
from queryveil.experiments.policies.detectors import load
from queryveil.experiments.policies.steps import identified
from queryveil.experiments.rule_bench import VALUES, MeasuredRule, bench, measured
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.knowledge.word_prior import public_words
from queryveil.log import QueryLog, read
from queryveil.log.query_log import cores
from queryveil.log.synthetic import planted, synth
from queryveil.privacy import Noise
from queryveil.report.formatting import percent

SPECIFIED = (0.69, 0.86, 0.88)
MOST_WORDS = 5
TITLES = DATA.parents[1] / "odp" / "pages.tsv"
ABOUT_DETECTORS = (
    "What is planted, and what only looks like it, is by the same hands as the patterns: recall and precision here are "
    "upper limits. Precision was 36.5 % until the patterns were told of book numbers and counted things (24 hour …), "
    "with these very kinds of text in view. A *name* is one whose two parts are among the most frequent of a country, "
    "so that lists have it; a *rare name* is on no list. Titles are those of listed web sites, which identify nobody "
    "but may name somebody."
)


ABOUT_FIGURES = (
    "A dash: nobody is behind a name, or too few judge. Found: the worst of one to five known queries; by a pair: two "
    "queries asked in a row; by a name: a family name in a query. Language of the head: of texts that ten people of "
    "the log asked; of the tail: at most one."
)


MADE_APART = """
import sys
from queryveil.log.synthetic import synth
records = int(sys.argv[1])
synth(users=records // 55, records=records).frame.drop("session").write_parquet(sys.argv[2])
"""


def proxy(log: QueryLog) -> tuple[float, float, float]:
    """Records kept by public words between blanks, those of them by one person only, and people with such a text."""
    texts = log.frame.select("query").unique()
    words = pl.col("query").str.to_lowercase().str.extract_all(r"\S+")
    split = texts.with_columns(words.alias("word")).filter(pl.col("word").list.len().is_between(1, MOST_WORDS))
    allowed = split.explode("word").join(public_words().to_frame("word"), on="word", how="anti").select("query")
    kept = log.frame.join(split.join(allowed, on="query", how="anti"), on="query", how="semi")
    alone = kept.filter(pl.col("user").n_unique().over("query") == 1)
    return len(kept) / len(log), len(alone) / len(kept), alone["user"].n_unique() / log.user_count()


def detected(users: int, records: int) -> list[str]:
    """Recall of each kind and precision over the distinct texts of a synthetic log, and false alarms on public titles.

    The seed is not the one that was looked at when the detectors were written; the kinds of text are the same.
    """
    known = planted(users=users, records=records, seed=9)
    kinds = ("mail", "number", "address", "phone", "name", "rare name")
    heads = [*kinds, "precision", "alarms on titles", "seconds"]
    lines = [f"| detectors | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name in ("patterns", "libraries"):
        start = time.perf_counter()
        found = pl.Series(list(identified(known["query"], load(name))), dtype=pl.String)
        seconds = time.perf_counter() - start
        judged = known.with_columns(hit=pl.col("query").is_in(found.implode()))
        recall = dict(judged.group_by("kind").agg(pl.col("hit").mean()).rows())
        right = judged.filter("hit")["kind"].is_not_null().mean()
        shares = [percent(recall[kind]) for kind in kinds]
        lines.append(f"| {name} | {' | '.join(shares)} | {percent(right)} | {alarms(name)} | {seconds:.1f} |")
    return [*lines, "", ABOUT_DETECTORS]


def alarms(detectors: str) -> str:
    """In what share of the titles of listed web sites, which are public, each kind of detector finds something."""
    if not TITLES.exists():
        return "–"
    titles = pl.read_csv(TITLES, separator="\t", quote_char=None, columns=["title"])["title"].drop_nulls().unique()
    found = identified(titles.str.to_lowercase(), load(detectors))
    kinds = Counter(kind for each in found.values() for kind in {one.kind for one in each})
    told = [f"{kind} {percent(count / len(titles))}" for kind, count in sorted(kinds.items())]
    return f"{', '.join(told) or 'none'} of {len(titles):,}"


def with_libraries() -> list[Setting]:
    """`commission` with lists of names and the other libraries, where they are installed."""
    if find_spec("faker") is None or find_spec("phonenumbers") is None:
        return []
    told = {"detectors": "libraries"}
    return [Setting(kind="rule", name="commission", parameters=told, label="commission with libraries")]


def benched_on(log: QueryLog) -> list[MeasuredRule]:
    """Every rule and what stands beside it."""
    settings = (*Sweep.beside_rules().settings, *with_libraries())

    def show(one: Outcome) -> None:
        print(f"{one.seconds:.0f} s", *table(measured(Comparison((one,))))[2:], flush=True)

    return measured(bench(log, settings, on_outcome=show))


def table(rows: list[MeasuredRule]) -> list[str]:
    """The figures of `queryveil rules`."""
    heads = ["distinct texts", "records", "head", "tail", *VALUES.values()]
    heads += ["found", "by a pair", "by a name", "names tied", "by chance"]
    lines = [f"| rule or setting | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for row in rows:
        kept = row.outcome.survival
        shares = [kept.distinct, kept.volume, kept.head, kept.tail, *(row.values.get(key) for key in VALUES)]
        tied = None if row.tied is None else row.tied.value
        names = "all, one name lasts" if row.one_name_lasts else percent(tied)
        chance = percent(None if row.tied is None else row.tied.chance)
        known = [None if one is None else one.value for one in (row.found, row.pair, row.name)]
        lines.append(f"| {row.label} | {' | '.join(map(percent, [*shares, *known]))} | {names} | {chance} |")
    return lines


def timed(records: int) -> str:
    """How long `commission` takes over a log in memory, in a sentence; other work on the machine shows in the load.

    The log has the columns of AOL's, whose size the usual number of records is, and is made by another process, so that
    the memory is that of the rule.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        subprocess.run([sys.executable, "-c", MADE_APART, str(records), str(path)], check=True)
        log = QueryLog(pl.read_parquet(path))
    start, start_cpu = time.perf_counter(), time.process_time()
    release = make("commission").protect(log, Noise.seeded(1))
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        f"`commission` takes {seconds:.0f} s for {records:,} records on {cores()} cores at a load average of "
        f"{os.getloadavg()[1]:.0f} ({cpu:.0f} s of processor time in all, {1e6 * cpu / records:.1f} s for a million) "
        f"and {memory:.1f} GiB, the log among them; it keeps {percent(len(release.log) / records)}."
    )


def benched(users: int) -> list[str]:
    """The proxy and the rules on both logs, and the detectors."""
    lines: list[str] = []
    if DATA.exists():
        aol = read(DATA)
        what = ("of records are kept", "of those are a text of one person only", "of people have such a text")
        shown = [
            f"{percent(share)} {words} (specified: {percent(said)})"
            for share, words, said in zip(proxy(aol), what, SPECIFIED, strict=True)
        ]
        words = f"An allowlist of {len(public_words()):,} public words, at most five a query, on the AOL sample: "
        lines += [f"{words}{'; '.join(shown)}.", ""]
        lines += ["### AOL sample (1,017 people)", "", *table(benched_on(aol)), ""]
    lines += [f"### Synthetic log with details ({users:,} people, {20 * users:,} records)", ""]
    lines += [*table(benched_on(synth(users=users, records=20 * users, seed=5, details=True))), ""]
    lines += [ABOUT_FIGURES, ""]
    return [*lines, "### Detectors, on planted identifiers of a synthetic log", "", *detected(users, 20 * users), ""]


def main() -> None:
    """Measure, and write the sections."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small synthetic logs, and nothing is written")
    parser.add_argument("--users", type=int, default=100_000, help="people of the synthetic log")
    parser.add_argument("--records", type=int, default=36_000_000, help="records that are timed")
    parser.add_argument("--only", choices=("bench", "time"), help="one of the two sections")
    given = parser.parse_args()
    users, records = (1000, 200_000) if given.quick else (given.users, given.records)
    about = f"{date.today():%d %B %Y}, {cores()} cores, queryveil {queryveil.__version__}."
    sections: dict[str, list[str]] = {}
    if given.only != "time":
        told = f"`python benchmarks/rules.py --users {users}`, {about}"
        sections["rules"] = ["## Today's rules", "", told, "", *benched(users)]
    if given.only != "bench":
        sections["rules-time"] = [f"`python benchmarks/rules.py --records {records}`, {about} {timed(records)}"]
    for name, lines in sections.items():
        print("\n".join(lines))
        if not given.quick:
            write_section(name, "\n".join(lines))


if __name__ == "__main__":
    main()
