"""The certificate of a release: its manifest, its signature, and how to check both.

A release folder holds `log.<format>`, `manifest.json` and `manifest.sig` (Ed25519 over the manifest's bytes, with the
public key). The manifest holds the log's hash, so the signature covers the log; where a mechanism publishes tables
beside it (`tables/*.parquet`), it holds theirs as well. It holds no count, digest or name of
the original: under add/remove neighbours those are private.

An audit adds `report.html`, the public edition of its report: the manifest then holds the report's hash as well and is
signed anew, by the same key or not at all. So does the decision of the person who may decide (`report.approval`), which
stands in the manifest itself.

The folder is built under another name and renamed last, so it appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from queryveil.errors import RefusedError, UsageError, VerificationError, file_error
from queryveil.privacy import keys
from queryveil.privacy.keys import MANIFEST, sync_folder
from queryveil.version import __version__

if TYPE_CHECKING:
    from queryveil.release.release import Release

SIGNATURE = "manifest.sig"
REPORT = "report.html"
TABLES = "tables"
ROWS = "rows_sha256"
DECISION, EARLIER = "decision", "earlier_decisions"
DECISION_FIELDS = ("decision", "name", "reason", "date")
LARGEST_MANIFEST = 1 << 20


def write(
    release: Release,
    folder: Path,
    *,
    format: str,  # noqa: A002
    ledger_entry: str | None,
    on_step: Callable[[str], None],
    rows_sha256: str | None = None,
) -> Path:
    """Write the release as a folder that was found to be free; see `Release.write`.

    `rows_sha256` is told where the log is copied to a database afterwards (`queryveil.release.copies`).
    """
    from queryveil.log.formats import FORMATS  # who only verifies a release needs no format
    from queryveil.log.writing import write as write_log

    for name, value in release.parameters.items():
        if _is_path(value):
            raise RefusedError(
                f"{name} is a path on this machine, which a manifest must not tell. "
                "The mechanism has to publish the file's name or digest in its place."
            )
    draft = folder.parent / f".{folder.name[:80]}.unfinished-{secrets.token_hex(4)}"
    with _drafted(draft, folder.name):
        log_file = draft / f"log{FORMATS[format].suffix}"
        write_log(release.log, log_file, format=format)
        on_step("log written")
        content = manifest(release, log_file, format=format, ledger_entry=ledger_entry)
        if rows_sha256:
            content["output"][ROWS] = rows_sha256
        _sign(draft, content | _write_tables(release, draft), on_step)
        draft.rename(folder)
        sync_folder(folder.parent)
        on_step("in place")
    return folder


@contextmanager
def _drafted(draft: Path, name: str) -> Iterator[None]:
    """A folder to work in, of which nothing is left where the work fails."""
    try:
        draft.mkdir()
        yield
    except BaseException as error:
        shutil.rmtree(draft, ignore_errors=True)
        if isinstance(error, Exception) and (found := file_error(error, name)):
            raise found from None
        raise


def _write_tables(release: Release, draft: Path) -> dict[str, Any]:
    """Write the tables, if there are any; what the manifest says of them."""
    if not release.tables:
        return {}
    from queryveil.log.formats.parquet import ROWS_PER_GROUP

    (draft / TABLES).mkdir()
    hashes = {}
    for name, table in sorted(release.tables.items()):
        path = draft / TABLES / f"{name}.parquet"
        # Neither how the rows came together nor how many there were of the log is to be seen in the layout.
        table.rechunk().write_parquet(path, statistics=False, row_group_size=ROWS_PER_GROUP)
        hashes[path.name] = _sha256(path)
    return {TABLES: hashes}


def add_report(folder: str | Path, page: str) -> Path:
    """Put the public edition of a report into a finished release, in place of one it may have, and sign it anew."""
    return _signed_anew(folder, page=page.encode()) / REPORT


def add_decision(folder: str | Path, decision: dict[str, str]) -> Path:
    """Put a person's decision on a finished release into its manifest and sign it anew; earlier ones stay beside it."""
    return _signed_anew(folder, decision=decision)


