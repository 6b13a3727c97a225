"""Every error QueryVeil raises on purpose, in one tree.

    QueryVeilError
    ├── DataError               exit 1: something in the data stops the work
    │   ├── FormatError         a log cannot be read from, or written to, a format
    │   ├── KnowledgeError      public knowledge is missing or not what it should be
    │   ├── EngineError         a search engine, a database or Spark did not answer, or not as it should
    │   ├── DiskError           the disk is full or failing: nothing is wrong with the call, try again
    │   └── VerificationError   a release is not what its manifest says
    ├── UsageError              exit 2: the call itself is wrong
    │   └── ParameterError      parameters that are not allowed, all of them at once; also a ValueError
    └── RefusedError            exit 3: refused for privacy
        └── BudgetError         the ledger has not enough budget left

An error is data: a message, the parameter it is about, what was given (never anything of the data), and a remedy that
names a parameter and a value. The message speaks to every user alike. How a remedy is said depends on where it is read:
Python shows the keyword, the command line its option, the page its field (`describe` with their own renderer).

>>> error = FormatError("3 of 10 lines cannot be read.", remedy=Remedy("on_error", "skip"))
>>> str(error)
"3 of 10 lines cannot be read. Try on_error='skip'."
>>> error.describe(as_option)
'3 of 10 lines cannot be read. Try --on-error skip.'
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Remedy:
    """A parameter, and the value to give it: an example in capitals where the user has to choose one, and None where
    the parameter is to be left out."""

    parameter: str
    value: object = None

    def __str__(self) -> str:
        """As a keyword of Python."""
        if self.value is None:
            return f"without {self.parameter}"
        is_example = isinstance(self.value, str) and self.value.isupper()
        return f"{self.parameter}={self.value if is_example else repr(self.value)}"


def as_option(remedy: Remedy) -> str:
    """A remedy as an option of the command line.

    >>> as_option(Remedy("format", "NAME")), as_option(Remedy("join", True)), as_option(Remedy("block_categories"))
    ('--format NAME', '--join', 'without --block-categories')
    >>> as_option(Remedy("columns", {"user": "THEIR_NAME"}))
    '--columns user=THEIR_NAME'
    """
    option = f"--{remedy.parameter.replace('_', '-')}"
    if remedy.value is None:
        return f"without {option}"
    if isinstance(remedy.value, Mapping):
        return f"{option} {','.join(f'{name}={value}' for name, value in remedy.value.items())}"
    return option if remedy.value is True else f"{option} {remedy.value}"


class QueryVeilError(Exception):
    """Root of all errors raised on purpose."""

    exit_code: ClassVar[int] = 1

    def __init__(
        self,
        message: str = "",
        *,
        parameter: str | None = None,
        given: str | None = None,
        remedy: Remedy | None = None,
    ) -> None:
        self.message, self.parameter, self.given, self.remedy = message, parameter, given, remedy
        super().__init__(message)

    def __str__(self) -> str:
        return self.describe(str)

    def __reduce__(self) -> tuple[Callable[..., QueryVeilError], tuple[object, ...]]:
        return _restored, (type(self), self.args, {**vars(self)})

    def describe(self, say: Callable[[Remedy], str]) -> str:
        """The message and its remedy, in the words of whoever shows it."""
        return self.message if self.remedy is None else f"{self.message} Try {say(self.remedy)}."


def _restored(kind: type[QueryVeilError], arguments: tuple[object, ...], values: dict[str, object]) -> QueryVeilError:
    made = kind.__new__(kind, *arguments)
    made.args = arguments
    vars(made).update(values)
    return made


class DataError(QueryVeilError):
    """Something in the data stops the work: a bad file, a bad line, a missing column."""

    exit_code = 1


class FormatError(DataError):
    """A log cannot be read from, or written to, a format."""


class KnowledgeError(DataError):
    """Public knowledge (WordNet, Open Directory, word vectors) is missing or not what it should be."""


class EngineError(DataError):
    """A search engine, a database or Spark did not answer, or not as it should."""


class DiskError(DataError):
    """A disk is full or failing: nothing is wrong with the call or the data. Worth another try."""


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


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REASONS = {
    errno.ENOSPC: "no room left on the disk",
    errno.EDQUOT: "the quota on the disk is used up",
    errno.EFBIG: "larger than files may be here",
    errno.EROFS: "the disk is read-only",
    errno.ESPIPE: "a pipe cannot be read twice",
}
"""What the system says, in our words where its own are for programmers."""
FAULTS_OF_THE_CALL = frozenset(
    {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENAMETOOLONG,
        errno.ELOOP,
        errno.EINVAL,
        errno.ESPIPE,
    }
)
"""Another place has to be chosen: exit 2. Everything else may pass by itself: exit 1."""


def reason_of(error: OSError) -> str:
    """What the system says of a file, in a few words, which name no data.

    >>> reason_of(OSError(errno.ENOSPC, "No space left on device")), reason_of(OSError(errno.ENOENT, "No such file"))
    ('no room left on the disk', 'no such file')
    """
    return REASONS.get(error.errno or 0, (error.strerror or "failed").lower())


def system_error(error: OSError, name: str, done: str = "written") -> DiskError | UsageError:
    """The same words and the same exit code for the same trouble, whoever meets it.

    >>> str(system_error(OSError(errno.ENOSPC, ""), "log.tsv"))
    'log.tsv: cannot be written (no room left on the disk). Make room and try again.'
    >>> system_error(OSError(errno.EROFS, ""), "log.tsv").exit_code
    2
    """
    message = f"{name}: cannot be {done} ({reason_of(error)})."
    if error.errno in FAULTS_OF_THE_CALL:
        return UsageError(message)
    return DiskError(f"{message} Make room and try again." if error.errno in FULL else message)


def as_system_error(error: BaseException) -> OSError | None:
    """What the system said, also where a library hands it on in its own words; nothing but its number is taken over.

    >>> as_system_error(ValueError("failed to write: No space left on device (os error 28)")).errno == errno.ENOSPC
    True
    """
    if isinstance(error, OSError):
        return error
    found = re.search(r"\((?:os error|Errno) (\d+)\)|\[Errno (\d+)\]|^OSError: (\d+)", str(error))
    number = int(next(filter(None, found.groups()))) if found else 0
    return OSError(number, os.strerror(number)) if number in errno.errorcode else None


def file_error(error: Exception, name: str, done: str = "written") -> DiskError | UsageError | None:
    """What the system said of a file, which it does not name itself where that was open; None where it said nothing.

    >>> file_error(DataError("a bad line (os error 28)"), "log.tsv") is file_error(ValueError("bad"), "log.tsv") is None
    True
    """
    found = None if isinstance(error, QueryVeilError) else as_system_error(error)
    return None if found is None else system_error(found, name, done)
