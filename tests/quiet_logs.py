"""Keeps what a platform in this process logs away from the output of a command that runs beside it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import structlog


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Log only what is critical, and afterwards what was logged before."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)
