"""QueryVeil: publish, keep and send search queries without giving away who searched for what."""

__version__ = "0.1.0"
