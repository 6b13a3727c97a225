"""How objects look in a notebook: small tables of HTML, in which every value stays a text.

>>> table([("records", 3)], title="<log>")
'<table><caption>&lt;log&gt;</caption><tbody><tr><td>records</td><td>3</td></tr></tbody></table>'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(rows: Iterable[Sequence[object]], *, title: str = "", header: Sequence[str] = ()) -> str:
    """Rows of values under a title."""
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    head = f"<thead>{_row(header, 'th')}</thead>" if header else ""
    body = "".join(_row(row, "td") for row in rows)
    return f"<table>{caption}{head}<tbody>{body}</tbody></table>"


def _row(values: Sequence[object], cell: str) -> str:
    return f"<tr>{''.join(f'<{cell}>{escape(str(value))}</{cell}>' for value in values)}</tr>"
