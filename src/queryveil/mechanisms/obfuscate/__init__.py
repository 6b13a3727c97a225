"""Query obfuscation: send other queries to an engine that does not cooperate. See `mechanism.py`."""

from queryveil.mechanisms.obfuscate.answering import Answer, answer
from queryveil.mechanisms.obfuscate.mechanism import Obfuscation, own_noise
from queryveil.mechanisms.obfuscate.session import Session
from queryveil.mechanisms.obfuscate.words import WORD_MECHANISMS, WordMechanism, word_mechanism

__all__ = [
    "WORD_MECHANISMS",
    "Answer",
    "Obfuscation",
    "Session",
    "WordMechanism",
    "answer",
    "own_noise",
    "word_mechanism",
]
