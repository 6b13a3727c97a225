"""What may be promised, in which words, and what never mixes."""

import pytest

from hostile_values import NOT_A_NUMBER
from queryveil.errors import ParameterError
from queryveil.privacy import ApproxDP, KAnonymity, MetricDP, NoGuarantee, ProbabilisticKAnonymity, PureDP
from queryveil.privacy.guarantee import MODELS, ONE_ID_ONE_PERSON, rounded_up

PROMISES = [
    PureDP(epsilon=1.0, relation="r", not_protected=("volume",)),
    ApproxDP(epsilon=1.0, delta=1e-6, relation="r", not_protected=("volume",)),
    MetricDP(epsilon=10.0, distance="Euclidean", relation="r", unit="word", not_protected=("length",)),
    KAnonymity(k=3, not_protected=("texts",)),
    ProbabilisticKAnonymity(k=3, not_protected=("texts",)),
    NoGuarantee(reason="it only hides rare texts", not_protected=("all else",)),
]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p.model)
def test_every_statement_says_what_is_promised_assumed_and_not_protected(promise):
    statement = promise.statement()
    assert statement.startswith(promise.headline())
    assert ONE_ID_ONE_PERSON in statement
    assert promise.not_protected[0] in statement
    assert promise.as_dict()["statement"] == statement
    assert promise.as_dict()["model"] in MODELS


def test_the_set_is_closed():
    assert {type(p) for p in PROMISES} == set(MODELS.values())


@pytest.mark.parametrize("promise", PROMISES, ids=lambda p: p.model)
def test_a_promise_compares_with_its_own_kind_only(promise):
    assert promise.implies(promise)
    for other in PROMISES:
        if other is not promise:
            with pytest.raises(TypeError, match="promise different things"):
                promise.implies(other)


def test_smaller_losses_and_larger_k_are_stronger():
    assert PureDP(epsilon=0.5).implies(PureDP(epsilon=1.0))
    assert not PureDP(epsilon=1.5).implies(PureDP(epsilon=1.0))
    assert not ApproxDP(epsilon=0.5, delta=1e-5).implies(ApproxDP(epsilon=1.0, delta=1e-6))
    assert KAnonymity(k=5).implies(KAnonymity(k=3))
    assert not ProbabilisticKAnonymity(k=2).implies(ProbabilisticKAnonymity(k=3))


def test_other_units_relations_or_distances_do_not_compare():
    with pytest.raises(TypeError, match="units or relations"):
        PureDP(epsilon=1, unit="query").implies(PureDP(epsilon=1, unit="user"))
    with pytest.raises(TypeError, match="distances"):
        MetricDP(epsilon=1, distance="a").implies(MetricDP(epsilon=1, distance="b"))


def test_guarantees_neither_add_nor_order_by_themselves():
    with pytest.raises(TypeError):
        PROMISES[0] + PROMISES[0]
    with pytest.raises(TypeError):
        _ = PROMISES[0] < PROMISES[0]


@pytest.mark.parametrize(("loss", "told"), [(0.12341, "0.1235"), (1e-6, "1e-06"), (2, "2"), (1 / 3, "0.3334")])
def test_losses_are_rounded_against_ourselves(loss, told):
    assert rounded_up(loss) == told
    assert float(told) >= loss


def test_metric_privacy_says_that_it_is_not_differential_privacy():
    assert "not ε-differential privacy" in PROMISES[2].headline()


@pytest.mark.parametrize("value", [*NOT_A_NUMBER, 0])
def test_hostile_numbers_are_refused(value):
    with pytest.raises(ParameterError, match="epsilon must be a finite number > 0; got"):
        PureDP(epsilon=value)
    with pytest.raises(ParameterError, match="k must be a whole number >= 2 and <= 1000000000; got"):
        KAnonymity(k=value)
    if value != 0 or isinstance(value, bool):
        with pytest.raises(ParameterError, match="delta"):
            MetricDP(epsilon=1, distance="d", delta=value)


def test_all_problems_are_told_at_once():
    with pytest.raises(ParameterError) as caught:
        ApproxDP(epsilon=float("nan"), delta=2, unit="galaxy")
    assert len(caught.value.problems) == 3
