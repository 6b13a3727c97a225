"""One file a format, each with `sniff`, `read` and `write`; `FORMATS` finds them by name.

Third parties add theirs through the entry-point group `queryveil.formats`: a name and the `Format` it stands for. Ours
come first, so that a package that is installed beside this one never changes how a file of ours is read. A format is
loaded when it is asked for. The names of this package are what a format of one's own needs.

>>> list(FORMATS)[:8]
['aol', 'csv', 'csv-multiline', 'jsonl', 'parquet', 'ubi', 'access', 'excite']
>>> FORMATS["csv"].suffix
'.csv'
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

from queryveil.errors import UsageError
from queryveil.plugins import installed

if TYPE_CHECKING:
    from queryveil.log.formats.format import Declared as Declared
    from queryveil.log.formats.format import Findings as Findings
    from queryveil.log.formats.format import Format as Format
    from queryveil.log.formats.format import Rule as Rule
    from queryveil.log.formats.format import holds_any_of as holds_any_of
    from queryveil.log.formats.format import no_records as no_records
    from queryveil.log.formats.format import refuse_what_is_lost as refuse_what_is_lost
    from queryveil.log.formats.format import rules_for_all as rules_for_all
    from queryveil.log.formats.format import stray_returns as stray_returns
    from queryveil.log.source import LINE as LINE

BUILT_IN = {
    "aol": "queryveil.log.formats.aol:FORMAT",
    "csv": "queryveil.log.formats.delimited:FORMAT",
    "csv-multiline": "queryveil.log.formats.delimited:MULTILINE",
    "jsonl": "queryveil.log.formats.json_lines:FORMAT",
    "parquet": "queryveil.log.formats.parquet:FORMAT",
    "ubi": "queryveil.log.formats.ubi:FORMAT",
    "access": "queryveil.log.formats.access_log:FORMAT",
    "excite": "queryveil.log.formats.excite:FORMAT",
    "slowlog": "queryveil.log.formats.slow_log:FORMAT",
    "slowlog-text": "queryveil.log.formats.slow_log:TEXT",
    "solr": "queryveil.log.formats.solr:FORMAT",
    "matomo": "queryveil.log.formats.matomo:FORMAT",
    "orcas": "queryveil.log.formats.orcas:FORMAT",
    "sogou": "queryveil.log.formats.sogou:FORMAT",
    "trec-session": "queryveil.log.formats.trec_session:FORMAT",
    "yandex": "queryveil.log.formats.yandex:FORMAT",
    "yandex-personal": "queryveil.log.formats.yandex:PERSONAL",
}

ENTRY_POINTS = "queryveil.formats"

_SNIFFED_IN_ORDER = (
    *("parquet", "trec-session", "matomo", "slowlog", "ubi", "jsonl", "slowlog-text", "solr", "access"),
    *("yandex-personal", "yandex", "orcas", "sogou", "excite", "aol", "csv"),
)


class _Formats(Mapping[str, "Format"]):
    """Ours in their order, then third parties'; names cost nothing, a format is loaded when it is asked for."""

    def __getitem__(self, name: str) -> Format:
        if name in BUILT_IN:
            return _load(EntryPoint(name, BUILT_IN[name], ENTRY_POINTS))
        return _load(_third_party()[name])

    def __iter__(self) -> Iterator[str]:
        return iter([*BUILT_IN, *_third_party()])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in _third_party()


FORMATS: Mapping[str, Format] = _Formats()


def sniffed_in_order() -> list[str]:
    """Which format is asked first whether a file is its own: ours, the strictest to the most lenient, then others'."""
    return [*_SNIFFED_IN_ORDER, *_third_party()]


def _third_party() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in installed(ENTRY_POINTS) if entry.name not in BUILT_IN}


def _load(entry: EntryPoint) -> Format:
    from queryveil.log.formats.format import Format

    try:
        found = entry.load()
    except Exception as error:
        # Passed over, it would leave its files to whichever other format takes them.
        raise UsageError(
            f"the format {entry.name} cannot be loaded from {entry.value} ({type(error).__name__}). "
            "Fix the package that brings it, or uninstall it."
        ) from error
    if not isinstance(found, Format) or found.name != entry.name:
        raise UsageError(f"{entry.value} is not a Format of the name {entry.name}. Fix the package that brings it.")
    return found


if not TYPE_CHECKING:
    from queryveil._lazy import attach

    SHARED = ("LINE", "Declared", "Findings", "Format", "Rule", "holds_any_of", "no_records", "refuse_what_is_lost",
              "rules_for_all", "stray_returns")  # fmt: skip
    __getattr__, __dir__ = attach(__name__, dict.fromkeys(SHARED, "queryveil.log.formats.format"))

__all__ = [
    "FORMATS",
    "LINE",
    "Declared",
    "Findings",
    "Format",
    "Rule",
    "holds_any_of",
    "no_records",
    "refuse_what_is_lost",
    "rules_for_all",
    "sniffed_in_order",
    "stray_returns",
]
