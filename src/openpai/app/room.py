"""Keeps a full disk from keeping people out.

Three things are done. The logs of running tasks are kept below a size each, and far below it when room gets scarce.
New jobs are refused when little room is left, and what ended tasks left is not kept any longer. And the database owns
room that nothing else can fill: blocks behind the end of its journal, so that people can log in and stop jobs when no
block of the disk is free.

A file that lies ready in the data directory is removed when the disk is full all the same, so that a server can start
and tasks can say how they ended, and is made again when there is room.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import structlog

from openpai.lifecycle.model import AttemptKey
from openpai.logs.capping import cap_logs
from openpai.protocol.errors import Refused, Unavailable
from openpai.system.space import keep_room, space_of

LOOK_S: Final = 0.05
"""How often the free room of the disk is looked at."""
LOOK_AGAIN_S: Final = 0.01
"""The same while the disk gets fuller quickly. What a task writes in between may go beyond the limit."""
ROUND_S: Final = 5.0
"""How often all logs are looked at although the disk does not get fuller."""
SCARCE_LOG_BYTES: Final = 16 << 20
"""What a running task may keep of its logs while room is scarce."""
OWN_ROOM_BYTES: Final = 32 << 20
"""How much room the database's journal owns behind its end: enough for thousands of logins."""
RESERVE: Final = "reserve"
DATABASE: Final = "openpai.db"
# Every write goes here first, and nothing else has to grow for it to be durable.
JOURNAL: Final = "openpai.db-wal"
_MB: Final = 1 << 20
log: Final = structlog.get_logger(__name__)


def scarce_below(total: int) -> int:
    """Return below how much free room new jobs are refused: 5 % of the disk, from 8 MiB to 1 GiB."""
    return min(max(total // 20, 8 * _MB), 1024 * _MB, total // 4)


def reserve_size(total: int) -> int:
    """Return how large the file is that is removed from a full disk: 2 % of the disk, from 2 MiB to 64 MiB."""
    return min(max(total // 50, 2 * _MB), 64 * _MB, total // 10)


class Room:
    """Says whether there is room for more on the disk that holds a data directory."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def check(self) -> None:
        """Raise Unavailable when there is too little room for new jobs."""
        try:
            space = space_of(self._root)
        except OSError:
            # Whatever became of the directory, whoever needs it next says so.
            return
        least = scarce_below(space.total)
        if space.free < least:
            raise Unavailable(
                f"the platform's disk is almost full: {space.free // _MB} MiB are free, and new jobs are taken from "
                f"{least // _MB} MiB on",
                "jobs that run go on, and can be stopped; an administrator can free space, then submit the job again",
            )


class Reserve:
    """Room that is kept for when the disk is full."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._file = root / RESERVE

    def release(self) -> bool:
        """Let the system have the file's room; return whether there was any."""
        try:
            self._file.unlink()
        except FileNotFoundError:
            return False
        return True

    def take(self) -> None:
        """Take room again where there is enough. A disk or a file system that gives none is left as it is."""
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
        """Let the database own room behind its end. Only before it is opened by this process!

        To close the file afterwards would give up the locks that SQLite holds on it.
        """
        self._own(DATABASE)

    def _own(self, name: str) -> None:
        """Let a file of the database own room behind its end. Where there is none, PostgreSQL is the database."""
        with contextlib.suppress(OSError):
            file = os.open(self._root / name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            self._keep(file)

    def _keep(self, file: int) -> None:
        space = space_of(str(self._root))
        size = min(OWN_ROOM_BYTES, space.total // 8)
        try:
            found = os.fstat(file)
            # Half of it may be used up before it is taken again: this is looked at often.
            # The last room of a full disk is for those who need it now.
            if space.free > 2 * size and found.st_blocks * 512 < found.st_size + size // 2:
                keep_room(file, found.st_size, size)
        finally:
            os.close(file)


def require_room_to_start(root: Path) -> None:
    """Raise Refused when the disk is so full that no server can start; what is kept for that is given up first."""
    place = next(path for path in (root, *root.parents) if path.exists())
    space = space_of(str(place))
    least = min(_MB, space.total // 50)
    if space.free >= least:
        return
    if root.exists() and Reserve(root).release() and (space := space_of(str(place))).free >= least:
        log.warning("the disk is full; the room that was kept for this start was given up", free_bytes=space.free)
        return
    raise Refused(
        "BadConfigurationError",
        f"the disk that holds {root} is full: {space.free // 1024} KiB are free, a server needs {least // 1024} KiB",
        "free some space on it, and start the server again",
    )


class RoomGuard:
    """Looks at the disk many times a second, and at the logs of running tasks when it gets fuller."""

    def __init__(
        self,
        root: Path,
        logs: Path,
        log_bytes_max: int,
        running: Callable[[], Awaitable[Iterable[AttemptKey]]],
        give_up: Callable[[], object] = lambda: None,
    ) -> None:
        self._give_up = give_up
        self._root = root
        self._logs = logs
        self._log_bytes_max = log_bytes_max
        self._running = running
        self._reserve = Reserve(root)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="room")
        self._is_scarce = False
        self._is_told = False

    def close(self) -> None:
        """Stop cutting logs."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def run(self) -> None:
        """Guard the disk until cancelled."""
        loop = asyncio.get_running_loop()
        # Growth of this much between two rounds keeps each log close to its limit.
        step = max(self._log_bytes_max // 16, _MB)
        pause_s = LOOK_S
        looked_at_s, free_then = -ROUND_S, 0
        while True:
            space = space_of(str(self._root))
            is_due = loop.time() - looked_at_s >= ROUND_S
            is_filling = space.free < free_then - step
            if is_due or is_filling:
                looked_at_s = loop.time()
                pause_s = LOOK_AGAIN_S if is_filling else LOOK_S
                await self.round(space.free < scarce_below(space.total))
                free_then = space_of(str(self._root)).free
            await asyncio.sleep(pause_s)

    async def round(self, is_scarce: bool) -> None:
        """Cut the logs of running tasks down to their limit, and see to what is kept for a full disk."""
        self._tell(is_scarce)
        # Cut before the limit is reached: a task may write a gigabyte in a second.
        most = self._log_bytes_max * 3 // 4
        if is_scarce:
            most = min(most, SCARCE_LOG_BYTES)
        directories = [f"{self._logs}/{key.path()}" for key in await self._running()]
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._cut_all, directories, most)
        if is_scarce:
            await loop.run_in_executor(self._thread, self._give_up)

    def _cut_all(self, directories: Iterable[str], most: int) -> None:
        if most:
            for directory in directories:
                try:
                    cap_logs(directory, most)
                except OSError as error:
                    if not self._is_told:
                        log.warning("logs cannot be cut; they may fill the disk", path=directory, error=str(error))
                    self._is_told = True
        space = space_of(str(self._root))
        if space.free < min(_MB, space.total // 50):
            if self._reserve.release():
                log.warning("the disk is full; the room that was kept for this was given up")
        else:
            self._reserve.take()

    def _tell(self, is_scarce: bool) -> None:
        if is_scarce and not self._is_scarce:
            log.warning("the disk is almost full: no new jobs are taken, and logs of running tasks are cut short")
        elif self._is_scarce and not is_scarce:
            log.info("there is room on the disk again")
        self._is_scarce = is_scarce
