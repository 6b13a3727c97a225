"""The keys a holder keeps apart from data and releases: to sign with, to hide people's names in each ledger, to know
one's own certificates by, and to go on with a live stream after a stop.

They live in the user's configuration folder, or where `QUERYVEIL_KEYS` points, readable by their owner only.

Also here: files that only their owner may read, written so that a crash or a power cut leaves the old one or the new
one whole, and seals, by which a holder knows again what their own key sealed.

Every private file begins as a draft beside its place: a new file with a random name, so that nobody can put a link or a
file of theirs there beforehand, and mode 0600 from its first byte. Its content is synced, it gets its name in one step,
and the folder is synced too: without that the name may be lost although the content is safe. `replacing` takes the
place of what was there, `placing` never overwrites. A draft is removed when its writer fails; one who is killed leaves
it, and who alone may write the file removes it with `remove_drafts`.

A private file that a person names never lies in a release folder: who takes its path calls `refuse_release_folders`.
What is meant for others (a release's folder, a log, compiled public knowledge) is not written here.

What is sealed only the holder of a key can have written: a torn, altered or foreign string is refused unread. Layout:
eight bytes that name the kind, the version of its format (4 bytes), a check value of the key (8 bytes), the
HMAC-SHA-256 under the key of all the rest (32 bytes), and the body. The check value only tells a foreign key from
damage; what is trusted is the code. One key can seal several kinds: the code covers the kind's name.

>>> import tempfile
>>> place = Path(tempfile.mkdtemp()) / "tally.json"
>>> replace_private(place, "1")
>>> replace_private(place, "22")
>>> place.read_text(), oct(place.stat().st_mode & 0o777), len(list(place.parent.iterdir()))
('22', '0o600', 1)
>>> letters = Kind(b"QVLETTER", 1, "the letter", "a letter", "Use the key that sealed it.")
>>> seal = Seal(letters, bytes(32))
>>> bytes(seal.open(seal.closed(b"dear ", b"all")))
b'dear all'
>>> seal.open(seal.closed(b"dear all")[:-1])
Traceback (most recent call last):
queryveil.errors.DataError: the letter is torn or was altered: its authentication code does not hold.
>>> Seal(letters, bytes(range(32))).open(seal.closed(b"dear all"))
Traceback (most recent call last):
queryveil.privacy.keys.OtherKeyError: the letter belongs to another key. Use the key that sealed it.
"""

from __future__ import annotations

import fcntl
import glob
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import platformdirs
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from queryveil.errors import FAULTS_OF_THE_CALL, FULL, DataError, DiskError, RefusedError, UsageError, reason_of

SIGNING_KEY = "signing.pem"
PUBLIC_KEY = "signing.pub.pem"
TOKEN_BYTES = 8
MANIFEST = "manifest.json"
"""What makes a folder a release."""
VERSION_BYTES, CHECK_BYTES, CODE_BYTES = 4, 8, 32


def key_folder() -> Path:
    """Where the keys are kept."""
    chosen = os.environ.get("QUERYVEIL_KEYS")
    return Path(chosen) if chosen else Path(platformdirs.user_config_dir("queryveil", appauthor=False))


