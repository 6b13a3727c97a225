"""`queryveil demo`: what QueryVeil does, told on a synthetic log: somebody is found, then protected.

Some of the people are kept aside before anything is made, to judge what each release teaches about others. Every
mechanism that protects logs makes a signed release of the rest; two attacks are tried on each, and one measure. A whole
audit with its report takes longer: the last lines say how to get one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

from queryveil import mechanisms
from queryveil.audit.auditing import audit, read_release, read_tables
from queryveil.audit.finding import Finding
from queryveil.audit.held_out.splitting import hold_out
from queryveil.audit.raw_side import RawSide
from queryveil.audit.survival import survival
from queryveil.cli import console
from queryveil.errors import UsageError
from queryveil.experiments.compare import folder_for_comparison, write_tables
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.parallel import side_by_side
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.log import QueryLog, read, write
from queryveil.log.identifying import merged
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.release import pipeline
from queryveil.release.mechanism import declares
from queryveil.release.secrets import read as read_secrets
from queryveil.report.beside import write_beside
from queryveil.report.comparison_page import write_comparison
from queryveil.report.formatting import percent
from queryveil.report.page import promise_in_short

USERS, RECORDS = 12_000, 90_000
HELD_OUT = 0.1
WORKERS = 2
USUAL = (10, 20)
"""How many queries somebody has whom a neighbour looks for."""
TRIED = ("uniqueness", "past-pseudonyms", "language")
"""The attacks and the measure of the tour, by their keys."""


def tour(output: Path | None) -> None:
    """Make a log, find somebody in it, protect it with every mechanism, try the same on each release, and compare."""
    folder = _new_folder(output)
    log, judges = hold_out(synth(users=USERS, records=RECORDS), HELD_OUT)
    raw, aside = folder / "raw.csv", folder / "held-out.csv"
    write(log, raw)
    write(judges, aside)
    somebody = Somebody.of(log)
    console.show(f"1. A made-up log: {log.user_count():,} people, {len(log):,} queries, names replaced by numbers")
    _introduce(somebody, log)
    console.show(
        "2. The same log, protected. Whom do the same two queries find? How many people do attacks find that know"
    )
    console.show("   people's past, or some of their queries? How much does it still teach about other people's words?")
    sweep = _for_logs(Sweep.usual().at_a_glance())
    tried = {}
    # What a searcher sends is prepared meanwhile, by this process, which else would only wait.
    with ThreadPoolExecutor(1) as meanwhile, console.steps("tour", len(sweep.settings)) as step:
        sent = meanwhile.submit(_one_query, "throat cancer")
        for one in _try_all(sweep, raw, aside, folder, somebody):
            tried[one.outcome.setting.label] = one
            step(one.outcome.setting.label)
    ordered = [tried[setting.label] for setting in sweep.settings]
    found = Comparison(tuple(one.outcome for one in ordered))
    rows = [_line(one, found) for one in ordered]
    heads = ["protected by: promise", "two queries find", "attacks find", "words taught"]
    console.show_grid(
        "protections", heads, [["none: the raw log", "1 person", percent(_found_raw(found)), "100 %"], *rows]
    )
    place = folder_for_comparison(folder / "comparison")
    write_tables(found, place)
    page = write_comparison(found, place, subject="A tour on a synthetic log", sweep=sweep)
    console.show("3. A searcher, who sends other queries to an engine that keeps such a log")
    for line in sent.result():
        console.show(line)
    console.show("4. Look at it")
    _show_pictures(found, log, folder, page)
    console.show("5. Next, with a log of your own")
    for command in ("inspect LOG", "advise LOG --task language", "audit LOG RELEASE"):
        console.show_command(f"   queryveil {command}")


@dataclass(frozen=True)
class Somebody:
    """One person of the raw log, two of whose queries a neighbour knows, and the others."""

    user: str
    known: tuple[str, str]
    others: tuple[str, ...]

    @classmethod
    def of(cls, log: QueryLog) -> Somebody:
        """The first person with a dozen queries whom two rare ones single out."""
        texts = log.frame.select("user", "query").unique(maintain_order=True)
        holders = texts.group_by("query").len("holders")
        rare = texts.join(holders, on="query").filter(pl.col("holders") == 1)
        sizes = texts.group_by("user", maintain_order=True).len("queries").filter(pl.col("queries").is_between(*USUAL))
        known = rare.group_by("user", maintain_order=True).agg(pl.col("query").head(2))
        both = known.filter(pl.col("query").list.len() == 2)
        user, _, (first, second) = sizes.join(both, on="user", maintain_order="left").row(0)
        mine = texts.filter(pl.col("user") == user)["query"].to_list()
        return cls(user, (first, second), tuple(text for text in mine if text not in (first, second)))

    def found_in(self, released: QueryLog) -> str:
        """How many pseudonyms of a release hold both queries that are known, in words."""
        holders = [set(released.frame.filter(pl.col("query") == text)["user"]) for text in self.known]
        both = len(set.intersection(*holders))
        return "nobody" if both == 0 else "1 person" if both == 1 else f"{both:,} people"


def _introduce(somebody: Somebody, log: QueryLog) -> None:
    first, second = somebody.known
    console.show(f"   A neighbour knows two queries of somebody: “{first}” and “{second}”.")
    console.show(
        f"   One of {log.user_count():,} people asked both, {somebody.user}; so the others are theirs as well:"
    )
    console.show("   " + ", ".join(f"“{text}”" for text in somebody.others[:4]) + f" … {len(somebody.others)} in all")


def _for_logs(sweep: Sweep) -> Sweep:
    """Without today's rules, and without mechanisms for one query at a time, which have a part of their own."""
    chosen = [one for one in sweep.only("mechanism") if not hasattr(mechanisms.load(one.name), "demo_parameters")]
    return Sweep(settings=tuple(chosen), seed=sweep.seed)


