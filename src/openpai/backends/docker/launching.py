"""Starts the container of a task attempt, or reports why it never began.

Every step may be repeated after a server died in the middle: the container's name allows only one, and the ticket in
the task directory allows its wrapper to run only once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from openpai.backends.docker.containers import LOGS, WRAPPER_FILE, Limits, Places, attempt_of, config_of
from openpai.backends.docker.engine import (
    Conflict,
    Engine,
    EngineError,
    EngineRefused,
    EngineSilent,
    NoImage,
    NoNetwork,
    PortTaken,
)
from openpai.backends.docker.images import ImageMissing, Images, Note
from openpai.backends.docker.networks import Networks
from openpai.backends.docker.reaching import require_reachable
from openpai.backends.docker.security import HOST_NETWORK
from openpai.backends.host.attempts import HostAttempt
from openpai.backends.host.checkpoints import CheckpointDirectories
from openpai.backends.host.directory import LaunchRecord, make_directory
from openpai.backends.host.hosts import SharedHosts
from openpai.backends.host.mounts import local_source
from openpai.backends.host.register import KILLED_BEFORE_START
from openpai.lifecycle.model import ExitReason, ExitReport
from openpai.ports.backend import LaunchTask, TaskStep
from openpai.ports.clock import Clock
from openpai.runtime.progress import PROGRESS_FILE
from openpai.runtime.script import user_script, wrapper

AT_ONCE: Final = 8
"""How many containers are created and started at the same time; more do not make an Engine faster."""
SILENCE_TRIES: Final = 5
_STREAMS: Final = ("stdout", "stderr")
_APPEND: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Launcher:
    """Starts containers below one root of task directories."""

    def __init__(
        self,
        engine: Engine,
        images: Images,
        networks: Networks | None,
        root: Path,
        logs_root: Path,
        *,
        checkpoints: CheckpointDirectories,
        limits: Limits,
        clock: Clock,
        progressed: Callable[[HostAttempt, str, TaskStep], None],
    ) -> None:
        """`progressed` records a message and a step of an attempt that is being started."""
        self._progressed = progressed
        self._engine = engine
        self._images = images
        self._networks = networks
        self._hosts = SharedHosts(str(root))
        self._logs_root = str(logs_root)
        self._checkpoints = checkpoints
        self._limits = limits
        self._clock = clock
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def launch(self, attempt: HostAttempt, action: LaunchTask) -> ExitReport | None:
        """Return None once the container was started, or a report if the attempt never began."""
        try:
            logs = await asyncio.to_thread(self._prepare, attempt, action)
            await require_reachable(action.mounts)
            report = await self._start(attempt, action, self._notes(attempt, action, logs))
        except ImageMissing as error:
            report = ExitReport(1, ExitReason.IMAGE_MISSING, without_passwords(error, action))
        except (EngineRefused, ValueError) as error:
            message = f"the container cannot be made as asked: {without_passwords(error, action)}"
            report = ExitReport(1, ExitReason.LAUNCH_REFUSED, message)
        except PortTaken as error:
            report = ExitReport(
                1, ExitReason.PORT_TAKEN, f"a port is used by a program that is no task of ours: {error}"
            )
        except (EngineError, OSError) as error:
            message = f"the container could not be started: {without_passwords(error, action)}"
            report = ExitReport(1, ExitReason.LAUNCH_FAILED, message)
        if report is not None and self._has_begun_after_all(attempt):
            return None
        return report

    async def _start(self, attempt: HostAttempt, action: LaunchTask, note: Note) -> ExitReport | None:
        for tries in range(1, SILENCE_TRIES + 1):
            try:
                if not await self._get_image(attempt, action, note):
                    return KILLED_BEFORE_START
                async with self._turns:
                    return await self._make(attempt, action)
            except EngineSilent:
                if tries == SILENCE_TRIES:
                    raise
            except (NoImage, NoNetwork):
                # It was removed between the check and its use.
                if tries == SILENCE_TRIES:
                    raise
                if self._networks is not None:
                    await self._networks.forget(action.key.job)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(tries):
                    await attempt.kill_requested.wait()
        raise AssertionError("unreachable: the last try returns or raises")

    async def _get_image(self, attempt: HostAttempt, action: LaunchTask, note: Note) -> bool:
        """Return True once the image is on this machine, and False if the attempt was killed meanwhile."""
        getting = asyncio.create_task(self._images.ensure(action.image, action.auth, note))
        ending = asyncio.create_task(attempt.kill_requested.wait())
        try:
            await asyncio.wait((getting, ending), return_when=asyncio.FIRST_COMPLETED)
            if attempt.kill_requested.is_set():
                return False
            await getting
            return True
        finally:
            getting.cancel()
            ending.cancel()
            await asyncio.gather(getting, ending, return_exceptions=True)

    async def _make(self, attempt: HostAttempt, action: LaunchTask) -> ExitReport | None:
        name = attempt.name
        # Checked again: while the image was pulled, a folder may have become a link.
        await asyncio.to_thread(_find_sources, action)
        network = await self._networks.ensure(action.key.job) if self._networks is not None else HOST_NETWORK
        places = Places(attempt.directory.path, self._mount_of_logs(action), self._checkpoints.path(action.key))
        config = config_of(action, places, self._limits, network)
        try:
            await self._engine.create(name, config)
        except Conflict:
            state = await self._engine.inspect(name)
            owner = attempt_of(state)
            if owner is None or owner.key != attempt.key:
                raise EngineRefused(f"another container is called {name}") from None
            if state.has_begun:
                return None
        if attempt.kill_requested.is_set():
            return KILLED_BEFORE_START
        await self._engine.start(name)
        return None

    def _notes(self, attempt: HostAttempt, action: LaunchTask, logs: str) -> Note:
        """Return a function that reports a step: in the attempt's log, in its state, and as an event."""
        write = _writing(logs)

        def note(message: str, step: TaskStep) -> None:
            message = without_passwords(message, action)
            write(message)
            self._progressed(attempt, message, step)

        return note

    def _prepare(self, attempt: HostAttempt, action: LaunchTask) -> str:
        """Write the wrapper's files and return the directory of its logs."""
        directory = attempt.directory
        record = LaunchRecord(action.grant, action.node, action.devices, self._clock.now_ms(), "")
        make_directory(self._mount_of_logs(action))
        # As the working directory: the image's user may be any user.
        self._checkpoints.make(action.key, mode=0o777)
        _find_sources(action)
        shared = self._hosts.file_of(action.hosts)
        directory.prepare(record, user_script(action.commands), action.hosts, shared_hosts=shared)
        make_directory(f"{directory.path}/{LOGS}")
        directory.write(WRAPPER_FILE, wrapper())
        # The image's user may be any user. No other user of this machine can enter the root, which is the server's.
        logs = self._mount_of_logs(action)
        os.chmod(logs, 0o777)  # noqa: PTH101, S103  # see above
        for path in (*(f"{logs}/{name}.log" for name in _STREAMS), f"{directory.path}/{PROGRESS_FILE}"):
            # Owned by the server: one that is not root could not truncate a log of the image's user.
            file = os.open(path, _APPEND, 0o666)
            try:
                os.fchmod(file, 0o666)
            finally:
                os.close(file)
        directory.let_anybody_read(is_work_open=self._limits.keeps_work)
        return logs

    def _mount_of_logs(self, action: LaunchTask) -> str:
        return f"{self._logs_root}/{action.key.path()}"

    @staticmethod
    def _has_begun_after_all(attempt: HostAttempt) -> bool:
        """Fence the attempt; return whether its wrapper had begun already."""
        with contextlib.suppress(OSError):
            attempt.directory.fence()
        ticket = attempt.directory.ticket()
        return ticket is not None and ticket.pid is not None


