"""The settings of a live run: from a TOML file, from options, or both (options win). Checked before anything opens.

```toml
from = "redis://localhost:6379/0?stream=searches"
to = "redis://localhost:6379/0?stream=released"
run = "web"

[mechanism]
k = 10
category_column = "topic"
```

>>> settings_from({"from": "log.tsv", "to": "out.jsonl", "run": "web", "mechanism": {"k": 7}}).mechanism.k
7
>>> settings_from({"from": "log.tsv", "to": "out.jsonl", "runn": "web"})
Traceback (most recent call last):
queryveil.errors.UsageError: unknown setting: runn. Known ones are listed in docs/live.md.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from queryveil.checks import one_of, real_number, require, truth_value, whole_number
from queryveil.errors import Remedy, UsageError, reason_of
from queryveil.live.connector import Endpoint, OnStep, no_step
from queryveil.live.records import WRITTEN_LIVE, Decoder, line_format, read_by_lines
from queryveil.live.stages import Mixing, Routing, Stage
from queryveil.log.reading import format_of_name
from queryveil.mechanisms.stream import Stream
from queryveil.privacy.keys import refuse_release_folders

MEBIBYTE = 1 << 20
SHARD = "{shard}"
RENAMED = {"from": "from_url", "to": "to_url"}


@dataclass(frozen=True, kw_only=True)
class LiveSettings:
    """A live run. `shard` picks one shard by hand; without it the workers of a run share them out."""

    from_url: str
    to_url: str
    run: str
    shards: int = 1
    shard: int | None = None
    route: bool = False
    format: str | None = None
    output_format: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    follow: bool = False
    batch: int | None = None
    wait: float = 1.0
    most_pending: int = 5_000_000
    longest: int = MEBIBYTE
    most_memory: int = 4096
    on_stop: Literal["keep", "suppress"] = "keep"
    checkpoint: Path | None = None
    from_checkpoint: Path | None = None
    join: bool = False
    metrics: int | None = None
    mechanism: Stream = field(default_factory=Stream)

    def __post_init__(self) -> None:
        named = isinstance(self.run, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,40}", self.run)
        require(
            None if named else "run must be 1 to 40 letters, digits, - or _: it names the run's key and state.",
            whole_number("shards", self.shards, at_least=1, at_most=4096, suggest=8),
            whole_number("shard", self.shard, at_least=0, at_most=self.shards - 1, optional=True),
            truth_value("route", self.route),
            one_of("format", self.format, read_by_lines(), suggest="jsonl", optional=True),
            one_of("output_format", self.output_format, WRITTEN_LIVE, suggest="jsonl", optional=True),
            truth_value("follow", self.follow),
            truth_value("join", self.join),
            whole_number("batch", self.batch, at_least=1, at_most=10**7, suggest=20_000, optional=True),
            real_number("wait", self.wait, above=0, at_most=3600, suggest=1.0),
            whole_number("most_pending", self.most_pending, at_least=1, at_most=10**9, suggest=5_000_000),
            whole_number("longest", self.longest, at_least=100, at_most=16 * MEBIBYTE, suggest=MEBIBYTE),
            whole_number("most_memory", self.most_memory, at_least=256, suggest=4096),
            one_of("on_stop", self.on_stop, ("keep", "suppress"), suggest="keep"),
            whole_number("metrics", self.metrics, at_least=0, at_most=65535, suggest=9464, optional=True),
            "by_category is for a whole log. Share a live stream out by its categories with shards."
            if self.mechanism.by_category else None,
        )  # fmt: skip
        self._check_ends()

    def _check_ends(self) -> None:
        """What cannot be shared by the shards, what a router cannot write, and where no state may lie."""
        if self.checkpoint is not None:
            refuse_release_folders(self.checkpoint)
        if self.route and self.written_format() != "jsonl":
            raise UsageError(
                "a router writes jsonl, with the category in every record. Name its files so, for example "
                "part-{shard}.jsonl.",
                remedy=Remedy("output_format"),
            )
        if self.route and self.to_url == "-":
            raise UsageError("a router needs a place for each shard: files with {shard} in their name, or a broker.")
        if not self._several_shards:
            return
        for name, url in (("from", self.from_url), ("to", self.to_url)):
            if url == "-":
                raise UsageError(
                    f"{name} - is one pipe for all shards. Start a worker for each.", remedy=Remedy("shard", "NUMBER")
                )
        for name, path in (("checkpoint", self.checkpoint), ("from_checkpoint", self.from_checkpoint)):
            if path is not None and SHARD not in path.name:
                example = Remedy(name, f"state-{SHARD}.checkpoint")
                raise UsageError(f"{name} needs {SHARD} in its name: there is one for each shard.", remedy=example)

    @property
    def _several_shards(self) -> bool:
        """Whether this worker may hold more than one."""
        return self.shards > 1 and self.shard is None and not self.route

    def checkpoint_of(self, shard: int) -> Path | None:
        """The file for a shard's state, or for a copy of it."""
        return _of_shard(self.checkpoint, shard)

    def input_format(self) -> str:
        """As set, or as the name of the file says, or jsonl."""
        return self.format or _named_format(self.from_url, read_by_lines()) or "jsonl"

    def written_format(self) -> str:
        """As set, or as the name of the file says, or jsonl."""
        return self.output_format or _named_format(self.to_url, WRITTEN_LIVE) or "jsonl"

    def source_end(self, shard: int) -> Endpoint:
        """What the source must know."""
        spread = "none" if self.route else "mine"
        return self._end(self.from_url, shard, spread=spread, follow=self.follow, longest=self.longest)

    def sink_end(self, shard: int, on_step: OnStep = no_step) -> Endpoint:
        """What the sink must know."""
        files = {"checkpoint": self.checkpoint_of(shard), "from_checkpoint": _of_shard(self.from_checkpoint, shard)}
        return self._end(self.to_url, shard, spread="all" if self.route else "mine", on_step=on_step, **files)

    def _end(self, url: str, shard: int, **more: Any) -> Endpoint:
        return Endpoint(url=url, run=self.run, shard=shard, shards=self.shards, **more)

    def stage(self, shard: int) -> Stage:
        """What is done with the records of a shard."""
        if self.route:
            return Routing(self.mechanism, self.shards)
        written = line_format(self.written_format(), with_time=self.mechanism.time != "drop")
        return Mixing(self.mechanism, written, most_pending=self.most_pending, shard=shard, shards=self.shards)

    def decoder(self, header: bytes | None) -> Decoder:
        """Reads records, with the names of the columns where these stand in the first line of a file."""
        return Decoder(
            self.input_format(),
            self.columns,
            category_column=self.mechanism.category_column,
            header=header,
            longest=self.longest,
            no_tabs=self.written_format() == "aol",
        )

    def deciding(self, header: bytes | None) -> dict[str, str]:
        """All that decides what becomes of a record, and so must be the same for a whole run."""
        settings = dataclasses.asdict(self.mechanism)
        del settings["by_category"]  # never set here: runs that began before there was such a thing go on
        settings |= {
            "format": self.input_format(),
            "output_format": self.written_format(),
            "columns": sorted(self.columns.items()),
            "longest": self.longest,
            "most_pending": self.most_pending,
            "names of the columns in the file": header,
        }
        return {name: repr(value) for name, value in settings.items()}


