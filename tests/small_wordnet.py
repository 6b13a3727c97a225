"""A hand-made WordNet for tests: seven nouns, two verbs.

entity ── animal ── bird ── robin
       │         └─ cat, true cat          (member of: pack)
       └─ group ─── pack, team             (part of: league)
                 └─ league
verbs: move ── run
"""

import pytest

from queryveil.knowledge.relations import Relations
from queryveil.knowledge.wordnet import WordNet

WNDB = {
    "data.noun": "  licence\n"
    "00000100 03 n 01 entity 0 000 | x  \n"
    "00000200 05 n 01 animal 0 001 @ 00000100 n 0000 | x  \n"
    "00000300 05 n 01 bird 0 001 @ 00000200 n 0000 | x  \n"
    "00000400 05 n 01 robin 0 001 @ 00000300 n 0000 | x  \n"
    "00000500 05 n 02 cat 0 true_cat 0 002 @ 00000200 n 0000 #m 00000700 n 0000 | x  \n"
    "00000600 14 n 01 group 0 001 @ 00000100 n 0000 | x  \n"
    "00000700 14 n 02 pack 0 team 0 002 @ 00000600 n 0000 #p 00000800 n 0000 | x  \n"
    "00000800 14 n 01 league 0 001 @ 00000600 n 0000 | x  \n",
    "index.noun": "entity n 1 0 1 0 00000100  \nanimal n 1 1 @ 1 0 00000200  \nbird n 1 1 @ 1 0 00000300  \n"
    "robin n 1 1 @ 1 0 00000400  \ncat n 1 1 @ 1 1 00000500  \ntrue_cat n 1 1 @ 1 0 00000500  \n"
    "group n 1 1 @ 1 0 00000600  \npack n 1 1 @ 1 0 00000700  \nteam n 1 1 @ 1 0 00000700  \n"
    "league n 1 1 @ 1 0 00000800  \n",
    "data.verb": "00000100 29 v 01 move 0 000 01 + 02 00 | x  \n"
    "00000200 29 v 01 run 0 001 @ 00000100 v 0000 01 + 02 00 | x  \n",
    "index.verb": "move v 1 0 1 1 00000100  \nrun v 1 1 @ 1 1 00000200  \n",
    "data.adj": "00000100 00 a 01 feline 0 000 | x  \n",
    "index.adj": "feline a 1 0 1 0 00000100  \n",
    "data.adv": "00000100 02 r 01 fast 0 000 | x  \n",
    "index.adv": "fast r 1 0 1 0 00000100  \n",
}


def small_relations(folder):
    """The relations of this WordNet, compiled into a folder of the test's own."""
    (folder / "wndb").mkdir()
    for name, text in WNDB.items():
        (folder / "wndb" / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYVEIL_CACHE", str(folder / "cache"))
        return Relations(WordNet.load(folder / "wndb"))
