"""Runs task attempts as processes of this machine, each in a session, a directory and log files of its own.

A launch is a handful of small files and one `posix_spawn` of a shell wrapper; from then on the attempt depends on
nobody. The wrapper's directory tells any later server what became of it, so a server may die at any moment and the next
one takes up what it finds. Ends are heard through pidfds, for children and for what an earlier server left alike.

A task is kept within the memory it asked for where this machine lets the server make cgroups that limit memory: as
an administrator, or in a cgroup of its own that was delegated to it. Elsewhere nothing keeps it, which is said at the
start. What is never enforced: a task may use more processors than it asked for. It runs with the rights of the server,
or, where that is root and was told so, as a user without rights.
Its process group ends with it; whatever left the group is found in its cgroup, or without one by its environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from openpai.backends.host.directory import TRASH, TaskDirectory
from openpai.backends.host.grants import NewestGrants
from openpai.backends.host.locking import lock
from openpai.backends.host.machine import LOOPBACK, first_taken, this_machine
from openpai.backends.host.trash import Trash
from openpai.backends.host.worklimit import MEASURE_EVERY_S, WorkLimit
from openpai.backends.process.attempts import KILLED, Attempt, blamed, reap, verdict
from openpai.backends.process.cgroups import Home, find_home
from openpai.backends.process.confining import Namespaces, find_namespaces
from openpai.backends.process.dropping import TaskUsers
from openpai.backends.process.exits import ExitWatch
from openpai.backends.process.launching import Launcher
from openpai.backends.process.memory import has_run_out, limit_memory
from openpai.backends.process.processes import is_group_left, kill_group, signal_held
from openpai.backends.process.recovery import take_up
from openpai.backends.process.sweeping import Sweeper
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Action, ForgetTask, KillTask, LaunchTask, NodeSeen, TaskSeen
from openpai.ports.clock import Clock
from openpai.system.supervision import note_failure

log: Final = structlog.get_logger(__name__)
SWEEP_EVERY_S: Final = 30.0
SPARES_MAX: Final = 64
"""How many directories of tasks that left nothing behind are kept for the next tasks."""
_ACTIONS_PER_TURN: Final = 4
_READ_AGAIN_S: Final = 0.5
_WRAPPER_IS_LATE_S: Final = 1.5
"""How much longer than the grace period the wrapper may take to kill its group before the server does."""
_WILL_NEVER_FIT: Final = frozenset({errno.E2BIG, errno.ENAMETOOLONG})


class ProcessBackend:
    """The backend whose nodes are this machine. Only one at a time may use `root`."""

    def __init__(
        self,
        root: Path,
        logs_root: Path,
        clock: Clock,
        *,
        nodes: int = 1,
        gpus_per_node: int | None = None,
        cpus_per_node: int | None = None,
        address: str = LOOPBACK,
        sweep_every_s: float = SWEEP_EVERY_S,
        task_users: TaskUsers | None = None,
        find_namespaces: Callable[[], Namespaces | None] = find_namespaces,
        find_cgroups: Callable[[str], Home | None] = find_home,
        work_bytes_max: int = 0,
        measure_every_s: float = MEASURE_EVERY_S,
        keeps_work: bool = False,
    ) -> None:
        self._keeps_work = keeps_work
        self._work_bytes_max = work_bytes_max
        self._measure_every_s = measure_every_s
        self._root = root.absolute()
        self._logs_root = logs_root.absolute()
        self._clock = clock
        self._see_machine = partial(this_machine, nodes, gpus_per_node, cpus_per_node, address)
        self._sweep_every_s = sweep_every_s
        self._task_users = task_users
        self._find_namespaces = find_namespaces
        self._find_cgroups = find_cgroups
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._changed: dict[AttemptKey, Attempt] = {}
        self._has_news = asyncio.Event()
        self._opened = contextlib.AsyncExitStack()
        self._nodes: dict[str, NodeSeen] = {}

    async def open(self) -> None:
        """Take up what an earlier server left. Raise Unavailable while another server uses the same root."""
        async with contextlib.AsyncExitStack() as opening:
            (self._root / TRASH).mkdir(mode=0o700, parents=True, exist_ok=True)
            self._logs_root.mkdir(mode=0o700, parents=True, exist_ok=True)
            await opening.enter_async_context(lock(self._root))
            self._nodes = {node.name: node for node in await self._see_machine()}
            root = str(self._root)
            self._grants = opening.enter_context(contextlib.closing(NewestGrants(self._root / ".grants")))
            namespaces = None
            if self._task_users is not None:
                # Who knows a name gets there, and nobody can ask for names.
                self._root.chmod(0o711)
                self._task_users.require_way_to(root)
                namespaces = self._find_namespaces()
                _say_what_separates(namespaces)
            has_users = self._task_users is not None
            launcher = Launcher(root, str(self._logs_root), has_users=has_users, namespaces=namespaces)
            self._launcher = opening.enter_context(contextlib.closing(launcher))
            self._watch = opening.enter_context(contextlib.closing(ExitWatch(self._ended)))
            # What belonged to a task's user is not lent to another job of that user.
            self._trash = Trash(root, 0 if has_users else SPARES_MAX)
            opening.push_async_callback(self._trash.close)
            for attempt in await asyncio.to_thread(take_up, root, self._launcher.boot, self._clock.now_ms()):
                self._attempts[attempt.key] = attempt
                self._announce(attempt)
                if attempt.held is not None:
                    self._watch.add(attempt.held, attempt)
            self._limits = limit_memory(self._find_cgroups(root), self._attempts.values())
            opening.callback(self._limits.close)
            self._sweeper = Sweeper(root, self._is_running, self._limits.vacate_all, self._over, self._sweep_every_s)
            opening.push_async_callback(self._sweeper.close)
            await self._sweeper.sweep()
            if self._work_bytes_max:
                limit = WorkLimit(self._work_bytes_max, self._measured, self._cut_off, self._measure_every_s)
                opening.push_async_callback(limit.close)
            self._opened = opening.pop_all()

    async def close(self) -> None:
        """Let go of everything but the tasks."""
        for attempt in self._attempts.values():
            _call_off(attempt)
        await self._opened.aclose()

    async def nodes(self) -> tuple[NodeSeen, ...]:
        """Return this machine, or the nodes that share it."""
        return tuple(self._nodes.values())

    async def apply(self, actions: Sequence[Action]) -> None:
        """Start making the world agree with `actions`; an action that cannot be done ends in news."""
        persons: dict[str, str] = {}
        for number, action in enumerate(actions, start=1):
            match action:
                case LaunchTask():
                    job = action.key.job
                    if self._task_users is not None and job not in persons:
                        persons[job] = await self._task_users.person(action)
                    self._launch(action, persons.get(job, ""))
                case KillTask():
                    self._kill(action)
                case ForgetTask():
                    self._forget(action.key)
            if number % _ACTIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def observe(self) -> tuple[TaskSeen, ...]:
        """Return every attempt that runs or is not forgotten."""
        return tuple(attempt.seen() for attempt in self._attempts.values())

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait for attempts that began or ended and return them as they are now."""
        while not self._changed:
            self._has_news.clear()
            await self._has_news.wait()
        changed, self._changed = self._changed, {}
        return tuple(attempt.seen() for attempt in changed.values())

    def _launch(self, action: LaunchTask, person: str) -> None:
        known = self._attempts.get(action.key)
        if known is not None:
            self._announce(known)
            return
        attempt = Attempt(TaskDirectory(str(self._root), action.key), action.grant, action.devices)
        try:
            why_not = self._why_not(action)
            if why_not is not None:
                self._refuse(attempt, why_not)
                return
            attempt.started_at_ms = self._clock.now_ms()
            self._attempts[action.key] = attempt
            user = self._task_users.user_of(person) if self._task_users else None
            attempt.cgroup = self._limits.lend(action.memory_mb)
            attempt.pid, attempt.held = self._launcher.launch(
                attempt, action, attempt.started_at_ms, user=user, spare=self._trash.lend()
            )
        except OSError as error:
            reason = ExitReason.LAUNCH_REFUSED if error.errno in _WILL_NEVER_FIT else ExitReason.LAUNCH_FAILED
            self._refuse(attempt, ExitReport(1, reason, f"the task cannot be started: {error}"))
        except ValueError as error:
            message = f"the task cannot be started: {error}"
            self._refuse(attempt, ExitReport(1, ExitReason.LAUNCH_REFUSED, message))
        else:
            self._watch.add(attempt.held, attempt)
            self._announce(attempt)

    def _why_not(self, action: LaunchTask) -> ExitReport | None:
        """Return why the attempt may not begin; remember its grant in any case."""
        if action.node not in self._nodes:
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, f"there is no node {action.node!r} here")
        newer = self._grants.newer_than(action.grant, action.node, action.devices)
        self._grants.hear(action.grant, action.node, action.devices)
        if newer is not None:
            device, grant = newer
            message = f"grant {action.grant} came too late: device {device} was granted again by {grant}"
            return ExitReport(1, ExitReason.STALE_GRANT, message)
        port = first_taken(action.ports)
        if port is not None:
            return ExitReport(1, ExitReason.PORT_TAKEN, f"port {port} is used by a program that is no task of ours")
        return None

    def _refuse(self, attempt: Attempt, report: ExitReport) -> None:
        """Record that an attempt never began, and never will."""
        attempt.started_at_ms = None
        self._attempts[attempt.key] = attempt
        with contextlib.suppress(OSError):
            attempt.directory.fence()
            attempt.directory.write_report(report)
        self._over((attempt, report))

    def _kill(self, action: KillTask) -> None:
        attempt = self._attempts.get(action.key)
        if attempt is None:
            message = "there was nothing to end"
            self._refuse(
                Attempt(TaskDirectory(str(self._root), action.key)), ExitReport(143, ExitReason.ABSENT, message)
            )
        elif attempt.exit is not None:
            self._announce(attempt)
        elif attempt.held is not None:
            self._end(attempt, attempt.held, action.grace_s)

    def _end(self, attempt: Attempt, held: int, grace_s: float) -> None:
        patience_s = grace_s
        if not attempt.is_told_to_end and grace_s > 0:
            with contextlib.suppress(OSError):
                attempt.directory.write_grace(grace_s)
            signal_held(held, signal.SIGTERM)
            # Somebody may have stopped the wrapper, which passes the signal on.
            signal_held(held, signal.SIGCONT)
            patience_s += _WRAPPER_IS_LATE_S
        attempt.is_told_to_end = True
        loop = asyncio.get_running_loop()
        if attempt.deadline is None or attempt.deadline.when() > loop.time() + patience_s:
            _call_off(attempt)
            attempt.deadline = loop.call_later(patience_s, self._destroy, attempt)

    def _destroy(self, attempt: Attempt) -> None:
        # While the attempt is held its wrapper has not been reaped, so the group's number is still its own.
        if attempt.held is not None and attempt.pid is not None:
            with contextlib.suppress(OSError):
                attempt.directory.write_report(KILLED)
            kill_group(attempt.pid)

    def _measured(self) -> Iterable[tuple[AttemptKey, str]]:
        return ((one.key, one.directory.path) for one in [*self._attempts.values()] if one.held is not None)

    def _cut_off(self, key: AttemptKey, report: ExitReport) -> None:
        """End an attempt at once, for the reason that the report says."""
        attempt = self._attempts.get(key)
        if attempt is not None and attempt.exit is None and attempt.held is not None and attempt.pid is not None:
            attempt.cut_off = report
            attempt.is_told_to_end = True
            with contextlib.suppress(OSError):
                attempt.directory.write_report(report)
            kill_group(attempt.pid)

    def _forget(self, key: AttemptKey) -> None:
        attempt = self._attempts.get(key)
        if attempt is None:
            return
        if attempt.exit is None:
            attempt.is_to_be_forgotten = True
            self._kill(KillTask(key, 0.0))
            return
        del self._attempts[key]
        self._changed.pop(key, None)
        if self._keeps_work:
            attempt.directory.keep_work()
        self._trash.take(attempt.directory)
        # Only now: while the directory is there it says that the cgroup is the attempt's.
        self._limits.give_back(attempt.cgroup)

    def _ended(self, attempt: Attempt) -> None:
        """Hear that an attempt's wrapper is no more: nothing of its group may stay."""
        _call_off(attempt)
        attempt.held = None
        if attempt.pid is None:
            return
        kill_group(attempt.pid)
        self._conclude(attempt, attempt.pid, reap(attempt.pid))

    def _conclude(self, attempt: Attempt, group: int, status: int | None) -> None:
        try:
            report = attempt.directory.report()
            ticket = None if report else attempt.directory.ticket()
        except Exception as error:
            # Out of file descriptors or memory, perhaps. How a task ended must not be lost, so it is asked for again.
            if not isinstance(error, OSError):
                note_failure("read how a task ended", error)
            asyncio.get_running_loop().call_later(_READ_AGAIN_S, self._conclude, attempt, group, status)
            return
        is_reported = report is not None
        # On a full disk a report may not have been written to the end, or not at all.
        report = report or attempt.cut_off or verdict(attempt, ticket, status, self._clock.now_ms())
        if report.code != 0:
            report = blamed(report, has_run_out(attempt.cgroup))
        if not is_reported:
            with contextlib.suppress(OSError):
                attempt.directory.fence()
                attempt.directory.write_report(report)
        # A device is free, and a task that was told to end has ended, only when the last process is gone.
        is_vacated = self._limits.vacate(attempt.cgroup)
        if attempt.is_told_to_end or attempt.devices or not is_vacated or is_group_left(group):
            self._sweeper.soon((attempt, report))
        else:
            self._over((attempt, report))

    def _over(self, ended: tuple[Attempt, ExitReport]) -> None:
        attempt, report = ended
        attempt.end(report)
        if attempt.pid is not None:
            attempt.directory.note_left_work(str(self._logs_root), is_kept=self._keeps_work)
        if attempt.is_to_be_forgotten:
            self._forget(attempt.key)
        else:
            self._announce(attempt)

    def _is_running(self, directory: str) -> bool:
        """Return whether a task directory belongs to an attempt whose wrapper may be alive."""
        with contextlib.suppress(ValueError):
            attempt = self._attempts.get(TaskDirectory.at(directory).key)
            return attempt is not None and attempt.exit is None and attempt.held is not None
        return False

    def _announce(self, attempt: Attempt) -> None:
        self._changed[attempt.key] = attempt
        self._has_news.set()


def _say_what_separates(namespaces: Namespaces | None) -> None:
    """Say once what keeps the tasks of different jobs apart here, and what does not."""
    if namespaces is not None:
        message = "tasks have their own processes, /tmp, /dev/shm and home; they share the network and the processors"
        log.info(message)
    else:
        message = "tasks share /tmp and /dev/shm and see each other's command lines: no namespaces can be made here"
        log.warning(message, needs="root with all its rights, and unshare and mount of util-linux")


def _call_off(attempt: Attempt) -> None:
    if attempt.deadline is not None:
        attempt.deadline.cancel()
        attempt.deadline = None
