"""PostgreSQL and OpenSearch for tests: real ones, on free ports and folders of their own, started and stopped here."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from free_ports import free_port
from maven_jars import OPENSEARCH, NoServerError
from waiting import LONG, wait_until

SERVER_USER = 65534  # nobody: PostgreSQL does not run as root


class PostgresServer:
    """Debian's PostgreSQL, which lets `holder` in without a password and `asked` with one."""

    PASSWORD = "tulips-and-daffodils"

    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
        if not found:
            raise NoServerError("no PostgreSQL: install Debian's package postgresql")
        self._programs = found[-1].parent
        self._folder = Path(tempfile.mkdtemp(prefix="queryveil-postgres-"))
        self.port = free_port()
        if os.geteuid() == 0:
            os.chown(self._folder, SERVER_USER, SERVER_USER)
        self._data = self._folder / "data"
        self._run("initdb", "-D", self._data, "-U", "holder", "-A", "trust", "-N", "-E", "UTF8", "--no-locale")
        access = self._data / "pg_hba.conf"
        access.write_text(f"host all asked 127.0.0.1/32 scram-sha-256\n{access.read_text()}")
        settings = f"-p {self.port} -k {self._folder} -c listen_addresses=127.0.0.1 -c shared_buffers=16MB"
        self._run(
            "pg_ctl", "-D", self._data, "-w", "-t", int(LONG), "-o", settings, "-l", self._folder / "log", "start"
        )

    def _run(self, program: str, *arguments: object) -> None:
        user = ["setpriv", f"--reuid={SERVER_USER}", f"--regid={SERVER_USER}", "--clear-groups"]
        command = [*(user if os.geteuid() == 0 else []), self._programs / program, *arguments]
        done = subprocess.run(list(map(str, command)), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        assert done.returncode == 0, f"PostgreSQL's {program} failed"

    def address(self, table: str | None = None, *, query: str | None = None, database: str = "postgres") -> str:
        asked = f"table={table}" if table else f"query={query}"
        return f"postgres://holder@127.0.0.1:{self.port}/{database}?{asked}"

    def connect(self):
        from adbc_driver_postgresql import dbapi

        return dbapi.connect(f"postgresql://holder@127.0.0.1:{self.port}/postgres")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self._data, "-m", "immediate", "stop")
        shutil.rmtree(self._folder)


class OpenSearchServer:
    """One node of OpenSearch from the jars of its server and HTTP module; without native code it runs as root too."""

    def __init__(self) -> None:
        jars = OPENSEARCH.jars()
        self._home = Path(tempfile.mkdtemp(prefix="queryveil-opensearch-"))
        self.url = f"http://127.0.0.1:{free_port()}"
        module = self._home / "modules" / "transport-netty4"
        for folder in (module, self._home / "config", self._home / "tmp"):
            folder.mkdir(parents=True)
        for jar in jars.glob("*netty*.jar"):
            shutil.copy(jar, module)
        self._classpath = ":".join(str(jar) for jar in jars.glob("*.jar") if "netty" not in jar.name)
        version = OPENSEARCH.version
        described = {
            "name": "transport-netty4", "description": "HTTP", "version": version, "opensearch.version": version,
            "java.version": "11", "classname": "org.opensearch.transport.Netty4Plugin",
        }  # fmt: skip
        (module / "plugin-descriptor.properties").write_text("".join(f"{k}={v}\n" for k, v in described.items()))
        (module / "plugin-security.policy").write_text("grant { permission java.security.AllPermission; };\n")
        settings = {
            "http.port": self.url.rpartition(":")[2], "transport.port": free_port(), "network.host": "127.0.0.1",
            "discovery.type": "single-node", "path.data": self._home / "data", "path.logs": self._home / "logs",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
        }  # fmt: skip
        (self._home / "config" / "opensearch.yml").write_text("".join(f"{k}: {v}\n" for k, v in settings.items()))
        (self._home / "config" / "log4j2.properties").write_text("rootLogger.level = error\n")
        self.start()

    def start(self) -> None:
        command = OPENSEARCH.java(
            self._classpath,
            "org.opensearch.bootstrap.OpenSearch",
            settings=(
                "-Djava.security.manager=allow",
                "-Dlog4j2.disable.jmx=true",
                "-Djna.nosys=true",
                "-Djna.nounpack=true",
                f"-Djava.io.tmpdir={self._home}/tmp",
                f"-Dopensearch.path.home={self._home}",
                f"-Dopensearch.path.conf={self._home}/config",
            ),
        )
        with (self._home / "output").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

        def answers() -> bool:
            assert self._process.poll() is None, "OpenSearch does not start"
            try:
                with urllib.request.urlopen(f"{self.url}/_cluster/health?wait_for_status=yellow") as answer:
                    return answer.status == 200
            except OSError:
                return False

        wait_until(answers, "OpenSearch answers")

    def address(self, name: str) -> str:
        return f"opensearch:{self.url}?queries={name}_queries&events={name}_events"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(LONG)
        shutil.rmtree(self._home)
