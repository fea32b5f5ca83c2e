"""Runs task attempts as processes of this machine, each with its own session, directory and log files.

A launch is a few small files and one `posix_spawn` of a shell wrapper; after that the attempt depends on no server. The
wrapper's directory records how it ended, so a server may die at any moment and the next one adopts what it finds. Ends
are reported by pidfds, for children as well as for processes that an earlier server left.

A task is limited to the memory it asked for where the server can create cgroups that limit memory: as an administrator,
or in a cgroup that was delegated to it. Elsewhere there is no limit, which is logged at the start. Processors are never
limited. A task runs with the rights of the server or, where that is root and an option asks for it, as a user without
rights. Its process group ends with it; processes that left the group are found in its cgroup, or without one by their
environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from openpai.backends.host.attempts import HostBackend
from openpai.backends.host.checkpoints import CheckpointDirectories
from openpai.backends.host.devices import HostDevices
from openpai.backends.host.directory import TaskDirectory
from openpai.backends.host.grants import GrantFile
from openpai.backends.host.locking import lock
from openpai.backends.host.machine import LOOPBACK, NO_GPUS, port_taken, this_machine
from openpai.backends.host.measuring import HostMeasuring
from openpai.backends.host.mounts import claim_refusal
from openpai.backends.host.node_checks import NodeChecks
from openpai.backends.host.register import KILLED, AttemptRegister
from openpai.backends.host.shells import RunsShells
from openpai.backends.host.task_use import Place
from openpai.backends.host.trash import Trash
from openpai.backends.host.worklimit import MEASURE_EVERY_S, WorkLimit
from openpai.backends.process.attempts import ProcessAttempt, attempt_in, blamed, reap, verdict
from openpai.backends.process.cgroups import Home, find_home
from openpai.backends.process.confining import Namespaces, find_namespaces
from openpai.backends.process.dropping import TaskUsers
from openpai.backends.process.launching import Launcher
from openpai.backends.process.memory import has_run_out, limit_memory
from openpai.backends.process.processes import ExitWatch, is_group_left, kill_group, signal_held
from openpai.backends.process.recovery import take_up
from openpai.backends.process.shells import TaskShells
from openpai.backends.process.sweeping import Sweeper
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Action, LaunchTask, NodeSeen
from openpai.ports.clock import Clock
from openpai.ports.task_usage import Device, TaskSample
from openpai.runtime.inspecting import ProcessSummary
from openpai.system.supervision import note_failure

log: Final = structlog.get_logger(__name__)
SWEEP_EVERY_S: Final = 30.0
SPARES_MAX: Final = 64
"""How many directories of tasks that left nothing in them are kept for later tasks."""
_ACTIONS_PER_TURN: Final = 4
_READ_AGAIN_S: Final = 0.5
_WILL_NEVER_FIT: Final = frozenset({errno.E2BIG, errno.ENAMETOOLONG})


class ProcessBackend(HostBackend[ProcessAttempt], RunsShells[ProcessAttempt]):
    """The backend whose nodes are this machine. Only one at a time may use `root`."""

    _shells: TaskShells

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
        required_mounts: Sequence[str] = (),
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
        self._opened = contextlib.AsyncExitStack()
        self._nodes: dict[str, NodeSeen] = {}
        self._required_mounts = tuple(required_mounts)
        self._checks = NodeChecks(NO_GPUS, self._root, clock, self._required_mounts)
        self._devices = HostDevices(NO_GPUS)

    async def open(self) -> None:
        """Adopt what an earlier server left. Raise Unavailable while another server uses the same root."""
        async with contextlib.AsyncExitStack() as opening:
            await opening.enter_async_context(lock(self._root, self._logs_root))
            nodes, gpus = await self._see_machine()
            self._nodes = {node.name: node for node in nodes}
            root = str(self._root)
            grants = opening.enter_context(contextlib.closing(GrantFile(self._root / ".grants")))
            self._register = AttemptRegister(self, grants, self._nodes, self._clock)
            namespaces = None
            if self._task_users is not None:
                # A task may enter a path that it knows, but cannot list the names.
                self._root.chmod(0o711)
                self._task_users.require_way_to(root)
                namespaces = self._find_namespaces()
                _say_what_separates(namespaces)
            has_users = self._task_users is not None
            self._checkpoints = CheckpointDirectories(root)
            self._checkpoints.open()
            launcher = Launcher(
                root, str(self._logs_root), self._checkpoints, has_users=has_users, namespaces=namespaces, gpus=gpus
            )
            self._launcher = opening.enter_context(contextlib.closing(launcher))
            self._measuring = HostMeasuring(self._clock, gpus)
            self._checks = NodeChecks(gpus, self._root, self._clock, self._required_mounts)
            self._devices = HostDevices(gpus, self._checks.xids)
            opening.callback(self._checks.close)
            self._shells = TaskShells(launcher.ordinary, self._task_users, has_namespaces=namespaces is not None)
            opening.push_async_callback(self._shells.close)
            self._watch = opening.enter_context(contextlib.closing(ExitWatch(self._exited)))
            # A directory that belonged to a task's user is not reused for another job of that user.
            self._trash = Trash(root, 0 if has_users else SPARES_MAX)
            opening.push_async_callback(self._trash.close)
            for attempt, report in await asyncio.to_thread(take_up, root, self._launcher.boot, self._clock.now_ms()):
                self._register.restore(attempt, report)
                if attempt.held is not None:
                    self._watch.add(attempt.held, attempt)
            self._limits = limit_memory(self._find_cgroups(root), list(self._register))
            opening.callback(self._limits.close)
            vacate, end = self._limits.vacate_all, self._register.end
            self._sweeper = Sweeper(root, self._is_alive, vacate, end, self._sweep_every_s)
            opening.push_async_callback(self._sweeper.close)
            await self._sweeper.sweep()
            if self._work_bytes_max:
                most, every_s = self._work_bytes_max, self._measure_every_s
                limit = WorkLimit(most, self._register, self._checkpoints, every_s)
                opening.push_async_callback(limit.close)
            opening.callback(self._register.close)
            self._opened = opening.pop_all()

    async def close(self) -> None:
        """Release everything except the tasks."""
        await self._opened.aclose()

    async def nodes(self) -> tuple[NodeSeen, ...]:
        """Return this machine, or the nodes that share it."""
        return await self._checks.applied(tuple(self._nodes.values()))

    async def apply(self, actions: Sequence[Action]) -> None:
        """Begin to carry out `actions`; an action that fails is reported as news."""
        persons: dict[str, str] = {}
        for number, action in enumerate(actions, start=1):
            person = ""
            if isinstance(action, LaunchTask) and self._task_users is not None:
                job = action.key.job
                if job not in persons:
                    persons[job] = await self._task_users.person(action)
                person = persons[job]
            self._register.apply(action, partial(self._start, person))
            if number % _ACTIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def measure(self) -> tuple[TaskSample, ...]:
        """Return what each running task uses."""
        running = [attempt for attempt in self._register if attempt.is_running and attempt.pid is not None]
        return await self._measuring.measure(list(map(_place_of, running)), running)

    def read_devices(self) -> tuple[Device, ...]:
        """Return the GPUs of this machine; none where several nodes share it."""
        return self._devices.read() if len(self._nodes) == 1 else ()

    async def keep_stacks(self, keys: Sequence[AttemptKey]) -> Mapping[AttemptKey, ProcessSummary]:
        """Write what the processes of these tasks do to their runtime logs."""
        chosen = [attempt for attempt in self._register if attempt.key in keys and attempt.is_running]
        return await self._measuring.keep_stacks(list(map(_place_of, chosen)), chosen, str(self._logs_root))

    # The methods of `Runner`.

    def new_attempt(self, key: AttemptKey, grant: int = 0, devices: tuple[int, ...] = ()) -> ProcessAttempt:
        """Return the record of a new attempt."""
        return attempt_in(TaskDirectory(str(self._root), key), grant, devices)

    def reason_to_refuse(self, launch: LaunchTask) -> ExitReport | None:
        """Return a report if a port of the task is taken, or a storage cannot be mounted on this machine."""
        return claim_refusal(launch.mounts) or port_taken(launch.ports)

    def terminate(self, attempt: ProcessAttempt) -> None:
        """Send SIGTERM to the wrapper, which passes it on."""
        if attempt.held is not None:
            self._warn(attempt)
            signal_held(attempt.held, signal.SIGTERM)
            # The wrapper may be stopped, and a stopped process passes no signal on.
            signal_held(attempt.held, signal.SIGCONT)

    def destroy(self, attempt: ProcessAttempt) -> None:
        """Kill the process group."""
        # While the pidfd is open the wrapper has not been reaped, so its process group number is not reused.
        if attempt.held is not None and attempt.pid is not None:
            with contextlib.suppress(OSError):
                attempt.directory.write_report(KILLED)
            kill_group(attempt.pid)

    def ended(self, attempt: ProcessAttempt, report: ExitReport) -> None:
        """Write to the attempt's log whether the files it left are kept; its report was written before the sweep."""
        if attempt.pid is not None:
            attempt.directory.note_left_work(str(self._logs_root), is_kept=self._keeps_work)

    def remove(self, attempt: ProcessAttempt) -> None:
        """Remove the task directory, and return the cgroup."""
        if self._keeps_work:
            attempt.directory.keep_work(str(self._logs_root))
        self._trash.take(attempt.directory)
        # Not earlier: the directory records that the cgroup belongs to the attempt.
        self._limits.give_back(attempt.cgroup)
        self._register.removed(attempt)
        if not self._register.has_job(attempt.key.job):
            self._checkpoints.remove_unused(attempt.key.job)

    def _start(self, person: str, attempt: ProcessAttempt, action: LaunchTask) -> None:
        now_ms = self._clock.now_ms()
        try:
            user = self._task_users.user_of(person) if self._task_users else None
            attempt.cgroup = self._limits.lend(action.memory_mb)
            attempt.pid, attempt.held = self._launcher.launch(
                attempt, action, now_ms, user=user, spare=self._trash.lend()
            )
        except (OSError, ValueError) as error:
            may_help = isinstance(error, OSError) and error.errno not in _WILL_NEVER_FIT
            reason = ExitReason.LAUNCH_FAILED if may_help else ExitReason.LAUNCH_REFUSED
            self._register.refuse(attempt, ExitReport(1, reason, f"the task cannot be started: {error}"))
        else:
            self._watch.add(attempt.held, attempt)
            self._register.started(attempt, now_ms)

    def _exited(self, attempt: ProcessAttempt) -> None:
        """Handle the end of an attempt's wrapper: no process of its group may stay."""
        attempt.cancel_deadline()
        attempt.held = None
        if attempt.pid is None:
            return
        kill_group(attempt.pid)
        self._shells.end(attempt)
        self._conclude(attempt, attempt.pid, reap(attempt.pid))

    def _conclude(self, attempt: ProcessAttempt, group: int, status: int | None) -> None:
        try:
            report = attempt.directory.report()
            ticket = None if report else attempt.directory.ticket()
        except Exception as error:
            # Perhaps out of file descriptors or memory. The end of a task must not be lost, so try again.
            if not isinstance(error, OSError):
                note_failure("read how a task ended", error)
            asyncio.get_running_loop().call_later(_READ_AGAIN_S, self._conclude, attempt, group, status)
            return
        is_reported = report is not None
        # On a full disk the report may be incomplete or missing.
        report = attempt.cut_off or report or verdict(attempt, ticket, status, self._clock.now_ms())
        if report.code != 0:
            report = blamed(report, has_run_out(attempt.cgroup))
        if not is_reported:
            with contextlib.suppress(OSError):
                attempt.directory.fence()
                attempt.directory.write_report(report)
        # Only after the last process is gone is a device free, or a killed task over.
        is_vacated = self._limits.vacate(attempt.cgroup)
        if attempt.kill_requested.is_set() or attempt.devices or not is_vacated or is_group_left(group):
            self._sweeper.soon(attempt, report)
        else:
            self._register.end(attempt, report)

    def _is_alive(self, directory: str) -> bool:
        """Return whether a task directory belongs to an attempt whose wrapper may be alive."""
        attempt = self._register.named(directory)
        return attempt is not None and attempt.exit is None and attempt.held is not None


def _place_of(attempt: ProcessAttempt) -> Place:
    # Processor time is only in cgroups of version 2; without it that of the processes is added up.
    return Place(attempt.key, attempt.pid, attempt.cgroup, memory=attempt.cgroup, cpu=attempt.cgroup)


def _say_what_separates(namespaces: Namespaces | None) -> None:
    """Log once what isolates the tasks of different jobs on this machine, and what does not."""
    if namespaces is not None:
        message = "tasks have their own processes, /tmp, /dev/shm and home; they share the network and the processors"
        log.info(message)
    else:
        message = "tasks share /tmp and /dev/shm and see each other's command lines: no namespaces can be made here"
        log.warning(message, needs="root with all its rights, and unshare and mount of util-linux")
