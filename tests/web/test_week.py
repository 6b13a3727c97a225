"""One made-up person's week: what the picture says became of each search is what the release really holds."""

import re
from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.errors import UsageError
from queryveil.privacy import Noise
from queryveil.web import models, week

FEW = st.sampled_from("abcd")


@pytest.fixture(scope="module")
def suppressed():
    """The week as it was asked, and at each stop of a mechanism, weak to strong."""
    return [week.week("suppress", setting) for setting in range(4)]


def slow_fates(asked, records, person):
    """The oracle: record by record, in plain Python, from (name, text, who is behind it)."""
    under = defaultdict(set)
    for name, text, owner in records:
        if owner == person:
            under[name].add(text)
    fates = {}
    for text in asked:
        beside = [texts for texts in under.values() if text in texts]
        if any(len(texts) > 1 for texts in beside):
            fates[text] = "together"
        elif beside:
            fates[text] = "apart"
        else:
            fates[text] = "others" if any(text == other for _, other, _ in records) else "gone"
    return fates


@given(asked=st.lists(FEW, min_size=1), records=st.lists(st.tuples(FEW, FEW, st.sampled_from(["p", "q", None]))))
def test_fates_are_those_of_a_slow_look_at_every_record(asked, records):
    released = pl.DataFrame(records, schema={"user": pl.String, "query": pl.String, "owner": pl.String}, orient="row")
    found = week._fates(pl.Series(asked, dtype=pl.String), released.filter(owner="p"), released["query"])
    assert found == slow_fates(asked, records, "p")


@pytest.mark.parametrize("mechanism", ["suppress", "stream", "sanitize"])
def test_a_week_is_what_the_release_holds_of_it(mechanism):
    log, person = week.sample()
    release = week.stops(mechanism)[0].made().protect(log, Noise.seeded(week.SEED))
    people = release.people().collect()["user"].to_list()
    records = list(zip(release.log.frame["user"], release.log.frame["query"], people, strict=True))
    asked = log.frame.filter(user=person)["query"].to_list()
    shown = week.week(mechanism, 1)
    assert {one.text: one.fate for one in shown.searches} == slow_fates(asked, records, person)
    assert shown.records == sum(owner == person for *_, owner in records)
    names = {name for name, _, owner in records if owner == person}
    assert (shown.names, shown.of_others) == (
        len(names),
        sum(name in names and owner != person for name, _, owner in records),
    )


def test_the_week_dissolves_as_texts_must_be_shared_by_more_people(suppressed):
    kept = [{number for number, one in enumerate(shown.searches) if one.fate == "together"} for shown in suppressed]
    assert len(kept[0]) == len(suppressed[0].searches) > len(kept[1]) > len(kept[2]) > len(kept[3]) > 0
    assert kept[0] > kept[1] > kept[2] > kept[3]


def test_nobody_is_behind_a_made_up_release():
    shown = week.week("sanitize", 1)
    assert shown.made_up
    assert (shown.records, shown.names, shown.of_others, shown.instead) == (0, 0, 0, [])
    assert {one.fate for one in shown.searches} <= {"others", "gone"}


def test_a_mark_keeps_its_place_and_its_id_from_stop_to_stop(suppressed):
    mark = re.compile(r'<rect id="(m\d+)" class="mark \w+" (x="\S+" y="\S+")')
    marks = [mark.findall(week.picture(one)) for one in suppressed]
    assert len(marks[0]) == len(set(marks[0])) == len(suppressed[0].searches)
    assert marks.count(marks[0]) == len(marks)


def test_a_text_is_shown_as_text(suppressed):
    hostile = models.Search(day=0, hour=0, text="</title><script>alert(1)</script>", fate="gone")
    assert "<script>" not in week.picture(suppressed[0].model_copy(update={"searches": [hostile]}))


@pytest.mark.parametrize(("mechanism", "setting"), [("suppress", 4), ("suppress", -1), ("no such", 0)])
def test_other_settings_are_refused(mechanism, setting):
    with pytest.raises(UsageError):
        week.week(mechanism, setting)


def test_the_page_and_the_api_show_the_same_and_nothing_of_the_holders_log(visitor, suppressed):
    visitor.upload("log.csv", b"user,query\nann,xyzzy-secret-query\n")
    whole = visitor.get("/week?mechanism=suppress&setting=2")
    part = visitor.get("/week?mechanism=suppress&setting=2", headers={"hx-request": "true"})
    assert whole.status_code == part.status_code == 200
    assert part.text.strip().startswith('<div id="week"')
    assert part.text.strip() in whole.text
    assert "xyzzy" not in whole.text
    assert visitor.get("/api/mechanisms/suppress/week?setting=2").json() == suppressed[2].model_dump()
    assert visitor.get("/week?mechanism=suppress&setting=9").status_code == 422
