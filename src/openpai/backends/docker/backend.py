"""Runs task attempts as containers of a Docker or Podman Engine on this machine.

An attempt is a container that runs the platform's wrapper from a task directory mounted into it, on a network of its
job's own, with the ports published that the platform allocated. Names and labels show a later server which attempt a
container belongs to. Its logs and its exit report are files of this machine, so they survive container, Engine and
server.

Memory, processors, shared memory, the number of processes, and the rules of `security` are enforced. GPUs are requested
from the Engine when the driver is installed; a task sees only those of its grant. The server needs the right to use the
Engine, which equals root.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

import structlog

from openpai.backends.docker.containers import Limits
from openpai.backends.docker.engine import EngineError
from openpai.backends.docker.images import Images
from openpai.backends.docker.launching import Launcher
from openpai.backends.docker.machine import connect, machine_of, unavailable
from openpai.backends.docker.measuring import ContainerMeasuring
from openpai.backends.docker.networks import SUBNETS_DEFAULT, Networks, machine_address
from openpai.backends.docker.security import PORTS_MAX, Allowed, missing_protection
from openpai.backends.docker.shells import ContainerShells
from openpai.backends.docker.watching import Watcher, attempt_in, left_without_container
from openpai.backends.docker.writing import taken_by_container
from openpai.backends.host.attempts import HostAttempt, HostBackend
from openpai.backends.host.checkpoints import CheckpointDirectories
from openpai.backends.host.devices import HostDevices
from openpai.backends.host.directory import TaskDirectory
from openpai.backends.host.grants import GrantFile
from openpai.backends.host.locking import lock
from openpai.backends.host.machine import LOOPBACK, NO_GPUS, outward_address, port_taken
from openpai.backends.host.measuring import HostMeasuring
from openpai.backends.host.mounts import claim_refusal
from openpai.backends.host.node_checks import NodeChecks
from openpai.backends.host.register import AttemptRegister
from openpai.backends.host.shells import RunsShells
from openpai.backends.host.trash import Trash
from openpai.backends.host.worklimit import MEASURE_EVERY_S, WorkLimit
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Action, LaunchTask, NodeSeen
from openpai.ports.clock import Clock
from openpai.ports.task_usage import Device, TaskSample
from openpai.runtime.inspecting import ProcessSummary
from openpai.system.supervision import background, note_failure, supervise

log: Final = structlog.get_logger(__name__)
COMPARE_EVERY_S: Final = 30.0
QUOTA_PART: Final = 2
"""The Engine's own quota as a multiple of the limit: a task that reaches the quota gets an error without a reason."""
_SIGNAL_AGAIN_S: Final = 1.0
_REMOVAL_PATIENCE_S: Final = 10.0
"""How long closing waits for the removal of forgotten attempts."""
_ACTIONS_PER_TURN: Final = 32


