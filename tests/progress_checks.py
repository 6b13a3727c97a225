"""What tests ask of progress that was told."""

from collections.abc import Iterator
from contextlib import contextmanager

from queryveil.progress import listening

Told = list[tuple[str, float]]


@contextmanager
def everything_told() -> Iterator[Told]:
    """All that is told meanwhile, however fast it comes."""
    told: Told = []
    with listening(lambda what, share: told.append((what, share)), every=0):
        yield told


def check_course(told: Told) -> None:
    """Shares of a work never fall until it is done, and every work ends."""
    reached: dict[str, float] = {}
    for what, share in told:
        before = reached.get(what, 0.0)
        assert 0.0 <= share <= 1.0, what
        assert share >= before or before == 1.0, f"{what} falls from {before} to {share}"
        reached[what] = share
    assert set(reached.values()) <= {1.0}, f"{reached} do not end at 1"
