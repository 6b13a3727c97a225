"""How far a run's outputs are out in one stream, and a fence for what follows. For `_nats_sink.py`.

Readers may take outputs away as soon as they are there (a work queue), in any order, and a stream may forget them. What
never goes back is the number of the stream's last message. So where the stream takes our subject only, and we are the
only writer of that:

* A batch says which number was the last (`Nats-Expected-Last-Sequence`). Once anybody published anything more, it is
  refused, however long its sender was frozen and whatever was removed meanwhile.
* How many outputs of a commit are out is how many numbers were given since then.

Where others write to the stream on other subjects (the shards of a run do), numbers do not tell whose they are, and the
last message on our subject, which has the output's number in its id, must tell. That is right only if messages are
forgotten from the oldest on, so such a stream must have `retention=limits`. A batch then names the last message on the
subject (`Nats-Expected-Last-Subject-Sequence`): while it is the last one, nothing newer can have been forgotten. Where
the subject is empty, that would hold again after everything was forgotten, so there too it names the last number of
the whole stream, which other writers move: then it is looked at and tried again.

A stream that was deleted and made anew counts from 1 again, so it is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from nats.js import api

from queryveil.errors import RefusedError, UsageError
from queryveil.live._nats_connection import EXPECTED, EXPECTED_IN_STREAM, PATIENCE, NatsConnection
from queryveil.live.connector import new_run_needed

ID = "Nats-Msg-Id"


@dataclass(frozen=True)
class Known:
    """What was seen of a stream: numbers of its last message and of the last on our subject, and of our last output."""

    last: int = 0
    on_subject: int = 0
    out: int = 0


class Outputs:
    """One stream that outputs go to. `ids` begins the message ids of ours; `what` names us in errors."""

    def __init__(self, nats: NatsConnection, stream: str, subject: str, ids: str, what: str) -> None:
        self._nats, self.stream, self.subject, self._ids, self._what = nats, stream, subject, ids, what
        self.made = ""
        """When the stream was made; empty until that is known."""
        self.known = Known()
        self.alone = False
        """Whether nobody can write to the stream on another subject."""

    def check(self, info: api.StreamInfo) -> None:
        """Refuse a stream in which one could not tell what is out, and another one than before."""
        config, made = info.config, info.created.isoformat() if info.created else ""
        if not config.allow_atomic:
            raise UsageError(f"nats stream {self.stream} takes no atomic batches: set allow_atomic on it.")
        self.alone = config.subjects == [self.subject] and not config.sources
        if not self.alone and config.retention != api.RetentionPolicy.LIMITS:
            raise UsageError(
                f"nats stream {self.stream} forgets messages once they are acknowledged, and others can write to it "
                "too, so after a crash nobody could tell which outputs were published. Publish to a stream that takes "
                "the run's subject alone (without shards), or to one with retention=limits, which a work queue may "
                "take as its source."
            )
        if self.made not in ("", made):
            raise new_run_needed(
                f"nats stream {self.stream} was deleted and made anew since the run last wrote to it, so nobody can "
                "tell which outputs were published. Purge a stream instead of deleting it."
            )
        self.made = made

    def look(self) -> None:
        """See where the stream stands, when all outputs so far are out."""
        state, last = self._seen()
        number = self._number(last)
        out = self.known.out if number is None else number
        self.known = Known(state.last_seq, int(last.seq or 0) if last else 0, out)

    def look_for(self, numbers: list[int], before: int) -> None:
        """See which of these outputs are out: in this order, in messages after `before`, where nobody else writes."""
        state, last = self._seen()
        on_subject, out = int(last.seq or 0) if last else 0, self.known.out
        count = state.last_seq - before
        if self.alone and count >= 0:
            if count > len(numbers) or (count and not self._may_be(state.last_seq, numbers[count - 1])):
                raise self._others()
            out = numbers[count - 1] if count else out
        elif (number := self._number(last)) is not None:
            out = number
        elif on_subject > before:
            raise self._others()
        elif count < 0 or (not last and state.first_seq > before + 1):
            raise new_run_needed(
                f"nats stream {self.stream} no longer holds what came after {before}, so nobody can tell which of the "
                "last outputs were published before the crash."
            )
        self.known = Known(state.last_seq, on_subject, out)

    def send(self, numbered: list[tuple[int, bytes]]) -> None:
        """One atomic batch, if the stream stands where we know it to; `APIError` otherwise, and nothing is out."""
        messages = [(self.subject, line, {ID: f"{self._ids}{number}"}) for number, line in numbered]
        if self.alone or not self.known.on_subject:
            messages[0][2][EXPECTED_IN_STREAM] = str(self.known.last)
        else:
            messages[0][2][EXPECTED] = str(self.known.on_subject)
        sequence = self._nats(self._nats.put(messages), 12 * PATIENCE)
        self.known = Known(sequence, sequence, numbered[-1][0])

    def _seen(self) -> tuple[api.StreamState, api.RawStreamMsg | None]:
        info = self._nats(self._nats.need(self.stream))
        self.check(info)
        return info.state, self._nats(self._nats.last(self.stream, self.subject))

    def _number(self, message: api.RawStreamMsg | None) -> int | None:
        """The number of an output of ours."""
        name = (message.headers or {}).get(ID, "") if message else ""
        return int(name.removeprefix(self._ids)) if name.startswith(self._ids) else None

    def _may_be(self, sequence: int, number: int) -> bool:
        """Whether a message is our output of that number, as far as one can see: it may have been taken away."""
        message = self._nats(self._nats.at(self.stream, sequence))
        return message is None or self._number(message) == number

    def _others(self) -> RefusedError:
        return RefusedError(f"somebody else writes on subject {self.subject}, where only {self._what} may.")
