"""The conformance kit accepts real mechanisms and rejects ones that misbehave."""

import dataclasses
import logging
from dataclasses import dataclass

import pytest

from queryveil.log import QueryLog
from queryveil.mechanisms import BUILT_IN, make
from queryveil.mechanisms.obfuscate import promise
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Charge, Noise, PureDP
from queryveil.privacy.guarantee import COMPARED_RELEASES
from queryveil.progress import tell
from queryveil.release.release import Release
from queryveil.testing import CHECKS, check_mechanism
from toy_mechanisms import RandomisedResponse


@pytest.mark.parametrize(
    "mechanism",
    [
        Suppress(k_text=2),
        Suppress(k_text=5, time="hour"),
        Suppress(k_text=2, time="drop"),
        Suppress(k_text=2, time="keep", mode="paper"),
        RandomisedResponse(),
    ],
    ids=repr,
)
def test_real_mechanisms_conform(mechanism):
    check_mechanism(mechanism)


@pytest.mark.parametrize("mode", ["safe", "paper"])
@pytest.mark.parametrize("name", BUILT_IN)
def test_a_mechanism_whose_loss_does_not_add_up_says_that_releases_can_be_compared(name, mode):
    semantic = {"epsilon": 1.0, "per": "query", "criterion": "sqc1", "domain": "disease"}
    needed = {"semantic": semantic, "obfuscate": {"epsilon": 30.0}}.get(name, {})
    promised = make(name, mode=mode, **needed).guarantee()
    adds_up = promised.model in ("pure-dp", "approx-dp")
    private = {("distill", "safe"), ("distill", "paper"), ("sanitize", "safe"), ("semantic", "safe")}
    assert adds_up == ((name, mode) in private)
    assert adds_up or set(COMPARED_RELEASES) <= set(promised.not_protected)


@pytest.mark.parametrize("name", ["aed", "fsh"])
def test_the_baselines_of_obfuscation_say_so_too(name):
    assert set(COMPARED_RELEASES) <= set(promise.of_baseline(name).not_protected)


@dataclass(frozen=True, kw_only=True)
class Misbehaving(RandomisedResponse):
    """Broken twins override `protect` or `guarantee`."""


class KeepsUsers(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        release = super().protect(log, noise)
        return dataclasses.replace(release, log=QueryLog(release.log.frame.with_columns(user=release.owners)))


class KeepsTimes(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        release = super().protect(log, noise)
        times = log.frame["time"].drop_nulls()
        if not len(times) or not len(release.log):
            return release
        return dataclasses.replace(release, log=QueryLog(release.log.frame.with_columns(time=times[0])))


class GuaranteeFromData(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        release = super().protect(log, noise)
        return dataclasses.replace(
            release, guarantee=PureDP(epsilon=float(1 + log.user_count()), not_protected=("much",))
        )


class DrawsItsOwnNoise(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        release = super().protect(log, Noise.secure())
        return dataclasses.replace(release, noise_mode=noise.mode)


class CallsSeededPublishable(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return dataclasses.replace(super().protect(log, noise), noise_mode="secure")


class TalksAboutTheData(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        logging.getLogger("toy").debug("queries %s", log.queries())
        return super().protect(log, noise)


class TellsTheDataAsProgress(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        for query in log.queries():
            tell(f"replacing {query}", 0)
        return super().protect(log, noise)


class PutsDataInParameters(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        release = super().protect(log, noise)
        return dataclasses.replace(release, parameters={"texts": log.queries()})


class FirstUserCountsMore(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        release = super().protect(log, noise)
        first = log.queries()[0] if len(log) else "none"
        return dataclasses.replace(release, log=QueryLog.of([("x", first)] * 2)) if len(log) else release


class LosesTheProtocol(Misbehaving):
    charge = None  # type: ignore[assignment]


class CrashesOnEmpty(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        log.queries()[0]
        return super().protect(log, noise)


class LetsExtraColumnsThrough(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        release = super().protect(log, noise)
        extra = {name: log.frame[name][0] for name in log.extra_columns}
        return dataclasses.replace(release, log=QueryLog(release.log.frame.with_columns(**extra))) if extra else release


class SaysDroppedButKeeps(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        release = super().protect(log, noise)
        return dataclasses.replace(release, columns={**release.columns, "query": "dropped"})


class QuotesTheDataInErrors(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        try:
            return super().protect(log, noise)
        except RuntimeError:
            raise ValueError(f"failed while handling {log.queries()}") from None


class ChargesNothing(Misbehaving):
    def charge(self) -> Charge:
        return Charge.nothing()


class ChargesTooLittle(Misbehaving):
    def charge(self) -> Charge:
        return Charge.people(epsilon=self.epsilon / 2)


class UsesAKnownSeed(Misbehaving):
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return dataclasses.replace(super().protect(log, Noise.seeded(0)), noise_mode=noise.mode)


@pytest.mark.parametrize(
    ("broken", "caught_by"),
    [
        (KeepsUsers, "no_original_user_in_a_safe_release"),
        (KeepsTimes, "no_exact_time_in_a_safe_release"),
        (GuaranteeFromData, "guarantee_needs_no_data"),
        (DrawsItsOwnNoise, "same_seed_gives_the_same_release"),
        (CallsSeededPublishable, "seeded_is_not_publishable"),
        (TalksAboutTheData, "canary_stays_out_of_logs_and_manifest"),
        (TellsTheDataAsProgress, "canary_stays_out_of_logs_and_manifest"),
        (PutsDataInParameters, "canary_stays_out_of_logs_and_manifest"),
        (FirstUserCountsMore, "permuting_the_rows_leaves_the_law_unchanged"),
        (CrashesOnEmpty, "odd_logs_are_survived"),
        (LetsExtraColumnsThrough, "every_column_is_accounted_for"),
        (SaysDroppedButKeeps, "every_column_is_accounted_for"),
        (QuotesTheDataInErrors, "safe_errors_hold_no_data"),
        (ChargesNothing, "guarantee_needs_no_data"),
        (ChargesTooLittle, "guarantee_needs_no_data"),
        (UsesAKnownSeed, "other_noise_gives_another_release"),
    ],
)
def test_a_misbehaving_mechanism_is_caught_by_the_check_meant_for_it(broken, caught_by):
    with pytest.raises(AssertionError, match=caught_by):
        check_mechanism(broken(), batch=caught_by.startswith("permuting"))  # which takes longer than all others


def test_a_leak_is_also_found_on_a_log_of_the_callers_own():
    own = QueryLog.of([(f"u{i}", f"query {i % 3}") for i in range(12)])
    check_mechanism(RandomisedResponse(), log=own)
    with pytest.raises(AssertionError, match="canary_stays_out"):
        check_mechanism(TalksAboutTheData(), log=own)


def test_every_check_has_a_name_that_says_what_it_checks():
    assert all(check.__doc__ and "_" in check.__name__ for check in CHECKS)
    assert len(CHECKS) == len(set(CHECKS)) >= 12
