"""QueryVeil: publish, keep and send search queries without giving away who searched for what.

>>> import queryveil as qv
>>> log = qv.synth(users=50, records=500, seed=1)
>>> release = qv.mechanism("suppress", k_text=3).protect(log, qv.Noise.seeded(1))
>>> release.publishable
False
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryveil.version import __version__ as __version__

if TYPE_CHECKING:
    from queryveil.log import QueryLog as QueryLog
    from queryveil.log import read as read
    from queryveil.log import write as write
    from queryveil.log.statistics import describe as describe
    from queryveil.log.synthetic import synth as synth
    from queryveil.mechanisms import make as mechanism
    from queryveil.privacy import Ledger as Ledger
    from queryveil.privacy import Noise as Noise
    from queryveil.release.manifest import verify as verify
    from queryveil.release.release import Release as Release

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

if not TYPE_CHECKING:
    from queryveil._lazy import attach

    __getattr__, __dir__ = attach(
        __name__,
        {
            "Ledger": "queryveil.privacy.ledger",
            "Noise": "queryveil.privacy.noise",
            "QueryLog": "queryveil.log.query_log",
            "Release": "queryveil.release.release",
            "describe": "queryveil.log.statistics",
            "mechanism": "queryveil.mechanisms:make",
            "read": "queryveil.log.reading",
            "synth": "queryveil.log.synthetic",
            "verify": "queryveil.release.manifest",
            "write": "queryveil.log.writing",
        },
    )
