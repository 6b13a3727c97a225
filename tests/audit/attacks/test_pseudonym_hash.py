"""Pseudonyms that anybody can compute are undone, and random ones are not."""

import base64
import hashlib
import zlib

import polars as pl
import pytest

from queryveil.audit.attacks.pseudonym_hash import undone
from queryveil.audit.finding import Success
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise

USERS = synth(users=200, records=2000, seed=1).users()
WAYS = {
    "the id": lambda user: user,
    "MD5": lambda user: hashlib.md5(user.encode()).hexdigest(),
    "SHA-1 in capitals": lambda user: hashlib.sha1(user.encode()).hexdigest().upper(),
    "SHA-256 cut, after a letter": lambda user: "u" + hashlib.sha256(user.encode()).hexdigest()[:10],
    "SHA-256 in base 64": lambda user: base64.b64encode(hashlib.sha256(user.encode()).digest()).decode(),
    "SHA-256 in base 64 for URLs, cut": lambda user: base64.urlsafe_b64encode(
        hashlib.sha256(user.encode()).digest()
    ).decode()[:14],
    "CRC-32": lambda user: f"{zlib.crc32(user.encode()):08x}",
}


@pytest.mark.parametrize("way", WAYS)
def test_every_usual_way_is_undone(way):
    names = pl.Series([WAYS[way](user) for user in USERS])
    assert undone(names, USERS, USERS) == Success(200, 200)
    enough = len(names[0]) >= 13 and way != "CRC-32"
    assert not enough or undone(names, USERS, None) == Success(200, 200)


def test_random_names_and_hashes_under_a_key_withstand():
    names = Noise.seeded(1).pseudonyms(USERS)["pseudonym"]
    assert undone(names, USERS, USERS).right == 0
    keyed = pl.Series([hashlib.blake2b(user.encode(), key=b"secret").hexdigest() for user in USERS])
    assert undone(keyed, USERS, USERS).right == 0


def test_a_name_that_is_the_hash_of_somebody_else_is_not_undone():
    names = pl.Series([hashlib.md5(user.encode()).hexdigest() for user in USERS])
    assert undone(names, USERS, USERS.reverse()).right == 0
    assert undone(names, USERS, None).right == 200  # who is behind is not known: it looks undone
    assert undone(names, USERS, pl.Series([None] * 200, dtype=pl.String)).right == 0
