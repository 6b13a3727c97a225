"""One form for texts that a reader would call the same: letters, marks, spaces and the order of words do not count.

Somebody who knows what was typed also recognises it in capitals, with other punctuation or with its words in another
order, so the attacks that look texts up in a release fall back on this form. Texts are brought to Unicode's NFKC, case
is taken away (by way of capitals, so that ß is ss), everything but letters, digits and marks parts words, and the words
are put in order, each once. A text without a letter or digit is its own form. Other spellings, translations and parts
of a text are not recognised.

>>> pl.DataFrame({"q": ["  New-York  HOTELS", "hotels new york york", "?!"]}).select(normal_form("q"))["q"].to_list()
['hotels new york', 'hotels new york', '?!']
"""

from __future__ import annotations

import polars as pl


def normal_form(column: str) -> pl.Expr:
    """The form of each text, as an expression."""
    text = pl.col(column)
    plain = text.str.normalize("NFKC").str.to_uppercase().str.to_lowercase()
    words = plain.str.extract_all(r"[\p{L}\p{M}\p{N}]+").list.unique().list.sort().list.join(" ")
    return pl.when(words == "").then(text).otherwise(words).alias(column)
