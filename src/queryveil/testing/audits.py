"""What every attack and every measure has to pass, for whoever writes one.

`check_attack` and `check_measure` try a part on small synthetic releases: the raw log under other names, a release that
keeps almost nothing, an empty one, one of a mechanism nobody knows. A part has to come to the same findings twice, to
say what it left out instead of failing, to give figures within their intervals, and to show nothing of the data. An
attack finds more in the raw log under other names than in a release of noise; a measure is best on the raw log.

>>> from queryveil.audit.attacks.uniqueness import Uniqueness
>>> check_attack(Uniqueness())
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from queryveil.audit.attack import Attack
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Finding, LeftOut
from queryveil.audit.measure import Measure
from queryveil.audit.past import Past
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.release.secrets import Secrets

USERS, RECORDS = 60, 1500
QUESTIONS = ("singling out", "linkability", "inference")


def check_attack(attack: Attack) -> None:
    """Raise `AssertionError` with what is wrong, if anything is."""
    assert attack.question in QUESTIONS, f"{attack.key}: question must be one of {', '.join(QUESTIONS)}"
    assert isinstance(attack.counts_toward_risk, bool), f"{attack.key}: counts_toward_risk must be True or False"
    found = _check_part(attack, "risk")
    for key, renamed in found["renamed"].items():
        shuffled = found["noise"].get(key)
        if shuffled is not None and renamed.unit == "share" and renamed.raw is not None:
            worse = renamed.value >= shuffled.value if renamed.better == "lower" else renamed.value <= shuffled.value
            assert worse, f"{attack.key}: {key} finds less in the raw log under other names than in a release of noise"


def check_measure(measure: Measure) -> None:
    """Raise `AssertionError` with what is wrong, if anything is."""
    assert measure.task, f"{measure.key}: task must say what is measured"
    found = _check_part(measure, "utility")
    for key, best in found["renamed"].items():
        noise = found["noise"].get(key)
        if noise is not None:
            better = best.value >= noise.value if best.better == "higher" else best.value <= noise.value
            assert better, f"{measure.key}: {key} is better on a release of noise than on the raw log"


def _check_part(part: Any, kind: str) -> dict[str, dict[str, Finding]]:
    assert part.key and part.title, "a part needs a key and a title"
    log = synth(users=USERS, records=RECORDS, seed=11)
    everything: dict[str, dict[str, Finding]] = {}
    for (name, context), (_, again) in zip(_contexts(log), _contexts(log), strict=True):
        findings = list(part.run(context)), list(part.run(again))
        assert findings[0] == findings[1], f"{part.key}: two runs over the same release ({name}) differ"
        for item in findings[0]:
            assert isinstance(item, (Finding, LeftOut)), f"{part.key}: a {type(item).__name__} is no finding"
            _refuse_data(part, item, log)
        shown = [item for item in findings[0] if isinstance(item, Finding)]
        assert len({found.key for found in shown}) == len(shown), f"{part.key}: two findings have one key ({name})"
        for found in shown:
            _check_finding(part, found, kind)
        everything[name] = {found.key: found for found in shown}
    return everything


def _check_finding(part: Any, found: Finding, kind: str) -> None:
    where = f"{part.key}: {found.key}"
    assert found.kind == kind, f"{where} must be a {kind}"
    assert found.explanation, f"{where} needs an explanation"
    if found.low is not None:
        assert found.low <= found.value, f"{where} lies below its interval"
    if found.high is not None:
        assert found.value <= found.high, f"{where} lies above its interval"
    if found.unit == "share" and kind == "risk":
        assert 0 <= found.value <= 1, f"{where} is a share outside 0 to 1"


def _refuse_data(part: Any, item: Finding | LeftOut, log: QueryLog) -> None:
    texts = [item.title, item.reason] if isinstance(item, LeftOut) else [item.title, item.explanation, item.detail]
    private = {*log.users().to_list(), *(query for query in log.queries() if " " in query)}
    said = "\n".join(texts)
    assert not any(value in said for value in private), f"{part.key}: a finding shows a query or a user"


def _contexts(log: QueryLog) -> Iterator[tuple[str, AuditContext]]:
    """The raw log under other names, noise, almost nothing and nothing; with and without what the holder knows."""
    users = log.users().to_list()
    names = dict(zip(users, (f"pseudonym {number}" for number in range(len(users))), strict=True))
    renamed = QueryLog(log.frame.with_columns(pl.col("user").replace_strict(names)))
    mixed = Noise.seeded(5).stream("conformance").permutation(len(log))
    noise = QueryLog(renamed.frame.with_columns(log.frame["query"][mixed], log.frame["url"][mixed]))
    owners = log.frame["user"]
    for name, released in (("renamed", renamed), ("noise", noise)):
        secrets = Secrets(owners, released.frame["user"], owners, {})
        yield name, _context(log, released, secrets, {"mechanism": "unheard-of", "mode": "safe", "parameters": {}})
    yield "without secrets", _context(log, renamed, None, {})
    few = QueryLog(renamed.frame.head(3))
    yield "almost nothing", _context(log, few, Secrets(owners.head(3), few.frame["user"], owners.head(3), {}), {})
    empty = QueryLog(renamed.frame.clear())
    yield "nothing", _context(log, empty, Secrets(owners.clear(), empty.frame["user"], owners.clear(), {}), {})


def _context(log: QueryLog, released: QueryLog, secrets: Secrets | None, manifest: dict[str, Any]) -> AuditContext:
    past = Past.of(log)
    return AuditContext(original=log, released=released, manifest=manifest, secrets=secrets, past=past, digest="kit")
