"""Servers for tests that come as jars of Maven Central.

`python tests/maven_jars.py` fetches them all, so that no test has to.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("QUERYVEIL_TEST_CACHE", Path.home() / ".cache" / "queryveil-tests"))
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>queryveil</groupId><artifactId>server-for-tests</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
QUICK_START = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]


class NoServerError(Exception):
    """Why there is no such server here."""


@dataclass(frozen=True)
class Server:
    """A server by name and version, and the artifacts it is made of: group, name and version."""

    name: str
    version: str
    artifacts: tuple[tuple[str, str, str], ...]

    def jars(self) -> Path:
        """The folder with the jars, fetched once."""
        cache = CACHE / f"{self.name}-{self.version}"
        folder = cache / "jars"
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                for program in ("java", "mvn"):
                    if shutil.which(program) is None:
                        raise NoServerError(f"no {self.name}: {program} is not installed")
                self._fetch(cache, folder)
        return folder

    def _fetch(self, cache: Path, folder: Path) -> None:
        draft = cache / "draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        dependencies = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
            for group, name, version in self.artifacts
        )
        (draft / "pom.xml").write_text(POM.format(dependencies=dependencies))
        command = ["mvn", "-B", "-q", "-f", str(draft / "pom.xml"), "dependency:copy-dependencies"]
        done = subprocess.run([*command, f"-DoutputDirectory={draft / 'jars'}"], stdout=subprocess.DEVNULL, timeout=600)
        if done.returncode:
            raise NoServerError(f"no {self.name}: Maven cannot fetch its jars")
        (draft / "jars").rename(folder)
        shutil.rmtree(draft)

    def java(self, classpath: str, main: str, *arguments: str, settings: tuple[str, ...] = ()) -> list[str]:
        """The command line of one of the jars' programs."""
        found = shutil.which("java")
        if found is None:
            raise NoServerError(f"no {self.name}: java is not installed")
        return [found, *QUICK_START, *settings, "-cp", classpath, main, *arguments]


KAFKA = Server(
    "kafka", "4.1.0", (("org.apache.kafka", "kafka_2.13", "4.1.0"), ("org.apache.kafka", "kafka-tools", "4.1.0"))
)
OPENSEARCH = Server(
    "opensearch",
    "2.19.1",
    (
        ("org.opensearch", "opensearch", "2.19.1"),
        ("org.opensearch", "opensearch-plugin-classloader", "2.19.1"),
        ("org.opensearch.plugin", "transport-netty4-client", "2.19.1"),
        ("org.apache.logging.log4j", "log4j-core", "2.21.0"),
    ),
)


if __name__ == "__main__":
    try:
        for server in (KAFKA, OPENSEARCH):
            print(f"{server.name}: {len(list(server.jars().glob('*.jar')))} jars")
    except NoServerError as reason:
        sys.exit(str(reason))
