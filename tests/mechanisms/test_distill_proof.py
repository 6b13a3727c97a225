"""The proof of distill's promise is about certain files: who changes one of them reads the proof again.

Having read it, and changed it where that is needed, put the new hashes here:

    python tests/mechanisms/test_distill_proof.py
"""

import hashlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "queryveil"
PINNED = {
    "mechanisms/distill/proof.md": "0a1491d1830b1247e116c202db5f49e7b029050619f6ed442837c0e127d8d176",
    "mechanisms/distill/budget.py": "976b652bdc8caf01324c245dfa9fd621225433b65339c63837a3e98568c65976",
    "mechanisms/distill/texts.py": "5bc545926e887d23751c91b4ca71296305508095dc912dee8268af09c3bdd3d0",
    "mechanisms/distill/contributions.py": "efdb0552287fa8b1fc37f1303982b5b57c1f80e97be4279116c0a44c8126c639",
    "mechanisms/distill/unions.py": "586d06771bb51247b9b495d5876d11b2c3e1e9103e62010785d311c3e3e65950",
    "mechanisms/distill/tables.py": "8b49b97a1e9c3bcd513f3ed0d49eddbfdd46ea17b1c1431b3fc3d84e5f9518d0",
    "mechanisms/distill/_vector_kernel.py": "a132ab9a8c06ae9f59b60e033ebbe9b797da9b4d90706b8d4076c290b5063a1d",
    "privacy/calibration.py": "4b44671298ca783c12d04cdf0508d26e713eae7a9967671d34a2748fa377eb77",
    "log/identifying.py": "f6cc91398ba4dadb36510b6a11a81c05ca609657fb36e85f7f0f8db021536149",
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
