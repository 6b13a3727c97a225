"""The ledger never lets anybody lose more than their budget, whatever happens at once or in between."""

import hashlib
import math
import multiprocessing
import sqlite3
import stat
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostile_values import NOT_A_NUMBER
from properties import examples
from queryveil.errors import BudgetError, DataError, ParameterError, UsageError
from queryveil.privacy import Charge, Concentrated, Ledger, keys


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger.db", epsilon=1.0, delta=1e-6)


def spend(ledger, epsilon, people=(), delta=0.0, scope="people"):
    charge = Charge(scope=scope, epsilon=Fraction(str(epsilon)), delta=Fraction(str(delta)))
    return ledger.debit(charge, mechanism="test", people=people)


def test_people_pay_each_for_themselves_and_are_left_out_when_spent(ledger):
    assert spend(ledger, 0.6, ["ann", "bob"]).left_out == frozenset()
    assert spend(ledger, 0.6, ["bob", "cleo"]).left_out == {"bob"}
    assert spend(ledger, 0.4, ["ann", "bob", "cleo"]).left_out == frozenset()
    assert spend(ledger, "0.0001", ["ann", "bob", "cleo", "dan"]).left_out == {"ann", "bob", "cleo"}
    assert ledger.verify() == []


def test_a_debit_that_no_release_came_of_is_told_and_gives_nothing_back(ledger):
    charge = Charge.dataset(epsilon=0.25)
    stopped, done = (ledger.debit(charge, mechanism="t", awaited=True).entry for _ in range(2))
    ledger.debit(charge, mechanism="t")  # of a caller that notes nothing
    ledger.note_written(done)
    assert dict(ledger.entries().select("id", "written").iter_rows()).keys() > {stopped, done}
    assert ledger.entries()["written"].to_list() == [False, True, None]
    assert ledger.remaining() == (0.25, 1e-6)
    assert ledger.verify() == []


def test_a_ledger_of_before_such_notes_pays_as_it_did(ledger):
    with sqlite3.connect(ledger.path) as connection:
        connection.execute("DROP TABLE run")
    ledger.note_written(ledger.debit(Charge.dataset(epsilon=0.25), mechanism="t", awaited=True).entry)
    assert ledger.entries()["written"].to_list() == [None]
    assert ledger.verify() == []


def test_ten_times_a_tenth_is_one(ledger):
    for _ in range(10):
        assert not ledger.debit(Charge.people(epsilon=0.1), mechanism="t", people=["ann"]).left_out
    assert ledger.debit(Charge.people(epsilon=0.1), mechanism="t", people=["ann"]).left_out == {"ann"}
    assert ledger.verify() == []


def test_whether_a_release_is_made_depends_on_nobody(tmp_path):
    """One person's own losses, or one new person, decide neither kind of release for the others."""
    for number, more in enumerate([[], ["mal"]]):
        ledger = Ledger.create(tmp_path / f"{number}.db", epsilon=1.0, delta=1e-6)
        for first in "ab":
            spend(ledger, 0.4, [first, *more])
        released = spend(ledger, 0.25, ["x", *more], scope="dataset")
        assert released.left_out == set(more)
        assert spend(ledger, 0.4, ["a", "b", *more]).left_out == {"a", "b", *more}
        with pytest.raises(BudgetError, match=r"left are ε = 0\.75"):
            spend(ledger, 0.8, ["x"], scope="dataset")
        with pytest.raises(BudgetError, match=r"left are ε = 0\.5"):
            spend(ledger, 0.6, ["x"])
        assert ledger.remaining() == (0.75, 1e-6)
        assert ledger.verify() == []


def test_entries_cut_off_at_the_end_are_found_by_what_was_published(ledger):
    kept, lost = (spend(ledger, 0.1, ["ann"]).entry for _ in range(2))
    connection = sqlite3.connect(ledger.path)
    for trigger in ("entry_remains", "debit_remains"):
        connection.execute(f"DROP TRIGGER {trigger}")
    for statement in ("DELETE FROM debit WHERE entry = 2", "DELETE FROM entry WHERE number = 2"):
        connection.execute(statement)
    connection.execute("UPDATE balance SET epsilon = 100000000")
    connection.commit()
    connection.close()
    assert Ledger(ledger.path).verify([kept]) == []
    assert Ledger(ledger.path).verify([kept, lost]) == [f"entry {lost} of a published release is missing"]


