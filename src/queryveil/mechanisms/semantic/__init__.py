"""Semantic release: the mechanism of Sánchez et al. (2018), made exact."""

from queryveil.mechanisms.semantic.replacement import SemanticRelease
from queryveil.mechanisms.semantic.stream import SemanticStream

__all__ = ["SemanticRelease", "SemanticStream"]
