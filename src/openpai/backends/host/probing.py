"""Calls what may hang, such as a driver or a file system of the network, without waiting for it for ever."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
PATIENCE_S: Final = 10.0


class Probe(Generic[T]):
    """Calls a blocking function in a thread, one call at a time."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._running: asyncio.Future[T] | None = None

    async def result(self) -> T | None:
        """Return what the function returns or raise what it raises; None while it does not answer.

        Only the first call waits for one that hangs: it would fill the threads, and keep its callers, otherwise.
        """
        patience_s = 0.0 if self._running is not None else PATIENCE_S
        if self._running is None:
            self._running = _in_thread(self._function)
        done, _ = await asyncio.wait([self._running], timeout=patience_s)
        if not done:
            return None
        ended, self._running = self._running, None
        return ended.result()


def _in_thread(function: Callable[[], T]) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except Exception as raised:
            error = raised
        # The loop may be closed by the time a thread that hung comes back.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    # Not a thread of an executor: the server could not end before one that hangs.
    threading.Thread(target=run, name="check the node", daemon=True).start()
    return future