def _find_sources(action: LaunchTask) -> None:
    """Raise OSError unless the directories of the storages exist and are directories."""
    for mount in action.mounts:
        if not mount.filesystem:
            local_source(mount)


def without_passwords(error: Exception | str, action: LaunchTask) -> str:
    """Return an error's text without the passwords that Engines repeat, above all when a mount fails."""
    message = str(error)
    pieces = {action.auth.password} if action.auth else set()
    for mount in action.mounts:
        _, has_password, password = mount.options.partition("password=")
        if has_password:
            # Engines repeat the options as given, but may leave out the first ones.
            message = message.replace(f"password={password}", "password=******")
            # The kernel splits a password at its commas, and so do messages about it.
            pieces |= {password, *password.split(",")}
    return "(not shown here: it holds a password)" if any(piece in message for piece in pieces if piece) else message


def _writing(logs: str) -> Callable[[str], None]:
    """Return a function that writes to the attempt's `runtime` stream before its wrapper runs."""

    def write(message: str) -> None:
        # After a lost answer the container may run already, and may have made this a link or a pipe.
        with contextlib.suppress(OSError):
            file = os.open(f"{logs}/runtime.log", _APPEND, 0o666)
            with open(file, "a") as log:  # noqa: PTH123  # what is opened is a number
                # The wrapper goes on writing here as the image's user, which is another user.
                os.fchmod(file, 0o666)
                log.write(f"[openpai-runtime] {message}\n")

    return write
