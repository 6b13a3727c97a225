"""Real-time probabilistic k-anonymity for query streams: the mechanism and the stream it opens."""

from queryveil.mechanisms.stream.live import Emissions, LiveStream
from queryveil.mechanisms.stream.mechanism import StreamMixing

__all__ = ["Emissions", "LiveStream", "StreamMixing"]
