"""Click-log sanitization: Hong et al. (2012) as printed, and an end-to-end private successor as the default."""

from queryveil.mechanisms.sanitize.mechanism import SanitizeClicks

__all__ = ["SanitizeClicks"]
