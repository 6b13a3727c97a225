"""Frozen groups: kept before a release is handed out, never taken back, whatever crashes in between."""

import dataclasses
import json

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mechanisms.microaggregate_oracle import toy_log
from properties import examples
from queryveil.audit.attacks.intersection import intersect
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.log import QueryLog, write
from queryveil.mechanisms.microaggregate import Microaggregate
from queryveil.mechanisms.microaggregate import state as state_module
from queryveil.mechanisms.microaggregate.state import FrozenGroups
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Noise, keys
from queryveil.release import pipeline


def written(log, state, folder, *, k=3, seed=1):
    release = Microaggregate(k=k, k_text=2, state=str(state)).protect(log, Noise.seeded(seed))
    release.write(folder)
    return release


def sets_of(release):
    return {frozenset(users) for users in release.members.group_by("group").agg("user")["user"].to_list()}


def test_a_second_release_uses_the_same_groups(tmp_path):
    state = tmp_path / "groups.json"
    first = written(toy_log(9), state, tmp_path / "one")
    second = written(toy_log(9), state, tmp_path / "two", seed=2)
    assert sets_of(first) == sets_of(second)
    assert not set(first.members["pseudonym"]) & set(second.members["pseudonym"])


def test_the_state_is_a_secret_of_the_holder(tmp_path):
    state = tmp_path / "groups.json"
    written(toy_log(9), state, tmp_path / "one")
    assert state.stat().st_mode & 0o777 == 0o600
    assert not any(f'"u{user}"' in state.read_text() for user in range(9))
    manifest = (tmp_path / "one" / "manifest.json").read_text()
    assert str(state) not in manifest
    assert "groups are kept" in manifest


def test_new_people_wait_until_k_of_them_form_a_group(tmp_path):
    state = tmp_path / "groups.json"
    first = written(toy_log(9), state, tmp_path / "one")
    second = written(toy_log(11), state, tmp_path / "two")  # two new ones: they wait
    assert sets_of(second) == sets_of(first)
    third = written(toy_log(13), state, tmp_path / "three")  # four new ones: a group of their own
    assert sets_of(third) == sets_of(first) | {frozenset({"u9", "u10", "u11", "u12"})}


def test_a_group_is_published_whole_or_not_at_all(tmp_path):
    state = tmp_path / "groups.json"
    first = written(toy_log(9), state, tmp_path / "one")
    gone = next(iter(sorted(first.members["user"])))
    second = written(toy_log(9).without_users([gone]), state, tmp_path / "two")
    assert sets_of(second) == {group for group in sets_of(first) if gone not in group}
    third = written(toy_log(9), state, tmp_path / "three")  # back again: with the same people as before
    assert sets_of(third) == sets_of(first)


ALL_ASK = [(f"u{user}", text) for user in range(6) for text in ["weather"] * 4 + ["chess"] * 3]
FOUR_ASK = [(f"u{user}", "clinic") for user in range(4) for _ in range(6)]


def with_state(tmp_path, **changed):
    return Microaggregate(**{"k": 3, "k_text": 5, "levels": 2, "categories": "1"} | changed, state=str(tmp_path / "g"))


def test_somebody_who_waits_brings_no_text_out(tmp_path):
    mechanism = with_state(tmp_path)
    mechanism.protect(QueryLog.of(ALL_ASK + FOUR_ASK), Noise.seeded(1))
    came = mechanism.protect(QueryLog.of([*ALL_ASK, *FOUR_ASK, ("new", "clinic")]), Noise.seeded(2))
    assert "new" not in came.members["user"].to_list()
    assert set(came.log.queries()) == {"weather", "chess"}  # four published people ask the clinic, k_text is five
    together = [*ALL_ASK, *FOUR_ASK, *((f"new {n}", text) for n in range(3) for text in ("clinic", "weather"))]
    assert "clinic" in mechanism.protect(QueryLog.of(together), Noise.seeded(3)).log.queries()


