"""Semantic microaggregation: k users share one log, chosen by what they search for."""

from queryveil.mechanisms.microaggregate.microaggregation import GroupedRelease, Microaggregate

__all__ = ["GroupedRelease", "Microaggregate"]
