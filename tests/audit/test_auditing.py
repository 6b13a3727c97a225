"""An audit finds what is there, says what it left out, and holds figures against what was promised."""

import dataclasses
import json
from datetime import datetime

import polars as pl
import pytest

from ordinary_log import standard_stream
from queryveil.audit.auditing import audit, parts, read_release, secrets_of
from queryveil.errors import DataError, UsageError, VerificationError
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.release.secrets import read as read_secrets
from queryveil.testing.twins import telltale_log

LOG = telltale_log()


def of(found):
    return {finding.key: finding for finding in found.findings}


def unprotected(log):
    """A release that only renames people."""
    release = make("suppress", k_text=2).protect(log, Noise.seeded(1))
    users = log.users()
    names = pl.DataFrame({"user": users, "name": [f"n{i}" for i in range(len(users))]})
    renamed = log.frame.join(names, on="user", maintain_order="left").drop("user").rename({"name": "user"})
    behind = pl.LazyFrame({"user": log.frame["user"], "pseudonym": renamed["user"], "receiver": log.frame["user"]})
    return dataclasses.replace(release, log=QueryLog(renamed), behind=behind)


def test_renaming_alone_is_found_out_by_every_attack_that_fits():
    found = of(audit(LOG, unprotected(LOG)))
    for m in (1, 2, 3, 4, 5):
        assert found[f"uniqueness-{m}"].value == found[f"found-{m}"].value == found[f"uniqueness-{m}"].raw
    assert found["found-5"].low > 0.5
    assert found["rare-texts"].value == found["rare-texts"].raw > 0.1
    assert found["identifiers"].value == found["identifiers"].raw > 0
    assert found["author-by-name"].value == 1
    assert found["people-by-activity"].low > 10 * found["people-by-activity"].chance
    assert {finding.key for finding in audit(LOG, unprotected(LOG)).broken()} >= {
        "rare-texts",
        "rare-clicks",
        "identifiers",
    }
    for key in ("topics-person", "topics-all", "categories-all", "categories-person", "activity", "sessions"):
        assert found[key].value == 0
    for key in ("frequent-query-recall", "frequent-query-precision", "categories-remain", "suggestion"):
        assert found[key].value == 1


def test_a_safe_release_keeps_its_promises_and_attacks_fail():
    found = audit(LOG, make("microaggregate", k=3, k_text=5).protect(LOG, Noise.seeded(1)))
    figures = of(found)
    assert found.broken() == ()
    assert figures["found-5"].value == 0
    assert figures["found-5"].raw > 0.5
    assert figures["shared-logs"].value >= figures["shared-logs"].bound == 3
    assert figures["author-by-activity"].value <= 1 / 3
    assert figures["people-by-activity"].high < 0.15


def test_a_streams_attacks_succeed_in_paper_mode_and_stay_below_one_in_k_in_safe_mode():
    log = standard_stream(records=20_000, users=200)
    given = {"k": 10, "depth": 1, "category_column": "category"}
    paper = of(audit(log, make("stream", mode="paper", **given).protect(log, Noise.seeded(1))))
    assert paper["author-by-window"].low > 1 / 10
    assert paper["repeats-eligible"].value > 100
    assert paper["repeats"].low > 0.3
    safe = audit(log, make("stream", k_text=3, window=20_000, **given).protect(log, Noise.seeded(1)))
    assert safe.broken() == ()
    figures = of(safe)
    for key in ("author-by-name", "author-by-repairing", "author-by-window"):
        assert figures[key].high < figures[key].bound == 1 / 10
    assert figures["repeats-eligible"].value == 0
    assert "repeats" not in figures


def test_profiles_are_linked_where_pseudonyms_last_and_not_where_each_record_has_its_own():
    log = standard_stream(records=20_000, users=60)
    given = {"k": 3, "k_text": 3, "depth": 2, "category_column": "category", "window": 20_000}
    lasting = of(audit(log, make("stream", **given).protect(log, Noise.seeded(1))))["profiles-linked"]
    assert lasting.low > lasting.chance
    assert lasting.raw > 5 * lasting.chance
    alone = audit(log, make("stream", pseudonym="record", **given).protect(log, Noise.seeded(1)))
    assert "profiles-linked" not in of(alone)
    assert any(missing.title == "Two halves linked by interests" for missing in alone.left_out)


