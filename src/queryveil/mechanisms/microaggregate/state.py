"""Groups that stay the same from release to release, in a file that only the holder may have.

Whoever compares two releases in which people changed groups can intersect the groups and single people out. So the
groups of a release are kept, and a later release with the same state uses them again: a group is published whole or
not at all, people who are new wait until at least k of them can form groups of their own, and nobody ever changes
groups. Over any number of releases the people who share a person's logs are then the same, at least k, people.

The file is JSON, readable by its owner only. People are in it as HMACs under a key kept apart (in the key folder), so
the file alone does not tell who is in which group; a second HMAC seals it against damage and meddling.
"""

from __future__ import annotations

import dataclasses
import fcntl
import hmac
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.knowledge._arrays import Ints
from queryveil.privacy import keys

KIND = "queryveil frozen groups 1"
NAME_BYTES = 16
NO_GROUP = -1


@dataclass(frozen=True)
class FrozenGroups:
    """The groups of all releases so far. `save` writes them if nobody else did meanwhile."""

    path: Path
    k: int
    key_name: str
    groups: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    new_groups: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    """Groups to be kept, by the users' own names: nothing is written, not even a key, before `save`."""
    read_from: bytes | None = field(default=None, repr=False)

    @classmethod
    def read(cls, path: Path, k: int) -> FrozenGroups:
        """The state in a file, or an empty one where there is no file yet."""
        if not path.parent.is_dir():
            raise UsageError(f"the folder {path.parent} does not exist. Make it first.")
        if not path.exists():
            return cls(path, k, f"groups-{secrets.token_hex(8)}.key")
        try:
            content = path.read_bytes()
            parsed = json.loads(content)
            body = json.dumps(parsed["state"]).encode()
            kind, kept_k, key_name, groups = (parsed["state"][name] for name in ("kind", "k", "key", "groups"))
            if kind != KIND or Path(key_name).name != key_name:
                raise ValueError
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(f"{path} is not a state file of this version.") from None
        seal = hmac.digest(keys.kept(key_name), body, "sha256").hex()
        if not hmac.compare_digest(seal, str(parsed.get("seal"))):
            raise DataError(f"{path} was changed since it was written. Restore it from a copy.")
        if kept_k != k:
            raise RefusedError(
                f"the groups in {path} were made with k = {kept_k}; with k = {k} people would change groups. "
                f"Use k = {kept_k}, or another state file for other people."
            )
        return cls(path, k, key_name, tuple(map(tuple, groups)), read_from=content)

    def place(self, users: pl.Series) -> tuple[Ints, Ints]:
        """The group each user was put in, −1 for new ones; and how many members each group has."""
        numbers = {name: number for number, group in enumerate(self.groups) for name in group}
        names = self._names(users) if numbers else []
        placed = [numbers.get(name, NO_GROUP) for name in names] or [NO_GROUP] * len(users)
        return np.array(placed, np.int32), np.array([len(group) for group in self.groups], np.int32)

    def adding(self, users: pl.Series, groups: npt.NDArray[np.int32]) -> FrozenGroups:
        """The state with new groups; a group of −1 is none."""
        made: dict[int, list[str]] = {}
        for user, group in zip(users.filter(pl.Series(groups >= 0)), groups[groups >= 0].tolist(), strict=True):
            made.setdefault(group, []).append(user)
        return dataclasses.replace(self, new_groups=tuple(map(tuple, made.values())))

    def save(self) -> None:
        """Write the state; it appears whole or not at all."""
        new = (tuple(sorted(self._names(group))) for group in self.new_groups)
        state = {"kind": KIND, "k": self.k, "key": self.key_name, "groups": sorted((*self.groups, *new))}
        seal = hmac.digest(self._key(), json.dumps(state).encode(), "sha256").hex()
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if (self.path.read_bytes() if self.path.exists() else None) != self.read_from:
                raise RefusedError(f"another release changed {self.path} meanwhile. Make this release again.")
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump({"state": state, "seal": seal}, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
            os.fsync(folder)
        finally:
            draft.unlink(missing_ok=True)
            os.close(folder)

    def _names(self, users: Iterable[str]) -> list[str]:
        key = self._key()
        named = (hmac.digest(key, user.encode("utf-8", "surrogatepass"), "sha256") for user in users)
        return [name[:NAME_BYTES].hex() for name in named]

    def _key(self) -> bytes:
        if self.read_from is None and not (keys.key_folder() / self.key_name).is_file():
            keys.keep(self.key_name, secrets.token_bytes(32))
        return keys.kept(self.key_name)
