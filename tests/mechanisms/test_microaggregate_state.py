"""Groups that stay the same from release to release."""

import dataclasses
import json

import pytest

from mechanisms.microaggregate_oracle import toy_log
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.mechanisms.microaggregate import Microaggregate
from queryveil.privacy import Noise
from queryveil.privacy.keys import key_folder


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


def test_a_release_without_any_whole_group_is_refused(tmp_path):
    state = tmp_path / "groups.json"
    written(toy_log(4), state, tmp_path / "one")
    with pytest.raises(RefusedError, match="every kept group lacks a member, and fewer than k = 3 new users"):
        written(toy_log(4).without_users(["u0"]), state, tmp_path / "two")


def test_a_release_that_is_not_written_leaves_no_state(tmp_path):
    state = tmp_path / "groups.json"
    Microaggregate(k=3, k_text=2, state=str(state)).protect(toy_log(9), Noise.seeded(1))
    assert not state.exists()
    assert not list(key_folder().glob("groups-*"))


def test_two_releases_from_one_state_cannot_both_be_written(tmp_path):
    state = tmp_path / "groups.json"
    mechanism = Microaggregate(k=3, k_text=2, state=str(state))
    one, other = (mechanism.protect(toy_log(9), Noise.seeded(seed)) for seed in (1, 2))
    one.write(tmp_path / "one")
    with pytest.raises(RefusedError, match="meanwhile"):
        other.write(tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_another_k_a_changed_file_and_a_lost_key_are_refused(tmp_path, monkeypatch):
    state = tmp_path / "groups.json"
    written(toy_log(9), state, tmp_path / "one")
    with pytest.raises(RefusedError, match="made with k = 3"):
        Microaggregate(k=2, k_text=2, state=str(state)).protect(toy_log(9), Noise.seeded(1))
    content = json.loads(state.read_text())
    content["state"]["groups"].pop()
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(content))
    with pytest.raises(DataError, match="was changed"):
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
    release = Microaggregate(k=3, k_text=2, state=str(tmp_path / "groups.json")).protect(toy_log(9), Noise.seeded(1))
    inside = dataclasses.replace(release, frozen=dataclasses.replace(release.frozen, path=tmp_path / "out" / "g.json"))
    with pytest.raises(RefusedError, match="inside the release"):
        inside.write(tmp_path / "out")


def test_a_release_that_cannot_be_written_does_not_touch_the_state(tmp_path):
    state = tmp_path / "groups.json"
    release = Microaggregate(k=3, k_text=2, state=str(state)).protect(toy_log(9), Noise.seeded(1))
    (tmp_path / "taken").mkdir()
    with pytest.raises(UsageError):
        release.write(tmp_path / "taken")
    assert not state.exists()
