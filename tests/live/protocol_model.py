"""The protocol of claim, mark, fence and commit as a small state machine, and a search through all that can happen.

What is decided is decided by the worker's own code: `resumption.resume` and `checkpoint.Mark`. The model gives them a
world. In it are one server (an input, a committed state, a fence), one mark beside the run's key, two workers and the
readers. Each step below is one that nothing can come in between of: a command to the server, or what is done to the
mark under its lock. Between any two steps a worker may freeze for as long as it likes, since the others' steps come in
every order, and it may die. A lease may run out at any moment, so any worker may claim at any moment. A server may
lose its tail: it is again as it was when it was last saved, with input, state and fence, and other records follow.

The outcome of a record is decided by all records up to it, and by the places where a stop ended an epoch, because the
random words are used in that order. So a history is a string: a letter for a record, `|` for the end of an epoch. Two
histories that readers saw must be such that one begins with the other; else they saw two outcomes of one record.

Not in the model: shards, pipes, checkpoints that are offered by hand, key folders on several machines, and outputs that
follow the state (files, NATS), for which `test_kills.py` dies between the two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from queryveil.errors import RefusedError
from queryveil.live.checkpoint import Header, Mark
from queryveil.live.resumption import Ends, resume

END = "|"
ENDS = Ends(forgets=True)
FIRST = Mark(source="in", place="out")


class State(NamedTuple):
    """A committed state: its number and all that was taken in."""

    generation: int
    history: str


class Server(NamedTuple):
    """What a server holds. The fence is a token; who has it may commit."""

    stream: str = ""
    committed: State | None = None
    fence: int = 0


class Worker(NamedTuple):
    """A worker: its next step, and what it has in memory."""

    step: str = "claim"
    token: int = 0
    state: State | None = None
    known: Mark | None = None
    """The mark as it was read; after that, as it was last read or written."""
    chosen: Mark | None = None
    expected: str = ""
    """Records that must come the same again."""
    stop: bool = False
    """Whether the epoch is to be ended first."""
    plan: str = ""


class World(NamedTuple):
    """All there is."""

    server: Server = Server()
    saved: Server | None = None
    """What is on the disk, or with a replica, and not lost with the rest: as it was at one moment, which may be any."""
    set_backs: int = 0
    deaths: int = 0
    mark: Mark | None = None
    workers: tuple[Worker, ...] = (Worker(), Worker())
    seen: str = ""
    """The longest history that readers saw outcomes of."""


@cache
def header_of(state: State) -> Header:
    """What the checkpoint of a state would say; the digest of the records is the records."""
    records = state.history.replace(END, "")
    forced = state.history.count(END)
    return Header(
        run="web",
        shard=0,
        shards=1,
        source="in",
        generation=state.generation,
        taken=len(records),
        digest=records,
        forced=forced,
    )


@cache
def noted(mark: Mark, state: State, *, made: bool) -> Mark:
    """The mark with a commit."""
    return mark.after(header_of(state), made=made)


@cache
def resumed(known: Mark | None, found: State | None, stream: str) -> tuple[State, Mark, str, bool] | None:
    """What `ShardLoop` goes on from, the mark it wants, the records that must come again, whether a stop comes first.

    None where it refuses.
    """

    def digest_again(since: Header, taken: int) -> str | None:
        return since.digest + stream[since.taken : taken] if len(stream) >= taken else None

    try:
        chosen = resume(known or FIRST, found and header_of(found), None, ENDS, digest_again)
    except RefusedError:
        return None
    if chosen.header is None or found is None:
        return State(0, ""), chosen.mark, "", False
    state, expected = State(chosen.header.generation, found.history), chosen.mark.digest if chosen.back else ""
    return state, chosen.mark, expected, chosen.stop_first


@dataclass(frozen=True)
class Bounds:
    """How much may happen, and what the protocol once lacked."""

    records: int = 2
    generations: int = 4
    set_backs: int = 1
    deaths: int = 1
    stops: int = 0
    checked: bool = True
    """Whether a worker that opens a shard writes the mark only if it is still the one it read."""
    compares: bool = True
    """Whether records that come again are compared with those that were read when it was decided to go back."""
    begun: bool = True
    """Whether the shard has begun already; else workers race to begin it."""

    def start(self) -> World:
        """Where the search begins."""
        if not self.begun:
            return World()
        return World(server=Server(committed=State(1, "")), mark=noted(FIRST, State(1, ""), made=True))


class Protocol:
    """The steps of workers and world, within bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds

    def after(self, world: World) -> Iterator[tuple[str, World]]:
        """Every world that may follow, with what happened."""
        yield from self._around(world)
        for number, worker in enumerate(world.workers):
            if number and worker == world.workers[number - 1]:
                continue  # what one may do, its double may
            if worker.step != "claim" and world.deaths < self._bounds.deaths:
                yield f"{number} dies", _with(world._replace(deaths=world.deaths + 1), number, Worker())
            for what, changed, next_worker in self._steps(world, worker):
                yield f"{number} {what}", _with(changed, number, next_worker)

    def _around(self, world: World) -> Iterator[tuple[str, World]]:
        server = world.server
        if len(server.stream) < self._bounds.records:
            for letter in "xy" if world.set_backs else "x":  # other records after a set-back, or the same again
                yield f"{letter} comes in", world._replace(server=server._replace(stream=server.stream + letter))
        if world.saved is not None:
            changed = world._replace(server=world.saved, saved=None, set_backs=world.set_backs + 1)
            yield "the server is set back", changed
        elif world.set_backs < self._bounds.set_backs:
            yield "the server is saved", world._replace(saved=server)

    def _steps(self, world: World, worker: Worker) -> Iterator[tuple[str, World, Worker]]:
        server, mark = world.server, world.mark
        if worker.step == "claim":
            token = _fresh(world)
            yield "claims", world._replace(server=server._replace(fence=token)), Worker("load", token)
        elif worker.step == "load":
            yield "loads", world, worker._replace(step="read mark", state=server.committed)
        elif worker.step == "read mark":
            yield "reads the mark", world, worker._replace(step="accept", known=mark)
        elif worker.step == "accept":
            found = resumed(worker.known, worker.state, server.stream)
            if found is None:
                yield "refuses", world, Worker()
            else:
                state, chosen, expected, stop = found
                accepted = worker._replace(step="write mark", state=state, chosen=chosen, expected=expected, stop=stop)
                yield "accepts", world, accepted
        elif worker.step == "write mark":
            yield self._write(world, worker)
        elif worker.step == "at work":
            yield from self._rounds(world, worker)
        elif worker.step == "note":
            yield self._note(world, worker)
        elif worker.step == "commit":
            yield self._commit(world, worker)
        elif worker.step == "note made" and mark is not None and worker.state is not None:
            changed = noted(mark, worker.state, made=True)
            known = worker.known if changed == mark else changed
            yield "notes it made", world._replace(mark=changed), worker._replace(step="at work", known=known)

    def _write(self, world: World, worker: Worker) -> tuple[str, World, Worker]:
        """`Marker.replace`; or, as it once was, without a look at what is there now."""
        mark, chosen = world.mark, worker.chosen
        if worker.known is None:
            mark = mark or chosen
            if self._bounds.checked and mark != chosen:
                return "is overtaken", world, Worker()
        elif not self._bounds.checked:
            mark = mark if chosen == worker.known else chosen
            return "writes the mark", world._replace(mark=mark), _at_work(worker, chosen)
        elif mark != worker.known:
            return "is overtaken", world, Worker()
        else:
            mark = chosen
        return "writes the mark", world._replace(mark=mark), _at_work(worker, mark)

    def _rounds(self, world: World, worker: Worker) -> Iterator[tuple[str, World, Worker]]:
        state = worker.state or State(0, "")
        if state.generation >= self._bounds.generations:
            return
        if state.generation == 0:  # the first commit is made before anything is read
            yield "begins", world, worker._replace(step="note", plan="")
            return
        if worker.stop:
            yield "ends the epoch", world, worker._replace(step="note", plan=state.history + END, stop=False)
            return
        taken = header_of(state).taken
        for end in range(taken + 1, len(world.server.stream) + 1):
            plan = state.history + world.server.stream[taken:end]
            if self._bounds.compares and not _agree(plan.replace(END, ""), worker.expected):
                yield "reads other records", world, Worker()
                continue
            yield f"reads up to {end}", world, worker._replace(step="note", plan=plan)
        if header_of(state).forced < self._bounds.stops and taken >= len(worker.expected):
            yield "ends the epoch", world, worker._replace(step="note", plan=state.history + END)

    def _note(self, world: World, worker: Worker) -> tuple[str, World, Worker]:
        """`Marker.note` before a commit, where the server may forget."""
        if world.mark is None or world.mark != worker.known:
            return "is overtaken", world, Worker()
        state = State((worker.state or State(0, "")).generation + 1, worker.plan)
        mark = noted(world.mark, state, made=False)
        return "notes", world._replace(mark=mark), worker._replace(step="commit", state=state, known=mark, plan="")

    def _commit(self, world: World, worker: Worker) -> tuple[str, World, Worker]:
        if world.server.fence != worker.token or worker.state is None:
            return "is fenced", world, Worker()
        token, history = _fresh(world), worker.state.history.rstrip(END)
        server = world.server._replace(committed=worker.state, fence=token)
        seen = world.seen if world.seen.startswith(history) else history
        return (
            f"commits {worker.state.history or 'the beginning'}",
            world._replace(server=server, seen=seen),
            worker._replace(step="note made", token=token),
        )


