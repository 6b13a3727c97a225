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
    from queryveil import mechanisms as mechanisms
    from queryveil.audit.auditing import audit as audit
    from queryveil.errors import BudgetError as BudgetError
    from queryveil.errors import DataError as DataError
    from queryveil.errors import FormatError as FormatError
    from queryveil.errors import ParameterError as ParameterError
    from queryveil.errors import QueryVeilError as QueryVeilError
    from queryveil.errors import RefusedError as RefusedError
    from queryveil.errors import UsageError as UsageError
    from queryveil.errors import VerificationError as VerificationError
    from queryveil.experiments.advise import advise as advise
    from queryveil.experiments.compare import compare as compare
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
    "BudgetError",
    "DataError",
    "FormatError",
    "Ledger",
    "Noise",
    "ParameterError",
    "QueryLog",
    "QueryVeilError",
    "RefusedError",
    "Release",
    "UsageError",
    "VerificationError",
    "advise",
    "audit",
    "compare",
    "describe",
    "mechanism",
    "mechanisms",
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
            **dict.fromkeys(
                (
                    "BudgetError",
                    "DataError",
                    "FormatError",
                    "ParameterError",
                    "QueryVeilError",
                    "RefusedError",
                    "UsageError",
                    "VerificationError",
                ),
                "queryveil.errors",
            ),
            "Ledger": "queryveil.privacy.ledger",
            "Noise": "queryveil.privacy.noise",
            "QueryLog": "queryveil.log.query_log",
            "Release": "queryveil.release.release",
            "advise": "queryveil.experiments.advise",
            "audit": "queryveil.audit:",
            "compare": "queryveil.experiments.compare",
            "describe": "queryveil.log.statistics",
            "mechanism": "queryveil.mechanisms:make",
            "mechanisms": "queryveil.mechanisms:",
            "read": "queryveil.log.reading",
            "synth": "queryveil.log.synthetic",
            "verify": "queryveil.release.manifest",
            "write": "queryveil.log.writing",
        },
    )
