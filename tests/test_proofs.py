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
        "mechanisms/distill/known_queries.py",
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
    "mechanisms/distill/budget.py": "d2cf4e5c5333e23148c3abeac587b23cfc0714ee6e8fcc0651bd5fb5a7ee9ce7",
    "mechanisms/distill/contributions.py": "90ffd258a70cd6c12d1c5e86324bf621ecdd866f77d83d49e9711e7a25284e82",
    "mechanisms/distill/known_queries.py": "4165926b0bc813cfbf6b4b298e6e74ecbb7df58dd2801568684019b2cf21f5b8",
    "mechanisms/distill/proof.md": "4447e64d5e989477050de1935f37838d17fc46577aadb8d9c154aae232258325",
    "mechanisms/distill/tables.py": "6ea61475059e747cdeca4b34a57f36e940a8b21fc8eec867b6209637052e68c8",
    "mechanisms/distill/texts.py": "b51fee91cecd0169aedbfc132ad277f930fa72ea60f4aa2082ff291930c34e5d",
    "mechanisms/distill/unions.py": "e2637ba13f1da1c95c0fe1eee0a46dd1d5f2645f19e573a5bc2b83552a222e98",
    "mechanisms/sanitize/proof.md": "f445e8c93b0798743bd87a995bbaeca4d1400e0449f398e079c403b4fbe6b81f",
    "mechanisms/sanitize/synthetic_users.py": "a956c2f242bd3d20687f36e111104d765607f5d4ed069481e4d68267aeafff20",
    "mechanisms/sanitize/weighted.py": "c76d6fbaad469aac6969eb6d02be49ba6032442e5bf5078642c765e23d260896",
    "mechanisms/sanitize/weighted_budget.py": "fa2f4b9a753210fe82aec94cb6ad710718b3793902e76b265f5ef20f9f66d2d9",
    "privacy/accounting.py": "ca1d204d68e9d20f072ccc1f09ecbb2553c20222b9027ac6d0504a530aa57dfb",
    "privacy/accounts.py": "34c575d8294a7934a60833c1a8cd764d7f24e1c1ff1986cd5fe0e60b0fa06e5c",
    "privacy/bounds.py": "7f9063c2ba43237ac4f217b4aff334511908dd8879d01a09b24378ab59d75f3a",
    "privacy/calibration.py": "4b44671298ca783c12d04cdf0508d26e713eae7a9967671d34a2748fa377eb77",
    "privacy/composition.md": "1994774956e3346dc55ccdbcd0c6a5569a9d1c1f0f8f1d4c496e1b93be420d4f",
    "privacy/composition.py": "7d830340eef455d3435811a404c8ff82428a565a90f6e0b26f780041d469abe5",
    "privacy/joint_gaussian.py": "103b954a906afe71c6d118d55d8f1f012aec451081a3d5ca1c2c0cb5ae771ac4",
    "privacy/set_union.py": "cc6cc5889c1b4aded9105875ab87ae3c4feefc1943ba654d077e3a0d594cf198",
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