def _signed_anew(folder: str | Path, *, page: bytes | None = None, decision: dict[str, str] | None = None) -> Path:
    """Exchange a finished release for the same with more in it.

    Only who signed the release may: with another key, the recipients' check of who made it would fail from then on. The
    folder is exchanged whole; should the machine stop between the two renames, it lies complete beside its old place
    under a name that ends in `.replaced`.
    """
    folder = Path(folder).resolve()
    own_key = _raw(keys.signing_key().public_key()).hex()
    checked = verify(folder)
    if checked.public_key != own_key:
        raise UsageError(f"{folder} was signed with another key than yours; only its signer can add to it.")
    content = dict(checked.manifest)
    if decision is not None:
        if DECISION in content:
            content[EARLIER] = [*content.get(EARLIER, []), content[DECISION]]
        content[DECISION] = decision
    draft = folder.parent / f".{folder.name[:80]}.unfinished-{secrets.token_hex(4)}"
    old = draft.with_name(f"{draft.name}.replaced")
    with _drafted(draft, folder.name):
        shutil.copymode(folder, draft)
        _take_over(folder / content["output"]["file"], draft)
        if TABLES in content:
            shutil.copytree(folder / TABLES, draft / TABLES)
        if page is not None:
            _write_durably(draft / REPORT, page)
            content = content | {"report": {"file": REPORT, "sha256": _sha256(draft / REPORT)}}
        elif "report" in content:
            _take_over(folder / REPORT, draft)
        _sign(draft, content, lambda step: None)
        verify(draft)
        folder.rename(old)
        try:
            draft.rename(folder)
        except BaseException:
            old.rename(folder)
            raise
        sync_folder(folder.parent)
    shutil.rmtree(old)
    return folder


def _take_over(file: Path, draft: Path) -> None:
    """A second name for the same bytes: no copy of a large log, where the file system knows such names."""
    try:
        os.link(file, draft / file.name)
    except OSError:
        shutil.copyfile(file, draft / file.name)


def _sign(draft: Path, content: dict[str, Any], on_step: Callable[[str], None]) -> None:
    signed = json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n"
    _write_durably(draft / MANIFEST, signed)
    on_step("manifest written")
    key = keys.signing_key()
    _write_durably(draft / SIGNATURE, _signature_file(key.public_key(), key.sign(signed)))
    on_step("signed")


def _signature_file(public_key: Ed25519PublicKey, signature: bytes) -> bytes:
    """The one content that `manifest.sig` may have: no signature covers this file itself, so nothing in it may vary."""
    fields = {"algorithm": "Ed25519", "public_key": _raw(public_key).hex(), "signature": signature.hex()}
    return json.dumps(fields, indent=2).encode() + b"\n"


def check_free(folder: Path) -> None:
    """A release never overwrites anything."""
    if folder.exists() or folder.is_symlink():
        raise UsageError(f"{folder} is there already; a release never overwrites anything. Choose another folder.")
    if not folder.parent.is_dir():
        raise UsageError(f"the folder {folder.parent} does not exist. Make it first.")


