"""The keys a holder keeps apart from data and releases: to sign with, to hide people's names in each ledger, to know
one's own certificates by, and to go on with a live stream after a stop.

They live in the user's configuration folder, or where `QUERYVEIL_KEYS` points, readable by their owner only.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

import platformdirs
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from queryveil.errors import DataError, UsageError
from queryveil.privacy.private_files import placing, refuse_release_folders

SIGNING_KEY = "signing.pem"
PUBLIC_KEY = "signing.pub.pem"


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
        keep(SIGNING_KEY, Ed25519PrivateKey.generate().private_bytes(pem, private_form, plain))
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
        secret = kept(name if path.is_file() else keep(name, secrets.token_bytes(32)).name)
    except OSError as problem:
        raise UsageError(
            f"cannot keep a key in {path.parent}: {problem.strerror}. Set QUERYVEIL_KEYS to a folder you own."
        ) from None
    if len(secret) != 32:
        raise DataError(f"{path} is not a key of 32 bytes. Move it away to have a new one made.")
    return secret


def kept(name: str) -> bytes:
    """A secret stored earlier."""
    path = key_folder() / name
    if not path.is_file():
        raise DataError(f"the key {path} is missing. Restore it, or point QUERYVEIL_KEYS to the folder that holds it.")
    return path.read_bytes()
