"""Real-time probabilistic k-anonymity for query streams: the mechanism and the stream it opens."""

from queryveil.mechanisms.stream.emissions import Emissions
from queryveil.mechanisms.stream.live import LiveStream
from queryveil.mechanisms.stream.mixing import Stream

__all__ = ["Emissions", "LiveStream", "Stream"]
