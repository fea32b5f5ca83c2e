"""Keeps the garbage collector away from what stays: a full collection visits every object and stops all else."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from openpai.system.allocator import trim

FULL_EVERY_S: Final = 600.0
TRIM_EVERY_S: Final = 30.0
_YOUNG: Final = 1_000
"""A collection of so many takes half a millisecond where processors are slow, which a decision may wait for."""
_MIDDLE: Final = 2
"""What survived so many young collections is visited once more; with Python's 10 as often, in longer pauses."""
_SELDOM: Final = 1_000_000
_loads: Final = count()
"""How often much was loaded so far."""


@contextmanager
def no_collections() -> Iterator[None]:
    """Collect nothing while a trace is replayed: a sixth of it would go into visiting objects that stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def importing() -> Iterator[None]:
    """Collect nothing while a server's modules are imported, and never look at what they made.

    A quarter of it would go into that, half of which is one collection at the end.
    """
    with no_collections():
        _log_without_rich()
        try:
            yield
        finally:
            gc.freeze()


def _log_without_rich() -> None:
    """Import structlog without rich, which it imports if it finds it: 98 modules and 5 MB that no server uses.

    It would print tracebacks with rich by default, and `app.console` always names another way. Programs that use rich
    themselves import it later as usual.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    # None makes Python raise ModuleNotFoundError for it, which structlog expects.
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


@contextmanager
def loading() -> Iterator[None]:
    """Collect nothing while much is loaded that stays, and do not look at it again later.

    What was loaded like this before, and is no longer needed, is collected first.
    """
    if next(_loads):
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    with no_collections():
        try:
            yield
        finally:
            gc.freeze()


async def collect_forever() -> None:
    """Collect young garbage often and in small pieces, all of it every ten minutes, and give free pages back.

    Python itself visits everything whenever a quarter more objects were made: at thousands of tasks that stops the
    server for some tenths of a second, just while it is busiest.
    """
    gc.set_threshold(_YOUNG, _MIDDLE, _SELDOM)
    loop = asyncio.get_running_loop()
    full_at_s = loop.time() + FULL_EVERY_S
    while True:
        await asyncio.sleep(TRIM_EVERY_S)
        if loop.time() >= full_at_s:
            full_at_s = loop.time() + FULL_EVERY_S
            gc.collect()
        trim()