@dataclass(frozen=True)
class Tried:
    """One mechanism's outcome, and what the tour says of its release."""

    outcome: Outcome
    promise: str
    finds: str
    """Whom the two queries that the neighbour knows find in it."""


def _try_all(sweep: Sweep, raw: Path, aside: Path, folder: Path, somebody: Somebody) -> Iterator[Tried]:
    slowest_first = sorted(sweep.settings, key=lambda one: -mechanisms.load(one.name).effort)
    return side_by_side(_try_one, [(setting, raw, aside, folder, somebody) for setting in slowest_first], WORKERS)


def _try_one(setting: Setting, raw: Path, aside: Path, folder: Path, somebody: Somebody) -> Tried:
    """One mechanism from log to signed release, verified and tried."""
    start = time.perf_counter()
    place, secrets = folder / setting.name, folder / f"{setting.name}.secrets"
    pipeline.release(
        setting.made(), pipeline.Source(path=raw), pipeline.Target(folder=place, secrets=secrets), Noise.secure()
    )
    side, (released, manifest) = _raw_side(raw, aside), read_release(place)
    found = audit(
        side.log,
        released,
        manifest=manifest,
        tables=read_tables(place, manifest),
        secrets=read_secrets(secrets),
        held_out=side.held_out,
        only=TRIED,
        raw=side,
    )
    outcome = Outcome(
        setting=setting,
        seconds=time.perf_counter() - start,
        records=len(released),
        audit=found,
        survival=survival(side.log, released),
    )
    return Tried(outcome, promise_in_short(manifest["guarantee"]), somebody.found_in(released))


@lru_cache(maxsize=1)
def _raw_side(raw: Path, aside: Path) -> RawSide:
    """What all audits of a process need of the raw log, made once; similar ids are one person's, as in the releases."""
    return RawSide(merged(read(raw)), merged(read(aside)))


def _line(one: Tried, found: Comparison) -> list[str]:
    people = [finding.value for finding in _people_found(one.outcome)]
    return [
        f"{one.outcome.setting.name}: {one.promise}",
        one.finds,
        percent(max(people)) if people else "nobody is in it",
        percent(found.utility(one.outcome).get("language")),
    ]


def _people_found(outcome: Outcome) -> list[Finding]:
    """What says how many people were really found, by enough trials."""
    risks = () if outcome.audit is None else outcome.audit.risks()
    return [one for one in risks if one.chance is not None and not one.too_few]


def _found_raw(found: Comparison) -> float | None:
    """The same attacks on the raw log."""
    return max((one.raw or 0.0 for outcome in found.outcomes for one in _people_found(outcome)), default=None)


def _show_pictures(found: Comparison, log: QueryLog, folder: Path, page: Path) -> None:
    """The comparison; and beside the raw log, of the releases that nobody is behind, the one that keeps most."""
    synthetic = [one for one in found.outcomes if declares(one.setting.made(), "synthetic_users", None)]
    for outcome in sorted(synthetic, key=lambda one: -found.utility(one)["language"])[:1]:
        name = outcome.setting.name
        released, _ = read_release(folder / name)
        told = promise_in_short(outcome.audit.released.get("guarantee")) if outcome.audit else ""
        picture = write_beside(log, released, folder / "side-by-side.html", name=name, promise=told)
        console.show(f"   the raw log and what {name} made of it: {picture.resolve()}")
    console.show(f"   all protections compared:               {page.resolve()}")


def _one_query(query: str) -> list[str]:
    """What is sent instead, by each mechanism that is made for one query at a time, by the person who asks it."""
    lines = []
    for name in mechanisms.names():
        parameters = getattr(mechanisms.load(name), "demo_parameters", None)
        if parameters is not None:
            mechanism = mechanisms.make(name, **parameters)
            sent = mechanism.obfuscate(query, mechanism.n, Noise.secure())
            told = ", ".join(f"“{text}”" for text in sent)
            lines.append(f"   typed “{query}”, sent {told} ({promise_in_short(mechanism.guarantee().as_dict())})")
    return lines


def _new_folder(output: Path | None) -> Path:
    if output is None:
        return Path(tempfile.mkdtemp(prefix="queryveil-demo-"))
    if output.exists():
        raise UsageError(f"{output} is there already. Choose another folder.")
    output.mkdir(parents=True)
    return output