def manifest(release: Release, log_file: Path, *, format: str, ledger_entry: str | None) -> dict[str, Any]:  # noqa: A002
    """The content of `manifest.json`."""
    return {
        "queryveil": __version__,
        "mechanism": release.mechanism,
        "mode": release.mode,
        "parameters": dict(release.parameters),
        "parameters_chosen_by": release.chosen_by,
        "guarantee": release.guarantee.as_dict() | {"statement": release.statement()},
        "output": {
            "file": log_file.name,
            "format": format,
            "records": len(release.log),
            "users": release.log.user_count(),
            "sha256": _sha256(log_file),
        },
        "columns": dict(release.columns),
        **({"purpose": release.purpose} if release.purpose else {}),
        "similar_ids": release.similar_ids,
        "noise": {"mode": release.noise_mode, "publishable": release.publishable},
        "ledger": ledger_entry,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@dataclass(frozen=True)
class Verified:
    """A release whose files, hash and signature hold. `trusted` only where the signer's key was given and matched."""

    manifest: dict[str, Any]
    public_key: str
    trusted: bool


def verify(folder: str | Path, key: str | Path | None = None) -> Verified:
    """Check a release folder; raises `VerificationError` with the first thing that is wrong.

    Without `key` this shows that the folder is whole, not who made it: anybody can sign with a key of their own.
    """
    folder = Path(folder)
    wanted = keys.read_public_key(key) if key is not None else None
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.")
    signed = _read_small(folder / MANIFEST)
    content = _json_object(signed, MANIFEST)
    signature_file = _read_small(folder / SIGNATURE)
    fields = _json_object(signature_file, SIGNATURE)
    try:
        public_key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(fields["public_key"]))
        signature = bytes.fromhex(fields["signature"])
    except (KeyError, TypeError, ValueError):
        raise VerificationError(f"{SIGNATURE} is not a signature.") from None
    if signature_file != _signature_file(public_key, signature):
        raise VerificationError(f"{SIGNATURE} is not as it was written: something in it was added or changed.")
    try:
        public_key.verify(signature, signed)
    except InvalidSignature:
        raise VerificationError(
            "the signature does not belong to the manifest: the release was altered after it was signed."
        ) from None
    if wanted is not None and _raw(wanted) != _raw(public_key):
        raise VerificationError(
            "the signature was not made with the given key: the release comes from somebody else, or was altered and "
            "signed anew."
        )
    output = content.get("output")
    if not isinstance(output, dict) or not re.fullmatch(r"log(\.[a-z]+)+", str(output.get("file"))):
        raise VerificationError("the manifest does not say which file the log is.")
    if not isinstance(content.get("guarantee"), dict) or not isinstance(content["guarantee"].get("statement"), str):
        raise VerificationError("the manifest does not say what is promised.")
    log_file = folder / output["file"]
    known = {MANIFEST, SIGNATURE, log_file.name} | ({REPORT} if "report" in content else set())
    there = [path for path in folder.iterdir() if not (TABLES in content and path.name == TABLES)]
    if any(path.name not in known or path.is_symlink() or not path.is_file() for path in there):
        raise VerificationError("the folder holds something that does not belong to a release.")
    if not log_file.is_file() or _sha256(log_file) != output.get("sha256"):
        raise VerificationError("the log is not the one the manifest was made for.")
    earlier = content.get(EARLIER, [])
    decisions = [content[DECISION]] if DECISION in content else []
    if not isinstance(earlier, list) or not all(map(_is_a_decision, [*earlier, *decisions])):
        raise VerificationError("the manifest's decision is not one.")
    if "report" in content and not _is_the_report(folder / REPORT, content["report"]):
        raise VerificationError("the report is not the one the manifest was made for.")
    if TABLES in content and not _are_the_tables(folder / TABLES, content[TABLES]):
        raise VerificationError("the tables are not those the manifest was made for.")
    return Verified(content, _raw(public_key).hex(), wanted is not None)


def _are_the_tables(folder: Path, said: object) -> bool:
    """Whether the folder holds exactly the files that the manifest names, each with its hash."""
    if folder.is_symlink() or not folder.is_dir() or not isinstance(said, dict):
        return False
    files = list(folder.iterdir())
    whole = {path.name for path in files} == set(said) and not any(path.is_symlink() for path in files)
    return whole and all(path.is_file() and _sha256(path) == said[path.name] for path in files)


def _is_a_decision(said: object) -> bool:
    return isinstance(said, dict) and all(isinstance(said.get(name), str) for name in DECISION_FIELDS)


def _is_the_report(path: Path, said: object) -> bool:
    return isinstance(said, dict) and path.is_file() and said == {"file": REPORT, "sha256": _sha256(path)}


def _read_small(path: Path) -> bytes:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_MANIFEST:
        raise VerificationError(f"{path.name} is missing or not a plain small file: this is no finished release.")
    return path.read_bytes()


def _json_object(content: bytes, name: str) -> dict[str, Any]:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise VerificationError(f"{name} is not a JSON object.")
    return parsed


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _raw(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)


def _is_path(value: object) -> bool:
    """Whether a value leads to a place on this machine; a separator alone, or one within a name, does not."""
    if isinstance(value, os.PathLike):
        return True
    if not isinstance(value, str) or len(value.strip()) < 2 or "\0" in value:
        return False
    if value.startswith(("~", "./", "../", "file:")) or re.match(r"[A-Za-z]:[\\/]", value):
        return True
    path = Path(value)
    try:
        return path.is_absolute() or ((os.sep in value or bool(path.suffix)) and path.exists())
    except OSError:  # too long to be a name: a text
        return False


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
