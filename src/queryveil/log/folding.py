"""What a text is to the eye: the same letters in another Unicode form, or with invisible ones between, are the same.

`visible` takes away what is not seen (format characters such as the zero-width space and the soft hyphen, and all that
Unicode calls ignorable by default) and brings the rest to the compatibility form NFKC, in which `ﬁ`, `①` and `ｅ` are
plain letters and digits. `folded` also forgets case and the blanks and control characters around. Case goes by way of
capitals, so that ß is ss, and a second NFKC mends what that took apart. Letters of other scripts that only look alike
stay different.

Cost: a few vectorised passes; give distinct texts.

>>> seen = pl.DataFrame({"id": [" ANN", "a\\u200bnn", "René", "rene\\u0301 ", "bob"]})
>>> seen.select(folded("id"))["id"].to_list()
['ann', 'ann', 'rené', 'rené', 'bob']
"""

from __future__ import annotations

from typing import Final

import polars as pl

INVISIBLE: Final = r"[\p{Cf}\p{Default_Ignorable_Code_Point}]"


def visible(column: str) -> pl.Expr:
    """Each text as it is seen, as an expression."""
    return pl.col(column).str.replace_all(INVISIBLE, "").str.normalize("NFKC")


def folded(column: str) -> pl.Expr:
    """Each text as it is seen, without case and without blanks around it, as an expression."""
    plain = visible(column).str.to_lowercase().str.to_uppercase().str.to_lowercase()
    return plain.str.normalize("NFKC").str.replace_all(r"\p{Cc}", " ").str.strip_chars()
