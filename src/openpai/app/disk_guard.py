"""Keeps the server usable on a full disk.

The logs of running tasks are limited in size, more strictly while space is scarce. With little free space, new jobs are
refused and kept work of ended tasks is removed. And space is reserved for the database: blocks behind the end of its
journal, so that users can log in and stop jobs when no block of the disk is free.

If the disk gets full all the same, a reserve file in the data directory is removed, so that a server can start and
tasks can report their end. It is created again when there is space.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import structlog

from openpai.lifecycle.model import AttemptKey
from openpai.logs.capping import cap_logs
from openpai.ports.backend import TaskSeen
from openpai.protocol.errors import BadConfiguration, Unavailable
from openpai.system.disk_space import keep_room, scarce_below, space_of

LOOK_S: Final = 0.05
"""How often the free space of the disk is checked."""
LOOK_AGAIN_S: Final = 0.001
"""The shortest pause between two checks, while the disk fills quickly."""
ROUND_S: Final = 5.0
"""How often all logs are checked although the disk does not fill."""
LOOK_AT_ALL_S: Final = 30.0
"""How often it is checked whether there are tasks at all, where it is known which logs have grown."""
SCARCE_LOG_BYTES: Final = 16 << 20
"""The limit on the logs of a running task while space is scarce."""
OWN_ROOM_BYTES: Final = 32 << 20
"""The space reserved behind the end of the database's journal: enough for thousands of logins."""
RESERVE: Final = "reserve"
DATABASE: Final = "openpai.db"
# Every write goes here first, and no other file has to grow for it to be durable.
JOURNAL: Final = "openpai.db-wal"
_MB: Final = 1 << 20
log: Final = structlog.get_logger(__name__)


