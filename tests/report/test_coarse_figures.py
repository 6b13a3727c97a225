"""The coarse figures of a public edition: steps only, rounded against ourselves, no size of the raw log."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.audit.auditing import audit as audited
from queryveil.audit.finding import NOBODY_BEHIND, LeftOut
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.report import editions
from queryveil.report.editions import coarsen
from queryveil.report.page import public_page
from report_toys import audit_of, finding, utility

shares = st.floats(0, 1)


@given(shares, shares, shares, st.sampled_from(["lower", "higher"]), st.sampled_from([500, 1000, 2500, 5000]))
def test_coarse_figures_err_against_us_and_tell_steps_only(a, b, c, better, people):
    low, value, high = sorted((a, b, c))
    found = finding(value=value, low=low, high=high, raw=value, chance=value, better=better, trials=1234)
    told = coarsen(audit_of(found, output={"users": people, "records": people})).findings[0]
    dust, steps = 1e-9, {500: 10, 1000: 20, 2500: 50, 5000: 100}[people]
    assert told.low <= low + dust
    assert told.high >= high - dust
    assert told.value >= value - dust if better == "lower" else told.value <= value + dust
    for figure in (told.low, told.value, told.high):
        assert round(figure * steps) == pytest.approx(figure * steps)
    assert abs((told.raw or 0.0) - value) <= 1 / steps + dust  # nothing found in the raw log is not told
    assert (told.trials, told.chance) == (None, None)


def ratios(published, people):
    """Every figure that is the published count for each one of the raw log's, in the shapes a page may show it in."""
    left = published / people
    return audit_of(
        utility(key="left", value=left, raw=1.0, trials=people, chance=1 / people),
        utility(key="lost", value=1 - left, better="lower", unit="distance", raw=0.0, trials=people),
        finding(key="all of them", value=left, raw=1 - left, trials=people, chance=1 / people),
        utility(key="raw", value=0.5, raw=left, trials=people),
        utility(key="volume-users", value=left, trials=people),
        output={"users": published, "records": published},
    )


def most_exact(published, told):
    """Among how many sizes of the raw log one is left at the least, for somebody who tries them all.

    But for sizes whose ratio is exactly at the end of a step.
    """
    sizes = {}
    for people in range(published, 3 * published):
        if people != published and not 100 * published % people:
            continue
        sizes.setdefault(told(ratios(published, people)).findings, []).append(people)
    last = sizes.pop(told(ratios(published, 3 * published)).findings, None)  # it goes on beyond what was tried
    assert sizes
    assert last is None or last[-1] == 3 * published - 1
    return min(map(len, sizes.values()))


@pytest.mark.parametrize("published", [500, 777, 1000, 2499, 2500, 5000, 6001])
def test_no_size_of_the_raw_log_is_told_more_closely_than_to_fifty_people(published):
    assert most_exact(published, coarsen) >= 50


@pytest.mark.parametrize("published", [60, 499, 1000])
def test_steps_of_one_percent_for_few_people_are_caught_by_trying_all_sizes(published, monkeypatch):
    monkeypatch.setattr(editions, "steps_for", lambda people: 1)
    assert most_exact(published, coarsen) < 15


def test_a_plain_count_that_is_shown_is_caught_by_trying_all_sizes(monkeypatch):
    monkeypatch.setattr(editions, "COUNTS", "no such key")
    monkeypatch.setattr(editions, "_rounded", lambda found, percent: found)
    assert most_exact(1000, coarsen) == 1


def log_with_loners(loners):
    """600 people who ask the same, and some more of whom nothing is published."""
    rows = [(f"u{user}", text) for user in range(600) for text in ("weather", "chess", "news")]
    return QueryLog.of(rows + [(f"loner {n}", f"secret {n}") for n in range(loners)])


def test_a_public_page_looks_the_same_for_fifty_sizes_of_the_raw_log():
    seen = set()
    for loners in (1, 3, 4, 25, 50):
        log = log_with_loners(loners)
        told = coarsen(audited(log, make("suppress", k_text=5).protect(log, Noise.secure())))
        assert len(told.findings) > 10
        assert not [found.key for found in told.findings if found.key.startswith("volume-")]
        figures = [replace(found, value=max(found.value, 0.1)) for found in told.findings]  # 0 is told for an attack
        seen.add((*figures, told.left_out))
    assert len(seen) == 1


def test_whether_frequent_texts_are_shown_follows_from_the_published_log():
    few = finding(kind="utility", trials=80, published=49)
    assert not coarsen(audit_of(few)).findings
    assert coarsen(audit_of(replace(few, published=50))).findings


