"""A release folder is whole, signed and says nothing about the original; any tampering is found."""

import dataclasses
import errno
import hashlib
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from queryveil.errors import DataError, DiskError, RefusedError, UsageError, VerificationError
from queryveil.log import QueryLog, read
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Noise, keys
from queryveil.release import secrets
from queryveil.release.manifest import add_report, verify
from queryveil.testing import sample_log
from toy_mechanisms import ANSWERS, RandomisedResponse


@pytest.fixture
def release():
    return Suppress(k_text=2).protect(sample_log(), Noise.secure())


@pytest.fixture
def folder(release, tmp_path):
    return release.write(tmp_path / "release", format="jsonl")


def own_public_key():
    return keys.key_folder() / "signing.pub.pem"


def test_a_written_release_verifies_and_reads_back(release, folder):
    checked = verify(folder, own_public_key())
    assert checked.trusted
    assert checked.manifest["output"]["records"] == len(release.log)
    assert read(folder / "log.jsonl") == release.log
    assert {p.name for p in folder.iterdir()} == {"log.jsonl", "manifest.json", "manifest.sig"}


def test_the_manifest_holds_what_the_design_says(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest.keys() == {
        *(
            "queryveil",
            "mechanism",
            "mode",
            "parameters",
            "parameters_chosen_by",
            "similar_ids",
            "guarantee",
            "output",
            "columns",
            "noise",
            "ledger",
            "created",
        )
    }
    assert manifest["guarantee"].keys() >= {"model", "unit", "relation", "statement", "assumptions", "not_protected"}
    assert manifest["columns"]["user"] == "replaced by a fresh random pseudonym"
    assert manifest["columns"]["session"] == "dropped"


def sign_with_another_key(folder):
    stranger = Ed25519PrivateKey.generate()
    signature = {
        "algorithm": "Ed25519",
        "public_key": stranger.public_key().public_bytes_raw().hex(),
        "signature": stranger.sign((folder / "manifest.json").read_bytes()).hex(),
    }
    (folder / "manifest.sig").write_text(json.dumps(signature, indent=2) + "\n")


def alter_log_and_hash(folder):
    log = folder / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"weather", b"leather"))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["output"]["sha256"] = hashlib.sha256(log.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_log_and_hash_altered_together_do_not_pass(folder):
    alter_log_and_hash(folder)
    with pytest.raises(VerificationError, match="signature"):
        verify(folder)
    with pytest.raises(VerificationError, match="signature"):
        verify(folder, own_public_key())


def test_altered_and_signed_anew_by_a_stranger_passes_only_without_the_key(folder):
    alter_log_and_hash(folder)
    sign_with_another_key(folder)
    assert not verify(folder).trusted
    with pytest.raises(VerificationError, match="not made with the given key"):
        verify(folder, own_public_key())


@pytest.mark.parametrize("said", [5, None, {"name": "Ada"}, ["Ada"], [{"name": 5}]])
@pytest.mark.parametrize("place", ["decision", "earlier_decisions"])
def test_what_a_stranger_signs_as_a_decision_and_is_none_is_told(folder, place, said):
    manifest = json.loads((folder / "manifest.json").read_bytes()) | {place: said}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    sign_with_another_key(folder)
    with pytest.raises(VerificationError, match="decision is not one"):
        verify(folder)


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "log.jsonl").write_bytes((f / "log.jsonl").read_bytes() + b"\n"),
        lambda f: (f / "log.jsonl").unlink(),
        lambda f: (f / "manifest.json").unlink(),
        lambda f: (f / "manifest.sig").unlink(),
        lambda f: (f / "manifest.json").write_text("{}"),
        lambda f: (f / "manifest.json").write_text("[1]"),
        lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe not json"),
        lambda f: (f / "manifest.sig").write_text("{}"),
        lambda f: (f / "manifest.sig").write_text('{"public_key": 5, "signature": []}'),
        lambda f: (f / "manifest.sig").write_text('{"public_key": "zz", "signature": "00"}'),
        lambda f: (f / "owners.parquet").write_bytes(b"leak"),
        lambda f: (f / "report.html").write_text("0 % risk"),
        lambda f: (f / "manifest.json").write_bytes(b"[" * 200_000),
        lambda f: (f / "more").mkdir(),
        lambda f: (f / "manifest.json").write_bytes(b"{" + b" " * (2 << 20) + b"}"),
        lambda f: ((f / "log.jsonl").rename(f.parent / "x"), (f / "log.jsonl").symlink_to(f.parent / "x")),
    ],
)
def test_every_kind_of_damage_is_found(folder, damage):
    damage(folder)
    with pytest.raises(VerificationError):
        verify(folder)


