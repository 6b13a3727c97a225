"""What each edition shows: no query and no exact figure of the private log in public."""

import json
import re
import stat
from dataclasses import replace

import pytest

from queryveil import mechanisms
from queryveil.audit.auditing import audit as audited
from queryveil.audit.auditing import read_release
from queryveil.errors import RefusedError, UsageError, VerificationError
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Charge, Ledger, Noise
from queryveil.release.manifest import verify
from queryveil.report.editions import Twin, coarsen, needs_twin, synthetic_twin, twin_size
from queryveil.report.page import internal_folder, internal_page, public_page, write_report
from queryveil.testing.twins import GroupsOneShort
from report_toys import audit_of, finding, full_audit, manifest, utility

CANARY = "xyzzy canary plugh"


def log_with_canaries():
    """A log whose every text holds a canary word, some popular, some one person's."""
    rows = [(f"person {i % 700}", f"{CANARY} {i % 6}") for i in range(2000)]
    rows += [(f"person {i}", f"{CANARY} own {i}") for i in range(700)]
    return QueryLog.of(rows)


def dp_manifest(**given):
    promise = manifest()["guarantee"] | {"model": "pure-dp", "epsilon": 8.0, "unit": "query"}
    parameters = {"epsilon": 8.0, "per": "query", "criterion": "nsqc", "domain": "disease", "max_queries": 20}
    size = {"output": {"records": 1200, "users": 30}}
    return manifest(mechanism="semantic", parameters=parameters, guarantee=promise, **(size | given))


# --- the twin


def test_only_promises_about_probabilities_need_a_twin():
    assert needs_twin(dp_manifest())
    assert not needs_twin(manifest())
    assert not needs_twin({"mechanism": None})


def test_exact_figures_of_a_private_release_are_refused_in_public():
    with pytest.raises(RefusedError, match="void the promise"):
        public_page(audit_of(finding(), **dp_manifest()))


def test_the_twin_has_the_size_of_the_published_log():
    assert twin_size(dp_manifest()) == {"users": 30, "records": 1200}
    large = dp_manifest(output={"records": 10_000_000, "users": 70_000})
    assert twin_size(large) == {"users": 210, "records": 30_000}
    assert twin_size(dp_manifest(output={"records": 0, "users": 0})) == {"users": 1500, "records": 30_000}


def test_a_twin_is_made_and_attacked_and_knows_nothing_of_the_private_log():
    described = dp_manifest()
    twin = synthetic_twin(described)
    assert twin.audit.context == {"users": 30, "records": 1200}
    assert len(twin.audit.risks()) > 5
    assert len(twin.pairs) == 5
    page = public_page(audit_of(finding(value=0.123456, title="Secret figure"), **described), twin=twin)
    assert "synthetic twin" in page
    assert "Secret figure" not in page
    assert page == public_page(audit_of(finding(value=0.9), utility(value=0.1), **described), twin=twin)


def test_a_mechanism_is_remade_from_what_the_manifest_says_without_its_state():
    parameters = {"k": 4, "k_text": 3, "state": "/secret/groups.json", "classifier_digest": "ab"}
    made = mechanisms.recreate(manifest(mechanism="microaggregate", parameters=parameters))
    assert (made.k, made.k_text, made.state) == (4, 3, None)
    with pytest.raises(UsageError, match="does not say which mechanism"):
        mechanisms.recreate({"guarantee": {}})


# --- writing both


@pytest.fixture
def written(tmp_path):
    """A release of a log with canaries, its audit, and both editions."""
    log = log_with_canaries()
    release = make("suppress", k_text=3).protect(log, Noise.secure())
    folder = release.write(tmp_path / "release")
    audit = audited(log, release)
    return log, audit, folder


def test_both_editions_go_where_they_belong(written):
    log, audit, folder = written
    released, described = read_release(folder)
    places = write_report(audit, folder, original=log, released=released)
    assert places.public == folder / "report.html"
    assert places.internal == folder.parent / "release-internal" / "report.html"
    assert stat.S_IMODE(places.internal.parent.stat().st_mode) == 0o700
    names = {path.name for path in places.internal.parent.iterdir()}
    sheets = {"sheet.html", "sheet.json"}
    assert names == sheets | {"report.html", "findings.json", "configuration.json", "references.bib"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in places.internal.parent.iterdir())
    assert verify(folder).manifest["report"]["file"] == "report.html"
    assert verify(folder).manifest["output"] == described["output"]
    again = write_report(audit, folder, original=log, released=released, editions=["public"])
    assert again.internal is None