class DockerBackend(HostBackend[HostAttempt], RunsShells[HostAttempt]):
    """The backend whose tasks are containers. Only one at a time may use `root`."""

    def __init__(
        self,
        root: Path,
        logs_root: Path,
        clock: Clock,
        *,
        url: str | None = None,
        nodes: int = 1,
        gpus_per_node: int | None = None,
        cpus_per_node: int | None = None,
        address: str | None = None,
        allowed: Allowed = Allowed(),  # noqa: B008  # frozen
        subnets: IPv4Network = SUBNETS_DEFAULT,
        compare_every_s: float = COMPARE_EVERY_S,
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
        self._url = url
        self._wanted_nodes = (nodes, gpus_per_node, cpus_per_node)
        self._address = address
        self._allowed = allowed
        self._subnets = subnets
        self._compare_every_s = compare_every_s
        # The Engine may serve several platforms; each recognises its containers by its directory.
        self._scope = hashlib.sha256(str(self._root).encode()).hexdigest()[:32]
        self._work: set[asyncio.Task[None]] = set()
        self._removals: set[asyncio.Task[None]] = set()
        self._nodes: dict[str, NodeSeen] = {}
        self._required_mounts = tuple(required_mounts)
        self._checks = NodeChecks(NO_GPUS, self._root, clock, self._required_mounts)
        self._devices = HostDevices(NO_GPUS)
        self._opened = contextlib.AsyncExitStack()

    async def open(self) -> None:
        """Adopt what an earlier server left. Raise Unavailable if the Engine does not answer or root is in use."""
        async with contextlib.AsyncExitStack() as opening:
            await opening.enter_async_context(lock(self._root, self._logs_root))
            self._engine = connect(self._url)
            opening.push_async_callback(self._engine.close)
            try:
                found = await machine_of(self._engine, *self._wanted_nodes, await self._find_address())
            except EngineError as error:
                raise unavailable(self._url, str(error)) from error
            self._nodes = {node.name: node for node in found.nodes}
            grants = opening.enter_context(contextlib.closing(GrantFile(self._root / ".grants")))
            self._register = AttemptRegister(self, grants, self._nodes, self._clock)
            if lacks := missing_protection(found.security):
                log.warning("containers are less confined than they should be", engine=lacks)
            self._measuring = ContainerMeasuring(
                self._engine, HostMeasuring(self._clock, found.gpus), has_network=not self._allowed.host_network
            )
            self._checks = NodeChecks(found.gpus, self._root, self._clock, self._required_mounts)
            self._devices = HostDevices(found.gpus, self._checks.xids)
            opening.callback(self._checks.close)
            self._shells = ContainerShells(self._engine, is_on_host_network=self._allowed.host_network)
            opening.push_async_callback(self._shells.close)
            self._images = Images(self._engine)
            opening.push_async_callback(self._images.close)
            limits = Limits(
                found.cpus,
                found.has_nvidia,
                self._scope,
                self._allowed,
                layer_bytes_max=self._work_bytes_max * QUOTA_PART if found.bounds_layers else 0,
                gpus=found.gpus,
                keeps_work=self._keeps_work,
                has_amd=found.has_amd,
            )
            tasks_max = sum(node.cpus for node in found.nodes)
            self._networks = Networks(
                self._engine, self._register, self._scope, subnets=self._subnets, tasks_max=tasks_max
            )
            networks = None if self._allowed.host_network else self._networks
            self._checkpoints = CheckpointDirectories(str(self._root))
            await asyncio.to_thread(self._checkpoints.open)
            self._launcher = Launcher(
                self._engine,
                self._images,
                networks,
                self._root,
                self._logs_root,
                checkpoints=self._checkpoints,
                limits=limits,
                clock=self._clock,
                progressed=self._register.progressed,
            )
            self._trash = Trash(str(self._root))
            opening.push_async_callback(self._trash.close)
            opening.push_async_callback(self._end_work)
            scope, root = self._scope, str(self._root)
            self._watcher = Watcher(self._engine, self._register, root=root, scope=scope, clock=self._clock)
            try:
                await self._watcher.compare()
                await self._networks.open()
            except EngineError as error:
                raise unavailable(self._url, str(error)) from error
            for attempt, report in await asyncio.to_thread(list, left_without_container(root, self._register)):
                self._register.restore(attempt, report)
            self._keep(supervise("listen to the container Engine", self._watcher.listen_forever), self._work)
            compare = partial(self._watcher.compare_forever, self._compare_every_s)
            self._keep(supervise("compare the containers", compare), self._work)
            sweep = partial(self._networks.sweep_forever, self._compare_every_s)
            self._keep(supervise("sweep the networks of jobs", sweep), self._work)
            if self._work_bytes_max:
                most, every_s = self._work_bytes_max, self._measure_every_s
                limit = WorkLimit(most, self._register, self._checkpoints, every_s, self._written_elsewhere)
                opening.push_async_callback(limit.close)
            opening.callback(self._register.close)
            self._opened = opening.pop_all()

    async def close(self) -> None:
        """Release everything except the tasks."""
        if self._removals:
            await asyncio.wait(self._removals, timeout=_REMOVAL_PATIENCE_S)
        await self._opened.aclose()

    async def nodes(self) -> tuple[NodeSeen, ...]:
        """Return this machine, or the nodes that share it; not healthy while the Engine does not answer."""
        message = self._watcher.silence
        if not message:
            return await self._checks.applied(tuple(self._nodes.values()))
        return tuple(replace(node, is_healthy=False, message=message) for node in self._nodes.values())

    async def apply(self, actions: Sequence[Action]) -> None:
        """Begin to carry out `actions`; an action that fails is reported as news."""
        for number, action in enumerate(actions, start=1):
            self._register.apply(action, self._start)
            if number % _ACTIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def measure(self) -> tuple[TaskSample, ...]:
        """Return what each running task uses."""
        return await self._measuring.measure([attempt for attempt in self._register if attempt.is_running])

    def read_devices(self) -> tuple[Device, ...]:
        """Return the GPUs of this machine; none where several nodes share it."""
        return self._devices.read() if len(self._nodes) == 1 else ()

    async def keep_stacks(self, keys: Sequence[AttemptKey]) -> Mapping[AttemptKey, ProcessSummary]:
        """Write what the processes of these tasks do to their runtime logs."""
        chosen = [attempt for attempt in self._register if attempt.key in keys and attempt.is_running]
        return await self._measuring.keep_stacks(chosen, str(self._logs_root))

    # The methods of `Runner`.

    def new_attempt(self, key: AttemptKey, grant: int = 0, devices: tuple[int, ...] = ()) -> HostAttempt:
        """Return the record of a new attempt."""
        return attempt_in(TaskDirectory(str(self._root), key), grant, devices)

    def reason_to_refuse(self, launch: LaunchTask) -> ExitReport | None:
        """Return a report if no container can give the task what it asks for, or a port of it is taken."""
        if launch.infiniband and not self._allowed.infiniband:
            message = "the job asks for InfiniBand, which needs the server's option --allow-infiniband"
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, message)
        if len(launch.ports) > PORTS_MAX and not self._allowed.host_network:
            message = f"a task asks for {len(launch.ports)} ports, and of a container at most {PORTS_MAX} are published"
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, message)
        return claim_refusal(launch.mounts) or port_taken(launch.ports)

    def terminate(self, attempt: HostAttempt) -> None:
        """Send SIGTERM to the wrapper, which passes it on."""
        self._warn(attempt)
        self._do(self._signal(attempt, "SIGTERM"))

    def destroy(self, attempt: HostAttempt) -> None:
        """Kill the container."""
        self._do(self._signal(attempt, "SIGKILL"))

    def ended(self, attempt: HostAttempt, report: ExitReport) -> None:
        """Store the report, and write to the attempt's log whether the files it left are kept."""
        with contextlib.suppress(OSError):
            attempt.directory.write_report(report)
        if self._keeps_work:
            attempt.directory.note_left_work(str(self._logs_root), is_kept=True)

    def remove(self, attempt: HostAttempt) -> None:
        """Remove the container and then the task directory."""
        self._do(self._remove(attempt), among=self._removals)

    def _start(self, attempt: HostAttempt, action: LaunchTask) -> None:
        self._do(self._bring_up(attempt, action))

    async def _bring_up(self, attempt: HostAttempt, action: LaunchTask) -> None:
        try:
            report = await self._launcher.launch(attempt, action)
        except Exception as error:
            log.exception("a launch failed for an unforeseen reason", attempt=action.key.path())
            report = ExitReport(1, ExitReason.LAUNCH_FAILED, f"the container could not be started: {error!r}")
        if report is not None:
            self._register.refuse(attempt, report)
            return
        await self._watcher.look(attempt)
        # Also if the Engine did not answer.
        self._register.stop_if_requested(attempt)

    async def _written_elsewhere(self, attempt: HostAttempt) -> int:
        return await taken_by_container(self._engine, attempt.name, self._work_bytes_max)

    async def _signal(self, attempt: HostAttempt, signal: str) -> None:
        """Send a signal, and repeat it while the Engine does not answer."""
        while attempt.exit is None:
            try:
                await self._engine.signal(attempt.name, signal)
                if signal == "SIGTERM":
                    # The wrapper may be stopped, and a stopped process passes no signal on.
                    with contextlib.suppress(EngineError):
                        await self._engine.signal(attempt.name, "SIGCONT")
            except Exception as error:
                # A container that misses its signal would run for ever.
                if not isinstance(error, EngineError):
                    note_failure("send a signal to a container", error)
                await asyncio.sleep(_SIGNAL_AGAIN_S)
            else:
                await self._watcher.look(attempt)
                return

    async def _remove(self, attempt: HostAttempt) -> None:
        # The directory goes last, because it holds the exit report. If the Engine does not answer, the next comparison
        # finds the container, and the attempt is forgotten again.
        try:
            with contextlib.suppress(EngineError):
                await self._engine.remove(attempt.name)
                if self._keeps_work:
                    attempt.directory.keep_work(str(self._logs_root))
                self._trash.take(attempt.directory)
        finally:
            self._register.removed(attempt)
        if not self._register.has_job(attempt.key.job):
            self._checkpoints.remove_unused(attempt.key.job)
        await self._networks.release(attempt.key.job)

    def _do(self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]] | None = None) -> None:
        """Run something in the background until it is done or the backend is closed."""
        self._keep(background("work on a container", work), self._work if among is None else among)

    @staticmethod
    def _keep(task: asyncio.Task[None], among: set[asyncio.Task[None]]) -> None:
        """Keep a reference to a task until it is done."""
        among.add(task)
        task.add_done_callback(among.discard)

    async def _find_address(self) -> str:
        """Return the address at which tasks reach each other: one of this machine that its containers reach."""
        if self._address is not None:
            return self._address
        if self._allowed.host_network:
            return LOOPBACK
        return await machine_address(self._engine) or outward_address()

    async def _end_work(self) -> None:
        tasks = [*self._work, *self._removals]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