def reserve_size(total: int) -> int:
    """Return the size of the reserve file: 2 % of the disk, from 2 MiB to 64 MiB."""
    return min(max(total // 50, 2 * _MB), 64 * _MB, total // 10)


class Room:
    """Checks whether the disk of a data directory has space for new jobs."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def check(self) -> None:
        """Raise Unavailable when there is too little space for new jobs."""
        try:
            space = space_of(self._root)
        except OSError:
            # The next use of the directory reports the error.
            return
        least = scarce_below(space.total)
        if space.free < least:
            raise Unavailable(
                f"the platform's disk is almost full: {space.free // _MB} MiB are free, and new jobs need "
                f"{least // _MB} MiB",
                "running jobs go on and can be stopped; ask an administrator to free space, then submit the job again",
            )


class Reserve:
    """Space that is reserved for a full disk."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._file = root / RESERVE

    def release(self) -> bool:
        """Remove the file, which frees its space; return whether it existed."""
        try:
            self._file.unlink()
        except FileNotFoundError:
            return False
        return True

    def take(self) -> None:
        """Reserve space again if there is enough; do nothing on a file system that cannot."""
        space = space_of(str(self._root))
        self._own(JOURNAL)
        size = reserve_size(space.total)
        if self._file.exists() or space.free < scarce_below(space.total) + size:
            return
        file = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            keep_room(file, 0, size)
        except OSError:
            self._file.unlink()
        finally:
            os.close(file)

    def own_database(self) -> None:
        """Reserve space behind the end of the database. Only before this process opens the database!

        Closing the file later would release the locks that SQLite holds on it.
        """
        self._own(DATABASE)

    def _own(self, name: str) -> None:
        """Reserve space behind the end of a file of the database; without the file, PostgreSQL is the database."""
        with contextlib.suppress(OSError):
            file = os.open(self._root / name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._keep(file)

    def _keep(self, file: int) -> None:
        space = space_of(str(self._root))
        size = min(OWN_ROOM_BYTES, space.total // 8)
        try:
            found = os.fstat(file)
            # Reserve again only once half of it is used: this check runs often.
            # Do not reserve the last free space of a full disk.
            if space.free > 2 * size and found.st_blocks * 512 < found.st_size + size // 2:
                keep_room(file, found.st_size, size)
        finally:
            os.close(file)


def require_room_to_start(root: Path) -> None:
    """Raise Refused when the disk is too full for a start; the reserve is released first."""
    place = next(path for path in (root, *root.parents) if path.exists())
    space = space_of(str(place))
    least = min(_MB, space.total // 50)
    if space.free >= least:
        return
    if root.exists() and Reserve(root).release() and (space := space_of(str(place))).free >= least:
        log.warning("the disk is full; the reserved space was released for this start", free_bytes=space.free)
        return
    raise BadConfiguration(
        f"the disk that holds {root} is full: {space.free // 1024} KiB are free, a server needs {least // 1024} KiB",
        "free some space on it, and start the server again",
    )


class RoomGuard:
    """Checks the disk many times a second while there are tasks, and the logs of those that run while it fills.

    `may_have_tasks` is to be set before a task is launched; it is cleared while there are none.
    """

    def __init__(
        self,
        root: Path,
        logs: Path,
        log_bytes_max: int,
        observe: Callable[[], Awaitable[Iterable[TaskSeen]]],
        may_have_tasks: threading.Event,
        give_up: Callable[[], object] = lambda: None,
        grown: set[AttemptKey] | None = None,
    ) -> None:
        """`grown` gets the attempts whose logs have grown, where that is known: of thousands few are looked at then."""
        self._grown = grown
        self._give_up = give_up
        self._may_have_tasks = may_have_tasks
        self._root = root
        self._logs = logs
        self._log_bytes_max = log_bytes_max
        self._observe = observe
        self._reserve = Reserve(root)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="room")
        self._is_scarce = False
        self._is_logged = False
        self._look_at_s = 0.0
        """When all tasks are looked at again."""
        self._writing: list[AttemptKey] = []
        """The task attempts that may write to their logs."""

    def close(self) -> None:
        """Stop cutting logs."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(self) -> None:
        """Guard the disk until cancelled."""
        loop, wake, is_over = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
        # In a thread: the event loop may be busy for longer than a task needs to fill the disk.
        threading.Thread(target=self._watch, args=(loop, wake, is_over), name="watch the disk", daemon=True).start()
        try:
            while True:
                space = space_of(str(self._root))
                await self.round(space.free < scarce_below(space.total))
                await asyncio.sleep(LOOK_S)
                with contextlib.suppress(TimeoutError):
                    # Not `wait_for`: before Python 3.12 it forgets a cancellation that comes together with the event.
                    async with asyncio.timeout(ROUND_S):
                        await wake.wait()
                wake.clear()
        finally:
            is_over.set()
            self._may_have_tasks.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, wake: asyncio.Event, is_over: threading.Event) -> None:
        """Watch the disk whenever there may be tasks."""
        _go_first()
        while not is_over.is_set():
            self._may_have_tasks.wait()
            self._watch_tasks(loop, wake, is_over)

    def _watch_tasks(self, loop: asyncio.AbstractEventLoop, wake: asyncio.Event, is_over: threading.Event) -> None:
        """Cut the logs of known tasks whenever the disk fills quickly, and wake the guard for the others."""
        # Growth of this much between two cuts keeps each log close to its limit.
        step = max(self._log_bytes_max // 16, _MB)
        free, looked_at_s, pause_s, free_then = 0, time.monotonic(), LOOK_S, 0
        while self._may_have_tasks.is_set():
            # Not a wait for the end, which computes half as much again; the end comes once.
            time.sleep(pause_s)
            if is_over.is_set():
                return
            try:
                now_s, space = time.monotonic(), space_of(str(self._root))
                # Check twice before a step is written again; slow down, since a cut hides what is written meanwhile.
                grown, took_s = free - space.free, now_s - looked_at_s
                wanted_s = step * took_s / (2 * grown) if grown > 0 else LOOK_S
                pause_s = max(min(wanted_s, 2 * pause_s, LOOK_S), LOOK_AGAIN_S)
                free, looked_at_s = space.free, now_s
                if space.free < free_then - step:
                    self._cut_all(self._writing, self._most(space.free < scarce_below(space.total)))
                    free_then = free = space_of(str(self._root)).free
                    loop.call_soon_threadsafe(wake.set)
                free_then = max(free_then, free)
            except (OSError, RuntimeError):
                pause_s = LOOK_S  # the directory is missing for now, or the event loop has ended

    def _most(self, is_scarce: bool) -> int:
        """Return to which size logs are cut: less than the limit, since the task writes on meanwhile."""
        most = self._log_bytes_max * 3 // 4
        return min(most, SCARCE_LOG_BYTES) if is_scarce else most

    async def round(self, is_scarce: bool) -> None:
        """Cut the logs of running tasks to their limit, and keep up the reserve."""
        self._report(is_scarce)
        now_s, present = time.monotonic(), list[TaskSeen]()
        if self._grown is None or is_scarce or now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_AT_ALL_S
            present = await self._present()
            if not present:
                self._may_have_tasks.clear()
                # Ask again, because a task may have been launched just before that.
                present = await self._present()
            if present:
                self._may_have_tasks.set()
        self._writing = self._to_look_at(present, is_scarce=is_scarce)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._cut_and_keep, self._most(is_scarce))
        if is_scarce:
            await loop.run_in_executor(self._thread, self._give_up)

    def _to_look_at(self, present: Iterable[TaskSeen], *, is_scarce: bool) -> list[AttemptKey]:
        grown: list[AttemptKey] = []
        if self._grown is not None:
            grown = list(self._grown)
            self._grown.clear()
            # Each was below the limit when it grew last; while space is scarce another one holds.
            if not is_scarce:
                return grown
        return list(dict.fromkeys([*grown, *(seen.key for seen in present if seen.started_at_ms is not None)]))

    async def _present(self) -> list[TaskSeen]:
        return [seen for seen in await self._observe() if seen.exit is None]

    def _cut_all(self, writing: Iterable[AttemptKey], most: int) -> None:
        for key in writing if most else ():
            # Made here, in a thread: those of thousands of tasks would keep the event loop from everything else.
            directory = f"{self._logs}/{key.path()}"
            try:
                cap_logs(directory, most)
            except OSError as error:
                if not self._is_logged:
                    log.warning("logs cannot be cut; they may fill the disk", path=directory, error=str(error))
                self._is_logged = True

    def _cut_and_keep(self, most: int) -> None:
        self._cut_all(self._writing, most)
        space = space_of(str(self._root))
        if space.free < min(_MB, space.total // 50):
            if self._reserve.release():
                log.warning("the disk is full; the reserved space was released")
        else:
            self._reserve.take()

    def _report(self, is_scarce: bool) -> None:
        if is_scarce and not self._is_scarce:
            log.warning("the disk is almost full: new jobs are refused, and logs of running tasks are cut short")
        elif self._is_scarce and not is_scarce:
            log.info("the disk has free space again")
        self._is_scarce = is_scarce


def _go_first() -> None:
    """Give this thread priority over tasks that keep all processors busy, where the system permits it."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_RR, os.sched_param(1))