def _agree(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)


def _at_work(worker: Worker, known: Mark | None) -> Worker:
    return worker._replace(step="at work", known=known, chosen=None)


def _with(world: World, number: int, worker: Worker) -> World:
    """Workers have no names: worlds in which they changed places are the same."""
    others = world.workers[:number] + world.workers[number + 1 :]
    return world._replace(workers=tuple(sorted((*others, worker), key=_order)))


@cache
def _order(worker: Worker) -> str:
    return repr(worker)


def _fresh(world: World) -> int:
    """A token that nobody has. One that nobody has any more may come again: it cannot be compared with anything."""
    used = {world.server.fence, *(worker.token for worker in world.workers)}
    used |= {world.saved.fence} if world.saved else set()
    return next(token for token in range(1, len(used) + 2) if token not in used)


@dataclass(frozen=True)
class Search:
    """How many worlds were looked at, and the steps to the first in which readers see two outcomes, if there is one."""

    worlds: int
    violation: list[str] | None = None


def search(bounds: Bounds, most: int = 10**7) -> Search:
    """Look at every world that can be reached, the nearest first, up to a number of them."""
    protocol = Protocol(bounds)
    start = bounds.start()
    came_from: dict[World, tuple[World, str] | None] = {start: None}
    waiting = deque([start])
    while waiting and len(came_from) < most:
        world = waiting.popleft()
        for what, found in protocol.after(world):
            if found in came_from:
                continue
            came_from[found] = (world, what)
            if not found.seen.startswith(world.seen):  # what was seen is no beginning of what is seen now
                return Search(len(came_from), _way_to(found, came_from))
            waiting.append(found)
    return Search(len(came_from))


def _way_to(world: World, came_from: dict[World, tuple[World, str] | None]) -> list[str]:
    steps = []
    while (before := came_from[world]) is not None:
        world, what = before
        steps.append(what)
    return steps[::-1]
