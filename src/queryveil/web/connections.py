"""HTTP connections that do not wait for ever: whoever opens one must say what is wanted before long.

uvicorn limits how long a connection may idle after an answer, but not how long the head of a request may take; with a
few dozen half-open connections everybody else would wait. Bodies are timed by the guard.

An address may have a few connections on which nothing is asked yet, and all together some more. When one more comes the
oldest of them is cut: whoever opens many cuts their own, and somebody who asks at once is never kept waiting by them.
"""

from __future__ import annotations

import asyncio
from typing import Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_FOR_A_HEAD: Final = 10.0
MOST_OF_AN_ADDRESS: Final = 16
"""Connections on which nothing is asked; a browser keeps about six."""
MOST_WAITING: Final = 128


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol that hangs up on a head that does not come."""

    hanging_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start waiting for the first head, and cut an older connection where too many wait."""
        super().connection_made(transport)
        self._watch()
        waiting = [other for other in self.connections if isinstance(other, ImpatientProtocol) and other.hanging_up]
        theirs = [other for other in waiting if other._address() == self._address()]
        if len(theirs) > MOST_OF_AN_ADDRESS or len(waiting) > MOST_WAITING:
            oldest = min(theirs if len(theirs) > MOST_OF_AN_ADDRESS else waiting, key=lambda other: other._deadline())
            oldest._hang_up()

    def _address(self) -> str | None:
        return self.client[0] if self.client else None

    def _deadline(self) -> float:
        return self.hanging_up.when() if self.hanging_up else float("inf")

    def data_received(self, data: bytes) -> None:
        """Go on waiting, or stop where the head is whole."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Start waiting for the next head, of which a part may be here already."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._calm()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._calm()
        elif self.hanging_up is None:
            self.hanging_up = self.loop.call_later(SECONDS_FOR_A_HEAD, self._hang_up)

    def _hang_up(self) -> None:
        self.hanging_up = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.abort()

    def _calm(self) -> None:
        if self.hanging_up is not None:
            self.hanging_up.cancel()
            self.hanging_up = None