def everything(release):
    return release.log.frame.with_columns(owner=release.owners), release.members


asked = st.lists(st.tuples(st.sampled_from(["x", "y", "dogs", "cats", "wolves"]), st.integers(1, 3)), max_size=4)


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(members=st.lists(asked, min_size=6, max_size=9), waiting=st.lists(asked, max_size=2), gone=st.integers(0, 9))
def test_what_people_asked_who_wait_leaves_no_trace_in_a_release(members, waiting, gone, tmp_path_factory):
    """New people who are too few, and the others of a group that lacks a member: as if they were not in the log."""
    mechanism = with_state(tmp_path_factory.mktemp("kept"), k_text=2)
    known = [(f"u{user}", "news") for user in range(len(members))]
    first = mechanism.protect(QueryLog.of(known), Noise.seeded(1)).members
    rows = [(f"u{user}", text) for user, texts in enumerate(members) for text, count in texts for _ in range(count)]
    rows = [row for row in rows + known if row[0] != f"u{gone}"]
    new = [(f"new {user}", text) for user, texts in enumerate(waiting) for text, _ in texts]
    lacking = first.filter(pl.col("user") == f"u{gone}")["group"].to_list()
    waits = first.filter(pl.col("group").is_in(lacking))["user"].to_list()
    with_all, without = QueryLog.of(rows + new), QueryLog.of([row for row in rows if row[0] not in waits])
    release, alone = (mechanism.protect(log, Noise.seeded(2)) for log in (with_all, without))
    assert all(one.equals(other) for one, other in zip(everything(release), everything(alone), strict=True))


def test_where_new_people_fall_out_the_groups_are_judged_anew_without_them(tmp_path):
    """Two new people make "wolf" shared, so that it is no longer behind the label that alone speaks for u2."""
    mechanism = with_state(tmp_path, k_text=3)
    news = [(f"u{user}", "news") for user in range(3)]
    mechanism.protect(QueryLog.of(news), Noise.seeded(1))
    members = [("u0", "wolf"), ("u1", "puppy wolf"), ("u2", "grey wolf"), ("u0", "x"), ("u1", "x")]
    new = [("n0", "wolf"), ("n1", "wolf"), ("n2", "nothing else")]
    came, alone = (mechanism.protect(QueryLog.of(log), Noise.seeded(2)) for log in (members + new, members))
    assert came.members["user"].sort().to_list() == ["u0", "u1", "u2"]
    assert all(one.equals(other) for one, other in zip(everything(came), everything(alone), strict=True))


@pytest.mark.parametrize("mode", ["safe", "paper"])
@pytest.mark.parametrize("kept", [False, True])
def test_the_promise_says_that_texts_come_and_go_with_people(mode, kept, tmp_path):
    """A member leaves: the text goes from groups that are still whole, which no state can help."""
    told = Microaggregate(mode=mode, state=str(tmp_path / "g") if kept else None).guarantee()
    assert "which texts or labels appear or vanish when a person joins or leaves" in told.not_protected
    assert ("5 users whose logs are published with it: withheld" in told.statement()) is (kept and mode == "safe")


