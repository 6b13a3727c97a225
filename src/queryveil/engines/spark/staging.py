"""The place where parts lie between the steps of a run, on any file system that Spark knows.

On this machine it is a new folder that only its owner may read. Elsewhere (`s3a:`, `hdfs:` …) files come and go through
Spark's own file systems, so whatever credentials Spark has serve here too. Parts lie one folder deeper: what a task
that was not ended in time makes anew still lies in the folder of its owner, which is the last thing to be deleted.

A driver that is killed sweeps nothing. Its folder on this machine (`queryveil.log.scratch`) names its place elsewhere,
and the next run sweeps both. What it finds elsewhere may still be written to by executors that have not heard of the
driver's end, so it deletes the parts and leaves the folder of their owner to the run after it, which finds it empty.
"""

from __future__ import annotations

import atexit
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import polars as pl

from queryveil.errors import EngineError
from queryveil.log.scratch import Scratch, abandoned

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from queryveil.engines.spark.jobs import Jobs

HERE = "file:"
PARTS = "parts"
ELSEWHERE = "elsewhere"
"""The file that names the place on another file system."""
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

    def __init__(
        self, spark: SparkSession, jobs: Jobs, shared: str | None, on_step: Callable[[str], None] = lambda step: None
    ) -> None:
        """`on_step` is told each step: the kill tests die there."""
        self._spark, self._jobs, self._on_step = spark, jobs, on_step
        self.left = self._sweep_abandoned()
        """Where parts are left of runs that were killed, and cannot be deleted."""
        self._scratch = Scratch("spark")
        self._here = self._scratch.path
        self._shared = bool(shared)
        self._root = f"{shared.rstrip('/')}/queryveil-{uuid4().hex}" if shared else f"{HERE}{self._here}"
        (self._here / PARTS).mkdir()
        if shared:
            try:
                (self._here / ELSEWHERE).write_text(self._root, encoding="utf-8")
                jobs.run(partial(self._make_private, self._root))
            except BaseException:
                shutil.rmtree(self._here, ignore_errors=True)
                raise
        on_step("staging made")

    def _sweep_abandoned(self) -> list[str]:
        """Delete what killed runs of this user left; the places that cannot be reached."""
        left = []
        for folder in abandoned("spark"):
            shutil.rmtree(folder / PARTS, ignore_errors=True)
            named, elsewhere = folder / ELSEWHERE, ""
            try:
                elsewhere = named.read_text(encoding="utf-8") if named.exists() else ""
                over = not elsewhere or self._jobs.run(partial(self._sweep_elsewhere, elsewhere))
            except (OSError, EngineError):
                left.append(elsewhere or str(folder))
                continue
            if over and not _bury(folder):
                left.append(str(folder))
        return left

    def _sweep_elsewhere(self, address: str) -> bool:
        """Delete the parts under the address of a killed run, and the address itself where no parts came meanwhile."""
        system, parts = self._file_system(f"{address}/{PARTS}")
        if system.exists(parts):
            if not system.delete(parts, True) and system.exists(parts):
                raise EngineError("the file system does not delete the parts of a run that was killed.")
            return False
        root = parts.getParent()
        return bool(system.delete(root, True)) or not system.exists(root)

    def new_folder(self) -> str:
        """The path of a new folder; only where executors see it, which `is_folder` tells."""
        place = self.new_place().removeprefix(HERE)
        Path(place).mkdir(parents=True)
        return place

    @property
    def is_folder(self) -> bool:
        """Whether parts lie in a folder that all executors see as the driver does."""
        return self._root.startswith(HERE)

    def new_place(self) -> str:
        """An address that is not in use yet."""
        self._on_step("parts begun")
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
        self._on_step("parts sent")
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
        self._on_step("part written")
        return path

    def _send_away(self, folder: Path, place: str) -> None:
        system, root = self._file_system(place)
        system.mkdirs(root.getParent())
        system.copyFromLocalFile(self._path(f"{HERE}{folder}"), root)

    def bring(self, place: str, column: str) -> list[Path]:
        """The files that Spark wrote under `place` by a column of numbers, in the order of those, on this machine."""
        brought = self._jobs.run(partial(self._bring, place, column))
        self._on_step("parts brought")
        return brought

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
        self._on_step("sweeping")
        shutil.rmtree(self._here / PARTS, ignore_errors=True)
        elsewhere = self._shared and not self._swept_elsewhere(over=over)
        here = not over or (not elsewhere and not _bury(self._here))  # the folder names what is left elsewhere
        left = [place for place, there in ((str(self._here), here), (self._root, elsewhere)) if there]
        self._scratch.release()
        if left:
            raise EngineError(
                f"parts of the log, with their owners, are left in {' and '.join(left)}, or a task that Spark has not "
                "ended yet may write them. Delete the folder by hand when Spark is done."
            )

    def _swept_elsewhere(self, *, over: bool) -> bool:
        """Whether nothing is left there, nor may come."""
        try:
            system, path = self._file_system(self._root if over else f"{self._root}/{PARTS}")
            return (bool(system.delete(path, True)) or not system.exists(path)) and over
        except Exception:  # whatever state Spark is in: the holder must hear of what is left
            return False

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
