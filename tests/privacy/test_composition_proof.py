"""The proof of what a ledger adds up is about certain files: who changes one of them reads the proof again.

Having read it, and changed it where that is needed, put the new hashes here:

    python tests/privacy/test_composition_proof.py
"""

import hashlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "src" / "queryveil" / "privacy"
PINNED = {
    "composition.md": "1994774956e3346dc55ccdbcd0c6a5569a9d1c1f0f8f1d4c496e1b93be420d4f",
    "composition.py": "7d830340eef455d3435811a404c8ff82428a565a90f6e0b26f780041d469abe5",
    "bounds.py": "7f9063c2ba43237ac4f217b4aff334511908dd8879d01a09b24378ab59d75f3a",
    "accounts.py": "34c575d8294a7934a60833c1a8cd764d7f24e1c1ff1986cd5fe0e60b0fa06e5c",
    "accounting.py": "1eedbfb81fbf0ab2a288f04e7678b82528ca7084a1285376a0076bb57d14d1e8",
}


def digest(name):
    """SHA-256 of a file, whatever the ends of its lines."""
    return hashlib.sha256((FOLDER / name).read_bytes().replace(b"\r\n", b"\n")).hexdigest()


@pytest.mark.parametrize("name", PINNED)
def test_the_code_is_the_one_that_the_proof_is_about(name):
    assert digest(name) == PINNED[name], f"{name} changed: read composition.md again, then pin the new hash"


def test_the_proof_names_every_pinned_file():
    text = (FOLDER / "composition.md").read_text(encoding="utf-8")
    assert all(name in text for name in PINNED if not name.endswith(".md"))


if __name__ == "__main__":
    for pinned in PINNED:
        print(f'    "{pinned}": "{digest(pinned)}",')