def test_an_attacker_by_activity_counts_queries_where_a_release_has_no_clicks():
    """User u asks u queries; clicks make the busiest in records the laziest in queries."""
    clicks = {u: 40 // u for u in range(1, 9)}
    rows = [
        (f"u{u}", f"{u} {query} judo", datetime(2026, 1, 1, query), f"{click}.example")
        for u in clicks for query in range(u) for click in range(clicks[u] + 9 - u)
    ]  # fmt: skip
    log = QueryLog(pl.DataFrame(rows, schema=["user", "query", "time", "url"], orient="row"))
    assert log.frame["user"].value_counts(sort=True)["user"][0] != "u8"  # who asks most has not most records
    made = make("semantic", epsilon=1.0, criterion="nsqc", per="query", domain="contact_sport")
    assert of(audit(log, made.protect(log, Noise.seeded(1))))["people-by-activity"].value == 1


def test_without_secrets_the_audit_lists_what_it_left_out():
    release = make("stream", k=5, depth=1).protect(LOG, Noise.seeded(1))
    blind = audit(LOG, release.log, manifest={"mechanism": "stream", "mode": "safe", "parameters": release.parameters})
    missing = {left.title: left.reason for left in blind.left_out}
    for title in ("Found by known queries", "Who wrote a record", "Topics of each person", "Frequency matching"):
        assert "secrets file" in missing[title]
    assert "Re-pairing, neighbours in time and repeats" in missing
    assert not {"found-1", "author-by-name", "topics-person"} & of(blind).keys()
    assert "uniqueness-1" in of(blind)


def test_a_log_of_another_tool_is_audited_without_a_promise():
    foreign = QueryLog(LOG.frame.filter(pl.col("query").str.len_chars() < 8))
    found = audit(LOG, foreign)
    assert found.released["mechanism"] is None
    assert found.broken() == ()
    assert all(finding.bound is None for finding in found.findings)
    assert len(found.risks()) >= 8
    assert len(found.utilities()) >= 10


def test_made_up_users_have_nobody_behind_them():
    log = QueryLog.of([(f"p{i}", "weather", None, 1, "sky.example") for i in range(300)])
    found = audit(log, make("sanitize", epsilon=2.0, contribution=1).protect(log, Noise.seeded(1)))
    assert of(found)["one-run"].value <= of(found)["one-run"].bound == 2.0
    assert any("made up" in missing.reason for missing in found.left_out)


@pytest.mark.parametrize(("state", "smallest"), [("groups.json", 3), (None, 1)])
def test_two_releases_leave_k_candidates_with_kept_groups_and_one_without(tmp_path, state, smallest):
    log = synth(users=90, records=5000, seed=6)
    names = log.users().to_list()
    mechanism = make("microaggregate", k=3, k_text=3, state=str(tmp_path / state) if state else None)
    one = mechanism.protect(log, Noise.seeded(1))
    other = mechanism.protect(log.without_users(names[:5]), Noise.seeded(2))
    found = audit(log, one, other=other.log, other_secrets=secrets_of(other))
    figure = of(found)["two-releases-smallest"]
    assert figure.value == smallest
    assert figure.raw == 1
    assert found.broken() == ()


def test_two_releases_need_both_secrets():
    release = make("suppress").protect(LOG, Noise.seeded(1))
    found = audit(LOG, release, other=release.log)
    assert any("secrets files of both releases" in missing.reason for missing in found.left_out)


def test_the_same_logs_give_the_same_figures_and_plain_values():
    release = make("suppress", k_text=3).protect(LOG, Noise.seeded(1))
    told = []
    first = audit(LOG, release, on_step=told.append)
    assert first == audit(LOG, release)
    assert told == [part.title for part in parts()]
    assert json.loads(json.dumps(first.as_json()))["findings"][0]["key"] == "uniqueness-1"


def test_an_audit_shows_no_text_and_no_user():
    found = json.dumps(audit(LOG, unprotected(LOG)).as_json())
    assert "person 1" not in found
    assert "castle" not in found


def test_empty_logs_are_survived():
    empty = QueryLog.empty()
    for original, released in ((empty, empty), (LOG, empty), (empty, LOG)):
        assert audit(original, released).broken() == ()


def test_a_release_folder_is_verified_before_it_is_read(tmp_path):
    release = make("suppress", k_text=3).protect(LOG, Noise.secure())
    folder = release.write(tmp_path / "r", format="jsonl")
    log, manifest = read_release(folder)
    assert log == release.log
    secrets = read_secrets(release.write_secrets(tmp_path / "s"))
    assert of(audit(LOG, log, manifest=manifest, secrets=secrets))["author-by-name"].value == 1
    with (folder / "log.jsonl").open("a") as file:
        file.write("\n")
    with pytest.raises(VerificationError):
        read_release(folder)
    with pytest.raises(UsageError, match="not a release folder"):
        read_release(tmp_path / "nothing")


def test_secrets_of_another_release_are_refused():
    one, other = (make("suppress", k_text=3).protect(LOG, Noise.seeded(seed)) for seed in (1, 2))
    with pytest.raises(DataError, match="another release"):
        audit(LOG, one.log, secrets=secrets_of(other))


def test_another_tools_release_in_capitals_is_seen_through():
    log = synth(users=80, records=2000, seed=1)
    shouted = QueryLog(log.frame.with_columns(pl.col("query").str.to_uppercase()))
    found = {finding.key: finding for finding in audit(log, shouted).findings}
    assert found["uniqueness-3"].value > 0.5
    assert found["rare-texts-rewritten"].value > 0.1


def test_one_unknown_owner_does_not_switch_the_attacks_off():
    log = synth(users=80, records=2000, seed=1)
    release = make("suppress", k_text=2).protect(log, Noise.seeded(1))
    known = secrets_of(release)
    holes = known.owners.to_frame("user").with_row_index().select(pl.when(pl.col("index") > 0).then("user"))["user"]
    some = dataclasses.replace(known, owners=holes, receivers=holes)
    keys = [{finding.key for finding in audit(log, release.log, secrets=secrets).findings} for secrets in (known, some)]
    assert keys[0] == keys[1]
    assert {"found-3", "author-by-name", "people-by-activity", "topics-person"} <= keys[1]


def test_a_real_stream_of_shared_texts_keeps_its_promise_on_repeats():
    """Two people ask each text; by chance all released copies of one may be one person's: no promise speaks of that."""
    rows = [(f"user {i % 7}", f"text {(i // 3) % 5}", None) for i in range(60)]
    for seed in range(8):
        log = QueryLog.of(rows[seed:])
        release = make("stream", k=2, k_text=2, depth=1, mix=5).protect(log, Noise.seeded(seed))
        assert "repeats-eligible" not in {finding.key for finding in audit(log, release).broken()}


def test_an_original_of_other_counts_than_the_secrets_tell_is_refused():
    log = synth(users=80, records=2000, seed=1)
    release = make("suppress", k_text=2).protect(log, Noise.seeded(1))
    known = dataclasses.replace(secrets_of(release), original={"records": 1999, "users": 80})
    with pytest.raises(DataError, match="not the log that this release was made from"):
        audit(log, release.log, secrets=known)
