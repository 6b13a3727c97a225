"""What people see: results on stdout, everything else (progress, messages, errors) on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from queryveil.privacy.guarantee import in_short
from queryveil.progress import about, in_words, listening

if TYPE_CHECKING:  # tables and bars are loaded by who shows some
    from rich.progress import Progress, TaskID

AN_HOUR = 3600.0
"""Estimates rest on all that was done within so many seconds: steps may take minutes each."""
messages = Console(stderr=True, highlight=False)
results = Console(highlight=False)


def say(text: str, style: str = "") -> None:
    """A message on stderr."""
    messages.print(_inert(text), style=style or None, soft_wrap=not messages.is_terminal)


def show(text: str) -> None:
    """A result on stdout, wrapped to the terminal; in a pipe a line stays a line."""
    results.print(_inert(text), soft_wrap=not results.is_terminal)


def show_promise(promise: Mapping[str, Any]) -> None:
    """What a release promises, in five short lines on stdout."""
    for line in in_short(promise):
        show(line)


def show_command(text: str) -> None:
    """A command on stdout, on one line also in a narrow terminal, so that it can be copied and run."""
    results.print(_inert(text), soft_wrap=True)


def show_json(content: Mapping[str, Any]) -> None:
    """One JSON object on stdout, in ASCII: what an engine answers could hold characters that repaint the screen."""
    sys.stdout.write(json.dumps(content, indent=2, default=str) + "\n")


def show_table(title: str, rows: Mapping[str, str]) -> None:
    """Names and values, as two columns."""
    from rich.table import Table

    table = Table(title=title, show_header=False, title_justify="left", title_style="bold")
    for name, value in rows.items():
        table.add_row(escape(name), escape(value))
    results.print(table)


def show_grid(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table with a line of heads; all but the first column stand to the right.

    Where it is too wide, the others are as narrow as their words allow, and the first has the rest; names of at most a
    quarter of the width are never cut.
    """
    from rich import box
    from rich.table import Table

    lines = [list(map(_inert, row)) for row in rows]
    columns = list(zip(heads, *lines, strict=True))
    widths = [max(map(len, column)) for column in columns]
    light = sum(widths) + 3 * len(widths) + 1 > results.width
    too_wide = sum(widths) + 2 * len(widths) > results.width
    table = Table(title=title, title_justify="left", title_style="bold")
    if light:
        table.box, table.padding, table.pad_edge = box.SIMPLE_HEAD, (0, 1, 0, 0), False
    words = [max(map(_longest_word, column)) for column in columns]
    spare = max(0, results.width - widths[0] - sum(words[1:]) - 2 * len(widths))
    for place, column in enumerate(columns):
        width = min(widths[place], words[place] + spare) if place and too_wide else None
        spare -= 0 if width is None else width - words[place]
        short = place == 0 and widths[0] <= results.width // 4
        table.add_column(escape(column[0]), justify="right" if place else "left", max_width=width, no_wrap=short)
    for line in lines:
        table.add_row(*line)
    results.print(table)


def _longest_word(cell: str) -> int:
    """How narrow a cell may be; a number is not parted from its per cent sign."""
    return max(map(len, cell.replace(" %", "_%").split()), default=0)


def _inert(text: str) -> str:
    """No markup, and no control characters that could repaint the screen."""
    return escape("".join(c if c.isprintable() or c == "\n" else "�" for c in text))


class GrowingTable:
    """Rows that come while work goes on: each is shown as soon as it is there, and below them what is being done."""

    def __init__(
        self, progress: Progress, title: str, heads: Sequence[str], widths: Sequence[int], count: float
    ) -> None:
        self._progress, self._heads, self._widths = progress, heads, widths
        self._all = progress.add_task(title, total=count)
        self._doing: dict[str, TaskID] = {}

    def doing(self, name: str, what: str, share: float) -> None:
        """How far the work of that name is; its time runs from the first it tells."""
        if name not in self._doing:
            self._doing[name] = self._progress.add_task(escape(name), total=1.0)
        description = escape(in_words(what, share) if what == name else f"{name}: {in_words(what, share)}")
        self._progress.update(self._doing[name], completed=share, description=description)

    def done(self, name: str, row: Sequence[str], weight: float = 1) -> None:
        """The work of that name has ended, with this row; it was so much of the whole."""
        self._over(name)
        if self._heads:
            self._show(self._heads)
            self._heads = ()
        self._show(row)
        self._progress.update(self._all, advance=weight)

    @contextmanager
    def before(self, name: str) -> Iterator[None]:
        """Work that has no row, and what it tells."""
        self.doing(name, name, 0.0)
        with listening(lambda what, share: self.doing(name, what, share)):
            yield
        self._over(name)

    def _over(self, name: str) -> None:
        if name in self._doing:
            self._progress.remove_task(self._doing.pop(name))

    def _show(self, row: Sequence[str]) -> None:
        first, *others = zip(row, self._widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        messages.print(_inert("  ".join(cells)), soft_wrap=True)


@contextmanager
def growing_table(title: str, heads: Sequence[str], widths: Sequence[int], count: float) -> Iterator[GrowingTable]:
    """A table on stderr that fills while work goes on; what is being done is shown where somebody looks at it.

    Rows are lines, so that none is lost where there are more of them than the terminal is high.
    """
    with _bars() as bar:
        yield GrowingTable(bar, title, heads, widths, count)


class Steps:
    """A bar over labelled steps: call it with each step that has ended; `detail` hears how the present one goes."""

    def __init__(self, progress: Progress, title: str, count: int) -> None:
        self._progress, self._title = progress, title
        self._task = progress.add_task(title, total=count)
        self._done = ""

    def __call__(self, name: str) -> None:
        """A step has ended."""
        self._done = escape(name)
        self._progress.update(self._task, advance=1, description=f"{self._title}: {self._done}")

    def detail(self, what: str, share: float) -> None:
        """How far the present step is."""
        parts = self._title, self._done, escape(in_words(what, share))
        self._progress.update(self._task, description=": ".join(filter(None, parts)))


@contextmanager
def steps(title: str, count: int) -> Iterator[Steps]:
    """A progress bar over labelled steps and what is told within them; only where somebody looks at a terminal."""
    with _bars() as bar:
        made = Steps(bar, title, count)
        with nullcontext() if bar.disable else listening(made.detail):
            yield made


def _bars() -> Progress:
    """Bars on stderr, only where somebody looks at a terminal."""
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Estimate(ProgressColumn):
        """About how long it will still take, once some of it is done."""

        def render(self, task: Task) -> Text:
            left = task.time_remaining
            return Text(f"{about(left)} left" if left and task.completed else "")

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), Estimate()
    seen = messages.file.isatty()  # `is_terminal` is true also in a pipe where FORCE_COLOR is set
    return Progress(*columns, console=messages, transient=True, disable=not seen, speed_estimate_period=AN_HOUR)
