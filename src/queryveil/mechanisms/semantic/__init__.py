"""Semantic release: the mechanism of Sánchez et al. (2018), made exact."""

from queryveil.mechanisms.semantic.replacement import Semantic
from queryveil.mechanisms.semantic.stream import SemanticStream

__all__ = ["Semantic", "SemanticStream"]