def test_a_signed_manifest_without_a_promise_is_refused(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["guarantee"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    sign_with_another_key(folder)
    with pytest.raises(VerificationError, match="what is promised"):
        verify(folder)


def test_numpy_numbers_as_parameters_do_not_spoil_the_manifest(tmp_path):
    release = Suppress(k_text=np.int64(2)).protect(sample_log(), Noise.secure())
    assert verify(release.write(tmp_path / "r")).manifest["parameters"]["k_text"] == 2


def test_the_public_key_always_belongs_to_the_private_one(folder):
    own_public_key().unlink()
    assert verify(folder, (keys.signing_key(), own_public_key())[1]).trusted


def test_a_path_in_the_manifest_cannot_lead_out_of_the_folder(folder, release, monkeypatch):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["output"]["file"] = "../../etc/passwd"
    signed = json.dumps(manifest).encode()
    (folder / "manifest.json").write_bytes(signed)
    sign_with_another_key(folder)
    with pytest.raises(VerificationError, match="which file"):
        verify(folder)


def test_a_release_never_overwrites_anything(release, folder, tmp_path):
    with pytest.raises(UsageError, match="never overwrites"):
        release.write(folder)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="never overwrites"):
        release.write(tmp_path / "link")
    with pytest.raises(UsageError, match="does not exist"):
        release.write(tmp_path / "no" / "such" / "folder")


def test_a_failure_while_writing_leaves_nothing_behind(release, tmp_path):
    def fail(step):
        if step == "manifest written":
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(DiskError, match="no room left"):
        release.write(tmp_path / "release", on_step=fail)
    assert list(tmp_path.iterdir()) == []


def test_the_private_key_is_readable_by_its_owner_only_and_stays_the_same(folder):
    key = keys.key_folder() / "signing.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert keys.signing_key().private_bytes_raw() == keys.signing_key().private_bytes_raw()


def test_the_public_key_may_be_given_as_hexadecimal_digits(folder):
    raw = keys.signing_key().public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    assert verify(folder, raw.hex()).trusted
    with pytest.raises(UsageError, match="no public key"):
        verify(folder, "missing.pem")
    with pytest.raises(UsageError, match="not an Ed25519"):
        verify(folder, folder / "manifest.json")


def rewritten(change):
    """The signature file with its fields changed, or as other text."""

    def damage(folder):
        place = folder / "manifest.sig"
        changed = change(json.loads(place.read_text()))
        place.write_text(changed if isinstance(changed, str) else json.dumps(changed, indent=2) + "\n")

    return damage


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields | {"note": "approved"},
        lambda fields: fields | {"algorithm": "none"},
        lambda fields: {name: fields[name] for name in ("public_key", "signature")},
        lambda fields: fields | {"public_key": "00" * 32},
        lambda fields: fields | {"public_key": "01" + "00" * 31},
        lambda fields: fields | {"public_key": fields["public_key"].upper()},
        lambda fields: fields | {"signature": " ".join(fields["signature"])},
        lambda fields: fields | {"signature": fields["signature"] + " "},
        lambda fields: dict(reversed(fields.items())),
        lambda fields: '{"signature": "other",' + json.dumps(fields)[1:],
        lambda fields: json.dumps(fields),
        lambda fields: json.dumps(fields, indent=2) + "\n\n",
        lambda fields: json.dumps(fields, indent=2),
    ],
)
def test_a_signature_file_that_is_not_as_it_was_written_is_refused(folder, change, by_key):
    rewritten(lambda fields: fields)(folder)
    assert verify(folder, own_public_key()).trusted  # the same bytes again
    before = (folder / "manifest.sig").read_bytes()
    rewritten(change)(folder)
    assert (folder / "manifest.sig").read_bytes() != before
    with pytest.raises(VerificationError):
        verify(folder, own_public_key() if by_key else None)


