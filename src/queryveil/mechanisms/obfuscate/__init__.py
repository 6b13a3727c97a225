"""Query obfuscation: send other queries to an engine that does not cooperate. See `obfuscation.py`."""

from queryveil.mechanisms.obfuscate.obfuscation import Obfuscate, own_noise
from queryveil.mechanisms.obfuscate.session import Answer, SearchSession, answer
from queryveil.mechanisms.obfuscate.words import WORD_MECHANISMS, WordMechanism, word_mechanism

__all__ = [
    "WORD_MECHANISMS",
    "Answer",
    "Obfuscate",
    "SearchSession",
    "WordMechanism",
    "answer",
    "own_noise",
    "word_mechanism",
]
