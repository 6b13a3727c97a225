"""Proofs are about certain files: who changes one of these reads the proofs that are about it again.

Having read them, and changed them where that is needed, put the new hashes here:

    python tests/test_proofs.py
"""

import hashlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "queryveil"
PROOFS = {
    "mechanisms/distill/proof.md": (
        "mechanisms/distill/budget.py",
        "mechanisms/distill/texts.py",
        "mechanisms/distill/contributions.py",
        "mechanisms/distill/unions.py",
        "mechanisms/distill/tables.py",
        "mechanisms/distill/_vector_kernel.py",
        "privacy/set_union.py",
        "privacy/calibration.py",
        "log/identifying.py",
        "privacy/joint_gaussian.py",
    ),
    "mechanisms/sanitize/proof.md": (
        "mechanisms/sanitize/weighted.py",
        "mechanisms/sanitize/weighted_budget.py",
        "mechanisms/sanitize/synthetic_users.py",
        "privacy/set_union.py",
        "privacy/joint_gaussian.py",
        "privacy/calibration.py",
        "log/identifying.py",
    ),
    "privacy/composition.md": (
        "privacy/composition.py",
        "privacy/bounds.py",
        "privacy/accounts.py",
        "privacy/accounting.py",
    ),
}
"""Each proof, and the files that it is about."""
PINNED = {
    "log/identifying.py": "960618fe75d38f87046e276bd393f08ba452e25b83228786579c544863342042",
    "mechanisms/distill/_vector_kernel.py": "bd84e46828d91cf487ea2587a67aacde94dc4964ee818b2689bf07fd251eafd1",
    "mechanisms/distill/budget.py": "976b652bdc8caf01324c245dfa9fd621225433b65339c63837a3e98568c65976",
    "mechanisms/distill/contributions.py": "fb57591a2101db7abd329bc1737dacf517b25a4502a15dbdc5e7016879e8f9a0",
    "mechanisms/distill/proof.md": "e49d984ab7f59574563100cca2d0622d25fabf35af200ab07c6e8249e12ed794",
    "mechanisms/distill/tables.py": "3215d6b5f32068e7d0539a35ddfa570c3b1a8026a2981d645e65e06f06d24d3a",
    "mechanisms/distill/texts.py": "b51fee91cecd0169aedbfc132ad277f930fa72ea60f4aa2082ff291930c34e5d",
    "mechanisms/distill/unions.py": "d1830e0afff0b176d0a875d9cb0ef98eb450efbc1f5f074d29638312ae3b33ce",
    "mechanisms/sanitize/proof.md": "f445e8c93b0798743bd87a995bbaeca4d1400e0449f398e079c403b4fbe6b81f",
    "mechanisms/sanitize/synthetic_users.py": "15f4fc919e0f360526df8aade46ad87310814decc88554d46051d6a51fd91e4d",
    "mechanisms/sanitize/weighted.py": "d4d41e0c45c82bba9b5d688bfd54fc9147c4fe0693ee402674dab82f1c48f954",
    "mechanisms/sanitize/weighted_budget.py": "fa2f4b9a753210fe82aec94cb6ad710718b3793902e76b265f5ef20f9f66d2d9",
    "privacy/accounting.py": "1eedbfb81fbf0ab2a288f04e7678b82528ca7084a1285376a0076bb57d14d1e8",
    "privacy/accounts.py": "34c575d8294a7934a60833c1a8cd764d7f24e1c1ff1986cd5fe0e60b0fa06e5c",
    "privacy/bounds.py": "7f9063c2ba43237ac4f217b4aff334511908dd8879d01a09b24378ab59d75f3a",
    "privacy/calibration.py": "4b44671298ca783c12d04cdf0508d26e713eae7a9967671d34a2748fa377eb77",
    "privacy/composition.md": "1994774956e3346dc55ccdbcd0c6a5569a9d1c1f0f8f1d4c496e1b93be420d4f",
    "privacy/composition.py": "7d830340eef455d3435811a404c8ff82428a565a90f6e0b26f780041d469abe5",
    "privacy/joint_gaussian.py": "103b954a906afe71c6d118d55d8f1f012aec451081a3d5ca1c2c0cb5ae771ac4",
    "privacy/set_union.py": "872b7687702f6f3658d72ea3ab46011c57705ebea036d76d6494eb9e369036e3",
}


def digest(name):
    """SHA-256 of a file, whatever the ends of its lines."""
    return hashlib.sha256((SOURCE / name).read_bytes().replace(b"\r\n", b"\n")).hexdigest()


def of_source(name):
    return (SOURCE / name).read_text(encoding="utf-8")


def test_every_file_of_a_proof_is_pinned():
    assert set(PINNED) == set(PROOFS).union(*PROOFS.values())


@pytest.mark.parametrize("name", PINNED)
def test_the_code_is_the_one_that_the_proofs_are_about(name):
    again = [proof for proof, files in PROOFS.items() if name in (proof, *files)]
    assert digest(name) == PINNED[name], f"{name} changed: read {', '.join(again)}, step by step, then pin the new hash"


@pytest.mark.parametrize("proof", PROOFS)
def test_a_proof_names_the_files_that_it_is_about(proof):
    assert all(Path(name).name in of_source(proof) for name in PROOFS[proof])


def test_what_is_not_pinned_of_distill_sees_noisy_tables_alone():
    """None of those modules reads a log's table or people's vectors."""
    pinned = {Path(name).name for name in PROOFS["mechanisms/distill/proof.md"]}
    for path in (SOURCE / "mechanisms/distill").glob("*.py"):
        if path.name not in pinned and path.name not in ("distillation.py", "canaries.py"):
            text = path.read_text(encoding="utf-8")
            assert "Asked" not in text and "QueryLog" not in text and "tables.collect" not in text, path.name


def test_only_pinned_files_see_the_records_of_weighted_selection():
    """`Published` is what leaves: the mechanism hands the log's table to `weighted.publish` and to nothing else."""
    text = of_source("mechanisms/sanitize/sanitization.py")
    assert text.count("weighted.publish(log.table(), noise, self.weighted_rule)") == 1
    assert text.count("log.table()") == 4  # weighted, capped, paper, and the counts that paper mode starts from


if __name__ == "__main__":
    for pinned in PINNED:
        print(f'    "{pinned}": "{digest(pinned)}",')
