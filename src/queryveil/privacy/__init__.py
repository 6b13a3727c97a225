"""What is promised: kinds of guarantee, every random draw, composition, and the ledger of what was spent."""

from queryveil.privacy.charges import Charge
from queryveil.privacy.guarantee import (
    ApproxDP,
    Guarantee,
    KAnonymity,
    MetricDP,
    NoGuarantee,
    ProbabilisticKAnonymity,
    PureDP,
)
from queryveil.privacy.ledger import Ledger
from queryveil.privacy.noise import Noise

__all__ = [
    "ApproxDP",
    "Charge",
    "Guarantee",
    "KAnonymity",
    "Ledger",
    "MetricDP",
    "NoGuarantee",
    "Noise",
    "ProbabilisticKAnonymity",
    "PureDP",
]
