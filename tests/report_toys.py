"""Findings and audits made by hand, for the tests of the report."""

from queryveil.audit.finding import Audit, Finding, LeftOut


def finding(**given):
    """A finding with everything that does not matter filled in."""
    usual = {
        "key": "k",
        "title": "An attack",
        "kind": "risk",
        "topic": "attacks",
        "question": "singling out",
        "value": 0.02,
        "better": "lower",
        "unit": "share",
        "explanation": "Share of people.",
    }
    return Finding(**(usual | given))


def utility(**given):
    """A finding about what is kept."""
    usual = {"kind": "utility", "topic": "volume", "question": None, "better": "higher", "title": "Records kept"}
    return finding(**(usual | given))


def manifest(**given):
    """What a release made with `suppress` says of itself."""
    guarantee = {
        "model": "none",
        "unit": "user",
        "relation": "",
        "statement": "No formal guarantee: rare texts are withheld. This rests on measurement, not on proof.",
        "assumptions": ["one id, one person"],
        "not_protected": ["how active each user is"],
        "evidence": "measured",
    }
    usual = {
        "queryveil": "0.1.0",
        "mechanism": "suppress",
        "mode": "safe",
        "parameters": {"k_text": 2, "time": "day"},
        "guarantee": guarantee,
        "output": {"file": "log.csv", "format": "csv", "records": 120_000, "users": 6000, "sha256": "ab" * 32},
        "columns": {"user": "replaced", "query": "kept"},
        "noise": {"mode": "secure", "publishable": True},
        "ledger": None,
        "created": "2026-11-15T12:00:00+00:00",
    }
    return usual | given


def audit_of(*findings, left_out=(), **given):
    """An audit of a release made with `suppress`."""
    return Audit(released=manifest(**given), findings=findings, left_out=left_out, context={"users": 31})


def full_audit(**given):
    """One finding of every shape that a page must draw."""
    return audit_of(
        finding(
            key="found-2", title="Found by 2 known queries", value=0.02, low=0.01, high=0.04, raw=0.9, chance=0.001
        ),
        finding(key="a3", title="Profiles linked", topic="linkage", question="linkability", value=0.31, raw=1.0),
        finding(
            key="b", title="Bounded", topic="linkage", question="linkability", value=0.1, low=0.0, high=1.0, bound=0.2
        ),
        finding(key="eps", title="Loss shown", topic="one run", question=None, value=3.71, bound=12.0, unit="epsilon"),
        finding(key="crowd", title="Smallest crowd", value=12345, raw=1, bound=3, unit="count", better="higher"),
        finding(key="rare", title="Rare texts", question="inference", value=0.0, trials=900),
        utility(key="v", value=0.64, raw=1.0),
        utility(key="d", title="Distance", topic="profiles", value=1.4, unit="distance", better="lower"),
        left_out=(LeftOut(title="Window attack", reason="needs the true owners"),),
        **given,
    )