def test_sixty_published_people_and_sixty_three_behind_them_show_no_figure():
    log = QueryLog.of([(f"u{user}", "weather") for user in range(60)] + [(f"loner {n}", f"own {n}") for n in range(3)])
    audit = audited(log, make("suppress", k_text=5).protect(log, Noise.secure()))
    assert coarsen(audit).findings == ()
    page = re.sub(r"<[^>]*>", " ", public_page(audit))
    assert "too few people to tell figures" in page
    assert not re.search(r"\b63\b|95\s%", page)


def test_where_a_person_has_many_names_the_people_behind_them_count():
    many = audit_of(finding(trials=900), output={"users": 90_000, "records": 90_000})
    assert coarsen(many).findings
    assert not coarsen(replace(many, context={"original": {"users": 499, "records": 90_000}})).findings


def test_reasons_that_depend_on_the_data_are_one_sentence_in_public():
    by_data = LeftOut(title="Clicks", reason="the raw log has no clicks")
    by_settings = LeftOut(title="Retrieval", reason="needs a collection", by_settings=True)
    told = coarsen(audit_of(finding(title="Few", trials=3), left_out=(by_data, by_settings))).left_out
    assert [(item.title, item.reason) for item in told] == [
        ("Clicks", editions.NOT_SHOWN),
        ("Retrieval", "needs a collection"),
        ("Few", editions.NOT_SHOWN),
    ]


def test_no_reason_that_speaks_of_the_logs_reaches_the_public_edition():
    clicks = [(f"u{user}", f"query {user % 3}", None, 1, "a.example") for user in range(9)]
    for rows in ([(user, text) for user, text, *_ in clicks], clicks, clicks[:2], [("ann", "x")]):
        audit = audited(QueryLog.of(rows), make("suppress", k_text=2).protect(QueryLog.of(rows), Noise.secure()))
        told = {item.reason for item in coarsen(audit).left_out} - {NOBODY_BEHIND}
        assert not [
            reason for reason in told if "raw log" in reason or "the release has" in reason or "users" in reason
        ]
    one, other = (
        {item.title for item in coarsen(a).left_out} for a in (of_log(clicks), of_log([c[:2] for c in clicks]))
    )
    assert one >= {"Frequent clicks: recall"}
    about_clicks = {title for title in one ^ other if "click" in title.lower()}
    by_columns = {title for title in about_clicks if title.startswith(("Singled out by", "Found by"))}
    assert about_clicks - by_columns <= {"Rare clicks left"}  # the release has some, and shows that it has the column


def of_log(rows):
    log = QueryLog.of(rows)
    return audited(log, make("suppress", k_text=2).protect(log, Noise.secure()))


def test_small_counts_are_not_told_exactly():
    counted = finding(value=3, raw=7, unit="count", trials=900)
    told = coarsen(audit_of(counted, replace(counted, value=0.0), replace(counted, value=11))).findings
    assert [(found.value, found.raw) for found in told] == [(10, None), (0, None), (100, None)]
    crowd = finding(value=347, raw=1, unit="count", better="higher", trials=900)
    assert coarsen(audit_of(crowd)).findings[0].value == 300


def test_rounding_never_turns_a_kept_promise_into_a_broken_one():
    kept = finding(value=0.0961, bound=0.0962)
    assert coarsen(audit_of(kept)).broken() == ()
    assert coarsen(audit_of(finding(value=0.0963, bound=0.0962))).broken() != ()


def test_figures_of_few_trials_are_left_out_and_listed():
    told = coarsen(audit_of(finding(title="A few", trials=49), finding(title="Enough", trials=50)))
    assert [found.title for found in told.findings] == ["Enough"]
    assert told.left_out[0].title == "A few"
    assert told.context == {}


def test_exact_counts_behind_a_figure_are_taken_out():
    assert coarsen(audit_of(finding(detail="456 texts of 7 users."))).findings[0].detail == ""


def test_explanations_hold_no_count_of_the_log_and_every_figure_tells_its_trials():
    audits = []
    for users, records, seed in ((60, 3000, 1), (83, 2500, 2)):
        log = synth(users=users, records=records, seed=seed)
        release = make("microaggregate", k=3, k_text=2).protect(log, Noise.seeded(1))
        audits.append(audited(log, release))
    one, other = ({found.key: found.explanation for found in audit.findings} for audit in audits)
    assert len(one) > 20
    assert {key: other.get(key, text) for key, text in one.items()} == one
    assert all(found.trials is not None for audit in audits for found in audit.findings)


def test_a_log_of_few_people_shows_no_figure_in_public():
    log = synth(users=12, records=2000, seed=1)
    told = coarsen(audited(log, make("suppress", k_text=2).protect(log, Noise.seeded(1))))
    assert told.findings == ()
    assert told.left_out
