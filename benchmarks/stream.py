"""How fast the stream mechanism is, how much memory it takes and how long records wait.

    python benchmarks/stream.py [--log FILE]      all figures; writes the section of RESULTS.md
    python benchmarks/stream.py --short           a tenth of the records, to try it out
    python benchmarks/stream.py --files [--beside DIR]   from file to file alone, in turn with the code of another
                                                  checkout, since a busy machine changes its pace from minute to minute

The log is the one of the shared `bench/categorised_log.py` (QUERYVEIL_BENCH): 2,000,000 records, 47,922 users, 399,133
category paths; it is generated once beside the temporary files and reused. Three ways are timed:

- the state machine itself, users and categories given as numbers: CPU seconds of one core;
- `LiveStream.push_with_owners` from text columns to text columns, no file: CPU seconds of one core;
- from file to file: parse, push, write, block by block, in a process of its own: wall seconds, CPU seconds (loading
  Numba and the compiled kernels not counted) and peak memory. A second thread parses a block ahead. It is the road
  that `queryveil stream` takes between files, without its checkpoints, and in paper mode too.

Then the kernel's time per record as k grows, and beside it the same work in a larger state: k = 12 on many copies of
the category tree at once, which changes no step but where the memory is that it touches.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import date
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeVar

ROOT = Path(__file__).resolve().parents[1]
BENCH = Path(os.environ.get("QUERYVEIL_BENCH", ROOT.parent / "shared/bench"))
ONE_THREAD = "QUERYVEIL_BENCH_ONE_THREAD"
ROUNDS = 3
SETTINGS = ((3, 1), (3, 11), (30, 5), (200, 11))
WANTED = {(3, 1): 4.0, (3, 11): 1.0, (30, 5): 0.8, (200, 11): 0.4}
GO_FILES = {(3, 1): 0.714, (3, 11): 0.104, (30, 5): 0.090, (200, 11): 0.047}
GO_MEMORY = {(3, 1): 7, (3, 11): 1200, (30, 5): 545, (200, 11): 1200}
COLUMNS = ["number", "user", "query", "time", "category"]
BLOCK = 1 << 21
GROWTH_K, GROWTH_DEPTH = (3, 6, 12, 25, 50, 100, 200, 400, 800), 5
COPIES = (1, 16, 64, 256)
Made = TypeVar("Made")


def categorised_log(folder: Path) -> Path:
    """The benchmark log, generated once."""
    log = folder / "queryveil-categorised-log.tsv"
    if not log.exists():
        script = BENCH / "categorised_log.py"
        if not script.is_file():
            sys.exit(f"{script.name} is not there: set QUERYVEIL_BENCH to the folder that holds it, or give --log.")
        part = log.with_suffix(".part")
        subprocess.run([sys.executable, script, "--out", part], check=True)
        part.rename(log)
    return log


def blocks(path: Path, size: int = BLOCK) -> Iterator[bytes]:
    """The file in pieces that end with a line."""
    with path.open("rb") as file:
        rest = b""
        while piece := file.read(size):
            cut = piece.rfind(b"\n") + 1
            yield b"".join((rest, memoryview(piece)[:cut]))
            rest = piece[cut:]
        if rest:
            yield rest


def parsed(content: bytes):
    import polars as pl

    return pl.read_csv(
        content, separator="\t", has_header=False, new_columns=COLUMNS, quote_char=None, columns=[1, 2, 3, 4],
        schema_overrides={"user": pl.String, "query": pl.String, "category": pl.String, "time": pl.String},
    ).with_columns(pl.col("time").str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", cache=False))  # fmt: skip


def mechanism(k: int, depth: int, mode: str):
    from queryveil.mechanisms.stream import Stream

    return Stream(k=k, depth=depth, mode=mode, k_text=3, epoch=10**9, category_column="category")


def one_ahead(items: Iterable[bytes], make: Callable[[bytes], Made], worker: Executor) -> Iterator[Made]:
    """What `make` makes of each item, the next one made by the worker while the caller has this one."""
    left = iter(items)

    def following() -> tuple[Made, ...]:
        return tuple(make(item) for item in itertools.islice(left, 1))

    waiting = worker.submit(following)
    while made := waiting.result():
        waiting = worker.submit(following)
        yield made[0]


def file_to_file(k: int, depth: int, mode: str, source: Path, target: Path) -> None:
    """Runs in a process of its own and tells its figures as JSON."""
    from queryveil.log.formats.delimited import PlainReader
    from queryveil.mechanisms.stream.lines import TABBED, LineStream
    from queryveil.mechanisms.stream.records import StreamRecords
    from queryveil.privacy import Noise

    read = PlainReader("\t".join(COLUMNS).encode(), {})
    place = read.place("category")

    def records_of(content: bytes) -> StreamRecords:
        found = read(content)
        assert found is not None, "the benchmark's log has quoted or bad lines"
        return StreamRecords.from_plain(found, place)

    beginning = perf_counter()
    few = "".join(f"1\tuser {i}\tx\t2006-03-01 00:00:00\tt: s\n" for i in range(4)).encode()
    warm = LineStream.of(mechanism(2, 2, mode), Noise.seeded(1), TABBED, for_science=True)
    warm.push(records_of(few))  # loads Numba and the compiled kernels
    started, cpu = perf_counter(), process_time()
    running = LineStream.of(mechanism(k, depth, mode), Noise.seeded(1), TABBED, for_science=True)
    records = 0
    with target.open("wb") as out, ThreadPoolExecutor(1) as helper:
        alone = os.environ.get(ONE_THREAD)
        for batch in map(records_of, blocks(source)) if alone else one_ahead(blocks(source), records_of, helper):
            records += len(batch)
            for part in running.push(batch):
                out.write(part.content)
    wall = perf_counter() - started
    peak = peak_memory()
    told = {"records": records, "wall": wall, "cpu": process_time() - cpu, "memory": peak, "start": started - beginning}
    print(json.dumps(told))


def same_lines(ours: Path, theirs: Path) -> bool:
    """Whether two outputs are the same but for decimals of a second, which only earlier code wrote when all are 0."""
    with ours.open("rb") as one, theirs.open("rb") as other:
        pairs = itertools.zip_longest(one, other, fillvalue=b"")
        return all(mine == line or mine == line.replace(b".000000\t", b"\t", 1) for mine, line in pairs)


def peak_memory() -> float:
    """Peak memory of this process in MiB; `ru_maxrss` would count what the parent had before it started us."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