def test_a_text_goes_from_whole_groups_when_a_member_of_another_leaves(tmp_path):
    mechanism = with_state(tmp_path)
    rows = [(f"u{user}", text) for user in range(9) for text in ["weather"] * 4]
    rows += [(f"u{user}", ["chess", "violin", "tulip"][user // 3]) for user in range(9) for _ in range(6)]
    rows += [(f"u{user}", "clinic") for user in (0, 1, 3, 6, 8) for _ in range(6)]
    before = mechanism.protect(QueryLog.of(rows), Noise.secure())
    after = mechanism.protect(QueryLog.of(rows).without_users(["u8"]), Noise.secure())
    assert "clinic" in before.log.queries()
    assert "clinic" not in after.log.queries()


def test_the_groups_are_kept_before_the_release_is_handed_out(tmp_path):
    mechanism = Microaggregate(k=3, k_text=2, state=str(tmp_path / "groups.json"))
    log = QueryLog.of([(f"u{u}", "puppies") for u in range(12)])  # all alike: without a state chance groups them
    one, other = (mechanism.protect(log, Noise.seeded(seed)) for seed in (1, 2))  # nothing is written
    assert sets_of(one) == sets_of(other)
    assert intersect(one.members, other.members).smallest >= 3


@pytest.mark.parametrize("noise", [Noise.secure, lambda: Noise.seeded(1)])
def test_the_groups_are_kept_whatever_the_noise(noise, tmp_path):
    Microaggregate(k=3, k_text=2, state=str(tmp_path / "groups.json")).protect(toy_log(9), noise())
    assert (tmp_path / "groups.json").exists()


def test_no_release_is_handed_out_where_the_groups_cannot_be_kept(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError("no space left")

    monkeypatch.setattr(state_module, "replace_private", full)
    with pytest.raises(OSError, match="no space"):
        Microaggregate(k=3, k_text=2, state=str(tmp_path / "groups.json")).protect(toy_log(9), Noise.seeded(1))


def test_of_two_releases_made_at_once_from_one_state_the_slower_is_refused(tmp_path, monkeypatch):
    mechanism = Microaggregate(k=3, k_text=2, state=str(tmp_path / "groups.json"))
    save, first = FrozenGroups.save, []

    def overtaken(self):
        if not first:
            first.append(self)
            mechanism.protect(toy_log(9), Noise.seeded(2))
        save(self)

    monkeypatch.setattr(FrozenGroups, "save", overtaken)
    with pytest.raises(RefusedError, match="meanwhile"):
        mechanism.protect(toy_log(9), Noise.seeded(1))


def grown(tmp_path):
    """A state with three groups, a copy of its file, and then a fourth group that was released."""
    state, mechanism = tmp_path / "groups.json", Microaggregate(k=3, k_text=2, state=str(tmp_path / "groups.json"))
    mechanism.protect(toy_log(9), Noise.seeded(1))
    old = state.read_bytes()
    mechanism.protect(toy_log(15), Noise.seeded(2))
    return state, old, mechanism


def test_an_older_copy_of_the_state_is_refused(tmp_path):
    state, old, mechanism = grown(tmp_path)
    new = state.read_bytes()
    state.write_bytes(old)
    with pytest.raises(RefusedError, match="not the newest state"):
        mechanism.protect(toy_log(15), Noise.seeded(3))
    state.write_bytes(new)
    mechanism.protect(toy_log(15), Noise.seeded(3))
    elsewhere = tmp_path / "copy.json"  # a copy under another name goes on, and the original is then the older one
    elsewhere.write_bytes(new)
    dataclasses.replace(mechanism, state=str(elsewhere)).protect(toy_log(21), Noise.seeded(4))
    with pytest.raises(RefusedError, match="not the newest state"):
        mechanism.protect(toy_log(21), Noise.seeded(5))


def test_a_state_that_was_there_and_is_gone_or_another_is_refused(tmp_path):
    state, _, mechanism = grown(tmp_path)
    state.unlink()
    with pytest.raises(RefusedError, match="no longer there"):
        mechanism.protect(toy_log(15), Noise.seeded(3))
    other = tmp_path / "other.json"
    dataclasses.replace(mechanism, state=str(other)).protect(toy_log(15), Noise.seeded(3))
    other.rename(state)
    with pytest.raises(RefusedError, match="no longer there"):
        mechanism.protect(toy_log(15), Noise.seeded(3))


def test_a_state_moved_to_another_place_is_still_the_state(tmp_path):
    state, _, mechanism = grown(tmp_path)
    moved = tmp_path / "moved.json"
    state.rename(moved)
    first = dataclasses.replace(mechanism, state=str(moved)).protect(toy_log(15), Noise.seeded(3))
    assert len(sets_of(first)) == 5
    for path in (state, moved):  # neither name may be started anew
        moved.unlink(missing_ok=True)
        with pytest.raises(RefusedError, match="no longer there"):
            dataclasses.replace(mechanism, state=str(path)).protect(toy_log(15), Noise.seeded(3))


def test_a_link_to_the_state_is_the_state(tmp_path):
    state, _, mechanism = grown(tmp_path)
    link = tmp_path / "link.json"
    link.symlink_to(state)
    dataclasses.replace(mechanism, state=str(link)).protect(toy_log(21), Noise.seeded(3))
    assert link.is_symlink()
    mechanism.protect(toy_log(21), Noise.seeded(4))


def test_a_release_without_new_people_leaves_state_and_copies_as_they_are(tmp_path):
    state, _, mechanism = grown(tmp_path)
    before = state.read_bytes()
    mechanism.protect(toy_log(15), Noise.seeded(3))
    assert state.read_bytes() == before


def crash_at(monkeypatch, which):
    """The given write of the next save (0: the mark catches up or begins, 1: the file, 2: the mark) never happens."""
    write, done = state_module.replace_private, []

    def crashing(path, content):
        kind = 1 if path.suffix == ".json" else (0 if not any(p.suffix == ".json" for p in done) else 2)
        if kind == which:
            raise KeyboardInterrupt
        done.append(path)
        write(path, content)

    monkeypatch.setattr(state_module, "replace_private", crashing)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_crash_while_the_first_groups_are_kept_does_no_harm(tmp_path, which):
    mechanism = Microaggregate(k=3, k_text=2, state=str(tmp_path / "groups.json"))
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, which)
        with pytest.raises(KeyboardInterrupt):
            mechanism.protect(toy_log(9), Noise.seeded(1))
    first, second = (mechanism.protect(toy_log(9), Noise.seeded(seed)) for seed in (2, 3))
    assert sets_of(first) == sets_of(second)


def test_a_crash_between_file_and_mark_leaves_both_usable_until_one_is_used(tmp_path):
    state, _, mechanism = grown(tmp_path)
    known = state.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            mechanism.protect(toy_log(21), Noise.seeded(3))
    ahead = state.read_bytes()
    assert ahead != known
    with pytest.MonkeyPatch.context() as patch:  # again, and again: the file is never two ahead
        crash_at(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            mechanism.protect(toy_log(27), Noise.seeded(4))
    further = state.read_bytes()
    state.write_bytes(known)  # the mark caught up with `ahead` before the file moved on
    with pytest.raises(RefusedError, match="not the newest state"):
        mechanism.protect(toy_log(21), Noise.seeded(5))
    state.write_bytes(ahead)
    mechanism.protect(toy_log(24), Noise.seeded(6))  # no release used `further`: other groups may follow
    state.write_bytes(further)
    with pytest.raises(RefusedError, match="not the newest state"):
        mechanism.protect(toy_log(27), Noise.seeded(7))


def test_a_release_that_only_uses_a_file_ahead_of_its_mark_binds_it(tmp_path):
    state, _, mechanism = grown(tmp_path)
    known = state.read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        crash_at(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            mechanism.protect(toy_log(21), Noise.seeded(3))
    mechanism.protect(toy_log(21), Noise.seeded(4))  # nobody is new to the file ahead, and it is released
    state.write_bytes(known)
    with pytest.raises(RefusedError, match="not the newest state"):
        mechanism.protect(toy_log(21), Noise.seeded(5))


def test_an_old_or_lost_or_damaged_mark_is_refused(tmp_path):
    _, _, mechanism = grown(tmp_path)
    (mark,) = keys.key_folder().glob("groups-*.mark")
    assert mark.stat().st_mode & 0o777 == 0o600
    old_mark = mark.read_bytes()
    mechanism.protect(toy_log(21), Noise.seeded(3))
    mechanism.protect(toy_log(27), Noise.seeded(4))
    mark.write_bytes(old_mark)
    with pytest.raises(RefusedError, match="key folder is an old copy"):
        mechanism.protect(toy_log(27), Noise.seeded(5))
    mark.write_bytes(b"{}")
    with pytest.raises(DataError, match="is damaged"):
        mechanism.protect(toy_log(27), Noise.seeded(5))
    mark.unlink()
    with pytest.raises(DataError, match="has lost"):
        mechanism.protect(toy_log(27), Noise.seeded(5))


def test_another_k_a_changed_file_and_a_lost_key_are_refused(tmp_path, monkeypatch):
    state = tmp_path / "groups.json"
    written(toy_log(9), state, tmp_path / "one")
    with pytest.raises(RefusedError, match="made with k = 3"):
        Microaggregate(k=2, k_text=2, state=str(state)).protect(toy_log(9), Noise.seeded(1))
    content = json.loads(state.read_text())
    content["state"]["groups"].pop()
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(content))
    with pytest.raises(DataError, match="an older one is refused"):
        Microaggregate(k=3, state=str(changed)).protect(toy_log(9), Noise.seeded(1))
    (tmp_path / "noise.json").write_text("[1, 2]")
    with pytest.raises(DataError, match="not a state file"):
        Microaggregate(k=3, state=str(tmp_path / "noise.json")).protect(toy_log(9), Noise.seeded(1))
    monkeypatch.setenv("QUERYVEIL_KEYS", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match="is missing"):
        Microaggregate(k=3, state=str(state)).protect(toy_log(9), Noise.seeded(1))


def test_a_state_inside_the_release_or_in_no_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="does not exist"):
        Microaggregate(state=str(tmp_path / "no" / "groups.json")).protect(toy_log(9), Noise.seeded(1))
    (tmp_path / "out").mkdir()
    release = Microaggregate(k=3, k_text=2, state=str(tmp_path / "out" / "g.json")).protect(toy_log(9), Noise.seeded(1))
    with pytest.raises(UsageError, match="is there already"):
        release.write(tmp_path / "out")


def test_a_state_inside_an_earlier_release_is_refused(tmp_path):
    folder = Suppress(k_text=2).protect(toy_log(9), Noise.secure()).write(tmp_path / "earlier")
    (folder / "deep").mkdir()
    for place in (folder / "g.json", folder / "deep" / "g.json"):
        with pytest.raises(RefusedError, match="inside a release folder"):
            Microaggregate(k=3, k_text=2, state=str(place)).protect(toy_log(9), Noise.secure())
        (tmp_path / "link.json").unlink(missing_ok=True)
        (tmp_path / "link.json").symlink_to(place)
        with pytest.raises(RefusedError, match="inside a release folder"):
            Microaggregate(k=3, k_text=2, state=str(tmp_path / "link.json")).protect(toy_log(9), Noise.secure())
        assert not place.exists()


def test_a_release_that_cannot_be_written_only_wastes(tmp_path):
    state = tmp_path / "groups.json"
    lost = Microaggregate(k=3, k_text=2, state=str(state)).protect(toy_log(9), Noise.seeded(1))
    (tmp_path / "taken").mkdir()
    with pytest.raises(UsageError):
        lost.write(tmp_path / "taken")
    assert sets_of(written(toy_log(9), state, tmp_path / "free", seed=2)) == sets_of(lost)


def test_a_dry_run_leaves_the_state_alone(tmp_path):
    log = tmp_path / "log.jsonl"
    write(toy_log(15), log)
    state = tmp_path / "groups.json"
    pipeline.dry_run(Microaggregate(k=3, state=str(state)), pipeline.Source(path=log), Noise.secure())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.jsonl"]
