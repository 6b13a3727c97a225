"""What a person adds to each table: at most one unit, by their own records only; and broken twins."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from mechanisms.distill_toys import PEOPLE, log_of, slow_queries, slow_words, squares, sums_of, union_weights
from properties import examples
from queryveil.mechanisms.distill import _vector_kernel as kernel
from queryveil.mechanisms.distill import contributions, known_queries, tables, unions
from queryveil.mechanisms.distill.budget import CELLS, MOST_KEYS, REGIMES, SHARES, TOTALS, UNIT, Budget, shares
from queryveil.mechanisms.distill.texts import Asked
from queryveil.privacy import Noise

UNION_TOTALS = {"pair_total", "head_total"}


def check_lengths(person):
    """The property that the noise is calibrated to, in whole numbers: no vector of a person is longer than `UNIT`."""
    for name, vector in sums_of([person]).items():
        assert (vector >= 0).all() and squares(vector) <= UNIT**2, name
    asked = Asked.of(log_of([person]).frame)
    owners = {"pair_total": unions.word_pairs(asked)[0], "head_total": unions.text_keys(asked)["head"].person}
    for name, person_of in owners.items():
        assert 0 <= contributions.total_weight(name, person_of)[0] <= UNIT, name
    for name, rows in union_weights([person]).group_by("table"):
        assert squares(rows["weight"]) <= UNIT**2 and (rows["weight"] > 0).sum() <= MOST_KEYS[name[0]], name


def check_repeats(person):
    """A text that was asked again adds nothing to the tables of words."""
    once, again = sums_of([person]), sums_of([[*person, *person, *person]])
    shaped = {"records", "ranks", "hours", "session_lengths", "gaps", "follows", "successions"}
    for name in set(once) - shaped:
        assert (once[name] == again[name]).all(), name


def check_alone_as_in_company(people):
    """What several people add is the sum of what each adds alone: nobody's vector depends on somebody else."""
    together = sums_of(people)
    alone = [sums_of([person]) for person in people]
    for name, total in together.items():
        assert (total == sum(one[name] for one in alone)).all(), name
    company = union_weights(people)
    for number, person in enumerate(people):
        mine = company.filter(person=number).drop("person").sort("table", "key")
        assert mine.equals(union_weights([person]).drop("person").sort("table", "key"))


@settings(max_examples=examples(40))
@given(PEOPLE)
def test_no_vector_is_longer_than_one_unit(people):
    check_lengths(people[0])


@settings(max_examples=examples(30))
@given(PEOPLE)
def test_repeats_of_a_text_count_once(people):
    check_repeats(people[0])


@settings(max_examples=examples(30))
@given(PEOPLE)
def test_what_a_person_adds_depends_on_nobody_else(people):
    check_alone_as_in_company(people)


@settings(max_examples=examples(30))
@given(PEOPLE)
def test_the_table_of_words_is_that_of_a_slow_reading(people):
    expected = np.zeros(contributions.cells_of("words"), np.int64)
    for person in people:
        for number, value in slow_words(person).items():
            expected[number] += value
    assert (sums_of(people)["words"] == expected).all()


