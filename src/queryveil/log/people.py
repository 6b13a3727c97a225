"""User ids that are written differently and yet may be one person.

Two ids are similar if they are the same after `folded`: they differ only in blanks around, in case, in Unicode
form or in invisible characters. Whether `ANN` and `ann` are one person only the holder can know (short random ids may
well differ in case alone), so it is declared: `same` makes one person of them, `different` takes ids as they are.

What happens is never decided by what is in the log. A rule such as "refuse where there are similar ids" would tell
whoever registers as `ANN` whether there is an `ann`. So `merged` replaces every id by its representative, which is a
function of that id alone: `Bob` becomes `bob` whether or not there is a `bob`, and no record depends on another one.
An id of which nothing is left when it is folded stands for itself.

What merging does to a promise about a person. It maps each record's user by a fixed function, so logs that differ in
all records of a person, however that person's ids are written, become logs that differ in all records of one
representative: what is promised for a representative is promised for the person. And where people are counted (k users
must share a text), one person is counted once. That holds whoever else is in the log as long as nobody else has a
similar id. Where somebody has, the two are one representative: promised as before are all records of both, added or
removed. Records of one of them alone, while the other's stay, are records of a representative that are replaced. A
promise for replaced records (one that charges people) covers that as it stands; one for a person added or removed (that
charges the dataset) with twice the ε and (1 + e^ε) δ, a removal and an addition. And where a release keeps a person's
records together under one pseudonym, those two people's records are together. So somebody who may register as `ANN`
beside an `ann` gets closer to her: where a service tells such ids apart, declare `different`, which makes every id a
person of its own, whatever others are called. A person with several ids is then several people.

Reading notes how many similar ids there are, for the holder. An opt-out takes all that are similar, because leaving too
much out breaks no promise.

What a text is to the eye: `visible` takes away what is not seen (format characters such as the zero-width space and the
soft hyphen, and all that Unicode calls ignorable by default) and brings the rest to the compatibility form NFKC, in
which `ﬁ`, `①` and `ｅ` are plain letters and digits. `folded` also forgets case and the blanks and control characters
around. Case goes by way of capitals, so that ß is ss, and a second NFKC joins again what that took apart. Letters of
other scripts that only look alike stay different.

Cost: a scan of the ids; only distinct ones with a capital, a blank at an end or anything outside ASCII are folded.

>>> users = pl.Series(["ann", "ANN ", "a\\u200bnn", "Bob", "eve"])
>>> similar_ids(users)
3
>>> representatives(users).to_list()
['ann', 'ann', 'ann', 'bob', 'eve']
>>> gone, unknown = ids_meant(users, ["Ann", "joe"])
>>> sorted(gone) == ["ANN ", "ann", "a\\u200bnn"], unknown
(True, 1)
>>> seen = pl.DataFrame({"id": [" ANN", "a\\u200bnn", "René", "rene\\u0301 ", "bob"]})
>>> seen.select(folded("id"))["id"].to_list()
['ann', 'ann', 'rené', 'rené', 'bob']
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

import polars as pl

from queryveil.log.query_log import QueryLog

SIMILAR_IDS: Final = "user ids that differ only in blanks around, case, Unicode form or invisible characters"

_MAY_CHANGE: Final = r"[^\x20-\x40\x5b-\x7e]|^ | $"
"""What an id must hold to become another one when it is folded."""
_INVISIBLE: Final = r"[\p{Cf}\p{Default_Ignorable_Code_Point}]"


def visible(column: str) -> pl.Expr:
    """Each text as it is seen, as an expression."""
    return pl.col(column).str.replace_all(_INVISIBLE, "").str.normalize("NFKC")


def folded(column: str) -> pl.Expr:
    """Each text as it is seen, without case and without blanks around it, as an expression."""
    plain = visible(column).str.to_lowercase().str.to_uppercase().str.to_lowercase()
    return plain.str.normalize("NFKC").str.replace_all(r"\p{Cc}", " ").str.strip_chars()


def similar_ids(users: pl.Series) -> int:
    """How many of these distinct ids are similar to another one."""
    if not users.str.contains(_MAY_CHANGE).any():
        return 0
    forms = _forms(users)["form"]
    return int(forms.is_duplicated().sum())


def representatives(ids: pl.Series) -> pl.Series:
    """For each id the one that stands for all that are similar to it: a function of that id alone."""
    distinct = ids.unique()
    changing = _forms(distinct.filter(distinct.str.contains(_MAY_CHANGE))).filter(pl.col("form") != "")
    return ids.replace(changing["id"], changing["form"]) if len(changing) else ids


def represented(names: Sequence[str]) -> list[str]:
    """The same for a list; a name that no file could hold, with half of a surrogate pair in it, stands for itself."""
    if not any(map(re.compile(_MAY_CHANGE).search, names)):
        return list(names)
    try:
        return representatives(pl.Series(names, dtype=pl.String)).to_list()
    except UnicodeEncodeError:
        return list(names) if len(names) == 1 else [form for name in names for form in represented([name])]


def merged(log: QueryLog) -> QueryLog:
    """The log with every id replaced by its representative."""
    return QueryLog(log.frame.with_columns(representatives(log.frame["user"])), similar_ids="same")


def ids_meant(users: pl.Series, named: Collection[str]) -> tuple[list[str], int]:
    """Those of distinct ids that are named or similar to a named one, and how many of the named mean none of them."""
    wanted = _forms(pl.Series(list(named), dtype=pl.String)).filter(pl.col("form") != "")
    there = _forms(users)
    gone = there.filter(pl.col("form").is_in(wanted["form"].implode()) | pl.col("id").is_in(list(named)))["id"]
    return gone.to_list(), wanted.filter(~pl.col("form").is_in(there["form"].implode())).height


def _forms(ids: pl.Series) -> pl.DataFrame:
    """The ids with their folded forms, in whatever order."""
    frame = ids.rename("id").to_frame()
    may_change = pl.col("id").str.contains(_MAY_CHANGE)
    same, other = frame.filter(~may_change), frame.filter(may_change)
    return pl.concat([same.with_columns(form=pl.col("id")), other.with_columns(form=folded("id"))])
