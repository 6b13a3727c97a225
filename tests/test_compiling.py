"""Two processes that need a kernel at the same time compile it once."""

import os
import subprocess
import sys
from pathlib import Path

KERNEL = """
from numba import njit
@njit(cache=True)
def inner(x):
    return x + 1
@njit(cache=True)
def outer(x):
    return inner(x) + inner(x)
"""
ASKING = """
import compiling
compiling.install()
import some_kernel
assert some_kernel.outer(1) == 4
print(sum(some_kernel.outer.stats.cache_misses.values()))
"""


def test_one_compiles_and_the_other_loads(tmp_path):
    (tmp_path / "some_kernel.py").write_text(KERNEL)
    (tmp_path / "__pycache__").mkdir()
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).parent)])
    command = [sys.executable, "-c", ASKING]
    asking = [
        subprocess.Popen(command, env=os.environ | {"PYTHONPATH": paths}, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    assert sorted(process.communicate()[0].strip() for process in asking) == ["0", "1"]
