"""The proof of weighted selection is about certain files: who changes one of them reads the proof again.

Having read it, and changed it where that is needed, put the new hashes here:

    python tests/mechanisms/test_sanitize_proof.py
"""

import hashlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "queryveil"
PINNED = {
    "mechanisms/sanitize/proof.md": "e5f4377f431b59c887eabbfe73c6594749cafda6d6e8d00ad2a6c1040483eeac",
    "mechanisms/sanitize/weighted.py": "bd539a735f065e3cb26fa997735fbcc80c7ce33399cb7a8a5301cca6012a9482",
    "mechanisms/sanitize/weighted_budget.py": "fa2f4b9a753210fe82aec94cb6ad710718b3793902e76b265f5ef20f9f66d2d9",
    "mechanisms/sanitize/synthetic_users.py": "15f4fc919e0f360526df8aade46ad87310814decc88554d46051d6a51fd91e4d",
    "privacy/set_union.py": "872b7687702f6f3658d72ea3ab46011c57705ebea036d76d6494eb9e369036e3",
    "privacy/joint_gaussian.py": "103b954a906afe71c6d118d55d8f1f012aec451081a3d5ca1c2c0cb5ae771ac4",
    "privacy/calibration.py": "4b44671298ca783c12d04cdf0508d26e713eae7a9967671d34a2748fa377eb77",
    "log/identifying.py": "af372706190e9204dd8a2b64045b89af9953383e623d141de20b90ed81620b76",
}


def digest(name):
    """SHA-256 of a file, whatever the ends of its lines."""
    return hashlib.sha256((SOURCE / name).read_bytes().replace(b"\r\n", b"\n")).hexdigest()


@pytest.mark.parametrize("name", PINNED)
def test_the_code_is_the_one_that_the_proof_is_about(name):
    assert digest(name) == PINNED[name], f"{name} changed: read proof.md again, step by step, then pin the new hash"


def test_the_proof_names_every_pinned_file():
    text = (SOURCE / "mechanisms/sanitize/proof.md").read_text(encoding="utf-8")
    assert all(Path(name).name in text for name in PINNED if not name.endswith(".md"))


def test_only_pinned_files_see_the_records_of_weighted_selection():
    """`Published` is what leaves: the mechanism hands the log's table to `weighted.publish` and to nothing else."""
    text = (SOURCE / "mechanisms/sanitize/sanitization.py").read_text(encoding="utf-8")
    assert text.count("weighted.publish(log.table(), noise, self.weighted_rule)") == 1
    assert text.count("log.table()") == 4  # weighted, capped, paper, and the counts that paper mode starts from


if __name__ == "__main__":
    for pinned in PINNED:
        print(f'    "{pinned}": "{digest(pinned)}",')
