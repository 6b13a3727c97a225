"""The connection to a Redis or Valkey server, and which of its answers are worth waiting for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlunsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from queryveil.errors import DataError, UsageError
from queryveil.live.connector import AwayError, Endpoint, UrlParameters

PATIENCE = 5.0
TRANSIENT = (
    redis.ConnectionError,
    redis.TimeoutError,
    redis.OutOfMemoryError,
    redis.ReadOnlyError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.TryAgainError,
)
TRANSIENT_CODES = ("NOREPLICAS", "MISCONF", "BUSY", "UNBLOCKED", "LOADING", "MASTERDOWN")
"""First words of answers that pass: replicas are missing, the disk is full, a script runs, another server leads now."""
TOO_OLD = "this redis server is too old for live streams: use Redis 7, or Valkey."


class RedisServer:
    """A connection and what its URL says of the stream."""

    def __init__(self, end: Endpoint) -> None:
        self.url = UrlParameters(end, ("stream", "lease", "backlog"), "redis://host/0?stream=searches")
        parts = self.url.parts
        self.stream = self.url.text("stream")
        try:
            self.place = (parts.hostname, parts.port or 6379, parts.path.strip("/") or "0")
        except ValueError:
            raise UsageError("the port in a redis URL must be a number.") from None
        self.client: Any = redis.Redis.from_url(
            urlunsplit(parts._replace(query="")),
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 0),  # whether a commit was made is found out by opening the shard anew
        )


@contextmanager
def away() -> Iterator[None]:
    """Whatever stands between us and the server is worth waiting for; its words are not shown, they may hold data."""
    try:
        yield
    except redis.AuthenticationError:
        raise UsageError("the redis server refuses the user or password in the URL.") from None
    except redis.exceptions.NoPermissionError:
        raise not_allowed() from None
    except TRANSIENT:
        raise _cannot_now() from None
    except redis.ResponseError as error:
        if code(error) in TRANSIENT_CODES:
            raise _cannot_now() from None
        raise DataError("the redis server refused a command; its own log says why.") from None


def answers(asked: Any) -> list[Any]:
    """What the server says to several commands at once. The client would put its own words before an error's code."""
    answered: list[Any] = asked.execute(raise_on_error=False)
    for answer in answered:
        if isinstance(answer, redis.RedisError):
            raise answer
    return answered


def code(error: redis.ResponseError) -> str:
    """The first word of an answer, which is the server's own and never data."""
    return str(error).partition(" ")[0]


def _cannot_now() -> AwayError:
    return AwayError("the redis server cannot be reached, or takes no writes now.")


def not_allowed() -> UsageError:
    """The server's access list has no room for us."""
    return UsageError(
        "the redis server does not allow the user in the URL a command that is needed. It needs the commands on "
        "streams, strings and hashes, and EVAL, for the streams and for the keys queryveil:RUN:*."
    )