@pytest.mark.parametrize(
    ("scope", "epsilon", "delta"),
    [
        ("user", 1, 0),
        ("nothing", 99, 0),
        ("nothing", 0, Fraction(1, 10**6)),
        ("people", -0.5, 0),
        ("people", float("nan"), 0),
        ("people", float("inf"), 0),
        ("people", True, 0),
        ("dataset", 1, 2),
        ("dataset", "1", 0),
    ],
)
def test_a_charge_that_could_hide_a_loss_cannot_be_made(scope, epsilon, delta):
    with pytest.raises(ParameterError):
        Charge(scope=scope, epsilon=epsilon, delta=delta)


def test_what_is_left_is_told_rounded_down(tmp_path):
    ledger = Ledger.create(tmp_path / "pure.db", epsilon=1.0)  # with a δ, so small a loss would be paid from that
    spend(ledger, "0.0000004", scope="dataset")
    with pytest.raises(BudgetError, match=r"left are ε = 0\.9999,"):
        spend(ledger, 1, scope="dataset")


def test_people_who_are_left_out_do_not_show_when_printed(ledger):
    spend(ledger, 1, ["ann-smith"])
    assert "ann-smith" not in repr(spend(ledger, 0.5, ["ann-smith", "bob"]))


def test_the_dataset_pays_for_everybody_also_for_people_seen_later(ledger):
    spend(ledger, 0.3, scope="dataset")
    assert spend(ledger, 0.4, ["newcomer"]).left_out == frozenset()
    assert spend(ledger, 0.1, ["newcomer", "other"], scope="dataset").left_out == {"newcomer"}
    with pytest.raises(BudgetError, match="budget does not suffice"):
        spend(ledger, 0.7, scope="dataset")
    with pytest.raises(BudgetError, match="counts twice"):
        spend(ledger, 0.5, ["somebody"])


def test_adding_and_removing_counts_as_replacing_for_who_also_pays_for_replaced_records(ledger):
    """(ε, δ) for a person added or removed is (2ε, (1 + e^ε)δ) for a person replaced; the reverse says nothing."""
    spend(ledger, 0.2, delta=1e-7, scope="dataset")
    spend(ledger, 0.2, delta=1e-7, scope="dataset")
    assert ledger.remaining() == (0.6, 8e-7)  # nobody paid for replaced records yet
    assert ledger.remaining("people")[0] == 0.2
    spend(ledger, 0.1, ["ann"])
    assert ledger.remaining("people")[1] == pytest.approx(1e-6 - 2 * (1 + math.exp(0.2)) * 1e-7, abs=1e-17)
    assert spend(ledger, 0.05, ["ann"], scope="dataset").left_out == frozenset()
    assert spend(ledger, 0.01, ["ann", "bob"], scope="dataset").left_out == {"ann"}
    assert ledger.verify() == []


def test_delta_is_a_budget_of_its_own(ledger):
    spend(ledger, 0.1, ["ann"], delta=1e-6)
    assert spend(ledger, 0.1, ["ann", "bob"], delta=1e-7).left_out == {"ann"}
    with pytest.raises(BudgetError):
        spend(ledger, 0.1, delta=2e-6, scope="dataset")


def test_a_refused_release_leaves_no_trace(ledger):
    with pytest.raises(BudgetError):
        spend(ledger, 5, scope="dataset")
    assert ledger.entries().height == 0


def test_a_release_without_loss_is_noted_and_never_refused(ledger):
    spend(ledger, 1.0, scope="dataset")
    ledger.debit(Charge.nothing(), mechanism="suppress", model="none", people=["ann"])
    assert ledger.entries()["scope"].to_list() == ["dataset", "nothing"]
    assert ledger.entries()["people"].to_list() == [0, 0]


