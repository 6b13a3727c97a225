"""The proof of what a ledger adds up is about certain files: who changes one of them reads the proof again.

Having read it, and changed it where that is needed, put the new hashes here:

    python tests/privacy/test_composition_proof.py
"""

import hashlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "src" / "queryveil" / "privacy"
PINNED = {}


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
    for pinned in ("composition.md", "composition.py", "bounds.py", "accounts.py", "accounting.py"):
        print(f'    "{pinned}": "{digest(pinned)}",')
