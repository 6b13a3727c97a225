"""A conformance kit for mechanisms, ours and third parties'.

`check_mechanism(mechanism)` runs every check and raises `AssertionError` with the names of those that failed. The
checks are about behaving well, not about being private: a mechanism's privacy is tested by exact enumeration,
statistics and attacks of its own.

>>> from queryveil.mechanisms.suppress import Suppress
>>> check_mechanism(Suppress(k_text=2))
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from queryveil.errors import QueryVeilError
from queryveil.log import QueryLog
from queryveil.log.formats import FORMATS
from queryveil.privacy import Noise
from queryveil.privacy.guarantee import MODELS
from queryveil.progress import listening
from queryveil.release import manifest
from queryveil.release.mechanism import MODES, Mechanism, must_be_paid
from queryveil.release.release import Release

CANARY = "canary zx9vq tulip"
SEEDS_FOR_LAW = 60
LARGEST_Z = 6.5
"""Two runs of 60 seeds differ by over 6.5 standard errors in one of up to 100 texts with probability below 1e-8."""
SEEDS_FOR_EQUALITY = 16
"""What 60 seeds would show this clearly happens at p ≥ 0.41 of seeds, since √(60·p/(1-p)) ≥ 6.5; at none of 16 with
probability 0.0002."""


def _with_canary(log: QueryLog) -> QueryLog:
    """A caller's own log with the canary in it, so that the checks for leaks have something to find."""
    canary = sample_log().frame.filter(pl.col("user") == "person-3")
    return QueryLog(pl.concat([log.frame, canary], how="diagonal"))


def sample_log() -> QueryLog:
    """A small log with what real ones hold: shared and personal queries, clicks, nulls, repeats, unicode."""
    start = datetime(2026, 3, 1, 9, 13, 27, 123456)
    shared = ["weather", "train times", "cancer symptoms", "football", "дом", "🌷 tulip", "apple pie recipe", "chess"]
    rows: list[tuple[object, ...]] = []
    for person in range(12):
        for turn in range(6):
            when = start + timedelta(days=person, hours=turn, seconds=37 * turn)
            query = shared[(person * turn + turn) % len(shared)]
            click = (1 + turn, f"site{turn % 3}.example") if turn % 2 else (None, None)
            rows.append((f"person-{person}", query, when, *click, f"s{person}-{turn // 3}"))
        rows.append((f"person-{person}", f"private note {person}", None))
    rows.append(rows[0])
    rows.append(("person-3", CANARY, start + timedelta(days=40)))
    return QueryLog.of(rows)


@dataclass(frozen=True)
class Tried:
    """A mechanism, a log, and its releases of that log: many checks look at the same one, which is made once."""

    mechanism: Mechanism
    log: QueryLog
    _made: dict[int, Release] = field(default_factory=dict)

    def release(self, seed: int = 1) -> Release:
        """The release of this seed, made when it is first asked for."""
        if seed not in self._made:
            self._made[seed] = self.again(seed)
        return self._made[seed]

    def again(self, seed: int = 1, *, log: QueryLog | None = None) -> Release:
        """A release that is made now, of this log or of another."""
        return self.mechanism.protect(self.log if log is None else log, Noise.seeded(seed))


def check_mechanism(mechanism: Mechanism, *, log: QueryLog | None = None, batch: bool = True) -> None:
    """Run every check; `batch=False` leaves out the one that only batch mechanisms can pass (order of rows)."""
    tried = Tried(mechanism, sample_log() if log is None else _with_canary(log))
    checks = [check for check in CHECKS if batch or check is not permuting_the_rows_leaves_the_law_unchanged]
    failures = []
    for check in checks:
        try:
            check(tried)
        except Exception as error:
            failures.append(f"{check.__name__}: {type(error).__name__}: {error}")
    if failures:
        raise AssertionError(f"{mechanism.name} fails {len(failures)} of {len(checks)} checks:\n" + "\n".join(failures))


def is_a_frozen_mechanism(tried: Tried) -> None:
    """Follows the protocol, and its parameters cannot be changed afterwards."""
    mechanism = tried.mechanism
    assert isinstance(mechanism, Mechanism), "it lacks a part of the protocol"
    assert mechanism.mode in ("safe", "paper"), "its mode is neither safe nor paper"
    try:
        mechanism.mode = mechanism.mode  # type: ignore[misc]
    except AttributeError:
        return
    raise AssertionError("its parameters can be changed after they were checked")


