"""Groups that stay the same from release to release, in a file that only the holder may have.

Whoever compares two releases in which people changed groups can intersect the groups and single people out. So the
groups of a release are kept, and a later release with the same state uses them again: a group is published whole or
not at all, people who are new wait until at least k of them can form groups of their own, and nobody ever changes
groups. Over any number of releases the people who share a person's logs are then the same, at least k, people.

The file is JSON, readable by its owner only. People are in it as HMACs under a key kept apart (in the key folder), so
the file alone does not tell who is in which group; a second HMAC seals it against damage and meddling.

An older copy of the file has a good seal as well, and lacks groups that were published since. So each change of the
groups counts as a generation, and beside the key lies a mark: the newest generation, its seal, and where the file lay.
An older file, or none where the mark knows of one, is refused. The file is written first and the mark second, and both
before a release is handed out. A crash in between leaves a file one generation ahead of its mark, made from the very
file the mark knows: it is accepted, and so is the file the mark knows, since no release has used the newer one. Either
way the mark is brought up to the file before it is used, so whatever a release has used is never taken back. Groups
kept for a release that was then not made bind all the same; that only wastes. Not noticed: an old file put back
together with an old key folder, and a new file under another name for the same people.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from queryveil.arrays import Ints
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.log.query_log import SimilarIds
from queryveil.privacy import keys
from queryveil.privacy.keys import alone_with, refuse_release_folders, replace_private

KIND = "queryveil frozen groups 1"
NAME_BYTES = 16
NO_GROUP = -1
NO_SEAL = ""
IDENTITY = re.compile(r"[0-9a-f]{16}")
_IDS_IN_WORDS = {"same": "ids that are written alike merged", "different": "ids as they are written"}


@dataclass(frozen=True)
class Mark:
    """What is remembered of a state apart from it: its newest generation, that one's seal, and where the file lay."""

    generation: int = 0
    seal: str = NO_SEAL
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class FrozenGroups:
    """The groups of all releases so far. `save` keeps them if nobody else changed them meanwhile."""

    path: Path
    k: int
    identity: str
    similar_ids: SimilarIds
    groups: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    generation: int = 0
    seal: str = field(default=NO_SEAL, repr=False)
    mark: Mark = field(default=Mark(), repr=False)
    changed: bool = False

    @classmethod
    def read(cls, path: Path, k: int, similar_ids: SimilarIds = "different") -> FrozenGroups:
        """The state in a file, or an empty one where there never was a file."""
        if not path.parent.is_dir():
            raise UsageError(f"the folder {path.parent} does not exist. Make it first.")
        path = Path(os.path.realpath(path))  # the file is replaced, a link to it would be lost
        refuse_release_folders(path)
        with alone_with(path.parent):
            return cls._read(path, k, similar_ids)

    @classmethod
    def _read(cls, path: Path, k: int, similar_ids: SimilarIds) -> FrozenGroups:
        found = _parsed(path) if path.exists() else None
        marks = _marks()
        identity = found["state"]["id"] if found else None
        if any(str(path) in mark.paths and mark.generation > 0 for other, mark in marks.items() if other != identity):
            raise RefusedError(
                f"releases were made with a state file at {path} that is no longer there; without it people would "
                "change groups. Restore the newest copy of it, or give another file name for other people."
            )
        if found is None:
            return cls(path, k, secrets.token_hex(8), similar_ids)
        state, seal = found["state"], str(found["seal"])
        expected = _sealed(keys.load(_key_name(state["id"])), state)
        if not hmac.compare_digest(expected.encode(), seal.encode("utf-8", "surrogatepass")):
            raise DataError(
                f"{path} was changed since it was written. Restore the newest copy of it; an older one is refused."
            )
        mark = marks.get(state["id"])
        if mark is None:
            raise DataError(
                f"the key folder has lost {_mark_name(state['id'])}, so nothing tells whether {path} is the newest. "
                "Restore it, or point QUERYVEIL_KEYS to the folder that holds it."
            )
        _check_newest(path, state, seal, mark)
        if state["k"] != k:
            raise RefusedError(
                f"the groups in {path} were made with k = {state['k']}; with k = {k} people would change groups. "
                f"Use k = {state['k']}, or another state file for other people."
            )
        if state.get("similar_ids", "different") != similar_ids:
            before, now = _IDS_IN_WORDS[state.get("similar_ids", "different")], _IDS_IN_WORDS[similar_ids]
            raise RefusedError(
                f"the groups in {path} were made with {before}; with {now} people would change groups. Declare "
                "similar_ids as before, or use another state file for other people."
            )
        groups = tuple(map(tuple, state["groups"]))
        return cls(path, k, state["id"], similar_ids, groups, state["generation"], seal, mark)

    def place(self, users: pl.Series) -> tuple[Ints, Ints]:
        """The group each user was put in, −1 for new ones; and how many members each group has."""
        numbers = {name: number for number, group in enumerate(self.groups) for name in group}
        placed = [numbers.get(name, NO_GROUP) for name in self._names(users)] if numbers else [NO_GROUP] * len(users)
        return np.array(placed, np.int32), np.array([len(group) for group in self.groups], np.int32)

    def able(self, users: pl.Series) -> pl.Series:
        """Of these users those whose group can be published: every kept group that is whole, new ones if k or more."""
        placed, sizes = self.place(users)
        whole = np.bincount(placed[placed >= 0], minlength=len(sizes)) == sizes
        enough = np.count_nonzero(placed == NO_GROUP) >= self.k
        return users.filter(pl.Series(np.append(whole, enough)[placed], dtype=pl.Boolean))  # the last is for −1

    def known(self, users: pl.Series) -> pl.Series:
        """Of these users those who are in a kept group."""
        return users.filter(pl.Series(self.place(users)[0] != NO_GROUP, dtype=pl.Boolean))

    def has_new(self, users: pl.Series) -> bool:
        """Whether any of these users is in no kept group."""
        return len(self.known(users)) < len(users)

    def adding(self, users: pl.Series, groups: Ints) -> FrozenGroups:
        """The state with new groups behind the old ones; a group of −1 is none."""
        made: dict[int, list[str]] = {}
        for name, group in zip(self._names(users.filter(pl.Series(groups >= 0))), groups[groups >= 0], strict=True):
            made.setdefault(int(group), []).append(name)
        added = tuple(tuple(sorted(members)) for _, members in sorted(made.items()))
        return replace(self, groups=(*self.groups, *added), changed=self.changed or bool(added))

    def save(self) -> None:
        """Keep the groups; to be called before anybody may see a release made with them.

        The mark first catches up with the file that was read, then the file moves ahead, then the mark: the file is
        never more than one generation ahead. Each write appears whole or not at all.
        """
        key = self._key()
        with alone_with(self.path.parent), alone_with(keys.key_folder() / _key_name(self.identity)):
            now = FrozenGroups._read(self.path, self.k, self.similar_ids)
            if (now.generation, now.seal) != (self.generation, self.seal) or (self.seal and now.mark != self.mark):
                raise RefusedError(f"another release changed {self.path} meanwhile. Make this release again.")
            self._remember(self.generation, self.seal)
            if not self.changed:
                return
            state = {
                "kind": KIND,
                "id": self.identity,
                "generation": self.generation + 1,
                "previous": self.seal,
                "k": self.k,
                "similar_ids": self.similar_ids,
                "groups": sorted(self.groups),
            }
            seal = _sealed(key, state)
            replace_private(self.path, json.dumps({"state": state, "seal": seal}))
            self._remember(self.generation + 1, seal)

    def _remember(self, generation: int, seal: str) -> None:
        mark = Mark(generation, seal, tuple(sorted({*self.mark.paths, str(self.path)})))
        if mark != self.mark:
            replace_private(keys.key_folder() / _mark_name(self.identity), json.dumps(asdict(mark)))

    def _names(self, users: pl.Series) -> list[str]:
        key = self._key()
        named = (hmac.digest(key, user.encode("utf-8", "surrogatepass"), "sha256") for user in users.to_list())
        return [name[:NAME_BYTES].hex() for name in named]

    def _key(self) -> bytes:
        name = _key_name(self.identity)
        if self.generation == 0 and not (keys.key_folder() / name).is_file():
            keys.keep(name, secrets.token_bytes(32))
        return keys.load(name)


