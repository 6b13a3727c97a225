"""axe-core, which looks for faults that keep people from using a page: contrast, names, order, roles.

npm's package, of one version and checked by hash, kept in the cache of the tests and never in the repository.
`python tests/axe_core.py` fetches it, so that no test has to.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.14.0"
SHA512 = (
    "f564d9c448ec67b6f5dd31fc24f99b576cfc0876e5f34ff6866dd73c41b82603"
    "5d40b2bcd480515e64b11df3003a44aa41e4714ffd1dc0d0f3d863a6df3ce971"
)
CACHE = Path(os.environ.get("QUERYVEIL_TEST_CACHE", Path.home() / ".cache" / "queryveil-tests")) / f"axe-{VERSION}"
GRAVE = ("serious", "critical")
BY_SCHEME = {"light": (), "dark": ("color-contrast", "link-in-text-block")}
"""The rules that are tried by day and by night: at night only those about colours can come out differently."""


class NoAxeError(Exception):
    """Why there is no axe-core here."""


def script() -> str:
    """The source, fetched once."""
    CACHE.mkdir(parents=True, exist_ok=True)
    package = CACHE / f"axe-core-{VERSION}.tgz"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not package.exists():
            _fetch(package)
    content = package.read_bytes()
    if hashlib.sha512(content).hexdigest() != SHA512:
        raise NoAxeError(f"no axe-core: {package.name} is not the package of version {VERSION}")
    with tarfile.open(package) as archive:
        found = archive.extractfile("package/axe.min.js")
        assert found is not None
        return found.read().decode()


def _fetch(package: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoAxeError("no axe-core: npm is not installed")
    with tempfile.TemporaryDirectory(dir=package.parent) as place:
        command = [npm, "pack", "--silent", f"axe-core@{VERSION}"]
        try:
            done = subprocess.run(command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
        except subprocess.TimeoutExpired:
            raise NoAxeError("no axe-core: npm did not answer") from None
        packed = Path(place, package.name)
        if done.returncode or not packed.exists():
            raise NoAxeError("no axe-core: npm cannot fetch it")
        packed.rename(package)


def faults(page, source: str, *rules: str) -> list[str]:
    """The grave faults of a page as a browser shows it now: the rule, and where it is broken. Of all rules, or some."""
    if not page.evaluate("() => Boolean(window.axe)"):
        page.evaluate(source)
    found = page.evaluate(
        """async rules => (await axe.run(
            {resultTypes: ['violations'], ...(rules.length ? {runOnly: {type: 'rule', values: rules}} : {})}
        )).violations""",
        list(rules),
    )
    return [
        f"{fault['id']}: {node['target']} {node['failureSummary']}"
        for fault in found
        if fault["impact"] in GRAVE
        for node in fault["nodes"]
    ]


if __name__ == "__main__":
    sys.stdout.write(f"axe-core {VERSION}, {len(script()):,} characters\n")
