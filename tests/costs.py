"""How much work a piece of code is, as the number of lines that were run: the same on every machine.

A loop counts each time round. What the interpreter does by itself, such as copying a dictionary, counts as nothing.
"""

from __future__ import annotations

import sys
from asyncio import Handle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

import openpai

GROWTH_MAX = 1.3
"""Twice the input may cost twice the work and this much more."""


class Lines:
    """A count of lines."""

    count = 0
    most_at_once = 0
    """The most that the event loop ran without a turn for others, with `counted_turns`."""


@contextmanager
def counted_lines(*packages: ModuleType) -> Iterator[Lines]:
    """Count the lines of openpai and of `packages` that this thread runs, in functions called from now on."""
    lines = Lines()
    roots = tuple(package.__path__[0] for package in (openpai, *packages))

    def traced(frame: FrameType, event: str, _about: Any) -> Any:
        lines.count += event == "line"
        return traced

    def entered(frame: FrameType, event: str, _about: Any) -> Any:
        return traced if frame.f_code.co_filename.startswith(roots) else None

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        yield lines
    finally:
        sys.settrace(before)


def lines_run(work: Callable[[], object], *packages: ModuleType) -> int:
    """Return how many lines of openpai and of `packages` `work` runs."""
    with counted_lines(*packages) as lines:
        work()
    return lines.count


def assert_linear(work_of: Callable[[int], Callable[[], object]], size: int = 200, *packages: ModuleType) -> None:
    """Assert that work on twice as much is at most about twice the work; `work_of` prepares the work of a size."""
    small, large = lines_run(work_of(size), *packages), lines_run(work_of(2 * size), *packages)
    assert small > 0
    assert large <= 2 * small * GROWTH_MAX, f"{size}: {small} lines, {2 * size}: {large} lines"


@contextmanager
def counted_turns() -> Iterator[Lines]:
    """Count the lines that each callback of the event loop runs, in functions called from now on."""
    with counted_lines() as lines:
        run = Handle._run

        def counted(handle: Handle) -> Any:
            before = lines.count
            try:
                return run(handle)
            finally:
                lines.most_at_once = max(lines.most_at_once, lines.count - before)

        Handle._run = counted  # type: ignore[method-assign]
        try:
            yield lines
        finally:
            Handle._run = run  # type: ignore[method-assign]