def signing_key() -> Ed25519PrivateKey:
    """The holder's signing key, made on first use; its public half lies beside it as `signing.pub.pem`."""
    path = key_folder() / SIGNING_KEY
    pem = serialization.Encoding.PEM
    if not path.exists():
        private_form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        try:
            keep(SIGNING_KEY, Ed25519PrivateKey.generate().private_bytes(pem, private_form, plain))
        except OSError as problem:
            raise _not_kept(problem, path) from None
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise DataError(f"{path} is not a private key. Move it away to have a new one made.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise DataError(f"{path} is not an Ed25519 key. Move it away to have a new one made.")
    if not path.with_name(PUBLIC_KEY).exists():  # from the key that was kept, whoever made it
        keep(PUBLIC_KEY, key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return key


def read_public_key(given: str | Path) -> Ed25519PublicKey:
    """A public key from a PEM file or from 64 hexadecimal digits."""
    text = str(given)
    if len(text) == 64 and all(c in "0123456789abcdef" for c in text.lower()):
        return Ed25519PublicKey.from_public_bytes(bytes.fromhex(text))
    path = Path(given)
    if not path.is_file():
        raise UsageError(f"no public key at {path}. Give a PEM file or 64 hexadecimal digits.")
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(f"{path} is not an Ed25519 public key in PEM form.")
    return key


def keep(name: str, secret: bytes) -> Path:
    """Store a new secret under a name, readable by its owner only; an existing one is never overwritten."""
    folder = key_folder()
    refuse_release_folders(folder / name)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / name
    with suppress(FileExistsError), placing(path) as file:  # where another process was first, its secret counts
        file.write(secret)
    return path


def own(name: str) -> bytes:
    """A secret of 32 bytes, made on first use."""
    path = key_folder() / name
    try:
        secret = load(name if path.is_file() else keep(name, secrets.token_bytes(32)).name)
    except OSError as problem:
        raise _not_kept(problem, path) from None
    if len(secret) != 32:
        raise DataError(f"{path} is not a key of 32 bytes. Move it away to have a new one made.")
    return secret


def _not_kept(problem: OSError, path: Path) -> DiskError | UsageError:
    told = f"cannot keep a key in {path.parent}: {reason_of(problem)}."
    if problem.errno in FAULTS_OF_THE_CALL:
        return UsageError(f"{told} Set QUERYVEIL_KEYS to a folder you own.")
    return DiskError(f"{told} Make room and try again." if problem.errno in FULL else told)


def load(name: str) -> bytes:
    """A secret stored earlier."""
    path = key_folder() / name
    if not path.is_file():
        raise DataError(f"the key {path} is missing. Restore it, or point QUERYVEIL_KEYS to the folder that holds it.")
    return path.read_bytes()


def refuse_release_folders(path: Path) -> None:
    """Nothing private into a folder that was released earlier, however deep: it would be shared with the release."""
    if any((parent / MANIFEST).exists() for parent in path.resolve().parents):
        raise RefusedError(
            f"{path} is for you alone and would lie inside a release folder, shared with it. Choose another place."
        )


def open_new(path: Path) -> IO[bytes]:
    """A new file for its owner alone, open for writing; refuses where there is anything already."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


@contextmanager
def replacing(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Write what appears whole, in place of an earlier file, when the block ends well; else the earlier one stays.

    With `durable` content and name are on the disk by then. Without, a power cut may bring the earlier file back.
    """
    with _draft(path) as (draft, file):
        yield file
        _finish(file, durable=durable)
        draft.replace(path)
        if durable:
            sync_folder(path.parent)


@contextmanager
def placing(path: Path) -> Iterator[IO[bytes]]:
    """Write what appears whole and on the disk when the block ends well; `FileExistsError` where another was first."""
    with _draft(path) as (draft, file):
        yield file
        _finish(file, durable=True)
        os.link(draft, path)  # unlike a renaming, it fails where there is something
        draft.unlink()
        sync_folder(path.parent)


def replace_private(path: Path, content: str | bytes, *, durable: bool = True) -> None:
    """Put this content in place of an earlier file, as `replacing` does; text that is no UTF-8 becomes "?"."""
    with replacing(path, durable=durable) as file:
        file.write(content.encode(errors="replace") if isinstance(content, str) else content)


def remove_drafts(path: Path) -> None:
    """Remove what writers of this file left when they were killed; only for one who alone may write it now."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 2 * TOKEN_BYTES}.draft"):
        left.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk when this returns: a renamed file is safe only then."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """One process at a time with a folder, or with a file that is never replaced; waits for its turn."""
    opened = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


@contextmanager
def _draft(path: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(TOKEN_BYTES)}.draft")
    try:
        with open_new(draft) as file:
            yield draft, file
    except OSError as error:
        if error.filename in (None, str(draft)):
            error.filename = str(path)  # people know the file by its name, not by its draft's
        raise
    finally:
        draft.unlink(missing_ok=True)


def _finish(file: IO[bytes], *, durable: bool) -> None:
    file.flush()
    if durable:
        os.fsync(file.fileno())


def private_folder(folder: Path) -> Path:
    """Make the folder if it is not there, close it to others, and refuse one inside a release."""
    refuse_release_folders(folder / "anything")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder} is there already and is no folder. Move it away first.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return folder


class OtherKeyError(DataError):
    """Whole, as far as can be told, but sealed with another key."""


@dataclass(frozen=True)
class Kind:
    """What is sealed: its eight bytes, the version of its format, and words for people who meet a wrong one."""

    mark: bytes
    version: int
    called: str
    what: str
    with_another_key: str


class Seal:
    """A key for one kind of bytes."""

    def __init__(self, kind: Kind, key: bytes) -> None:
        self._kind, self._key = kind, key
        check = hashlib.blake2b(kind.mark, key=key, digest_size=CHECK_BYTES).digest()
        self._start = kind.mark + kind.version.to_bytes(VERSION_BYTES, "big") + check

    def closed(self, *parts: bytes) -> bytes:
        """The parts one behind the other, sealed."""
        return b"".join([self._start, self._code(*parts), *parts])

    def open(self, content: bytes, name: str = "") -> memoryview:
        """The body, or `DataError` with what is wrong; `name` says which one it is, if there are several."""
        kind, start, called = self._kind, self._start, name or self._kind.called
        checked = len(kind.mark) + VERSION_BYTES
        if not content.startswith(kind.mark):
            raise DataError(f"{name or 'this'} is not {kind.what}.")
        torn = DataError(f"{called} is torn or was altered: its authentication code does not hold.")
        if len(content) < len(start) + CODE_BYTES:
            raise torn
        if content[:checked] != start[:checked]:
            raise DataError(f"{called} has another format than {kind.version}; use it with the version that made it.")
        if content[: len(start)] != start:
            raise OtherKeyError(f"{called} belongs to another key. {kind.with_another_key}")
        body = memoryview(content)[len(start) + CODE_BYTES :]
        if not hmac.compare_digest(content[len(start) : len(start) + CODE_BYTES], self._code(body)):
            raise torn
        return body

    def _code(self, *parts: bytes | memoryview) -> bytes:
        code = hmac.new(self._key, self._start, "sha256")
        for part in parts:
            code.update(part)
        return code.digest()
