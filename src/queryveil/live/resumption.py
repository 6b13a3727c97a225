"""Whether a shard may go on from the state that is found, decided without files and servers.

The state that is found may be older than the furthest that is known (`checkpoint.Mark`): a server lost its last
commits, a backup was brought back, an older copy is offered on purpose. Random words that were used then could meet
other records, and readers would see two outcomes of one record. So it is taken only if all that was taken in since
would come the same again. `tests/live/test_protocol_model.py` puts these very functions into a small model of the
protocol and looks at every order in which workers, servers and deaths can follow each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NoReturn, TypeAlias

from queryveil.live.checkpoint import Header, Mark
from queryveil.live.connector import new_run_needed

DigestAgain: TypeAlias = Callable[[Header, int], str | None]
"""The digest of the input from a state up to a number of records, read once more; None where it ends before."""


@dataclass(frozen=True, kw_only=True)
class Ends:
    """What matters of both ends of a stream."""

    once: bool = False
    """Whether one of them is a pipe, which cannot be read or written again."""
    draws: bool = True
    """Whether random words decide what comes out; a router draws none."""
    on_purpose: bool = False
    """Whether an older state is offered in place of the committed one."""
    takes_back: bool = False
    """Whether outputs that are out can be taken back."""
    forgets: bool = False
    """Whether the server may lose its last commits, and with them who held the shard."""


@dataclass(frozen=True)
class Resumption:
    """What to go on from (None: begin), what is to be remembered of it, and whether it is a step back."""

    header: Header | None
    mark: Mark
    back: bool = False
    offered: bool = False
    """Whether it is the state that was offered, not the committed one."""
    stop_first: bool = False
    """Whether the end of an epoch was tried there, which is to be carried out before anything is read."""


def resume(
    mark: Mark, committed: Header | None, offered: Header | None, ends: Ends, digest_again: DigestAgain
) -> Resumption:
    """Choose between the committed state and one that is offered instead, or refuse both."""
    found = committed if offered is None else offered
    if committed is not None and found is not None:
        mark = mark.after(committed, made=True)
        if committed.generation >= found.generation and committed.as_far_as(found):
            found = committed  # what is offered was committed anew already
    if found is None:
        if mark.generation > 1:  # the first commit is made before anything is read
            raise new_run_needed(
                "the run has begun, but its state is gone: the same records would be drawn for a second time.",
                "Bring it back with from_checkpoint",
            )
        return Resumption(None, mark)
    if committed is not None and ends.draws and ends.forgets and _stop_was_tried(found, mark):
        return Resumption(found, mark, stop_first=True)
    back = _goes_back(found, committed, mark, ends, digest_again)
    generation = max(found.generation, mark.generation) if back else found.generation
    header = replace(found, generation=generation)
    mark = replace(mark, replaying=True) if back else mark.after(header, made=True)
    return Resumption(header, mark, back, found is not committed)


def _stop_was_tried(found: Header, mark: Mark) -> bool:
    """Whether all that is known behind the state is that a stop was to end the epoch there, which publishes nothing.

    Who tried it may only be frozen, and a server that is set back to where it held the shard takes its commit yet. So
    whoever comes next does the same: then the epoch ends there, whoever's commit stands.
    """
    ends_here = (mark.forced, mark.taken) == (found.forced + 1, found.taken)
    return ends_here and not mark.replaying and mark.only_tried_after(found.generation)


def _goes_back(found: Header, committed: Header | None, mark: Mark, ends: Ends, digest_again: DigestAgain) -> bool:
    """Whether the state is behind what is known; refused unless everything since then would come the same again."""
    if committed is None and found.generation == mark.generation and not found.as_far_as(mark):
        _no_way_back(found, mark, "it tells of other records")
    passed_over = committed is not None and found.generation < committed.generation
    unfinished = mark.replaying and found.taken < mark.taken
    if not (passed_over or unfinished or found.generation < mark.generation):
        return False
    if committed is not None and not (passed_over or unfinished) and mark.only_tried_after(found.generation):
        if ends.once or not ends.draws or _stop_was_tried(found, mark):
            return False
    elif ends.on_purpose and not ends.takes_back:
        _no_way_back(found, mark, "its outputs are out and cannot be taken back")
    if ends.once:
        _no_way_back(found, mark, "a pipe cannot be read or written again")
    if found.forced != mark.forced or found.taken > mark.taken:
        _no_way_back(
            found, mark, "an epoch was ended by a stop or for want of memory since, which would not happen again"
        )
    if digest_again(found, mark.taken) != mark.digest:
        _no_way_back(found, mark, "the input since then is not the same any more")
    return True


def _no_way_back(found: Header, mark: Mark, reason: str) -> NoReturn:
    raise new_run_needed(
        f"the checkpoint is number {found.generation}, but number {mark.generation} is known, and {reason}: used "
        "random words would meet other records.",
        "Bring the newest state back",
    )
