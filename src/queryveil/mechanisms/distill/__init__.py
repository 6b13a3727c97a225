"""A synthetic log and noisy tables under one promise to each person, on top of public knowledge."""

from queryveil.mechanisms.distill.distillation import Distill

__all__ = ["Distill"]