@settings(max_examples=examples(30))
@given(PEOPLE)
def test_the_table_of_known_queries_is_that_of_a_slow_reading(people):
    expected = np.zeros(contributions.cells_of("queries"), np.int64)
    names = {name: cell for cell, name in enumerate(known_queries.known_names().to_list())}
    for person in people:
        for text, value in slow_queries(person).items():
            expected[names[text]] += value
    made = sums_of(people)
    assert (made["queries"] == expected).all()
    each = [len(slow_queries(person)) for person in people]
    assert made["query_total"][0] == sum(d * math.isqrt(UNIT**2 // d) // 4 for d in each if d)


def test_no_two_known_queries_are_the_same_text():
    assert known_queries.known_names().is_unique().all()


@pytest.mark.parametrize("total", TOTALS)
def test_what_all_of_a_persons_things_weigh_is_at_most_a_unit(total):
    counts = [0, 1, 2, 3, 15, 16, 17, 127, 128, 129, 255, 256, 257, 100_000]
    weighed = [contributions.total_weight(total, np.zeros(count, np.int64))[0] for count in counts]
    assert weighed[0] == 0 and max(weighed) <= UNIT and weighed == sorted(weighed) and weighed[-1] > 0.9 * UNIT


def test_every_table_has_its_cells_and_its_share():
    made = sums_of([[("cheap flights", None, 1, "a.example", None)]])
    assert set(made) | UNION_TOTALS == set(CELLS)
    assert all(len(vector) == contributions.cells_of(name) for name, vector in made.items())
    assert set(SHARES) == set(CELLS) | set(MOST_KEYS) and all(len(row) == REGIMES for row in SHARES.values())
    for regime in range(REGIMES):
        assert sum(shares(regime).values()) == 1 and min(shares(regime).values()) > 0
    assert len(set(SHARES["users"])) == 1  # known before the regime is


def test_a_person_with_more_keys_than_count_gives_weight_to_so_many_and_no_more():
    person = [(f"query {'x' * k}", None, None, None, None) for k in range(1, MOST_KEYS["head"] + 40)]
    rows = union_weights([person]).filter(table="head")
    assert (rows["weight"] > 0).sum() == MOST_KEYS["head"] and squares(rows["weight"]) <= UNIT**2
    check_lengths(person)


def test_which_keys_count_is_random_and_not_the_first():
    person = np.zeros(500, np.int64)
    chosen = [unions.weights_of(person, "head", Noise.seeded(s).stream("x")) > 0 for s in range(40)]
    share = np.mean(chosen, axis=0)
    # Each key is chosen with 128/500; of 500 keys' 40 trials, none is always or never with probability above 0.99.
    assert share.min() > 0 and share.max() < 1 and np.isclose(share.mean(), 128 / 500)


def test_sums_do_not_depend_on_how_the_people_are_cut_into_blocks():
    people = [
        [(f"cheap flights {k % 7}", None, None, None, None), ("paris 2006", None, None, None, None)] for k in range(40)
    ]
    frame = log_of(people).frame
    whole = contributions.sums(Asked.of(frame))
    halves = [contributions.sums(Asked.of(frame.filter(pl.col("user").str.ends_with(d)))) for d in "0123456789"]
    for name, total in whole.items():
        assert (total == sum(half[name] for half in halves)).all(), name


def test_the_products_kernel_is_that_of_a_slow_reading():
    rng = np.random.default_rng(2)
    person, topic = np.sort(rng.integers(0, 9, 300)), rng.integers(0, contributions.CLASSES[0], 300)
    slow = np.zeros((contributions.CLASSES[0],) * 2, np.int64)
    for one in range(9):
        counts = np.bincount(topic[person == one], minlength=contributions.CLASSES[0])
        weights = kernel.WEIGHTS[counts]
        total = int((weights**2).sum())
        slow += np.array([[UNIT * int(a) * int(b) // total for b in weights] for a in weights])
    assert (contributions.add_products(person, topic).reshape(slow.shape) == slow).all()


# Broken twins


def test_a_vector_that_is_not_normalised_is_caught(monkeypatch):
    def unnormalised(keys, cells, unit, weights, out):
        np.add.at(out, keys % cells, unit)

    monkeypatch.setattr(kernel, "add_vectors", unnormalised)
    with pytest.raises(AssertionError, match="topics"):
        check_lengths([("cheap flights to paris", None, None, None, None)])


def known_alone(add_up):
    """A twin that adds up the table of known queries in its own way."""
    honest = contributions.add_up

    def adding(table, person, cell):
        return add_up(person, cell) if table == "queries" else honest(table, person, cell)

    return adding


def test_known_queries_that_are_not_normalised_are_caught(monkeypatch):
    def unnormalised(person, cell):
        return UNIT * np.bincount(cell, minlength=contributions.cells_of("queries"))

    monkeypatch.setattr(contributions, "add_up", known_alone(unnormalised))
    check_lengths([("paris", None, None, None, None)])  # one query of one person is a unit either way
    with pytest.raises(AssertionError, match="queries"):
        check_lengths([("paris", None, None, None, None), ("ebay.com", None, None, None, None)])


def test_known_queries_taken_from_the_log_are_caught(monkeypatch):
    """Cells by what the block's people ask: the same text is another cell in other company."""

    def of_the_log(names, texts):
        return np.where(texts.lengths > 0, np.arange(len(names)), known_queries.NONE)

    monkeypatch.setattr(known_queries, "cells_of_texts", of_the_log)
    with pytest.raises(AssertionError, match="queries"):
        check_alone_as_in_company([[("paris", None, None, None, None)], [("ebay", None, None, None, None)]])


def test_known_queries_counted_by_records_are_caught(monkeypatch):
    honest = contributions.count_words

    def by_records(asked):
        cell = known_queries.cells_of_texts(asked.names, asked.texts)[asked.rows["text_number"].to_numpy()]
        person = asked.rows["person"].to_numpy().astype(np.int64)
        return {**honest(asked), "queries": (person[cell >= 0], cell[cell >= 0])}

    monkeypatch.setattr(contributions, "count_words", by_records)
    with pytest.raises(AssertionError, match="quer"):
        check_repeats([("paris", None, None, None, None), *[("ebay.com", None, None, None, None)] * 3])


def test_rounding_to_the_nearest_is_caught(monkeypatch):
    def nearest(keys, cells, unit, weights, out):
        cell, count = np.unique(keys % cells, return_counts=True)
        vector = weights[count].astype(float)
        out[cell] += np.rint(unit * vector / np.sqrt((vector**2).sum())).astype(np.int64)

    monkeypatch.setattr(kernel, "add_vectors", nearest)
    with pytest.raises(AssertionError):
        for length in range(2, 8):
            words = ["paris", "tulip", "throat", "cancer", "cheap", "flights", "weather"][:length]
            check_lengths([(" ".join(words), None, None, None, None)])


def test_a_kernel_that_floating_point_made_too_long_is_made_shorter():
    vector = np.array([UNIT, 1, 1], np.int64)
    kernel.shorten(vector, 3, UNIT)
    assert vector.tolist() == [UNIT - 1, 0, 0] and squares(vector) <= UNIT**2


def test_counting_records_instead_of_texts_is_caught(monkeypatch):
    def records(asked):
        return (asked.rows[name].to_numpy().astype(np.int64) for name in ("person", "text_number"))

    monkeypatch.setattr(Asked, "distinct", records)
    with pytest.raises(AssertionError):
        check_repeats([("cheap flights", None, None, None, None), *[("paris", None, None, None, None)] * 3])


def test_keys_capped_by_how_frequent_they_are_in_the_log_are_caught(monkeypatch):
    honest = unions.weights_of

    def by_frequency(person, table, stream):
        weights = honest(person, table, stream)
        return np.where(np.bincount(person)[person] > 1, weights // len(np.unique(person)), weights)

    monkeypatch.setattr(unions, "weights_of", by_frequency)
    person = [("cheap flights", None, None, None, None), ("paris", None, None, None, None)]
    with pytest.raises(AssertionError):
        check_alone_as_in_company([person, person])


def test_cells_taken_from_the_log_are_caught(monkeypatch):
    """The cells that are published are the same whatever the log holds."""

    def published(people):
        cells = tables.collect(log_of(people).table(), Noise.seeded(3), Budget(4.0, 1e-8)).cells
        return {name: len(values) for name, values in cells.items()}

    one, other = ([[(text, None, None, None, None)]] for text in ("cheap flights", "weather in paris"))
    assert published(one) == published(other)
    seen = {"words": 0, "queries": 0}

    def of_the_log(table):
        return CELLS[table] or seen[table]

    def sums(asked):
        seen["words"] = len(np.unique(asked.texts.numbers))
        return {"users": np.array([UNIT])}

    monkeypatch.setattr(contributions, "cells_of", of_the_log)
    monkeypatch.setattr(contributions, "sums", sums)
    assert published(one) != published(other)


def test_two_tables_never_share_their_noise():
    """On a log of nobody the tables are noise alone; tables of the same σ and size would show equal numbers."""
    empty = log_of([]).frame
    noisy = tables.collect(log_of([[("x", None, None, None, None)]]).table(), Noise.seeded(5), Budget(4.0, 1e-8))
    assert empty.height == 0
    scaled = {
        name: values[:13] / noisy.budget.sigmas[name] for name, values in noisy.cells.items() if len(values) >= 13
    }
    names = sorted(scaled)
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            assert not np.allclose(scaled[name], scaled[other], atol=0.05), (name, other)


def test_noise_of_one_name_for_two_tables_is_refused():
    noise = Noise.seeded(1)
    table = log_of([[("x", None, None, None, None)]]).table()
    tables.collect(table, noise, Budget(4.0, 1e-8))
    with pytest.raises(Exception, match="drawn before"):
        tables.collect(table, noise, Budget(4.0, 1e-8))
