"""What a report says about a release beside its figures: what was done, what it costs, where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from queryveil import mechanisms
from queryveil.audit.finding import Audit
from queryveil.errors import QueryVeilError
from queryveil.privacy.guarantee import rounded_down, rounded_up
from queryveil.release.wording import FAMILIAR, declared_words
from queryveil.report.formatting import plain
from queryveil.version import __version__

CONTEXT: Final = {
    "original": "the log",
    "released": "the release",
    "secrets": "true owners known to the audit",
    "other": "another release compared with",
    "similar_ids": "ids that differ little are of",
    "known": "attackers know",
    "held_out": "people kept aside to judge",
}
"""What an audit looked at, in words."""
YES_OR_NO: Final = {True: "yes", False: "no"}
VALUES: Final[dict[str, dict[Any, str]]] = {
    "secrets": YES_OR_NO,
    "other": YES_OR_NO,
    "similar_ids": {"same": "one person", "different": "different people"},
}


def context(manifest: Mapping[str, Any], audit: Audit | None) -> dict[str, str]:
    """What was released, how and when; with an audit, also what it looked at."""
    output = manifest.get("output", {})
    facts = {
        "mechanism": f"{named(str(manifest.get('mechanism', 'unknown')))}, {manifest.get('mode', 'unknown')} mode",
        "settings": _settings(manifest),
        "published records": f"{output['records']:,}" if "records" in output else "",
        "published users": f"{output['users']:,}" if "users" in output else "",
        "made": str(manifest.get("created", "")),
    }
    if audit is not None:
        for name, value in audit.context.items():
            shown = VALUES[name].get(value, plain(value)) if name in VALUES else plain(value)
            facts[CONTEXT.get(name, str(name).replace("_", " "))] = shown
    return {name: value for name, value in facts.items() if value}


def named(mechanism: str) -> str:
    """A mechanism by its title, with the name it has on the command line."""
    title = getattr(_kind(mechanism), "title", "")
    return f"“{title}” ({mechanism})" if title else mechanism


def _kind(mechanism: str) -> type | None:
    try:
        return mechanisms.load(mechanism)
    except QueryVeilError:
        return None


def _settings(manifest: Mapping[str, Any]) -> str:
    """Each parameter as it is typed and, where that does not tell, in words."""
    kind = _kind(str(manifest.get("mechanism", "")))
    told = []
    for name, value in manifest.get("parameters", {}).items():
        if value is not None:
            said = declared_words(kind, name, value)
            told.append(f"{name} = {value} ({said})" if said and name not in FAMILIAR else f"{name} = {value}")
    return "; ".join(told)


def budget(manifest: Mapping[str, Any], left: tuple[float, float] | None) -> list[str]:
    """What the release costs, who paid, and what is left, in sentences."""
    sentences = []
    try:
        charge = mechanisms.recreate(manifest).charge()
    except QueryVeilError:
        charge = None
    if charge is None:
        sentences.append("What this release costs the people in it is unknown.")
    elif charge.scope == "nothing":
        sentences.append("This release has no privacy loss that adds up, so a ledger only takes note of it.")
    else:
        payer = "everybody in the log" if charge.scope == "dataset" else "each person in the release"
        loss = f"ε = {rounded_up(float(charge.epsilon))}, δ = {rounded_up(float(charge.delta))}"
        sentences.append(f"This release costs {payer} {loss}.")
    entry = manifest.get("ledger")
    sentences.append(
        f"It was paid for in the holder's ledger under entry {entry}, before it was made."
        if entry
        else "It was made without a ledger: what other releases of the same people cost is not known here."
    )
    if left is not None:
        sentences.append(
            f"Left for releases that charge everybody: ε = {rounded_down(left[0])}, δ = {rounded_down(left[1])}."
        )
    return sentences


def provenance(manifest: Mapping[str, Any]) -> dict[str, str]:
    """What made the release, and how to tell that it is this one."""
    output = manifest.get("output", {})
    facts = {
        "made with": f"QueryVeil {manifest['queryveil']}" if "queryveil" in manifest else "another tool",
        "reported with": f"QueryVeil {__version__}",
        "noise": str(manifest.get("noise", {}).get("mode", "unknown")),
        "log file": str(output.get("file", "")),
        "SHA-256 of the log": str(output.get("sha256", "")),
        "ledger entry": str(manifest.get("ledger") or ""),
    }
    return {name: value for name, value in facts.items() if value}
