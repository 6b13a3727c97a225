"""A gateway for tests: before a client in this process, or on a socket that a browser can reach."""

from contextlib import contextmanager

from queryveil.mechanisms.obfuscate import Obfuscate, SearchSession
from queryveil.privacy import Noise
from queryveil.search.gateway import Gateway
from queryveil.search.private_search import EngineAddress
from queryveil.web.gateway import create
from queryveil.web.settings import Listening
from waiting import LONG
from web.conftest import Running, answering

QUERY = "throat cancer treatment"
SETTINGS = {"mechanism": "vkr-cmp", "epsilon": 90.0, "n": 6}


def gateway_to(engine, limit=None, **settings):
    """Seed 1 draws six different queries for QUERY."""
    return Gateway(
        Obfuscate(**(SETTINGS | settings)),
        EngineAddress.parse(engine.template),
        noise=Noise.seeded(1),
        tally=SearchSession(key=bytes(32)),
        limit=limit,
        timeout=min(LONG, 600),
    )


@contextmanager
def gateway_serving(gateway, *, at_once=False):
    """The gateway on a free port of loopback."""
    made = []

    def application(port):
        made.append(Running(Listening(port=port, patience=LONG), []))
        return create(made[0].settings, gateway, made[0].tokens.append, at_once=at_once)

    with answering(application):
        yield made[0]