def test_the_public_edition_holds_no_text_and_no_user_of_the_original(written):
    log, audit, folder = written
    page = public_page(audit, purpose="research")
    internal = internal_page(audit, original=log, released=read_release(folder)[0])
    assert "xyzzy" in internal
    assert "xyzzy" not in page
    assert "person 1" not in page
    assert "plugh" not in page


def test_the_public_edition_holds_no_exact_figure_of_the_original(written):
    _, audit, _ = written
    shown = re.sub(r"<[^>]*>", " ", public_page(audit).split("<main>")[1])
    exact = [
        figure
        for found in audit.findings
        for figure in (found.value, found.low, found.high)
        if figure is not None and found.unit == "share" and round(figure * 100, 1) % 1 and figure > 0.002
    ]
    assert exact  # the internal edition does have such figures
    assert not [figure for figure in exact if f"{100 * figure:.1f} %" in shown.replace("\xa0", " ")]


def test_a_report_that_was_changed_makes_the_release_fail(written):
    log, audit, folder = written
    write_report(audit, folder, original=log, released=read_release(folder)[0], editions=["public"])
    report = folder / "report.html"
    report.write_text(report.read_text().replace("With care", "Yes"))
    with pytest.raises(VerificationError, match="the report is not the one"):
        verify(folder)


def test_a_log_of_another_tool_gets_an_internal_edition_only(written, tmp_path):
    log, audit, _ = written
    foreign = tmp_path / "theirs.csv.gz"
    foreign.write_bytes(b"")
    places = write_report(audit, foreign, original=log, released=log)
    assert places.public is None
    assert places.internal == tmp_path / "theirs-internal" / "report.html"


def test_the_internal_edition_never_lies_inside_a_release(written, tmp_path):
    log, audit, folder = written
    with pytest.raises(RefusedError):
        write_report(audit, folder / "sub.csv", original=log, released=log, editions=["internal"])
    assert internal_folder(folder).parent == folder.parent
    with pytest.raises(UsageError, match="editions are"):
        write_report(audit, folder, original=log, released=log, editions=["secret"])
    (tmp_path / "release-internal").write_text("mine")
    with pytest.raises(UsageError, match="Move it away"):
        write_report(audit, folder, original=log, released=log, editions=["internal"])


# --- what a page says


def test_the_page_has_every_part_that_a_reader_looks_for():
    log = synth(users=20, records=300)
    page = internal_page(full_audit(), original=log, released=log, purpose="For the university.")
    for heading in (
        "May this be published?",
        "Context and purpose",
        "What it does not cover",
        "regulator's three questions",
        "What an attacker gets",
        "What is kept",
        "Before and after",
        "Worst residual queries",
        "Budget",
        "Provenance",
        "Citation and configuration",
        "What was not measured",
        "For the university.",
        "ab" * 32,
        "@inproceedings{adar2007user",
        "Signature",
    ):
        assert heading in page
    public = public_page(full_audit())
    assert "Before and after" not in public
    assert "Worst residual" not in public
    assert "Signature" not in public


def test_the_budget_is_told_with_the_ledger(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=10.0, delta=1e-5)
    entry = ledger.debit(Charge.people(epsilon=2.5), mechanism="semantic", people=["ann"]).entry
    log = synth(users=20, records=300)
    page = internal_page(audit_of(**dp_manifest(ledger=entry)), original=log, released=log, ledger=ledger)
    assert entry in page
    assert "costs each person in the release" in page
    assert "Left for releases that charge everybody" in page
    assert "ann" not in re.sub(r"<[^>]*>", " ", page.split('id="budget"')[1]).split()


def test_the_whole_configuration_is_exported(written):
    log, audit, folder = written
    places = write_report(audit, folder, original=log, released=log, editions=["internal"])
    told = json.loads((places.internal.parent / "configuration.json").read_text())
    assert told["mechanism"] == "suppress"
    assert told["parameters"] == {"k_text": 3, "time": "day"}
    assert json.loads((places.internal.parent / "findings.json").read_text())["findings"]


def test_few_trials_are_told_in_words_with_their_number_and_whom_they_are_of():
    few = finding(
        title="Few tried", value=2 / 3, low=0.1, high=0.99, trials=3, successes=2, population="released people"
    )
    log = synth(users=20, records=300)
    page = internal_page(audit_of(few), original=log, released=log)
    page = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page))
    assert "too few to say 2 of 3 trials so few show no risk below 100 % released people" in page
    assert "66.7 %" not in page