def test_names_are_not_in_the_file_and_the_key_lies_apart(ledger):
    spend(ledger, 0.1, ["ann-smith-4417749"])
    assert b"ann-smith" not in ledger.path.read_bytes()
    key = keys.key_folder() / f"ledger-{ledger.id}.key"
    assert key.read_bytes() not in ledger.path.read_bytes()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_without_its_key_or_with_another_the_ledger_does_not_open(ledger):
    key = keys.key_folder() / f"ledger-{ledger.id}.key"
    key.write_bytes(bytes(32))
    with pytest.raises(DataError, match="not the one it was made with"):
        Ledger(ledger.path)
    key.unlink()
    with pytest.raises(DataError, match="is missing"):
        Ledger(ledger.path)


def test_entries_cannot_be_changed_through_the_database(ledger):
    spend(ledger, 0.1, ["ann"])
    connection = sqlite3.connect(ledger.path)
    for statement in (
        "UPDATE entry SET epsilon = 0",
        "DELETE FROM entry",
        "DELETE FROM debit",
        "UPDATE debit SET entry = 9",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        ("UPDATE entry SET epsilon = 1 WHERE number = 1", "entry 1: it, or one before it"),
        ("DELETE FROM entry WHERE number = 2", "entry 3: it, or one before it"),
        ("DELETE FROM debit WHERE entry = 1", "entry 1: its people were changed"),
        ("UPDATE balance SET epsilon = 0", "balances do not follow"),
    ],
)
def test_tampering_behind_the_triggers_is_found(ledger, tampering, found):
    for _ in range(3):
        spend(ledger, 0.1, ["ann", "bob"])
    connection = sqlite3.connect(ledger.path)
    for trigger in ("entry_stays", "entry_remains", "debit_stays", "debit_remains"):
        connection.execute(f"DROP TRIGGER {trigger}")
    connection.execute(tampering)
    connection.commit()
    connection.close()
    assert any(found in problem for problem in Ledger(ledger.path).verify())


def test_a_budget_that_was_raised_behind_our_back_is_refused_on_opening(ledger):
    connection = sqlite3.connect(ledger.path)
    connection.execute("UPDATE setting SET value = '9000000000' WHERE name = 'epsilon'")
    connection.commit()
    connection.close()
    with pytest.raises(DataError, match=r"settings of ledger .* were changed"):
        Ledger(ledger.path)


def test_a_ledger_is_never_overwritten_and_a_foreign_file_is_refused(ledger, tmp_path):
    with pytest.raises(UsageError, match="never overwritten"):
        Ledger.create(ledger.path, epsilon=1)
    foreign = tmp_path / "foreign.db"
    foreign.write_text("not a database at all, but long enough to look at")
    with pytest.raises(DataError, match="not a QueryVeil ledger"):
        Ledger(foreign)
    with pytest.raises(UsageError, match="no ledger at"):
        Ledger(tmp_path / "missing.db")


@pytest.mark.parametrize("value", [*NOT_A_NUMBER, 0, 10**7])
def test_hostile_budgets_are_refused(tmp_path, value):
    with pytest.raises(ParameterError, match="epsilon must be"):
        Ledger.create(tmp_path / "l.db", epsilon=value)
    assert not (tmp_path / "l.db").exists()


def _spend_in_a_process(path, barrier, results):
    ledger = Ledger(path)
    barrier.wait()
    granted = 0
    for _ in range(10):
        try:
            ledger.debit(Charge.dataset(epsilon=0.09), mechanism="t")
            granted += 1
        except BudgetError:
            pass
    results.put(granted)


# Kinds


WEEKLY = Charge.dataset(
    epsilon=1.0, delta=1e-7, concentrated=Concentrated(rho=Fraction("0.0228"), slack=Fraction("1e-9"), gaussian=True)
)


def test_releases_by_rho_cost_less_than_their_epsilon_says(tmp_path):
    """52 Gaussian releases of (1, 1e-7) fit into (9, 1e-6); as plain (ε, δ) only nine do."""
    by_rho, plain = (Ledger.create(tmp_path / f"{name}.db", epsilon=9.0, delta=1e-6) for name in ("rho", "plain"))
    for _ in range(52):
        by_rho.debit(WEEKLY, mechanism="weekly", model="approx-dp")
    assert 8 < by_rho.spent() < 9
    assert by_rho.entries()["kind"].to_list() == ["gaussian"] * 52
    assert by_rho.entries()["rho"].to_list() == [0.0228] * 52
    assert by_rho.entries()["model"].to_list() == ["approx-dp"] * 52
    assert by_rho.verify() == []
    for _ in range(9):
        spend(plain, 1, delta=1e-7, scope="dataset")
    assert plain.remaining()[0] < 1
    assert not plain.affords(Charge.dataset(epsilon=1.0, delta=1e-7))


