"""Keeps the server's endless loops alive: an error in one is logged and counted, and the loop goes on.

Every task that runs as long as the server is started by `supervise`, and work that is not awaited by `background`.
Without them an error would stay in a task object that is never read, and the work would silently stop.

Everything is caught except what ends a task or the process on purpose. That includes RecursionError and MemoryError,
after which the stack is unwound and memory is free again, and errors outside `Exception`, such as the panics of
extension modules written in Rust.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

import structlog

AGAIN_S: Final = 1.0
AGAIN_MAX_S: Final = 60.0
ENDINGS: Final = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""Exceptions that end a task or the process on purpose."""

_log: Final = structlog.get_logger(__name__)
_failures: Final = Counter[str]()


def failures() -> dict[str, int]:
    """Return how often each loop of this process has failed since its start."""
    return dict(_failures)


def note_failure(name: str, error: BaseException) -> None:
    """Count and log an error that a loop survived. Never raises."""
    _failures[name] += 1
    # Memory may be too short to write the message; the count does not need any.
    with contextlib.suppress(Exception):
        _log.error(
            "a loop failed and goes on; this is a bug, please report it", loop=name, exc_info=_short_of_frames(error)
        )


def supervise(
    name: str, loop: Callable[[], Coroutine[Any, Any, None]], *, again_s: float = AGAIN_S
) -> asyncio.Task[None]:
    """Run `loop` as a task until it returns or is cancelled; after an error start it again `again_s` later.

    After repeated errors it waits twice as long each time, a minute at most.
    """
    return asyncio.create_task(_supervised(name, loop, again_s), name=name)


async def ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def background(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run `work`, which is not awaited, as a task; log and count an error in it."""
    task = asyncio.create_task(_noted(name, work), name=name)
    # Work that is cancelled before it began would be said never to have been awaited.
    task.add_done_callback(lambda _: work.close())
    return task


class Background:
    """Work that is not awaited: it is kept until it is done, and ends with what started it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Begin some work; an error in it is logged and counted."""
        task = background(name, work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self, patience_s: float) -> None:
        """Wait until everything is done, or the patience is over."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience_s)

    async def close(self) -> None:
        """Cancel what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_first(*works: Coroutine[Any, Any, Any], beside: Sequence[Coroutine[Any, Any, Any]] = ()) -> list[Any]:
    """Run all until one of `works` ends, then cancel the others; return the result or the exception of each."""
    tasks = [asyncio.create_task(work) for work in (*works, *beside)]
    try:
        await asyncio.wait(tasks[: len(works)], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    return results


def count_what_nobody_catches(loop: asyncio.AbstractEventLoop) -> None:
    """Log and count errors of callbacks, and of tasks that are not awaited, in the event loop of a server."""

    def on_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        # A broken connection is not a bug.
        if error is None or isinstance(error, OSError):
            _log.warning("the event loop reports an error", message=str(context.get("message")), error=str(error or ""))
        else:
            note_failure("event loop", error)

    loop.set_exception_handler(on_error)


async def _supervised(name: str, loop: Callable[[], Coroutine[Any, Any, None]], again_s: float) -> None:
    now_s = asyncio.get_running_loop().time
    pause_s = again_s
    while True:
        began_s = now_s()
        if await survived(name, loop()):
            return
        # A loop that fails at once, repeatedly, must not fill the disk with messages.
        pause_s = again_s if now_s() - began_s > AGAIN_MAX_S else pause_s
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, AGAIN_MAX_S)


async def _noted(name: str, work: Coroutine[Any, Any, None]) -> None:
    await survived(name, work)


async def survived(name: str, work: Awaitable[None]) -> bool:
    """Return whether the work ended without an error."""
    try:
        await work
    except ENDINGS:
        raise
    except BaseException as error:
        note_failure(name, error)
        return False
    return True


def _short_of_frames(error: BaseException) -> BaseException:
    """Return the error with only the last frames of its traceback if it comes from a deep recursion."""
    if isinstance(error, RecursionError):
        place = error.__traceback__
        frames = 0
        while place is not None:
            place, frames = place.tb_next, frames + 1
        place = error.__traceback__
        for _ in range(frames - 20):
            place = place.tb_next if place is not None else None
        return error.with_traceback(place)
    return error
