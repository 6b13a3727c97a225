"""QueryVeil: publish, keep and send search queries without giving away who searched for what.

>>> import queryveil as qv
>>> log = qv.synth(users=50, records=500, seed=1)
>>> release = qv.mechanism("suppress", k_text=3).protect(log, qv.Noise.seeded(1))
>>> release.publishable
False
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from queryveil.log import QueryLog as QueryLog
    from queryveil.log import read as read
    from queryveil.log import write as write
    from queryveil.log.statistics import describe as describe
    from queryveil.log.synthetic import synth as synth
    from queryveil.mechanisms import make as mechanism
    from queryveil.mechanisms.certificate import verify as verify
    from queryveil.mechanisms.mechanism import Release as Release
    from queryveil.privacy import Ledger as Ledger
    from queryveil.privacy import Noise as Noise

_WHERE = {
    "Ledger": ("queryveil.privacy", "Ledger"),
    "Noise": ("queryveil.privacy", "Noise"),
    "QueryLog": ("queryveil.log", "QueryLog"),
    "Release": ("queryveil.mechanisms.mechanism", "Release"),
    "describe": ("queryveil.log.statistics", "describe"),
    "mechanism": ("queryveil.mechanisms", "make"),
    "read": ("queryveil.log", "read"),
    "synth": ("queryveil.log.synthetic", "synth"),
    "verify": ("queryveil.mechanisms.certificate", "verify"),
    "write": ("queryveil.log", "write"),
}

__all__ = [
    "Ledger",
    "Noise",
    "QueryLog",
    "Release",
    "describe",
    "mechanism",
    "read",
    "synth",
    "verify",
    "write",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import queryveil` stays quick."""
    if name not in _WHERE:
        raise AttributeError(f"module 'queryveil' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _WHERE[name]
    found = getattr(import_module(module), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