def test_what_is_left_and_the_next_release_are_told_and_hold(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=6.0, delta=1e-6)
    for _ in range(5):
        ledger.debit(WEEKLY, mechanism="weekly", model="approx-dp")
    spend(ledger, 0.25, ["ann"])
    people, everybody = ledger.next_costs()
    assert (everybody.mechanism, everybody.kind, everybody.scope) == ("weekly", "gaussian", "dataset")
    assert (people.mechanism, people.kind, people.scope) == ("test", "pure", "people")
    assert 0 < everybody.cost < 0.5  # far below its own ε of 1
    assert people.cost == pytest.approx(0.25, rel=1e-3)
    assert "a Gaussian mechanism, which adds up by ρ" in everybody.in_words()
    for _ in range(everybody.times):
        assert ledger.affords(WEEKLY)
        ledger.debit(WEEKLY, mechanism="weekly", model="approx-dp")
    assert not ledger.affords(WEEKLY)
    with pytest.raises(BudgetError, match="left are ε = 0"):
        ledger.debit(WEEKLY, mechanism="weekly", model="approx-dp")
    assert ledger.verify() == []


def test_people_who_paid_often_take_part_longer_than_their_plain_sum(tmp_path):
    """100 releases of ε = 0.1 at δ = 1e-6 cost 5.6 together (advanced composition); without δ they cost 10."""
    with_delta = Ledger.create(tmp_path / "with.db", epsilon=6.0, delta=1e-6)
    without = Ledger.create(tmp_path / "without.db", epsilon=6.0)
    taken = {"with": 0, "without": 0}
    for _ in range(100):
        taken["with"] += not spend(with_delta, 0.1, ["ann"]).left_out
        taken["without"] += not spend(without, 0.1, ["ann"]).left_out
    assert taken == {"with": 100, "without": 60}
    assert spend(with_delta, 3, ["ann", "bob"]).left_out == {"ann"}
    assert with_delta.verify() == [] == without.verify()


def test_beside_a_loss_of_their_own_a_gaussian_release_counts_four_times_its_rho(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=5.0, delta=1e-6)
    for _ in range(5):
        ledger.debit(WEEKLY, mechanism="weekly", model="approx-dp")
    left, own = ledger.remaining("dataset")[0], ledger.remaining("people")[0]
    assert 0 < own < left
    assert spend(ledger, own * 0.99, ["ann"]).left_out == frozenset()
    assert ledger.debit(WEEKLY, mechanism="weekly", model="approx-dp", people=["ann", "bob"]).left_out == {"ann"}
    assert ledger.verify() == []


def test_a_ledger_written_before_there_were_kinds_goes_on(ledger):
    """Rows as earlier versions wrote them; what they hold counts as pure or (ε, δ), and later entries keep theirs."""
    connection = sqlite3.connect(ledger.path)
    previous = ledger._first_link()
    for number, (model, epsilon, delta) in enumerate([("pure-dp", 10**8, 0), ("approx-dp", 2 * 10**8, 10**11)], 1):
        row = (number, f"{number:032x}", "2026-01-01T00:00:00+00:00", "old", model, "dataset", epsilon, delta,
               hashlib.sha256(b"").hexdigest())  # fmt: skip
        previous = ledger._link(previous, row)
        connection.execute(f"INSERT INTO entry VALUES ({', '.join('?' * 10)})", (*row, previous))
    connection.commit()
    connection.close()
    assert Ledger(ledger.path).verify() == []
    assert ledger.entries()["kind"].to_list() == ["pure", "approx"]
    assert ledger.remaining() == (0.7, 9e-7)
    small = Concentrated(rho=Fraction("0.0001"), gaussian=True)
    ledger.debit(Charge.dataset(epsilon=0.1, delta=1e-7, concentrated=small), mechanism="new", model="approx-dp")
    assert ledger.entries()["kind"].to_list() == ["pure", "approx", "gaussian"]
    assert ledger.verify() == []


