"""The one database of the page and the folders beside it: uploaded logs, jobs, points of comparisons, releases.

Every name on disk is a random identity made here; nothing a browser sends ever becomes part of a path. What is deleted
is overwritten (`secure_delete`), because results of jobs hold figures about the original.

    folder/page.db
    folder/logs/<log>/log.<suffix>       the original; deleted with everything else of the log when its time is up
    folder/logs/<log>/prepared.parquet   the same records, read once
    folder/releases/<release>/release    what is handed out: log, manifest, signature
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from queryveil.errors import QueryVeilError, UsageError

SECONDS_TO_WAIT: Final = 30
TRIES_TO_OPEN: Final = 20
IDENTITY: Final = re.compile(r"[0-9a-f]{32}")

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS log (
    id TEXT PRIMARY KEY, created REAL NOT NULL, expires REAL NOT NULL, title TEXT NOT NULL, file TEXT NOT NULL,
    bytes INTEGER NOT NULL, sample INTEGER NOT NULL, guess TEXT NOT NULL, reading TEXT, profile TEXT, purpose TEXT
);
CREATE TABLE IF NOT EXISTS job (
    id TEXT PRIMARY KEY, number INTEGER NOT NULL, log TEXT NOT NULL REFERENCES log ON DELETE CASCADE,
    kind TEXT NOT NULL, state TEXT NOT NULL, request TEXT NOT NULL, step TEXT NOT NULL, share REAL NOT NULL,
    wanted INTEGER NOT NULL DEFAULT 1, result TEXT, error TEXT, created REAL NOT NULL, started REAL, ended REAL
);
CREATE TABLE IF NOT EXISTS point (
    job TEXT NOT NULL REFERENCES job ON DELETE CASCADE, number INTEGER NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (job, number)
);
CREATE TABLE IF NOT EXISTS release (
    id TEXT PRIMARY KEY, created REAL NOT NULL, log TEXT, title TEXT NOT NULL, content TEXT NOT NULL
);
"""
JSON_COLUMNS: Final = frozenset({"guess", "reading", "profile", "purpose", "request", "result", "content"})
RELEASED: Final = "release"
"""The folder of a release inside its folder: what is handed out, and nothing else."""
INTERNAL: Final = "release-internal"
"""Beside it: the report for the holder alone, which is deleted with the log."""
ACTIVE: Final = ("waiting", "running")
OF_A_LIVE_LOG: Final = "log IN (SELECT id FROM log WHERE expires > ?)"
Row = dict[str, Any]


class NotFoundError(QueryVeilError):
    """There is nothing of that identity here (any more)."""


