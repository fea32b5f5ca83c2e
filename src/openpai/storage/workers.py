"""A few threads for one storage, so that one which hangs keeps nobody waiting but those who use it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

T = TypeVar("T")

THREADS: Final = 4
PATIENCE_S: Final = 60.0


class Workers:
    """Runs blocking calls to one storage."""

    def __init__(self, name: str, patience_s: float = PATIENCE_S) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=f"storage-{name}")
        self._patience_s = patience_s

    async def run(self, work: Callable[..., T], *given: Any) -> T:
        """Return what `work` returns; raise TimeoutError when it takes longer than anybody would wait."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, work, *given)
        async with asyncio.timeout(self._patience_s):
            return await running

    def close(self, last: Callable[[], object] | None = None) -> None:
        """Begin nothing more after `last`, which may block: nobody waits for it."""
        with contextlib.suppress(RuntimeError):
            if last is not None:
                self._threads.submit(last)
        self._threads.shutdown(wait=False)