def declarations_are_of_their_kind(tried: Tried) -> None:
    """What it declares beside the protocol can be shown and decided by; see `Mechanism`."""
    for name in ("title", "citation"):
        declared = getattr(tried.mechanism, name, "-")
        assert isinstance(declared, str) and declared, f"its {name} is not a text"
    for name in ("replaces_texts", "synthetic_users"):
        declared = getattr(tried.mechanism, name, False)
        good = isinstance(declared, bool) or (isinstance(declared, tuple) and set(declared) <= set(MODES))
        assert good, f"its {name} is neither True or False nor the modes in which it holds"


def guarantee_needs_no_data(tried: Tried) -> None:
    """States a known kind of guarantee, in words, before any data, and the same one afterwards."""
    promised = tried.mechanism.guarantee()
    assert promised.model in MODELS, "its guarantee is of an unknown kind"
    assert len(promised.statement()) > 40, "its statement says nothing"
    assert promised.not_protected, "it claims to protect everything"
    charge = tried.mechanism.charge()
    if must_be_paid(promised):
        assert charge.scope != "nothing", "it promises differential privacy and charges nobody"
        assert float(charge.epsilon) >= promised.epsilon, "it charges less than it promises"
        assert float(charge.delta) >= getattr(promised, "delta", 0.0), "it charges less delta than it promises"
    assert tried.release().guarantee == promised, "the guarantee depends on the data"


def same_seed_gives_the_same_release(tried: Tried) -> None:
    """Science can be repeated."""
    assert tried.release(5).log == tried.again(5).log


def other_noise_gives_another_release(tried: Tried) -> None:
    """The noise that is handed in is the noise that is used: other seeds, and secure noise each time, differ."""
    secure = [tried.mechanism.protect(tried.log, Noise.secure()) for _ in range(2)]
    for first, second, fault in (
        (tried.release(1), tried.release(5), "the seed changes nothing"),
        (secure[0], secure[1], "secure noise repeats itself"),
    ):
        both_empty = not len(first.log) and not len(second.log)  # where little is shared, nothing may come out
        assert both_empty or first.log != second.log, fault


def seeded_is_not_publishable(tried: Tried) -> None:
    """A release whose noise can be undone says so, also in its manifest."""
    release = tried.release()
    assert not release.publishable
    assert "NOT FOR PUBLICATION" in release.statement()
    assert _written(release)["noise"] == {"mode": "seeded", "publishable": False}
    assert tried.mechanism.protect(tried.log, Noise.secure()).publishable


def input_stays_untouched(tried: Tried) -> None:
    """The original is only read."""
    before = tried.log.frame.clone()
    tried.again()
    assert tried.log.frame.equals(before, null_equal=True)


def no_original_user_in_a_safe_release(tried: Tried) -> None:
    """Original ids never leave, in no column."""
    if tried.mechanism.mode == "safe":
        users = set(tried.log.users())
        frame = tried.release().log.frame
        for name in ("user", "session", "url"):
            assert not users & set(frame[name].drop_nulls()), f"column {name} holds an original user id"


def no_exact_time_in_a_safe_release(tried: Tried) -> None:
    """Exact times are quasi-identifiers."""
    if tried.mechanism.mode == "safe":
        times = set(tried.log.frame["time"].drop_nulls())
        assert not times & set(tried.release().log.frame["time"].drop_nulls()), "an exact time was published"


def every_column_is_accounted_for(tried: Tried) -> None:
    """The manifest says what was done to each column, and extra columns do not slip through."""
    extra = QueryLog(tried.log.frame.with_columns(pl.lit("secret extra").alias("note")))
    release = tried.again(log=extra)
    assert "note" not in release.log.frame.columns, "a column it cannot protect slipped through"
    for name in release.log.frame.columns:
        assert release.columns.get(name), f"column {name} is not accounted for"
        if release.columns[name] == "dropped":
            assert release.log.frame[name].null_count() == len(release.log), f"column {name} is said to be dropped"


def odd_logs_are_survived(tried: Tried) -> None:
    """Empty log, one record, one user, duplicates, nulls, unicode: a release or a typed refusal, never a crash."""
    when = datetime(2026, 3, 1, 12, 30, 1)
    odd = {
        "empty log": QueryLog.empty(),
        "one record": QueryLog.of([("a", "x")]),
        "one user": QueryLog.of([("a", f"query {i}", when) for i in range(30)]),
        "duplicates": QueryLog.of([("a", "x", when, 1, "u"), ("b", "x", when, 1, "u")] * 20),
        "unicode": QueryLog.of([(f"ü{i}", "🏳️‍🌈 اختبار \u202eabc\u0301 'quote\" , \t", when) for i in range(8)]),
        "long": QueryLog.of([(f"l{i}", "w " * 5000) for i in range(3)]),
    }
    for name, strange in odd.items():
        try:
            release = tried.again(log=strange)
        except QueryVeilError:
            continue
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}") from error
        assert len(strange) or not len(release.log) or release.guarantee.model.endswith("dp"), (
            f"{name}: made records up"
        )


