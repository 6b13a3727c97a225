"""What became of the texts: head, torso, tail, examples and residues, against a plain count."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from queryveil.audit.survival import examples, published_examples, rarest, survival
from queryveil.log import QueryLog

texts = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40)


def counted(original, released):
    """Head, torso and tail by hand: walk down the ranks and hand out records until a third is full."""
    asked, published = Counter(original), Counter(released)
    ranked = sorted(asked, key=lambda text: (-asked[text], text))
    walked, parts = 0, {"head": [], "torso": [], "tail": []}
    for text in ranked:
        parts["head" if 3 * walked < len(original) else "torso" if 3 * walked < 2 * len(original) else "tail"].append(
            text
        )
        walked += asked[text]
    kept = {text: min(asked[text], published[text]) for text in asked}
    shares = {
        name: sum(kept[t] for t in part) / sum(asked[t] for t in part) if part else 0.0 for name, part in parts.items()
    }
    return sum(kept.values()) / len(original), sum(k > 0 for k in kept.values()) / len(asked), shares


@given(texts, texts)
def test_survival_is_what_counting_by_hand_gives(original, released):
    found = survival(QueryLog.of([("u", t) for t in original]), QueryLog.of([("x", t) for t in released]))
    volume, distinct, shares = counted(original, released)
    assert (found.volume, found.distinct) == (approx(volume), approx(distinct))
    assert {"head": found.head, "torso": found.torso, "tail": found.tail} == approx(shares)


def test_an_empty_release_keeps_nothing_and_the_same_log_keeps_all():
    log = QueryLog.of([("ann", "a"), ("bob", "a"), ("ann", "b"), ("ann", "c")])
    assert survival(log, QueryLog.empty()).volume == 0
    assert survival(log, log) == survival(log, log).__class__(1.0, 1.0, 1.0, 1.0, 1.0)


def test_made_up_texts_and_surplus_copies_count_for_nothing():
    log = QueryLog.of([("ann", "a"), ("bob", "b")])
    assert survival(log, QueryLog.of([("x", "a"), ("y", "a"), ("z", "new")])).volume == 0.5


def test_examples_come_from_all_strata_and_say_what_became_of_them():
    rows = [(f"u{i}", f"text {j:02}") for j in range(30) for i in range(30 - j)]
    original = QueryLog.of(rows)
    released = QueryLog.of([row for row in rows if row[1] < "text 05"])
    shown = examples(original, released)
    assert list(shown) == ["head", "torso", "tail"]
    assert shown["head"][0] == {
        "query": "text 00", "records": 30, "users": 30, "stratum": "head", "published": 30, "kept": 30,
    }  # fmt: skip
    assert shown["tail"][-1]["query"] == "text 29"
    assert shown["tail"][-1]["published"] == 0
    assert all(len(rows) <= 5 for rows in shown.values())
    assert examples(original, released) == shown


def test_examples_of_the_release_say_whether_the_original_has_the_text():
    shown = published_examples(QueryLog.of([("ann", "a")]), QueryLog.of([("x", "a"), ("x", "a"), ("y", "new")]))
    told = {row["query"]: row["original"] for rows in shown.values() for row in rows}
    assert told == {"a": True, "new": False}


def test_the_worst_residues_come_first_and_popular_texts_are_none():
    popular = [(f"u{i}", "weather") for i in range(9)]
    named = [(f"u{i}", "mail ann@example.org") for i in range(9)]
    rare = [("ann", "my rash"), ("ann", "bob's debt"), ("bob", "bob's debt")]
    log = QueryLog.of(popular + named + rare)
    found = rarest(log, log)
    assert [row["query"] for row in found] == ["mail ann@example.org", "my rash", "bob's debt"]
    assert found[0]["names"] == ["e-mail address"]
    assert rarest(log, QueryLog.of(popular)) == []
    assert len(rarest(log, log, most=1)) == 1