def test_a_rho_that_was_lowered_behind_our_back_is_found(ledger):
    ledger.debit(WEEKLY, mechanism="weekly", model="approx-dp")
    connection = sqlite3.connect(ledger.path)
    connection.execute("DROP TRIGGER entry_stays")
    connection.execute("UPDATE entry SET model = 'approx-dp; gaussian 1 0 0'")
    connection.commit()
    connection.close()
    assert any("was changed or removed" in problem for problem in ledger.verify())


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("model", "approx-dp; gaussian 1 0 0"),
        ("model", "approx-dp"),
        ("model", ";"),
        ("model", b"approx-dp"),
        ("scope", "nothing"),
        *(("epsilon", value) for value in (0, -(10**12), 0.5, math.inf, "nan", b"1")),
        ("delta", 0),
    ],
)
def test_nothing_is_spent_on_an_entry_that_was_changed(ledger, column, value):
    ledger.debit(WEEKLY, mechanism="weekly", model="approx-dp")
    ledger.debit(Charge.dataset(epsilon=0.01), mechanism="later")
    connection = sqlite3.connect(ledger.path)
    connection.execute("DROP TRIGGER entry_stays")
    connection.execute("PRAGMA ignore_check_constraints = 1")
    connection.execute(f"UPDATE entry SET {column} = ? WHERE number = 1", (value,))
    connection.commit()
    connection.close()
    opened = Ledger(ledger.path)
    for look in (opened.remaining, opened.spent, opened.next_costs, lambda: spend(opened, 0.01, ["ann"])):
        with pytest.raises(DataError, match=r"changed|does not know"):
            look()
    assert any("entry 1" in problem for problem in opened.verify())


def test_entries_that_are_cut_off_and_made_again_behind_an_open_ledger_are_not_taken_for_seen(ledger):
    for _ in range(2):
        ledger.debit(Charge.dataset(epsilon=0.1), mechanism="first")
    ledger.remaining()
    connection = sqlite3.connect(ledger.path)
    connection.execute("DROP TRIGGER entry_remains")
    connection.execute("DELETE FROM entry WHERE number = 2")
    connection.commit()
    connection.close()
    Ledger(ledger.path).debit(Charge.dataset(epsilon=0.2), mechanism="second")
    with pytest.raises(DataError, match="were changed after they were written"):
        ledger.remaining()


def test_two_processes_at_once_never_overspend(ledger):
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_spend_in_a_process, args=(ledger.path, barrier, results)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert results.get() + results.get() == 11  # 11 · 0.09 = 0.99
    assert ledger.verify() == []


actions = st.lists(
    st.tuples(
        st.sampled_from(["people", "dataset"]),
        st.decimals(min_value="0.01", max_value="0.7", places=2),
        st.sets(st.sampled_from("abcde")),
    ),
    max_size=15,
)


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions)
def test_the_ledger_agrees_with_plain_bookkeeping(tmp_path_factory, actions):
    ledger = Ledger.create(tmp_path_factory.mktemp("l") / "l.db", epsilon=1.0)
    own: dict[str, Fraction] = {}
    lost: dict[str, Fraction] = {}
    everybody = Fraction(0)
    for scope, amount, people in actions:
        cost = Fraction(amount)
        if scope == "dataset":
            after = everybody + cost
            if after > 1:
                with pytest.raises(BudgetError, match="does not suffice"):
                    spend(ledger, amount, people, scope=scope)
            else:
                short = {person for person in people if person in own and 2 * after + own[person] > 1}
                assert spend(ledger, amount, people, scope=scope).left_out == short
                everybody = after
                lost = {name: loss + (2 * cost if 2 * after + own[name] <= 1 else 0) for name, loss in lost.items()}
            continue
        short = {person for person in people if 2 * everybody + own.get(person, Fraction(0)) + cost > 1}
        if 2 * everybody + cost > 1:
            with pytest.raises(BudgetError):
                spend(ledger, amount, people)
            continue
        assert spend(ledger, amount, people).left_out == short
        for person in people - short:
            own[person] = own.get(person, Fraction(0)) + cost
            lost[person] = lost.get(person, 2 * everybody) + cost
    assert ledger.verify() == []
    assert ledger.remaining()[0] == float(1 - everybody)
    assert max(lost.values(), default=0) <= 1