class Store:
    """The database and its folders. Safe for several threads and processes: each call has its own connection."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in (folder, folder / "logs", folder / "releases"):
            part.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = folder / "page.db"
        with self._connection() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(SCHEMA)
        self.path.chmod(0o600)

    def log_folder(self, log: str) -> Path:
        """Where everything of an uploaded log lies."""
        return self.folder / "logs" / _checked(log)

    def original(self, log: Row) -> Path:
        """The uploaded file itself."""
        return self.log_folder(log["id"]) / str(log["file"])

    def release_folder(self, release: str) -> Path:
        """Where a release and what belongs to it lie."""
        return self.folder / "releases" / _checked(release)

    def add_log(
        self, identity: str, *, title: str, file: str, size: int, sample: bool, guess: Row, hours: float
    ) -> None:
        """Take note of an uploaded log."""
        now = time.time()
        self._run(
            "INSERT INTO log (id, created, expires, title, file, bytes, sample, guess) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (identity, now, now + hours * 3600, title, file, size, int(sample), json.dumps(guess)),
        )

    def log(self, identity: str) -> Row:
        """One log."""
        return self._one("SELECT * FROM log WHERE id = ? AND expires > ?", (_checked(identity), time.time()))

    def logs(self) -> list[Row]:
        """All logs, newest first."""
        return self._all("SELECT * FROM log WHERE expires > ? ORDER BY created DESC", (time.time(),))

    def set_log(self, identity: str, **values: Any) -> None:
        """Change what is known of a log."""
        self._set("log", identity, values)

    def delete_log(self, identity: str) -> None:
        """Forget a log: its files first, so that a crash in between leaves a row that is deleted again.

        Releases made from it stay, but not their internal reports, which quote it.
        """
        for release in self.releases(identity):
            shutil.rmtree(self.release_folder(release["id"]) / INTERNAL, ignore_errors=True)
        shutil.rmtree(self.log_folder(identity), ignore_errors=True)
        self._run("DELETE FROM log WHERE id = ?", (identity,))

    def expired_logs(self) -> list[str]:
        """Logs whose time is up."""
        return [str(row["id"]) for row in self._all("SELECT id FROM log WHERE expires <= ?", (time.time(),))]

    def delete_unfinished_uploads(self) -> None:
        """Delete files of logs that no row knows: what was being uploaded when an earlier server was killed.

        Only for a server that starts: an upload that is going on has no row yet either.
        """
        known = {str(row["id"]) for row in self._all("SELECT id FROM log")}
        for folder in (self.folder / "logs").iterdir():
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)

    def delete_what_nobody_can_reach(self) -> None:
        """Delete folders of releases that are neither known nor being made, and internal reports without a log."""
        folders = list((self.folder / "releases").iterdir())
        # In this order: a release that is no longer being made, but was when its folder was seen, is known by now.
        made = {job["request"].get("release") for state in ACTIVE for job in self.jobs(kind="release", state=state)}
        known = {str(row["id"]) for row in self._all("SELECT id FROM release")}
        for folder in folders:
            if folder.name not in made | known:
                shutil.rmtree(folder, ignore_errors=True)
        for row in self._all("SELECT id FROM release WHERE log IS NULL OR log NOT IN (SELECT id FROM log)"):
            shutil.rmtree(self.release_folder(row["id"]) / INTERNAL, ignore_errors=True)

    def add_job(self, log: str, kind: str, request: Row) -> str:
        """Put a job into the queue. Of one kind there is at most one unfinished job a log."""
        identity = new_identity()
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            busy = connection.execute(
                "SELECT id FROM job WHERE log = ? AND kind = ? AND state IN (?, ?)", (_checked(log), kind, *ACTIVE)
            ).fetchone()
            if busy is None:
                connection.execute(
                    "INSERT INTO job (id, number, log, kind, state, request, step, share, created) VALUES"
                    " (?, (SELECT coalesce(max(number), 0) + 1 FROM job), ?, ?, 'waiting', ?, 'waiting', 0, ?)",
                    (identity, log, kind, json.dumps(request), time.time()),
                )
            connection.execute("COMMIT")
        return str(busy[0]) if busy else identity

    def job(self, identity: str) -> Row:
        """One job."""
        return self._one(f"SELECT * FROM job WHERE id = ? AND {OF_A_LIVE_LOG}", (_checked(identity), time.time()))

    def jobs(self, log: str | None = None, kind: str | None = None, state: str | None = None) -> list[Row]:
        """Jobs, newest first; none on logs whose time is up."""
        return self._all(
            f"SELECT * FROM job WHERE {OF_A_LIVE_LOG} AND (?2 IS NULL OR log = ?2) AND (?3 IS NULL OR kind = ?3)"
            " AND (?4 IS NULL OR state = ?4) ORDER BY number DESC",
            (time.time(), log, kind, state),
        )

    def set_job(self, identity: str, **values: Any) -> None:
        """Change what is known of a job."""
        self._set("job", identity, values)

    def take_next_job(self, *, comparison: bool = False) -> Row | None:
        """The oldest waiting job, from now on running: a comparison, or one of the other kinds."""
        rows = self._all(
            "UPDATE job SET state = 'running', step = 'starting', started = ?1 WHERE id = (SELECT id FROM job WHERE"
            f" state = 'waiting' AND {OF_A_LIVE_LOG} AND (kind = 'compare') = ?3 ORDER BY number LIMIT 1) RETURNING *",
            (time.time(), time.time(), comparison),
        )
        return rows[0] if rows else None

    def finish_job(self, identity: str, state: str, *, error: str | None = None, result: Row | None = None) -> None:
        """End a job that has not ended yet."""
        self._run(
            "UPDATE job SET state = ?, error = ?, result = coalesce(?, result), ended = ?,"
            " share = CASE WHEN ? = 'done' THEN 1 ELSE share END WHERE id = ? AND state IN (?, ?)",
            (state, error, None if result is None else json.dumps(result), time.time(), state, identity, *ACTIVE),
        )

    def add_point(self, job: str, number: int, content: Row) -> None:
        """Keep one finished part of a job, so that it is not done again after a restart."""
        self._run("INSERT OR REPLACE INTO point VALUES (?, ?, ?)", (job, number, json.dumps(content)))

    def points(self, job: str) -> dict[int, Row]:
        """The finished parts of a job by their number."""
        rows = self._all("SELECT number, content FROM point WHERE job = ? ORDER BY number", (job,))
        return {int(row["number"]): row["content"] for row in rows}

    def add_release(self, identity: str, *, log: str, title: str, content: Row) -> None:
        """Take note of a finished release."""
        self._run(
            "INSERT OR REPLACE INTO release VALUES (?, ?, ?, ?, ?)",
            (identity, time.time(), log, title, json.dumps(content)),
        )

    def release(self, identity: str) -> Row:
        """One release."""
        return self._one("SELECT * FROM release WHERE id = ?", (_checked(identity),))

    def releases(self, log: str | None = None) -> list[Row]:
        """Releases, newest first."""
        return self._all("SELECT * FROM release WHERE (?1 IS NULL OR log = ?1) ORDER BY created DESC", (log,))

    def delete_release(self, identity: str) -> None:
        """Forget a release and its files; the ledger keeps its entry."""
        shutil.rmtree(self.release_folder(identity), ignore_errors=True)
        self._run("DELETE FROM release WHERE id = ?", (identity,))

    def _set(self, table: str, identity: str, values: Row) -> None:
        assigned = ", ".join(f"{name} = ?" for name in values)  # names are this package's own
        encoded = [json.dumps(value) if name in JSON_COLUMNS else value for name, value in values.items()]
        self._run(f"UPDATE {table} SET {assigned} WHERE id = ?", (*encoded, _checked(identity)))

    def _one(self, query: str, values: tuple[Any, ...]) -> Row:
        rows = self._all(query, values)
        if not rows:
            raise NotFoundError("there is nothing of that name here, or its time was up and it was deleted.")
        return rows[0]

    def _all(self, query: str, values: tuple[Any, ...] = ()) -> list[Row]:
        with self._connection() as connection:
            return [_decoded(row) for row in connection.execute(query, values).fetchall()]

    def _run(self, query: str, values: tuple[Any, ...]) -> None:
        with self._connection() as connection:
            connection.execute(query, values)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=SECONDS_TO_WAIT, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            yield connection
        finally:
            connection.close()


def new_identity() -> str:
    """A random name that nobody guesses."""
    return secrets.token_hex(16)


def _checked(identity: str) -> str:
    """Only what `new_identity` makes may become part of a path or a question to the database."""
    if not IDENTITY.fullmatch(identity):
        raise NotFoundError("there is nothing of that name here.")
    return identity


def _decoded(row: sqlite3.Row) -> Row:
    return {
        name: json.loads(row[name]) if name in JSON_COLUMNS and row[name] is not None else row[name]
        for name in row.keys()  # noqa: SIM118 -- a row iterates over its values
    }


def pack(folder: Path, archive: Path, name: str) -> None:
    """All files of a release in one archive, made anew each time, so that it never lags behind the folder."""
    draft = archive.with_name(f".{secrets.token_hex(16)}.zip")
    try:
        with ExitStack() as stack:
            files = _open_together(folder, stack)
            out = stack.enter_context(zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED))
            for file_name, file in files.items():
                with out.open(f"{name}/{file_name}", "w", force_zip64=True) as packed:
                    shutil.copyfileobj(file, packed, 1 << 20)
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)


def _open_together(folder: Path, stack: ExitStack) -> dict[str, BinaryIO]:
    """The files of a release, all of one state of it: a report that is finished now exchanges the folder under us."""
    for _ in range(TRIES_TO_OPEN):
        try:
            before = folder.stat().st_ino
            with ExitStack() as opened:
                files: dict[str, BinaryIO] = {
                    path.name: opened.enter_context(path.open("rb")) for path in sorted(folder.iterdir())
                }
                if folder.stat().st_ino == before:  # a folder is exchanged whole and never changed inside
                    stack.push(opened.pop_all())
                    return files
        except FileNotFoundError:  # between the two renames
            time.sleep(0.05)
    raise UsageError("the release is being changed right now. Try again in a moment.")
