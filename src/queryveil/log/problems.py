"""What reading found wrong: line numbers, columns and reasons, and never anything of the file's content.

>>> found = Findings(most_problems=2)
>>> for line in (3, 5, 9):
...     found.add(line, "the query is empty", column="query")
>>> [str(problem) for problem in found.problems]
['line 3, column query: the query is empty', 'line 5, column query: the query is empty']
>>> found.problem_count
3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from queryveil.log.query_log import COLUMNS

LONGEST_FIELD = 1 << 20
"""Bytes of UTF-8 a single value may have. A longer one is an accident or an attack, not a query."""

LINE = "line"
"""Name of the helper column that holds a record's first line in the file; no format lets it out of the reader."""


@dataclass(frozen=True)
class Problem:
    """One record that could not be read: where and why."""

    line: int
    reason: str
    column: str | None = None
    file: str | None = None
    """Only where a log is spread over several files."""

    def __str__(self) -> str:
        file, column = f"{self.file}, " if self.file else "", f", column {self.column}" if self.column else ""
        return f"{file}line {self.line:,}{column}: {self.reason}"


@dataclass(frozen=True)
class ReadReport:
    """What reading one file saw. `problems` stops at the limit asked for; `problem_count` counts them all."""

    format: str
    lines: int
    records: int
    problems: tuple[Problem, ...]
    problem_count: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A record for which `broken` is true is refused for `reason`."""

    column: str | None
    reason: str
    broken: pl.Expr


class Findings:
    """Collects problems and notes while a format reads; keeps the first `most_problems` in the order of the file."""

    def __init__(self, most_problems: int) -> None:
        self.lines = 0
        self.problem_count = 0
        self._most = most_problems
        self._kept: list[Problem] = []
        self._notes: dict[str, int] = {}
        self._files: list[tuple[int, str]] = []

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The first problems by line, as many as asked for."""
        self._cut()
        return tuple(map(self._placed, self._kept))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out without being wrong, with how often."""
        return tuple(f"{text}: {count:,}" if count else text for text, count in self._notes.items())

    def begin_file(self, name: str) -> None:
        """The next lines belong to another file; lines are numbered through inside and told per file."""
        self._files.append((self.lines, name))

    def add(self, line: int, reason: str, column: str | None = None) -> None:
        """Report one record."""
        self.problem_count += 1
        self._kept.append(Problem(line, reason, column))
        if len(self._kept) > 2 * self._most:
            self._cut()

    def note(self, text: str, count: int = 0) -> None:
        """Count something worth knowing that is not wrong; a text without a count is told once."""
        if count or text not in self._notes:
            self._notes[text] = self._notes.get(text, 0) + count

    def sift(self, frame: pl.DataFrame, rules: Sequence[Rule], broken: Mapping[int, str]) -> pl.DataFrame:
        """Report the records that break a rule (the first one counts) and return the others without the line column.

        `broken` names lines that are already known to be bad, with the reason.
        """
        known = pl.col(LINE).is_in(list(broken)) if broken else pl.lit(False)
        judged = frame.with_columns(first_broken([known, *(rule.broken for rule in rules)]).alias("_verdict"))
        bad = judged.select(LINE, "_verdict").filter(pl.col("_verdict").is_not_null())
        if bad.height:
            self._report(bad, rules, broken)
            judged = judged.filter(pl.col("_verdict").is_null())
        return judged.drop(LINE, "_verdict")

    def _report(self, bad: pl.DataFrame, rules: Sequence[Rule], broken: Mapping[int, str]) -> None:
        self.problem_count += bad.height
        for line, number in bad.sort(LINE).head(self._most).iter_rows():
            rule = rules[number - 1]
            self._kept.append(Problem(line, rule.reason, rule.column) if number else Problem(line, broken[line]))
        self._cut()

    def _placed(self, problem: Problem) -> Problem:
        for lines_before, name in reversed(self._files):
            if problem.line > lines_before:
                return replace(problem, line=problem.line - lines_before, file=name)
        return problem

    def _cut(self) -> None:
        self._kept = sorted(self._kept, key=lambda problem: problem.line)[: self._most]


def listed_problems(problems: Sequence[Problem], count: int) -> list[str]:
    """The problems that were kept, a line each, and how many more there are.

    >>> listed_problems([Problem(3, "not 3 columns")], 12)
    ['line 3: not 3 columns', '… and 11 more']
    """
    more = [f"… and {count - len(problems):,} more"] if count > len(problems) else []
    return [*map(str, problems), *more]


def first_broken(conditions: Sequence[pl.Expr]) -> pl.Expr:
    """The number of the first condition that holds, null where none does."""
    return pl.coalesce(pl.when(broken).then(pl.lit(number, pl.UInt16)) for number, broken in enumerate(conditions))


def rules_for_all(columns: Sequence[str]) -> list[Rule]:
    """What every record of every format has to obey."""
    rules = [
        Rule(name, f"the {name} is empty", pl.col(name).is_null() | (pl.col(name) == ""))
        for name in ("user", "query")
        if name in columns
    ]
    return rules + [
        Rule(name, f"the {name} is longer than {LONGEST_FIELD:,} bytes", pl.col(name).str.len_bytes() > LONGEST_FIELD)
        for name in columns
        if COLUMNS.get(name, pl.String()) == pl.String()
    ]
