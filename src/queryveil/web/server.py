"""Run the page: print its address, answer until stopped, write nothing of any request to any log."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from queryveil.errors import Remedy, UsageError
from queryveil.web.settings import Listening

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MOST_AT_ONCE = 64


def _the_page(settings: Any, on_new_token: Callable[[str], None]) -> ASGIApp:
    from queryveil.web.app import create

    return create(settings, on_new_token)


def serve(
    settings: Listening,
    say: Callable[[str], None],
    application: Callable[[Any, Callable[[str], None]], ASGIApp] = _the_page,
) -> None:
    """Serve until the keyboard or a signal stops it; `say` is told the address to open.

    `application` makes what is served from the settings with the port that is used, and is told of new tokens.
    """
    try:
        import uvicorn

        from queryveil.web.connections import ImpatientProtocol
    except ImportError:
        raise UsageError("the page needs more packages. Install them with: pip install 'queryveil[web]'") from None
    os.umask(0o077)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(MOST_AT_ONCE)  # before the address is printed, so that nobody comes too early
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {settings.address}: {(error.strerror or 'failed').lower()}.",
            remedy=Remedy("port", "ANOTHER"),
        ) from None
    settings = replace(settings, port=listener.getsockname()[1])
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # its messages quote requests
    app = application(settings, lambda token: say(f"Open {settings.address}/enter?token={token}"))
    if settings.password is not None:
        say(f"Open {settings.address} and enter the password. The connection is not encrypted.")
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=True,
        lifespan="on",
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
        http=ImpatientProtocol,
        ws="none",
        h11_max_incomplete_event_size=32 << 10,
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        listener.close()
