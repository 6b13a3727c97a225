"""Every error QueryVeil raises on purpose, in one tree.

Messages say what is wrong, the rule, what was given (parameters only) and a remedy. They never hold anything of the
data: a line number or a column name, yes; a query or a user, never. `exit_code` is what the command line exits with.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class QueryVeilError(Exception):
    """Root of all errors raised on purpose."""

    exit_code: ClassVar[int] = 1


class DataError(QueryVeilError):
    """Something in the data stops the work: a bad file, a bad line, a missing column."""

    exit_code = 1


class FormatError(DataError):
    """A log cannot be read from, or written to, a format."""


class KnowledgeError(DataError):
    """Public knowledge (WordNet, Open Directory, word vectors) is missing or not what it should be."""


class EngineError(DataError):
    """A search engine did not answer, or not as it should."""


class VerificationError(DataError):
    """A release folder is not what its manifest says, or its signature does not hold."""


class UsageError(QueryVeilError):
    """The call itself is wrong: an unknown option, a bad combination, a path that cannot be written."""

    exit_code = 2


class ParameterError(UsageError, ValueError):
    """One or more parameters are not allowed. All problems are told at once, before any work starts."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class RefusedError(QueryVeilError):
    """Refused for privacy: the budget is spent, or the setting cannot keep the promise."""

    exit_code = 3


class BudgetError(RefusedError):
    """The ledger has not enough budget left for this release."""
