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
for _ in range(3):  # the first finds a place between what is there, later ones that place
    torch.ones(16 << 20)  # 64 MB, freed at once
before = faults()
torch.ones(16 << 20)
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc")
def test_tensor_gets_the_memory_of_the_one_before():
    faults = {
        how: int(subprocess.check_output([sys.executable, "-c", PROGRAM, how]))
        for how in ("keep", "leave")
    }
    assert faults["keep"] < 200
    assert faults["leave"] > 10 * max(faults["keep"], 1)  # even with huge pages
