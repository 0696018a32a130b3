"""Freed memory that stays is not mapped and cleared again."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import torch
from ccnn.allocator import keep_freed_memory

if sys.argv[1] == "keep":
    assert keep_freed_memory()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
counts = []
for _ in range(12):  # the first ones find a place between what is there, later ones that place
    before = faults()
    torch.ones(16 << 20)  # 64 MB, freed at once
    counts.append(faults() - before)
print(min(counts))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc")
def test_tensor_gets_the_memory_of_the_one_before():
    faults = {
        how: int(subprocess.check_output([sys.executable, "-c", PROGRAM, how]))
        for how in ("keep", "leave")
    }
    assert faults["keep"] < 200
    assert faults["leave"] > 10 * max(faults["keep"], 1)  # even with huge pages
