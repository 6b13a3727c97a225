"""Query obfuscation: send other queries to an engine that does not cooperate. See `mechanism.py`."""

from queryveil.mechanisms.obfuscate.mechanism import Obfuscation, own_noise
from queryveil.mechanisms.obfuscate.words import WORD_MECHANISMS, WordMechanism, word_mechanism

__all__ = ["WORD_MECHANISMS", "Obfuscation", "WordMechanism", "own_noise", "word_mechanism"]
