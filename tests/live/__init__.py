"""Tests of the live service, and what they share: a package, so that `benchmarks/live.py` does not hide it."""
