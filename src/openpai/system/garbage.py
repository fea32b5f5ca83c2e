"""Keeps the garbage collector away from what stays: a full collection visits every object and stops all else."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Collect nothing while much is loaded that stays, and do not look at it again later.

    What was loaded like this before, and is no longer needed, is collected first.
    """
    if gc.get_freeze_count():
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