def settings_from(given: Mapping[str, Any]) -> LiveSettings:
    """Settings from plain values, as a TOML file or the command line's options give them."""
    theirs = {ours: name for name, ours in RENAMED.items()}
    known = [theirs.get(field.name, field.name) for field in dataclasses.fields(LiveSettings)]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UsageError(f"unknown setting: {', '.join(unknown)}. Known ones are listed in docs/live.md.")
    missing = [name for name in ("from", "to", "run") if not given.get(name)]
    if missing:
        example = Remedy(missing[0], "NAME" if missing[0] == "run" else "URL")
        raise UsageError(f"a live stream needs {' and '.join(missing)}.", remedy=example)
    values = {RENAMED.get(name, name): value for name, value in given.items()}
    if "mechanism" in values:
        values["mechanism"] = _mechanism(values["mechanism"])
    for name in ("checkpoint", "from_checkpoint"):
        if values.get(name) is not None:
            values[name] = Path(values[name])
    return LiveSettings(**values)


def read_config(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path.name}: cannot be read ({reason_of(error)}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise UsageError(f"{path.name}: not a TOML file.") from None


def _mechanism(given: object) -> Stream:
    if isinstance(given, Stream):
        return given
    known = [field.name for field in dataclasses.fields(Stream)]
    if not isinstance(given, dict) or any(name not in known for name in given):
        raise UsageError(f"[mechanism] takes {', '.join(known)}.")
    return Stream(**given)


def _of_shard(path: Path | None, shard: int) -> Path | None:
    return path and path.with_name(path.name.replace(SHARD, str(shard)))


def _named_format(url: str, known: tuple[str, ...]) -> str | None:
    found = format_of_name(Path(url)) if "://" not in url else None
    return found if found in known else None