def permuting_the_rows_leaves_the_law_unchanged(tried: Tried) -> None:
    """The order of the file must not matter: text counts over many seeds agree between a log and its reverse.

    Where the first `SEEDS_FOR_EQUALITY` seeds give the same counts both ways, no more are tried.
    """
    ways: tuple[list[Counter[str]], ...] = ([], [])
    for seed in range(SEEDS_FOR_LAW):
        for way, rows in zip(ways, (tried.log, QueryLog(tried.log.frame.reverse())), strict=True):
            way.append(Counter(tried.again(seed, log=rows).log.queries()))
        if seed + 1 == SEEDS_FOR_EQUALITY and ways[0] == ways[1]:
            return
    for text in set().union(*(c.keys() for way in ways for c in way)):
        a, b = (pl.Series([c[text] for c in way], dtype=pl.Float64) for way in ways)
        spread = (float(a.var() or 0) + float(b.var() or 0)) / SEEDS_FOR_LAW  # type: ignore[arg-type]
        difference = abs(float(a.mean()) - float(b.mean()))  # type: ignore[arg-type]
        assert difference**2 <= LARGEST_Z**2 * spread, "a text's count depends on the order of rows"


def canary_stays_out_of_logs_and_manifest(tried: Tried) -> None:
    """Nothing of the data in log messages at any level, in progress, on the terminal, in warnings, repr or manifest."""
    heard = io.StringIO()
    listener = logging.StreamHandler(heard)
    root = logging.getLogger()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    try:
        with (
            contextlib.redirect_stdout(heard),
            contextlib.redirect_stderr(heard),
            warnings.catch_warnings(record=True) as warned,
            listening(lambda what, share: print(what, file=heard), every=0),
        ):
            warnings.simplefilter("always")
            noise = Noise.seeded(1)
            release = tried.mechanism.protect(tried.log, noise)
            with contextlib.suppress(QueryVeilError):
                tried.mechanism.protect(tried.log, noise)  # the same noise twice: an error or the next draw, never data
    finally:
        root.removeHandler(listener)
        root.setLevel(level)
    heard_of = heard.getvalue() + repr(release) + repr(tried.mechanism) + "".join(str(w.message) for w in warned)
    heard_of += json.dumps(_written(release), ensure_ascii=False)
    for secret in (CANARY, "person-3", "private note"):
        assert secret not in heard_of, "something of the data shows outside the released log"


def safe_errors_hold_no_data(tried: Tried) -> None:
    """An error in the middle of the work must not quote a record, nor chain to one that does."""
    for streams_before_failure in range(4):
        try:
            tried.mechanism.protect(tried.log, _FailingNoise(streams_before_failure))
        except Exception as error:
            message = "".join(traceback.TracebackException.from_exception(error).format_exception_only())
            chained = [str(e) for e in (error, error.__cause__, error.__context__) if e is not None]
            for secret in (CANARY, "person-3", "private note"):
                assert secret not in message + "".join(chained), "an error quotes the data"


class _FailingNoise(Noise):
    """Noise that breaks down after a few streams, to see how a mechanism fails."""

    def __init__(self, streams_left: int) -> None:
        super().__init__(bytes(32), "seeded")
        self._streams_left = streams_left

    def _derived(self, address: bytes, purpose: bytes) -> bytes:
        if self._streams_left == 0:
            raise RuntimeError("no more noise")
        self._streams_left -= 1
        return super()._derived(address, purpose)


CHECKS: tuple[Callable[[Tried], None], ...] = (
    is_a_frozen_mechanism,
    declarations_are_of_their_kind,
    guarantee_needs_no_data,
    same_seed_gives_the_same_release,
    other_noise_gives_another_release,
    seeded_is_not_publishable,
    input_stays_untouched,
    no_original_user_in_a_safe_release,
    no_exact_time_in_a_safe_release,
    every_column_is_accounted_for,
    odd_logs_are_survived,
    permuting_the_rows_leaves_the_law_unchanged,
    canary_stays_out_of_logs_and_manifest,
    safe_errors_hold_no_data,
)
"""Every check, in the order they run."""


def _written(release: Release) -> dict[str, object]:
    """The manifest a release would carry."""
    with tempfile.TemporaryDirectory() as folder:
        log_file = Path(folder) / f"log{FORMATS['jsonl'].suffix}"
        log_file.touch()
        return manifest.manifest(release, log_file, format="jsonl", ledger_entry=None)