# --- the public edition of a report


def test_a_report_joins_the_release_under_the_same_signature(folder):
    before = json.loads((folder / "manifest.json").read_text())
    assert add_report(folder, "<p>seven</p>") == folder.resolve() / "report.html"
    checked = verify(folder, own_public_key())
    digest = hashlib.sha256(b"<p>seven</p>").hexdigest()
    assert checked.trusted
    assert checked.manifest == before | {"report": {"file": "report.html", "sha256": digest}}
    assert {p.name for p in folder.iterdir()} == {"log.jsonl", "manifest.json", "manifest.sig", "report.html"}
    assert [p.name for p in folder.parent.iterdir()] == ["release"]


def test_a_later_report_takes_the_place_of_the_first(folder):
    add_report(folder, "first")
    add_report(folder, "second")
    assert verify(folder, own_public_key()).trusted
    assert (folder / "report.html").read_text() == "second"


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "report.html").write_text("0 % risk"),
        lambda f: (f / "report.html").unlink(),
        lambda f: (f / "report2.html").write_text("0 % risk"),
        lambda f: ((f / "report.html").rename(f.parent / "x"), (f / "report.html").symlink_to(f.parent / "x")),
    ],
)
def test_a_changed_missing_or_second_report_is_found(folder, damage):
    add_report(folder, "<p>seven</p>")
    damage(folder)
    with pytest.raises(VerificationError):
        verify(folder)


@pytest.mark.parametrize("said", [None, "report.html", {}, {"file": "log.jsonl", "sha256": "00"}])
def test_a_manifest_that_says_nonsense_of_its_report_is_refused(folder, said):
    add_report(folder, "<p>seven</p>")
    manifest = json.loads((folder / "manifest.json").read_text()) | {"report": said}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    sign_with_another_key(folder)
    with pytest.raises(VerificationError, match="report"):
        verify(folder)


def test_only_the_signer_adds_a_report(folder):
    sign_with_another_key(folder)
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with pytest.raises(UsageError, match="only its signer"):
        add_report(folder, "<p>seven</p>")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_no_report_joins_a_release_that_was_altered(folder):
    (folder / "log.jsonl").write_text("")
    with pytest.raises(VerificationError):
        add_report(folder, "<p>seven</p>")


def test_a_failure_while_adding_leaves_the_release_as_it_was(folder, monkeypatch):
    rename = Path.rename

    def fail_to_put_in_place(self, target):
        if self.name.startswith(".release.unfinished") and not self.name.endswith(".replaced"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_to_put_in_place)
    with pytest.raises(DiskError, match="no room left"):
        add_report(folder, "<p>seven</p>")
    assert verify(folder).manifest.get("report") is None
    assert [p.name for p in folder.parent.iterdir()] == ["release"]


# --- nothing of the original in the manifest of a differentially private release


NEIGHBOURS = {
    "base": [(f"u{i}", ANSWERS[i % 4]) for i in range(20)],
    "other queries": [("u0", "trains")] * 7 + [(f"u{i}", ANSWERS[i % 4]) for i in range(1, 20)],
    "other clicks": [(f"u{i}", ANSWERS[i % 4], None, 3, "x.example") for i in range(20)],
}


