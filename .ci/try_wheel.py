"""Build sdist and wheel, install the wheel without extras into an empty environment, and use it there.

What a user gets from `pip install queryveil` is the wheel and nothing of this folder: data files that the build forgot,
a module that imports an extra, an entry point that leads nowhere show here and in no other test.

    .venv-test/bin/python .ci/try_wheel.py        (`make wheel`)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "build" / "wheel"
UV = Path(sys.executable).with_name("uv")
LOCK = ROOT / "requirements-core.lock"
MOST_MEBIBYTES = 700
"""What `pip install queryveil` may weigh. Before raising it, see docs/dependencies.md: what is it that weighs?"""
NOT_FOR_A_FILE = {"django", "huggingface-hub", "nltk", "ortools", "pandas", "sentence-transformers", "torch"}
"""What came along at some time for one file or for nothing: no dependency of the extras may bring it again."""
OTHER_PYTHONS = ("3.12", "3.13")
NEVER_IMPORTED = ("pyspark", "fastapi", "torch", "redis", "nats", "confluent_kafka", "onnxruntime")

LIBRARY = f"""
import importlib.util
from pathlib import Path

import queryveil as qv

assert "site-packages" in qv.__file__, qv.__file__
found = [name for name in {NEVER_IMPORTED} if importlib.util.find_spec(name)]
assert not found, f"extras are installed: {{found}}"
log = qv.synth(users=40, records=800, seed=1)
release = qv.mechanism("suppress", k_text=2).protect(log, qv.Noise.secure())
folder = release.write(Path("by-library"), format="jsonl")
assert len(qv.read(folder / "log.jsonl")) == len(release.log) > 0
print(qv.__version__, qv.verify(folder).manifest["mechanism"])
"""


def main() -> None:
    """Stop at the first thing that does not work."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    run(UV, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", PLACE / "dist", ROOT)
    [wheel], [sdist] = (list((PLACE / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
    check_contents(wheel, sdist)
    check_bytes(wheel)
    run(UV, "venv", "--quiet", "--python", sys.executable, PLACE / "venv")
    # The versions that are tested; what the core does not need is not installed.
    python = PLACE / "venv" / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", python, "--constraint", LOCK, wheel)
    check_size(PLACE / "venv")
    check_extras(wheel)
    queryveil = PLACE / "venv" / "bin" / "queryveil"
    assert "release" in run(queryveil, "--help")
    run(queryveil, "synth", "--users", "50", "--records", "1000", "--seed", "1", "-o", "log.tsv")
    run(queryveil, "release", "suppress", "log.tsv", "--k-text", "2", "-o", "release")
    run(queryveil, "verify", "release")
    print(f"{wheel.name} works in an empty environment:", run(python, "-c", LIBRARY).strip())
    shutil.rmtree(PLACE / "venv")  # the better part of a gigabyte
    for version in OTHER_PYTHONS:
        try_python(version, wheel)
    print(
        "without installing:",
        run(UV.with_name("uvx"), "--constraints", LOCK, "--from", wheel, "queryveil", "--version"),
    )


def check_size(venv: Path) -> None:
    """The installation weighs no more than it may; bytecode, which comes later, is not counted."""
    sizes = {path: path.lstat().st_size for path in venv.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    mebibytes = sum(sizes.values()) / 2**20
    print(f"installed: {mebibytes:.0f} MiB of at most {MOST_MEBIBYTES}")
    if mebibytes > MOST_MEBIBYTES:
        largest = sorted(sizes, key=lambda path: -sizes[path])[:10]
        listed = "\n".join(f"  {sizes[path] / 2**20:6.1f} {path.relative_to(venv)}" for path in largest)
        sys.exit(f"the installation weighs {mebibytes:.0f} MiB. The largest files:\n{listed}")


def check_extras(wheel: Path) -> None:
    """`queryveil[neural,web]` brings nothing for the sake of a file."""
    wanted = PLACE / "extras.in"
    wanted.write_text(f"queryveil[neural,web] @ {wheel.as_uri()}\n")
    listed = run(UV, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python", sys.executable, wanted)
    found = {line.partition("==")[0].strip() for line in listed.splitlines()}
    if brought := sorted(found & NOT_FOR_A_FILE):
        sys.exit(f"queryveil[neural,web] brings {', '.join(brought)}")


def try_python(version: str, wheel: Path) -> None:
    """The wheel under another Python, where there is one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    own = sorted(pyenv.glob(f"versions/{version}.*/bin/python"))
    found = own[-1] if own else shutil.which(f"python{version}")
    # A shim stands for interpreters that may not be there.
    if found is None or subprocess.run([found, "--version"], capture_output=True).returncode:
        print(f"Python {version}: skipped, there is none on this machine")
        return
    venv = PLACE / f"venv-{version}"
    run(UV, "venv", "--quiet", "--python", found, venv)
    run(UV, "pip", "install", "--quiet", "--python", venv / "bin" / "python", "--constraint", LOCK, wheel)
    run(venv / "bin" / "queryveil", "plan", "suppress")
    shutil.rmtree(PLACE / "by-library")
    print(f"Python {version}:", run(venv / "bin" / "python", "-c", LIBRARY).strip())
    shutil.rmtree(venv)


def check_bytes(wheel: Path) -> None:
    """The wheel that was made of the sdist, in a folder that is gone, has the bytes of one that is made here."""
    again = PLACE / "again"
    run(UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", again, ROOT)
    if (again / wheel.name).read_bytes() != wheel.read_bytes():
        sys.exit("two builds give different wheels; compare them file by file")


def check_contents(wheel: Path, sdist: Path) -> None:
    """Every file of the package is in the wheel; what a packager needs to build and test is in the sdist."""
    tracked = run("git", "-C", ROOT, "ls-files", "src/queryveil").split()
    packed = set(zipfile.ZipFile(wheel).namelist())
    if lost := [name for name in tracked if name.removeprefix("src/") not in packed]:
        sys.exit(f"the wheel lacks {', '.join(lost)}")
    carried = ("wordnet/data.noun.gz", "wordnet/LICENSE.txt", "minilm/vocabulary.txt", "htmx/htmx.min.js")
    if lost := [name for name in carried if f"queryveil/data/{name}" not in packed]:
        sys.exit(f"the wheel lacks its data: {', '.join(lost)}")
    [bill] = [name for name in packed if ".dist-info/sboms/" in name]
    listed = json.loads(zipfile.ZipFile(wheel).read(bill))["components"]
    if not {"numpy", "django-htmx"} <= {component["name"] for component in listed}:
        sys.exit("the bill of materials in the wheel lacks what it depends on or what it carries")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "requirements.lock",
        "requirements-core.lock",
        "build_data.py",
        "sbom.py",
        "data.lock",
        "tests/conftest.py",
        *tracked,
    }
    if lost := sorted(needed - names):
        sys.exit(f"the sdist lacks {', '.join(lost)}")
    if data := sorted(name for name in names if name.startswith("src/queryveil/data/")):
        sys.exit(f"the sdist holds data of others: {', '.join(data)}")


def run(*command: str | Path) -> str:
    """What a command prints; it runs away from the repository, with keys of its own."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"QUERYVEIL_KEYS": str(PLACE / "keys")}
    made = subprocess.run([str(word) for word in command], cwd=PLACE, env=environment, capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"{' '.join(map(str, command[:3]))} failed:\n{made.stdout}{made.stderr}")
    return made.stdout


if __name__ == "__main__":
    main()
