"""What is promised: kinds of guarantee, every random draw, composition, and the ledger of what was spent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryveil.privacy.guarantee import (
    ApproxDP,
    Charge,
    Concentrated,
    Guarantee,
    KAnonymity,
    MetricDP,
    NoGuarantee,
    ProbabilisticKAnonymity,
    PureDP,
)

if TYPE_CHECKING:
    from queryveil.privacy.ledger import Ledger
    from queryveil.privacy.noise import Noise
else:
    from queryveil._lazy import attach

    __getattr__, __dir__ = attach(__name__, {"Ledger": "queryveil.privacy.ledger", "Noise": "queryveil.privacy.noise"})

__all__ = [
    "ApproxDP",
    "Charge",
    "Concentrated",
    "Guarantee",
    "KAnonymity",
    "Ledger",
    "MetricDP",
    "NoGuarantee",
    "Noise",
    "ProbabilisticKAnonymity",
    "PureDP",
]
