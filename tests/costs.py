"""How much work a piece of code is, as the number of its own lines that were run: the same on every machine.

A loop counts each time round. What the interpreter does by itself, such as copying a dictionary, counts as nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import openpai

_ROOT = openpai.__path__[0]
GROWTH_MAX = 1.3
"""Twice the input may cost twice the work and this much more."""


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of openpai `work` runs."""
    count = 0

    def traced(frame: FrameType, event: str, _about: Any) -> Any:
        nonlocal count
        count += event == "line"
        return traced

    def entered(frame: FrameType, event: str, _about: Any) -> Any:
        return traced if frame.f_code.co_filename.startswith(_ROOT) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def assert_linear(work_of: Callable[[int], Callable[[], object]], size: int = 200) -> None:
    """Assert that work on twice as much is at most about twice the work; `work_of` prepares the work of a size."""
    small, large = lines_run(work_of(size)), lines_run(work_of(2 * size))
    assert small > 0
    assert large <= 2 * small * GROWTH_MAX, f"{size}: {small} lines, {2 * size}: {large} lines"
