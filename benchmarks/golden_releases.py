"""Whether a change of the code left every seeded release as it was, byte for byte.

Every mechanism in both modes, on one machine and on Spark, is run over one synthetic log with the code of a given
commit and with the code in the working tree, through the command line, which both have. What is compared: the released
log, its manifest without date and version, and the guarantee.

    python benchmarks/golden_releases.py COMMIT [--only NAME]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SEED = "20260301"
VARIANTS = {
    "suppress": [["--k-text", "3"], ["--k-text", "3", "--time", "hour"]],
    "microaggregate": [["--k", "3", "--k-text", "2"], ["--k", "4", "--levels", "2", "--k-text", "2"]],
    "sanitize": [
        ["--epsilon", "2"],
        ["--epsilon", "2", "--selection", "capped", "--contribution", "5"],
        ["--epsilon", "2", "--objective", "frequent", "--support", "0.02", "--size", "50"],
    ],
    "semantic": [["--epsilon", "4", "--per", "query"], ["--epsilon", "8", "--per", "user", "--domain", "disease"]],
    "stream": [["--k", "3"], ["--k", "3", "--depth", "2", "--pseudonym", "session"]],
    "obfuscate": [["--epsilon", "8"], ["--epsilon", "8", "--mechanism", "mhl"]],
}

DRIVER = """
import hashlib, json, sys
from pathlib import Path
from typer.testing import CliRunner
from queryveil.cli.main import app

cases, log, folder = json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
CHANGES = {"created", "queryveil", "ledger"}
for name, arguments in cases.items():
    out = folder / name
    run = CliRunner().invoke(app, ["release", *arguments, log, "-o", str(out)])
    made = {"exit": run.exit_code}
    if run.exit_code == 0:
        made |= {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in out.glob("log.*")}
        manifest = json.loads((out / "manifest.json").read_text())
        made |= {key: value for key, value in manifest.items() if key not in CHANGES}
    print(json.dumps([name, made]), flush=True)
"""


def cases() -> dict[str, list[str]]:
    """What is released, by a name for it."""
    made = {}
    for mechanism, variants in VARIANTS.items():
        for number, options in enumerate(variants):
            for mode in ("safe", "paper"):
                for engine in ("local", "spark"):
                    chosen = ["--mode", mode, "--engine", engine, "--seed", SEED]
                    made[f"{mechanism}-{number}-{mode}-{engine}"] = [mechanism, *options, *chosen]
    return made


def released(source: Path, wanted: dict[str, list[str]], log: Path, folder: Path) -> dict[str, dict[str, object]]:
    """What the code in a folder makes of each case."""
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER, json.dumps(wanted), str(log), str(folder)],
        env=os.environ | {"PYTHONPATH": str(source), "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=folder,
    ) as process:
        assert process.stdout is not None
        return dict(json.loads(line) for line in process.stdout if line.startswith("["))


def main() -> None:
    """Run both and say where they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--only", default="")
    chosen = parser.parse_args()
    wanted = {name: arguments for name, arguments in cases().items() if chosen.only in name}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        old = place / "old-code"
        subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(old), chosen.commit], cwd=ROOT, check=True)
        try:
            log = place / "log.tsv"
            size = ["--users", "300", "--records", "4000", "--seed", "1", "-o", str(log)]
            environment = os.environ | {"PYTHONPATH": str(old / "src")}
            subprocess.run([sys.executable, "-m", "queryveil", "synth", *size], env=environment, check=True)
            before = released(old / "src", wanted, log, place / "before")
            after = released(ROOT / "src", wanted, log, place / "after")
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(old)], cwd=ROOT, check=True)
    different = sorted(name for name in wanted if name not in before or before[name] != after.get(name))
    refused = sorted(name for name, made in before.items() if made["exit"])
    print(
        f"{len(wanted) - len(different)} of {len(wanted)} releases are equal, {len(refused)} of them refused by both:"
    )
    print("  " + ", ".join(refused))
    for name in different:
        print(f"DIFFERENT {name}")
        for key in sorted(before.get(name, {}).keys() | after.get(name, {}).keys()):
            first, second = before.get(name, {}).get(key), after.get(name, {}).get(key)
            if first != second:
                print(f"  {key}: {first} -> {second}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
