"""The proof of distill's promise is about certain files: who changes one of them reads the proof again.

Having read it, and changed it where that is needed, put the new hashes here:

    python tests/mechanisms/test_distill_proof.py
"""

import hashlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "queryveil"
PINNED = {
    "mechanisms/distill/proof.md": "246944d81b56bc660cdf5682da9d7d16f0893cffdd0c8ef543fb70de4833e532",
    "mechanisms/distill/budget.py": "976b652bdc8caf01324c245dfa9fd621225433b65339c63837a3e98568c65976",
    "mechanisms/distill/texts.py": "5bc545926e887d23751c91b4ca71296305508095dc912dee8268af09c3bdd3d0",
    "mechanisms/distill/contributions.py": "efdb0552287fa8b1fc37f1303982b5b57c1f80e97be4279116c0a44c8126c639",
    "mechanisms/distill/unions.py": "3269c10adf6acbd82b76bc72fc63fe6382f40bd9be3f956b396551ea0212e04b",
    "mechanisms/distill/tables.py": "7aee54cfb6503b5273c29c6285ea398cc210236aa4bdbc6810c7f86f9b08dab4",
    "mechanisms/distill/_vector_kernel.py": "b5515e094428e72e6f3f3d85b7f0f467314ea182fda0d9a0f5dd0475bddccc98",
    "privacy/set_union.py": "872b7687702f6f3658d72ea3ab46011c57705ebea036d76d6494eb9e369036e3",
    "privacy/calibration.py": "4b44671298ca783c12d04cdf0508d26e713eae7a9967671d34a2748fa377eb77",
    "log/identifying.py": "af372706190e9204dd8a2b64045b89af9953383e623d141de20b90ed81620b76",
    "privacy/joint_gaussian.py": "103b954a906afe71c6d118d55d8f1f012aec451081a3d5ca1c2c0cb5ae771ac4",
}


def digest(name):
    """SHA-256 of a file, whatever the ends of its lines."""
    return hashlib.sha256((SOURCE / name).read_bytes().replace(b"\r\n", b"\n")).hexdigest()


@pytest.mark.parametrize("name", PINNED)
def test_the_code_is_the_one_that_the_proof_is_about(name):
    assert digest(name) == PINNED[name], f"{name} changed: read proof.md again, step by step, then pin the new hash"


def test_the_proof_names_every_pinned_file():
    text = (SOURCE / "mechanisms/distill/proof.md").read_text(encoding="utf-8")
    assert all(Path(name).name in text for name in PINNED if not name.endswith(".md"))


def test_every_stream_of_noise_that_touches_private_numbers_is_in_a_pinned_file():
    """Modules that are not pinned work on noisy tables: none of them reads a log's table or people's vectors."""
    folder = SOURCE / "mechanisms/distill"
    pinned = {Path(name).name for name in PINNED}
    for path in folder.glob("*.py"):
        if path.name not in pinned and path.name not in ("distillation.py", "canaries.py"):
            text = path.read_text(encoding="utf-8")
            assert "Asked" not in text and "QueryLog" not in text and "tables.collect" not in text, path.name


if __name__ == "__main__":
    for pinned in PINNED:
        print(f'    "{pinned}": "{digest(pinned)}",')
