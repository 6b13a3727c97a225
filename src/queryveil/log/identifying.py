r"""Who a record is about: user ids that may be one person's, and texts that name a person by themselves.

**Similar ids** are the same after `folded`: they differ only in blanks around, in case, in Unicode form or in invisible
characters. Whether `ANN` and `ann` are one person only the holder can know (short random ids may well differ in case
alone), so it is declared: `same` makes one person of them, `different` takes ids as they are.

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

**Identifying texts** name a person or open a door by themselves, however many people typed them: e-mail addresses,
seven digits with nothing but blanks and marks between (telephone, account and identity numbers), credentials in URLs,
and addresses of devices (MAC, IPv6). They count as a reader sees them, so the patterns are matched on the text and on a
plain copy of it: percent-decoded up to `MOST_DECODINGS` times, without invisible characters, in Unicode's form NFKC
(`visible`). The text itself is never changed.

Not found: numbers in words, addresses in words without brackets ("ann at example dot com"), secrets in the path of a
URL, names. The audit looks with wider patterns of its own (`queryveil.audit.attacks.residue`).

Cost: one scan that sets texts of letters and blanks aside, one by each pattern for the others, and one that tells which
of them differ from their plain copy; only these are copied.

>>> users = pl.Series(["ann", "ANN ", "a\u200bnn", "Bob", "eve"])
>>> similar_ids(users)
3
>>> representatives(users).to_list()
['ann', 'ann', 'ann', 'bob', 'eve']
>>> gone, unknown = ids_meant(users, ["Ann", "joe"])
>>> sorted(gone) == ["ANN ", "ann", "a\u200bnn"], unknown
(True, 1)
>>> seen = pl.DataFrame({"id": [" ANN", "a\u200bnn", "René", "rene\u0301 ", "bob"]})
>>> seen.select(folded("id"))["id"].to_list()
['ann', 'ann', 'rené', 'rené', 'bob']
>>> texts = ["tulip bulbs", "call 555 123 4567", "x.org/?mail=ann%2540x.org", "555\u200b123\u200b4567"]
>>> pl.DataFrame({"q": texts}).select(is_identifying("q"))["q"].to_list()
[False, True, True, True]
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final
from urllib.parse import unquote

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


MOST_DECODINGS: Final = 4

EMAIL: Final = (
    r"(?i)[^\s@＠]\s*(?:[@＠﹫]|[(\[{<]\s*at\s*[)\]}>])\s*[^\s@＠]+?\s*(?:[.。．｡]|[(\[{<]\s*dot\s*[)\]}>])\s*[^\s@＠.]"
)
LONG_NUMBER: Final = r"\d(?:[\s\pM.,;:_\-‐-―−/\\()\[\]+*·•|~'’`´]*\d){6}"
CREDENTIALS: Final = (
    r"(?i)[a-z][a-z0-9+.-]*://[^/\s]*@"
    r"|[?&;#][\w.-]*(?:pass\w*|pwd|token|key|secret|auth|sid|sess\w*|jwt)="
    r"|[?&;#](?:[\w.-]*[_.-])?(?:sig|signature|otp|ticket)="
    r"|[?&;#](?:(?:auth\w*|access|verification|reset|invite|login)[_.-]?)?code="
)
DEVICE: Final = (
    r"(?i)\b(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}\b"
    r"|\b[0-9a-f]{4}\.[0-9a-f]{4}\.[0-9a-f]{4}\b"
    r"|\b(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\b"
    r"|\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4})+::"
    r"|\b[0-9a-f]{1,4}::(?:[0-9a-f]{1,4}:)+[0-9a-f]{1,4}\b"
    r"|\b(?:fe80|[23][0-9a-f]{3})::[0-9a-f]{1,4}\b"
)
_ANY: Final = "|".join(f"(?:{pattern})" for pattern in (LONG_NUMBER, EMAIL, CREDENTIALS, DEVICE))  # one scan for all

_ENCODED: Final = "%[0-9A-Fa-f]{2}"
_NOT_PLAIN: Final = (
    _ENCODED + r"|[\p{Cf}\p{Default_Ignorable_Code_Point}\p{No}ªºſ\x{132}\x{133}\x{13F}\x{140}\x{149}\x{1C4}-\x{1CC}"
    r"\x{1F1}-\x{1F3}\x{2B0}-\x{2E4}\x{37E}\x{387}\x{1D2C}-\x{1DBF}\x{1E9A}\x{1FEF}\x{2000}-\x{24FF}\x{2A74}-\x{2A76}"
    r"\x{2C7C}\x{2C7D}\x{3200}-\x{33FF}\x{A7F1}-\x{A7F4}\x{FB00}-\x{FB29}\x{FE10}-\x{FE6F}\x{FF01}-\x{FFEE}\x{107A5}"
    r"\x{1CC00}-\x{1FBFF}]"
)
"""An encoded byte, an invisible character, or one that NFKC makes a digit, a mark or a Latin letter."""


_NOT_ONLY_LETTERS: Final = r"""[^\pL\s,'"]"""
"""Without one of these no pattern matches a text, nor its plain copy; most texts have none."""


def is_identifying(column: str) -> pl.Expr:
    """Whether a text holds an e-mail address, a long number, credentials in a URL or the address of a device.

    Null where there is no text.
    """

    def judged(texts: pl.Series) -> pl.Series:
        verdicts = texts.str.contains(_NOT_ONLY_LETTERS).alias("verdict")
        places = verdicts.arg_true()
        if not len(places):
            return verdicts
        some = texts[places]
        found = some.str.contains(_ANY)
        disguised = (~found & some.str.contains(_NOT_PLAIN)).arg_true()
        if len(disguised):
            found = found.scatter(disguised, _decoded(some[disguised]).str.contains(_ANY))
        return verdicts.scatter(places, found)

    return pl.col(column).map_batches(judged, return_dtype=pl.Boolean, is_elementwise=True)


def plain(texts: pl.Series) -> pl.Series:
    """The texts as a reader sees them once a browser has decoded them."""
    changed = texts.str.contains(_NOT_PLAIN).arg_true()
    return texts.clone().scatter(changed, _decoded(texts[changed])) if len(changed) else texts


def _decoded(texts: pl.Series) -> pl.Series:
    texts = _visible(texts)
    for _ in range(MOST_DECODINGS):
        encoded = texts.str.contains(_ENCODED).arg_true()
        if not len(encoded):
            break
        texts = texts.scatter(encoded, _visible(pl.Series([unquote(text) for text in texts[encoded]])))
    return texts


def _visible(texts: pl.Series) -> pl.Series:
    return texts.to_frame("text").select(visible("text"))["text"]


def can_be_written(column: str) -> pl.Expr:
    """Whether a text is without control characters, which some formats cannot hold."""
    return ~pl.col(column).str.contains(r"\p{Cc}")