def public_parts(mechanism, folder):
    """What each neighbour's manifest says, without what comes from the protected output itself or from the clock."""
    told = []
    for name, rows in NEIGHBOURS.items():
        release = mechanism.protect(QueryLog.of(rows), Noise.seeded(3))
        manifest = json.loads((release.write(folder / name) / "manifest.json").read_text())
        assert manifest["output"].pop("sha256")
        assert manifest.pop("created")
        told.append(manifest)
    return told


def test_neighbouring_logs_give_manifests_that_differ_only_through_the_protected_output(tmp_path):
    first, *others = public_parts(RandomisedResponse(), tmp_path)
    assert all(other == first for other in others)


class CountsTheOriginal(RandomisedResponse):
    """A broken twin that writes a count of the original into its parameters."""

    def protect(self, log, noise):
        return dataclasses.replace(super().protect(log, noise), parameters={"records_in": len(log)})


def test_a_manifest_that_counts_the_original_is_caught_by_the_same_comparison(tmp_path):
    first, *others = public_parts(CountsTheOriginal(), tmp_path)
    assert not all(other == first for other in others)


# --- the secrets file


def test_secrets_hold_the_true_owner_of_each_released_record(release, tmp_path):
    path = release.write_secrets(tmp_path / "secrets.parquet", original={"records": 99})
    kept = secrets.read(path)
    assert kept.owners.to_list() == release.owners.to_list()
    assert kept.pseudonyms.to_list() == release.log.frame["user"].to_list()
    assert kept.original == {"records": 99}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_never_lie_inside_the_release_nor_overwrite(release, folder, tmp_path):
    with pytest.raises(RefusedError, match="inside the release folder"):
        secrets.check_place(folder / "secrets", folder)
    sneaky = tmp_path / "x" / ".." / "release" / "s"
    with pytest.raises(RefusedError, match="inside the release folder"):
        secrets.check_place(sneaky, folder)
    with pytest.raises(RefusedError, match="inside a release folder"):
        release.write_secrets(folder / "secrets")
    with pytest.raises(RefusedError, match="inside a release folder"):
        secrets.check_place(folder / "deep" / "secrets", tmp_path / "another")
    path = release.write_secrets(tmp_path / "s")
    assert "person" not in repr(secrets.read(path))
    with pytest.raises(UsageError, match="never overwritten"):
        release.write_secrets(path)
    with pytest.raises(DataError, match="not a QueryVeil secrets file"):
        secrets.read(folder / "manifest.json")
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_umask_does_not_open_the_secrets(release, tmp_path):
    before = os.umask(0)
    try:
        path = release.write_secrets(tmp_path / "s")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "given", ["/home/ann/index", "~/index", "./index", "C:\\data\\index", "a/index.odp", "index.odp"]
)
def test_a_release_whose_parameter_is_a_path_is_not_written(given, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    for name in ("index.odp", "a/index.odp"):
        (tmp_path / name).write_text("")
    log = QueryLog.of([(f"user {i}", "weather") for i in range(6)])
    release = Suppress(k_text=2).protect(log, Noise.secure())
    leaking = dataclasses.replace(release, parameters={"classifier": given})
    with pytest.raises(RefusedError, match="classifier is a path") as told:
        leaking.write(tmp_path / "release")
    assert given not in str(told.value)
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("given", ["/", ": ", "a: b", "a/b", "wordnet", "disease|sport", None, 3, "x" * 5000])
def test_a_parameter_that_only_looks_like_a_path_is_told(given, tmp_path):
    log = QueryLog.of([(f"user {i}", "weather") for i in range(6)])
    release = Suppress(k_text=2).protect(log, Noise.secure())
    dataclasses.replace(release, parameters={"separator": given}).write(tmp_path / "release")
    assert verify(tmp_path / "release").manifest["parameters"] == {"separator": given}