class Words:
    """Random words in large blocks, made outside the timing."""

    def __init__(self, count: int) -> None:
        from queryveil.privacy import Noise

        self.ahead = Noise.seeded(1).stream("benchmark").words(count)

    def __call__(self, used: int, wanted: int):
        self.ahead = self.ahead[used:]
        assert len(self.ahead) >= wanted
        return self.ahead


def state_machine(k: int, depth: int, mode: str, coded: dict) -> dict:  # type: ignore[type-arg]
    """Records per CPU-second with users and categories given as numbers, and how the pace holds."""
    import numpy as np

    from queryveil.audit.attacks.released_stream import cut_to_depth
    from queryveil.mechanisms.stream._tree import Rules, Tree

    rules = Rules.safe(k, 3) if mode == "safe" else Rules.paper(k)
    leaves = cut_to_depth(coded["parents"], coded["depths"], depth)[coded["categories"]]
    count = len(leaves)
    tree, words, times = Tree(rules), Words(8 * count), []
    tree.add_categories(coded["parents"][1:], np.minimum(coded["depths"][1:], depth))
    tenths = np.array_split(np.arange(count, dtype=np.int32), 10)
    released = 0
    for tenth in tenths:
        part = slice(int(tenth[0]), int(tenth[-1]) + 1)
        before = process_time()
        released += len(tree.push(leaves[part], coded["users"][part], tenth, words))
        times.append(process_time() - before)
    return {
        "rate": count / sum(times) / 1e6,
        "pace": times[-1] / times[1],
        "late": 1e9 * sum(times[5:]) / (count / 2),
        "megabytes": (tree.table.nbytes + sum(array.nbytes for array in tree.to_arrays().values())) / 1e6,
        "released": released / count,
        "pending": tree.pending,
    }


def from_text(k: int, depth: int, mode: str, log) -> dict:  # type: ignore[no-untyped-def,type-arg]
    import numpy as np

    from queryveil.privacy import Noise

    running = mechanism(k, depth, mode).open(Noise.seeded(1))
    before = process_time()
    parts = running.push_with_owners(log)
    seconds = process_time() - before
    delays = np.concatenate([part.delays for part in parts])
    return {"rate": len(log) / seconds / 1e6, "delay": float(delays.mean()), "released": running.released / len(log)}


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--log", type=Path)
    arguments.add_argument("--short", action="store_true")
    arguments.add_argument("--files", action="store_true")
    arguments.add_argument("--beside", type=Path)
    arguments.add_argument("--child", nargs=5)
    given = arguments.parse_args()
    if given.child:
        k, depth, mode, source, target = given.child
        file_to_file(int(k), int(depth), mode, Path(source), Path(target))
        return
    os.environ["POLARS_MAX_THREADS"] = "1"  # one core for the CPU figures; the children have two threads of their own
    source = given.log or categorised_log(Path(tempfile.gettempdir()))
    if given.short:
        short = Path(tempfile.gettempdir()) / "queryveil-short-log.tsv"
        with source.open("rb") as whole:
            short.write_bytes(b"".join(line for line, _ in zip(whole, range(200_000), strict=False)))
        source = short
    if not given.files:
        report(source, given.short)
    report_files(source, given.short, given.beside)


