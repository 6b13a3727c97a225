"""The attack on the mechanism itself rather than on one release: is its claim of differential privacy true?"""

from __future__ import annotations

from typing import Final

from queryveil.audit.attacks.canaries import canaries_for
from queryveil.audit.attacks.one_run import MISS, rehearse, seeded_noises
from queryveil.audit.context import Material
from queryveil.audit.finding import Finding, LeftOut
from queryveil.audit.shaping import CANNOT_BE_MADE_AGAIN, Found
from queryveil.errors import QueryVeilError

FIRST_SEED: Final = 1_000
DP: Final = ("pure-dp", "approx-dp")


def one_run(material: Material) -> Found:
    """A lower bound on ε by canaries in a re-run of the mechanism; the log at hand is not touched."""
    title = "Loss proved by canaries in one run"
    if material.promise.get("model") not in DP:
        return
    try:
        mechanism = material.made_again()
        noises = seeded_noises(FIRST_SEED)
        kinds = canaries_for(mechanism, noises)
        if not kinds:
            yield LeftOut(title=title, reason="no kind of canary is known that tests this claim", by_settings=True)
            return
        found = rehearse(mechanism, kinds, noises).run(mechanism, next(noises))
    except QueryVeilError:
        yield LeftOut(title=title, reason=CANNOT_BE_MADE_AGAIN, required=True, by_settings=True)
        return
    yield Finding(
        key="one-run", title=title, kind="risk", topic="one-run audit", question="inference", value=found.epsilon,
        low=found.epsilon, chance=0.0, bound=float(material.promise["epsilon"]),
        trials=found.guesses, better="lower", unit="epsilon",
        explanation=f"A lower bound of ε (wrong with probability {MISS:g}) from {found.right:,} right of "
        f"{found.guesses:,} guesses about {found.canaries:,} canaries ({found.kind}) in a run of the same mechanism on "
        f"a made-up log, so no figure of the private one. Nothing above {found.detectable:.3g} could have shown. It "
        "proves a claim wrong, never right.",
    )  # fmt: skip