def _check_newest(path: Path, state: dict[str, Any], seal: str, mark: Mark) -> None:
    """The file is the one its mark knows, or the next one made from it."""
    generation = state["generation"]
    same = (generation, seal) == (mark.generation, mark.seal)
    next_one = (generation, state["previous"]) == (mark.generation + 1, mark.seal)
    if same or next_one:
        return
    if generation > mark.generation:
        raise RefusedError(
            f"{path} is newer than what the key folder knows of it (generation {generation}, known {mark.generation}): "
            "the key folder is an old copy. Restore the newest copy of the key folder."
        )
    raise RefusedError(
        f"{path} is not the newest state (generation {generation}, newest {mark.generation}): releases were made with "
        "groups it does not have, and people would change groups. Restore the newest copy of it."
    )


def _parsed(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
        state = found["state"]
        if state["kind"] != KIND or not IDENTITY.fullmatch(state["id"]):
            raise ValueError
        if not {"generation", "previous", "k", "groups"} <= state.keys() or "seal" not in found:
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DataError(f"{path} is not a state file of this version.") from None
    return {"state": state, "seal": found["seal"]}


def _marks() -> dict[str, Mark]:
    """The marks of all states, by identity."""
    marks = {}
    for file in sorted(keys.key_folder().glob("groups-*.mark")):
        try:
            known = json.loads(file.read_bytes())
            mark = Mark(int(known["generation"]), str(known["seal"]), tuple(map(str, known["paths"])))
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(f"{file} is damaged. Restore the newest copy of it.") from None
        marks[file.stem.removeprefix("groups-")] = mark
    return marks


def _key_name(identity: str) -> str:
    return f"groups-{identity}.key"


def _mark_name(identity: str) -> str:
    return f"groups-{identity}.mark"


def _sealed(key: bytes, state: dict[str, Any]) -> str:
    return hmac.digest(key, json.dumps(state).encode(), "sha256").hex()