def test_an_empty_release_and_an_empty_audit_still_make_a_page():
    log = synth(users=20, records=300)
    page = internal_page(audit_of(), original=log, released=QueryLog.empty())
    assert "No attack was measured." in page
    assert "No utility was measured." in page


def test_a_page_refers_to_nothing_outside_itself():
    page = public_page(full_audit())
    assert "http" not in page.replace("http-equiv", "")
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert len(page) < 100_000


# --- the answer in public is never milder than the one in private


def test_rounding_does_not_mend_a_broken_promise():
    broken = finding(value=0.215, low=0.207, high=0.223, bound=0.2, trials=10_000)
    assert audit_of(broken).broken()
    assert coarsen(audit_of(broken)).broken()


def test_a_figure_that_contradicts_the_promise_is_not_dropped_for_few_trials():
    broken = finding(value=4, bound=5, better="higher", unit="count", trials=40)
    assert coarsen(audit_of(broken)).broken()


@pytest.mark.parametrize("described", [manifest(), dp_manifest()], ids=["coarse", "twin"])
def test_no_public_edition_is_made_of_a_release_that_breaks_its_promise(described):
    broken = audit_of(finding(value=0.3, low=0.25, high=0.4, bound=0.2, trials=40), **described)
    with pytest.raises(RefusedError, match="contradicts the promise"):
        public_page(broken, twin=Twin(audit_of(**described)))


def test_too_small_groups_are_not_published_as_sound(tmp_path):
    log = synth(users=40, records=2000, seed=3)
    release = GroupsOneShort(k=5, k_text=2).protect(log, Noise.secure())
    folder = release.write(tmp_path / "release")
    with pytest.raises(RefusedError, match="contradicts the promise"):
        write_report(audited(log, release), folder, original=log, released=release.log)
    assert not (folder / "report.html").exists()
    assert "Do not publish" in (tmp_path / "release-internal" / "report.html").read_text()


def test_a_doubt_that_rounding_or_few_trials_hide_is_still_in_the_public_answer():
    k_anonymous = manifest()["guarantee"] | {"model": "k-anonymity", "k": 9}
    hidden = finding(value=0.3, low=0.2, high=0.4, trials=40)
    page = public_page(audit_of(hidden, finding(value=0.0, trials=900), guarantee=k_anonymous))
    assert '<p class="said">With care' in page
    assert "too few trials, to be shown" in page


def test_the_answer_of_a_twin_is_told_to_be_about_made_up_data():
    promise = dp_manifest()["guarantee"] | {"unit": "user", "epsilon": 1.0}
    described = dp_manifest() | {"guarantee": promise}
    sound = audit_of(finding(value=0.0, trials=900), **described)
    page = public_page(sound, twin=Twin(sound))
    assert '<p class="said">Yes' in page
    assert "On made-up data the mechanism keeps" in page
    assert "The release keeps what it promises" not in page


def test_a_twin_that_cannot_be_made_leaves_the_answer_open():
    described = dp_manifest() | {"parameters": dp_manifest()["parameters"] | {"domain": "sha256:" + "0" * 64}}
    twin = synthetic_twin(described)
    assert not twin.audit.findings
    assert '<p class="said">Not decided' in public_page(audit_of(finding(), **described), twin=twin)


# --- the report belongs to the release


def test_a_report_on_another_release_is_refused(written, tmp_path):
    log, audit, folder = written
    other = make("suppress", k_text=3).protect(log, Noise.secure())
    later = other.write(tmp_path / "other")
    for wrong in (audited(log, other), replace(audit, released=verify(later).manifest)):
        with pytest.raises(RefusedError, match="another release"):
            write_report(wrong, folder, original=log, released=other.log)
    assert not internal_folder(folder).exists()
    assert not (folder / "report.html").exists()


def test_an_audit_made_before_writing_tells_the_folders_own_provenance(tmp_path):
    log = log_with_canaries()
    release = make("suppress", k_text=3).protect(log, Noise.secure())
    folder = release.write(tmp_path / "release", ledger_entry="entry-1")
    page = write_report(audited(log, release), folder, original=log, released=release.log).public.read_text()
    assert verify(folder).manifest["output"]["sha256"] in page
    assert "under entry entry-1" in page
    assert "another tool" not in page


def test_half_a_character_in_a_text_does_not_stop_the_page():
    page = public_page(full_audit(), purpose="for \ud800 you")
    assert page.encode()
