"""Click-log sanitization: Hong et al. (2012) as printed, and an end-to-end private successor as the default."""

from queryveil.mechanisms.sanitize.sanitization import Sanitize

__all__ = ["Sanitize"]
