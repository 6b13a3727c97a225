"""The place where parts lie between the steps of a run, on any file system that Spark knows.

On this machine it is a new folder that only its owner may read. Elsewhere (`s3a:`, `hdfs:` …) files come and go through
Spark's own file systems, so whatever credentials Spark has serve here too. Parts lie one folder deeper: what a task
that was not ended in time makes anew still lies in the folder of its owner, which is the last thing to be deleted.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import polars as pl

from queryveil.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from queryveil.engines.spark.jobs import Jobs

HERE = "file:"
PARTS = "parts"
BURIALS = 100
"""Times to try, where a task makes the folder anew in between."""


def _bury(folder: Path) -> bool:
    """Delete a folder for good: an empty file takes its name until this process ends.

    A task that Spark has given up may still write for a moment, and would make the folder anew, readable by others.
    """
    for _ in range(BURIALS):
        shutil.rmtree(folder, ignore_errors=True)
        try:
            os.close(os.open(folder, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except OSError:
            continue
        atexit.register(folder.unlink, missing_ok=True)
        return True
    return False


class Staging:
    """Holds what a run has finished so far; `sweep` deletes all of it."""

    def __init__(self, spark: SparkSession, jobs: Jobs, shared: str | None) -> None:
        self._spark, self._jobs = spark, jobs
        self._here = Path(tempfile.mkdtemp(prefix="queryveil-spark-"))  # its owner's alone
        self._shared = bool(shared)
        self._root = f"{shared.rstrip('/')}/queryveil-{uuid4().hex}" if shared else f"{HERE}{self._here}"
        (self._here / PARTS).mkdir()
        if shared:
            try:
                jobs.run(partial(self._make_private, self._root))
            except BaseException:
                shutil.rmtree(self._here, ignore_errors=True)
                raise

    def new_place(self) -> str:
        """An address that is not in use yet."""
        return f"{self._root}/{PARTS}/{uuid4().hex}"

    def send(self, frame: pl.DataFrame, rows_per_file: int) -> str:
        """A frame of this machine as Parquet files; where they are."""
        place = self.new_place()
        folder = self._here / PARTS / Path(place).name
        try:
            folder.mkdir()
            for number, part in enumerate(frame.iter_slices(rows_per_file)):
                part.write_parquet(folder / f"part-{number:05}.parquet")
        except OSError:
            raise EngineError(
                f"the log cannot be written to {self._here}. Is there room? TMPDIR names another place."
            ) from None
        if self._shared:
            self._jobs.run(partial(self._send_away, folder, place))
            shutil.rmtree(folder)
        return place

    def write(self, frame: pl.DataFrame) -> Path:
        """A file of this machine alone."""
        path = self._here / PARTS / f"{uuid4().hex}.parquet"
        try:
            frame.write_parquet(path)
        except OSError:
            raise EngineError(
                f"the log cannot be written to {self._here}. Is there room? TMPDIR names another place."
            ) from None
        return path

    def _send_away(self, folder: Path, place: str) -> None:
        system, root = self._file_system(place)
        system.mkdirs(root.getParent())
        system.copyFromLocalFile(self._path(f"{HERE}{folder}"), root)

    def bring(self, place: str, column: str) -> list[Path]:
        """The files that Spark wrote under `place` by a column of numbers, in the order of those, on this machine."""
        return self._jobs.run(partial(self._bring, place, column))

    def _bring(self, place: str, column: str) -> list[Path]:
        system, root = self._file_system(place)
        found: list[tuple[int, str, Any]] = []
        for folder in system.listStatus(root):
            name = folder.getPath().getName()
            if name.startswith(f"{column}="):
                for file in system.listStatus(folder.getPath()):
                    if file.getPath().getName().endswith(".parquet"):
                        found.append((int(name.partition("=")[2]), file.getPath().getName(), file.getPath()))
        found.sort(key=lambda part: part[:2])
        if not self._shared:
            return [Path(path.toUri().getPath()) for _, _, path in found]
        folder_here = self._here / PARTS / Path(place).name
        folder_here.mkdir()
        paths = []
        for place_in_order, (_, _, path) in enumerate(found):
            paths.append(folder_here / f"part-{place_in_order:05}.parquet")
            system.copyToLocalFile(path, self._path(f"{HERE}{paths[-1]}"))
        return paths

    def sweep(self, *, over: bool) -> None:
        """Delete everything; says where something is left, or may come yet, because Spark is gone or is not `over`."""
        shutil.rmtree(self._here / PARTS, ignore_errors=True)
        left = [] if over and _bury(self._here) else [str(self._here)]
        if self._shared:
            try:
                system, path = self._file_system(self._root if over else f"{self._root}/{PARTS}")
                gone = bool(system.delete(path, True)) or not system.exists(path)
            except Exception:  # whatever state Spark is in: the holder must hear of what is left
                gone = False
            if not over or not gone:
                left.append(self._root)
        if left:
            raise EngineError(
                f"parts of the log, with their owners, are left in {' and '.join(left)}, or a task that Spark has not "
                "ended yet may write them. Delete the folder by hand when Spark is done."
            )

    def _make_private(self, address: str) -> None:
        """A folder that only its owner may read; object stores know no owners and have rules of their own."""
        system, path = self._file_system(address)
        jvm: Any = self._spark._jvm
        mode = jvm.org.apache.hadoop.fs.permission.FsPermission("700")
        system.mkdirs(path, mode)
        system.setPermission(path, mode)

    def _path(self, address: str) -> Any:
        jvm: Any = self._spark._jvm  # Spark's file systems have no other door
        return jvm.org.apache.hadoop.fs.Path(address)

    def _file_system(self, address: str) -> tuple[Any, Any]:
        path = self._path(address)
        context: Any = self._spark._jsc
        return path.getFileSystem(context.hadoopConfiguration()), path
