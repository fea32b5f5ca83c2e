"""A process that has used much memory for a moment does not keep it."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# A heap of blocks of 40 KB, of which every second one is freed by a thread, and then the rest but the last of them.
_USES_MUCH = """
import sys, threading
from openpai.system.allocator import give_memory_back
assert sys.argv[1] == "default" or give_memory_back()

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

before, kept = resident(), []

def use():
    blocks = [bytes(100_000) for _ in range(1000)]
    kept.append(blocks[-1])

for _ in range(4):
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_memory_of_a_busy_moment_is_given_back() -> None:
    def kept(how: str) -> int:
        command = [sys.executable, "-c", _USES_MUCH, how]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert kept("ours") < 4_000_000


_HAS_HOLES = """
from openpai.system.allocator import give_memory_back, trim
assert give_memory_back()

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096

blocks = [bytes(20_000) for _ in range(2000)]
blocks = blocks[::10]
before = resident()
assert trim()
print(before - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc_trim is glibc's")
def test_free_pages_between_others_are_given_back() -> None:
    found = subprocess.run([sys.executable, "-c", _HAS_HOLES], capture_output=True, text=True, check=True).stdout
    assert int(found) > 20_000_000
