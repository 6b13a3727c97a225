"""Judged by people who are in neither log: how much of what a raw log teaches about others a release still teaches.

Held-out people are people whom the mechanism never saw. They come in one of two ways:

- `audit(original, release, held_out=log)`: the holder kept a log of other people aside before the release was made;
- `compare` keeps some people of its log aside by a public hash of their ids (`hold_out`) before it tries any setting,
  so that every setting is judged by the same people.

Without them these measures are left out: people whom the mechanism saw would overstate what it teaches about others.
"""
