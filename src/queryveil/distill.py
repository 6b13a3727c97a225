"""The model of a distilled log: `queryveil.distill.Model.load(folder)`; see `queryveil.mechanisms.distill.model`."""

from queryveil.mechanisms.distill.model import Model

__all__ = ["Model"]