def in_a_process(  # type: ignore[type-arg]
    script: Path, k: int, depth: int, mode: str, source: Path, target: Path, *, threads: int = 2
) -> dict:
    """What `file_to_file` of a checkout tells."""
    child = [sys.executable, script, "--child", k, depth, mode, source, target]
    environment = (
        os.environ | {"PYTHONPATH": str(script.parents[1] / "src")} | ({ONE_THREAD: "1"} if threads == 1 else {})
    )
    done = subprocess.run([*map(str, child)], env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def report_files(source: Path, short: bool, beside: Path | None) -> None:
    from _results import write_section

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        target, other = Path(folder) / "out.tsv", Path(folder) / "other.tsv"
        for k, depth in SETTINGS:
            for mode in ("paper", "safe"):
                setting = (k, depth, mode, source)
                told, before = in_a_process(Path(__file__), *setting, target), "–"
                alone = min(in_a_process(Path(__file__), *setting, target, threads=1)["cpu"] for _ in range(ROUNDS))
                if beside:  # in turn, each twice
                    theirs = in_a_process(beside / "benchmarks/stream.py", *setting, other)
                    assert same_lines(target, other)
                    again = in_a_process(Path(__file__), *setting, target)
                    told = {name: min(told[name], again[name]) for name in told}
                    also = in_a_process(beside / "benchmarks/stream.py", *setting, other)
                    before = f"{min(theirs['cpu'], also['cpu']) / told['cpu']:.2f}×"
                wall, per_cpu = told["records"] / told["wall"] / 1e6, told["records"] / alone / 1e6
                rows.append(
                    f"| {k} | {depth} | {mode} | {wall:.2f} | {per_cpu:.2f} | {before} | "
                    f"{per_cpu / GO_FILES[k, depth]:.1f}× | {told['memory']:,.0f} | "
                    f"{told['memory'] * 1.048576 / GO_MEMORY[k, depth]:.2f}× |"
                )
                print(rows[-1], flush=True)
    if short:
        return
    write_section(
        "stream_files",
        "\n".join(
            [
                "## Stream, from file to file",
                "",
                f"{date.today()}, Python {platform.python_version()}, {os.cpu_count()} cores shared with other work "
                f"(load {os.getloadavg()[2]:.0f}), `python benchmarks/stream.py --files`. Parse, push and write "
                f"{told['records']:,} records in a process of its own, blocks of {BLOCK >> 20} MiB: millions of "
                "records per wall second with two threads, of which one reads ahead, and per CPU-second with one, the "
                f"best of {ROUNDS} (two that share a cache take some tenth more of it); CPU against the code before, "
                "both with two threads, in turn and with the same lines out; CPU against the published Go program's "
                "per CPU-second on a quiet machine; peak memory in MiB and against the Go program's MB (the "
                "interpreter, Polars and Numba alone take 215 MiB of it). Safe mode withholds the texts that fewer "
                "than k_text = 3 users issued within 100,000 records: on this log, whose texts are random words, most "
                "of them.",
                "",
                "| k | ℓ | mode | wall | per CPU | against the code before | against Go | memory | against Go |",
                "|---|---|---|---|---|---|---|---|---|",
                *rows,
            ]
        ),
    )


def report(source: Path, short: bool) -> None:
    import polars as pl

    from _results import write_section
    from queryveil.audit.attacks.released_stream import numbered_paths
    from queryveil.log import QueryLog

    frame = pl.concat([parsed(content) for content in blocks(source)])
    categories, parents, depths = numbered_paths(frame["category"], ": ")
    users = (frame["user"].rank("dense") - 1).cast(pl.Int32).to_numpy()
    coded = {"categories": categories, "parents": parents, "depths": depths, "users": users}
    log = QueryLog(frame)
    tiny = {name: array[:2000] if name in ("categories", "users") else array for name, array in coded.items()}
    for mode in ("paper", "safe"):  # compile
        state_machine(3, 2, mode, tiny)
        from_text(3, 2, mode, QueryLog(frame[:2000]))
    inner = []
    for k, depth in SETTINGS:
        kernel = {mode: state_machine(k, depth, mode, coded) for mode in ("paper", "safe")}
        text = {mode: from_text(k, depth, mode, log) for mode in ("paper", "safe")}
        wanted = WANTED[k, depth]
        inner.append(
            f"| {k} | {depth} | {kernel['paper']['rate']:.2f} | {kernel['paper']['rate'] / wanted:.1f}× | "
            f"{kernel['safe']['rate']:.2f} | {text['paper']['rate']:.2f} | {text['safe']['rate']:.2f} | "
            f"{kernel['paper']['pace']:.2f} | {100 * kernel['paper']['released']:.2f} % | "
            f"{text['paper']['delay']:,.0f} | {text['safe']['delay']:,.0f} | {kernel['paper']['pending']:,} |"
        )
        print(inner[-1], flush=True)
    growth = growth_with_k(coded)
    print("\n".join(growth), flush=True)
    if short:
        return
    write_section(
        "stream",
        "\n".join(
            [
                "## Stream",
                "",
                f"{date.today()}, Python {platform.python_version()}, {os.cpu_count()} cores shared with other work, "
                "`python benchmarks/stream.py`. 2,000,000 records of 47,922 users, 399,133 category paths.",
                "",
                "Millions of records per CPU-second of one core. *Kernel*: the state machine with users and categories "
                "as numbers; *text*: `push` from text columns to text columns, names, pseudonyms and texts included. "
                "*Pace*: time of the last tenth of the log against the second tenth. Delay in records.",
                "",
                "| k | ℓ | kernel, paper | against the goal | kernel, safe | text, paper | text, safe | pace "
                "| released | delay, paper | delay, safe | waiting at the end |",
                "|---|---|---|---|---|---|---|---|---|---|---|---|",
                *inner,
                "",
                *growth,
            ]
        ),
    )


def growth_with_k(coded: dict) -> list[str]:  # type: ignore[type-arg]
    """Time per record in the second half of the log as k doubles, against a + b·log k, and against the state's size."""
    import numpy as np

    by_k = {k: state_machine(k, GROWTH_DEPTH, "paper", coded) for k in GROWTH_K}
    in_copies = {n: state_machine(12, GROWTH_DEPTH, "paper", copied(coded, n)) for n in COPIES}
    usual = [k for k in GROWTH_K if k <= 200]
    slope, start = np.polyfit(np.log2(usual), [by_k[k]["late"] for k in usual], 1)
    rows = [
        f"| {k} | {found['late']:,.0f} | {start + slope * np.log2(k):,.0f} | {found['pending']:,} "
        f"| {found['megabytes']:.1f} |"
        for k, found in by_k.items()
    ]
    same_work = "; ".join(
        f"{n} {'copies' if n > 1 else 'copy'}, {found['megabytes']:.1f} MB: {found['late']:,.0f} ns"
        for n, found in in_copies.items()
    )
    return [
        f"Kernel time per record as k grows, ℓ = {GROWTH_DEPTH}, paper mode, second half of the log. The fit over "
        f"k ≤ 200, the paper's range, is {start:,.0f} + {slope:,.0f} · log2 k nanoseconds.",
        "",
        "| k | ns per record | fit | waiting at the end | state in MB |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "The steps taken for a record hardly depend on k; where the state outgrows the caches, each of them waits for "
        "memory. The same work in a larger state shows it: k = 12 on so many copies of the category tree, record by "
        f"record in turn: {same_work}.",
    ]


def copied(coded: dict, copies: int) -> dict:  # type: ignore[type-arg]
    """The log dealt in turn to copies of the category tree, each with users of its own."""
    import numpy as np

    from queryveil.audit.attacks.released_stream import cut_to_depth

    count, width = len(coded["users"]), len(coded["parents"])
    copy = np.arange(count, dtype=np.int64) % copies
    leaves = cut_to_depth(coded["parents"], coded["depths"], GROWTH_DEPTH)[coded["categories"]].astype(np.int64)
    used, above = np.unique(copy * width + leaves), []
    while len(used):
        above.append(used)
        parents = coded["parents"][used % width]
        used = np.unique((used - used % width + parents)[parents != 0])
    places = np.unique(np.concatenate(above))
    parents = places - places % width + coded["parents"][places % width]
    return {
        "categories": (1 + np.searchsorted(places, copy * width + leaves)).astype(np.int32),
        "parents": np.append(0, np.where(parents % width, 1 + np.searchsorted(places, parents), 0)).astype(np.int32),
        "depths": np.append(0, coded["depths"][places % width]).astype(np.int32),
        "users": (copy * (1 + coded["users"].max()) + coded["users"]).astype(np.int32),
    }


if __name__ == "__main__":
    main()
