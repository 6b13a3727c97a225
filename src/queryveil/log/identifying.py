r"""Texts that name a person or open a door by themselves, however many people typed them.

What counts: e-mail addresses, seven digits with nothing but blanks and marks between (telephone, account and identity
numbers), credentials in URLs, and addresses of devices (MAC, IPv6). They count as a reader sees them, so the patterns
are matched on the text and on a plain copy of it: percent-decoded up to `MOST_DECODINGS` times, without invisible
characters, in Unicode's form NFKC (`people.visible`). The text itself is never changed.

Not found: numbers in words, addresses in words without brackets ("ann at example dot com"), secrets in the path of a
URL, names. The audit looks with wider patterns of its own (`queryveil.audit.attacks.residue`).

Cost: one scan that sets texts of letters and blanks aside, one by each pattern for the others, and one that tells which
of them differ from their plain copy; only these are copied.

>>> texts = ["tulip bulbs", "call 555 123 4567", "x.org/?mail=ann%2540x.org", "555\u200b123\u200b4567"]
>>> pl.DataFrame({"q": texts}).select(is_identifying("q"))["q"].to_list()
[False, True, True, True]
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import polars as pl

from queryveil.log.people import visible

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
