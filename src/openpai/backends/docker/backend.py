"""Runs task attempts as containers of a Docker or Podman Engine on this machine.

An attempt is a container that runs the platform's wrapper out of a task directory mounted into it, on a network of its
job's own with the ports published that the platform allocated. Names and labels tell any later server whose container
it is; its logs and its exit report are files here, so container, Engine and server may each go away without taking
them along.

Enforced are memory, processors, shared memory, the number of processes, and what `security` takes away. GPUs are asked
of the Engine when the driver is there; a task told to use fewer sees no others. The server needs the rights to use the
Engine, which are those of root.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final

import structlog

from openpai.backends.docker.attempts import Attempt
from openpai.backends.docker.books import Books
from openpai.backends.docker.containers import Limits
from openpai.backends.docker.engine import EngineError
from openpai.backends.docker.images import Images
from openpai.backends.docker.launching import Launcher
from openpai.backends.docker.machine import connect, machine_of, unavailable
from openpai.backends.docker.networks import SUBNETS_DEFAULT, Networks, machine_address
from openpai.backends.docker.recovery import left_without_container
from openpai.backends.docker.security import PORTS_MAX, Allowed, missing_protection
from openpai.backends.docker.watching import Watcher
from openpai.backends.docker.writing import taken_by_container
from openpai.backends.host.directory import TRASH, TaskDirectory
from openpai.backends.host.grants import NewestGrants
from openpai.backends.host.locking import lock
from openpai.backends.host.machine import LOOPBACK, first_taken, outward_address
from openpai.backends.host.trash import Trash
from openpai.backends.host.worklimit import MEASURE_EVERY_S, WorkLimit
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Action, ForgetTask, KillTask, LaunchTask, NodeSeen, TaskSeen
from openpai.ports.clock import Clock
from openpai.system.supervision import background, note_failure, supervise

log: Final = structlog.get_logger(__name__)
COMPARE_EVERY_S: Final = 30.0
QUOTA_PART: Final = 2
"""How many times the limit the Engine's own quota is: who meets it first gets an error of the system, not a reason."""
_WRAPPER_IS_LATE_S: Final = 1.5
"""How much longer than the grace period the wrapper may take to end its task before the container is killed."""
_TELL_AGAIN_S: Final = 1.0
_LAST_WORDS_S: Final = 10.0
"""How long closing waits for the removal of what was forgotten."""
_ACTIONS_PER_TURN: Final = 32


class DockerBackend:
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
        # The Engine may serve several platforms; each knows its own by where its directories are.
        self._scope = hashlib.sha256(str(self._root).encode()).hexdigest()[:32]
        self._books = Books()
        self._work: set[asyncio.Task[None]] = set()
        self._removals: set[asyncio.Task[None]] = set()
        self._nodes: dict[str, NodeSeen] = {}
        self._opened = contextlib.AsyncExitStack()

    async def open(self) -> None:
        """Take up what an earlier server left. Raise Unavailable when the Engine does not answer or root is in use."""
        async with contextlib.AsyncExitStack() as opening:
            (self._root / TRASH).mkdir(mode=0o700, parents=True, exist_ok=True)
            self._logs_root.mkdir(mode=0o700, parents=True, exist_ok=True)
            await opening.enter_async_context(lock(self._root))
            self._engine = connect(self._url)
            opening.push_async_callback(self._engine.close)
            try:
                found = await machine_of(self._engine, *self._wanted_nodes, await self._find_address())
            except EngineError as error:
                raise unavailable(self._url, str(error)) from error
            self._nodes = {node.name: node for node in found.nodes}
            self._grants = opening.enter_context(contextlib.closing(NewestGrants(self._root / ".grants")))
            if lacks := missing_protection(found.security):
                log.warning("containers are less confined than they should be", engine=lacks)
            self._images = Images(self._engine)
            opening.push_async_callback(self._images.close)
            limits = Limits(
                found.cpus,
                found.has_nvidia,
                self._scope,
                self._allowed,
                layer_bytes_max=self._work_bytes_max * QUOTA_PART if found.bounds_layers else 0,
                keeps_work=self._keeps_work,
            )
            self._networks = self._make_networks()
            networks = None if self._allowed.host_network else self._networks
            self._launcher = Launcher(
                self._engine,
                self._images,
                networks,
                self._root,
                self._logs_root,
                limits=limits,
                clock=self._clock,
                announce=self._books.announce,
            )
            self._trash = Trash(str(self._root))
            opening.push_async_callback(self._trash.close)
            opening.push_async_callback(self._end_work)
            scope, root = self._scope, str(self._root)
            self._watcher = Watcher(self._engine, self._books, self._over, root=root, scope=scope, clock=self._clock)
            try:
                await self._watcher.compare()
                await self._networks.open()
            except EngineError as error:
                raise unavailable(self._url, str(error)) from error
            for attempt in await asyncio.to_thread(left_without_container, root, self._books):
                self._books.add(attempt)
                self._books.announce(attempt)
            self._keep(supervise("listen to the container Engine", self._watcher.listen_forever), self._work)
            compare = partial(self._watcher.compare_forever, self._compare_every_s)
            self._keep(supervise("compare the containers", compare), self._work)
            sweep = partial(self._networks.sweep_forever, self._compare_every_s)
            self._keep(supervise("sweep the networks of jobs", sweep), self._work)
            if self._work_bytes_max:
                limit = WorkLimit(
                    self._work_bytes_max, self._measured, self._cut_off, self._measure_every_s, self._in_container
                )
                opening.push_async_callback(limit.close)
            self._opened = opening.pop_all()

    async def close(self) -> None:
        """Let go of everything but the tasks."""
        if self._removals:
            await asyncio.wait(self._removals, timeout=_LAST_WORDS_S)
        for attempt in self._books:
            attempt.call_off()
        await self._opened.aclose()

    async def nodes(self) -> tuple[NodeSeen, ...]:
        """Return this machine, or the nodes that share it; not healthy while the Engine does not answer."""
        message = self._watcher.silence
        if not message:
            return tuple(self._nodes.values())
        return tuple(replace(node, is_healthy=False, message=message) for node in self._nodes.values())

    async def apply(self, actions: Sequence[Action]) -> None:
        """Start making the world agree with `actions`; an action that cannot be done ends in news."""
        for number, action in enumerate(actions, start=1):
            match action:
                case LaunchTask():
                    self._launch(action)
                case KillTask():
                    self._kill(action)
                case ForgetTask():
                    self._forget(action.key)
            if number % _ACTIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def observe(self) -> tuple[TaskSeen, ...]:
        """Return every attempt that is on its way, runs, or is not forgotten."""
        return tuple(attempt.seen() for attempt in self._books)

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait for attempts that began or ended and return them as they are now."""
        return await self._books.news()

    def _launch(self, action: LaunchTask) -> None:
        known = self._books.get(action.key)
        if known is not None:
            if known.started_at_ms is not None or known.exit is not None:
                self._books.announce(known)
            return
        attempt = Attempt(TaskDirectory(str(self._root), action.key), action.grant, action.devices)
        self._books.add(attempt)
        try:
            why_not = self._why_not(action)
        except OSError as error:
            why_not = ExitReport(1, ExitReason.LAUNCH_FAILED, f"its grant cannot be written down: {error}")
        if why_not is not None:
            self._refuse(attempt, why_not)
        else:
            self._do(self._bring_up(attempt, action))

    def _why_not(self, action: LaunchTask) -> ExitReport | None:
        """Return why the attempt may not begin; remember its grant if nothing newer is known."""
        if action.node not in self._nodes:
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, f"there is no node {action.node!r} here")
        newer = self._grants.newer_than(action.grant, action.node, action.devices)
        if newer is not None:
            device, grant = newer
            message = f"grant {action.grant} came too late: device {device} was granted again by {grant}"
            return ExitReport(1, ExitReason.STALE_GRANT, message)
        self._grants.hear(action.grant, action.node, action.devices)
        if action.infiniband and not self._allowed.infiniband:
            message = "the job asks for InfiniBand, which needs the server's option --allow-infiniband"
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, message)
        if len(action.ports) > PORTS_MAX and not self._allowed.host_network:
            message = f"a task asks for {len(action.ports)} ports, and of a container at most {PORTS_MAX} are published"
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, message)
        port = first_taken(action.ports)
        if port is not None:
            return ExitReport(1, ExitReason.PORT_TAKEN, f"port {port} is used by a program that is no task of ours")
        return None

    async def _bring_up(self, attempt: Attempt, action: LaunchTask) -> None:
        try:
            report = await self._launcher.launch(attempt, action)
        except Exception as error:
            log.exception("a launch went wrong in a way nobody thought of", attempt=action.key.path())
            report = ExitReport(1, ExitReason.LAUNCH_FAILED, f"the container could not be started: {error!r}")
        if report is not None:
            self._over(attempt, replace(report, ended_at_ms=self._clock.now_ms()))
            return
        await self._watcher.look(attempt)
        if attempt.told_to_end.is_set() and attempt.exit is None:
            self._signal(attempt)

    def _refuse(self, attempt: Attempt, report: ExitReport) -> None:
        """Record that an attempt never began, and never will."""
        with contextlib.suppress(OSError):
            attempt.directory.fence()
        self._over(attempt, replace(report, ended_at_ms=self._clock.now_ms()))

    def _kill(self, action: KillTask) -> None:
        attempt = self._books.get(action.key)
        if attempt is None:
            attempt = Attempt(TaskDirectory(str(self._root), action.key))
            self._books.add(attempt)
            self._refuse(attempt, ExitReport(0, ExitReason.ABSENT, "there was nothing to end"))
        elif attempt.exit is not None:
            self._books.announce(attempt)
        else:
            is_first = not attempt.told_to_end.is_set()
            attempt.grace_s = action.grace_s if is_first else min(action.grace_s, attempt.grace_s)
            attempt.told_to_end.set()
            if attempt.started_at_ms is not None:
                self._signal(attempt, is_first=is_first)

    def _signal(self, attempt: Attempt, *, is_first: bool = True) -> None:
        """Tell a running attempt to end, and see to it that it does."""
        patience_s = attempt.grace_s
        if attempt.grace_s > 0:
            patience_s += _WRAPPER_IS_LATE_S
            if is_first:
                with contextlib.suppress(OSError):
                    attempt.directory.write_grace(attempt.grace_s)
                self._do(self._tell(attempt, "SIGTERM"))
        loop = asyncio.get_running_loop()
        if attempt.deadline is None or attempt.deadline.when() > loop.time() + patience_s:
            attempt.call_off()
            attempt.deadline = loop.call_later(patience_s, self._destroy, attempt)

    def _destroy(self, attempt: Attempt) -> None:
        self._do(self._tell(attempt, "SIGKILL"))

    def _measured(self) -> Iterable[tuple[AttemptKey, str]]:
        running = (one for one in self._books if one.started_at_ms is not None and one.exit is None)
        return ((one.key, one.directory.path) for one in running)

    async def _in_container(self, key: AttemptKey) -> int:
        attempt = self._books.get(key)
        return 0 if attempt is None else await taken_by_container(self._engine, attempt.container, self._work_bytes_max)

    def _cut_off(self, key: AttemptKey, report: ExitReport) -> None:
        """End an attempt at once, for the reason that the report says."""
        attempt = self._books.get(key)
        if attempt is None or attempt.exit is not None or attempt.cut_off is not None:
            return
        if attempt.directory.report() is None:
            attempt.cut_off = report
            with contextlib.suppress(OSError):
                attempt.directory.write_report(report)
        attempt.told_to_end.set()
        self._destroy(attempt)

    async def _tell(self, attempt: Attempt, signal: str) -> None:
        """Send a signal; again and again while the Engine does not hear it."""
        while attempt.exit is None:
            try:
                await self._engine.signal(attempt.container, signal)
                if signal == "SIGTERM":
                    # Somebody may have stopped the wrapper, which passes the signal on.
                    with contextlib.suppress(EngineError):
                        await self._engine.signal(attempt.container, "SIGCONT")
            except Exception as error:
                # A container that is not told to end runs on for ever.
                if not isinstance(error, EngineError):
                    note_failure("tell a container to end", error)
                await asyncio.sleep(_TELL_AGAIN_S)
            else:
                await self._watcher.look(attempt)
                return

    def _forget(self, key: AttemptKey) -> None:
        attempt = self._books.get(key)
        if attempt is None:
            return
        if attempt.exit is None:
            attempt.is_to_be_forgotten = True
            self._kill(KillTask(key, 0.0))
            return
        self._books.drop(attempt)
        self._do(self._remove(attempt), among=self._removals)

    async def _remove(self, attempt: Attempt) -> None:
        # The directory goes last: what is left of an attempt always has one that says how it ended. When the Engine
        # does not answer, the next comparison finds the container, and the attempt is forgotten once more.
        try:
            with contextlib.suppress(EngineError):
                await self._engine.remove(attempt.container)
                if self._keeps_work:
                    attempt.directory.keep_work()
                self._trash.take(attempt.directory)
        finally:
            self._books.gone(attempt)
        await self._networks.release(attempt.key.job)

    def _over(self, attempt: Attempt, report: ExitReport) -> None:
        if attempt.exit is not None:
            return
        with contextlib.suppress(OSError):
            attempt.directory.write_report(report)
        attempt.end(report)
        if self._keeps_work:
            attempt.directory.note_left_work(str(self._logs_root), is_kept=True)
        if attempt.is_to_be_forgotten:
            self._forget(attempt.key)
        else:
            self._books.announce(attempt)

    def _do(self, work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]] | None = None) -> None:
        """Let something go on in the background until it is done or the backend is closed."""
        self._keep(background("work on a container", work), self._work if among is None else among)

    @staticmethod
    def _keep(task: asyncio.Task[None], among: set[asyncio.Task[None]]) -> None:
        """Hold on to a task until it is done."""
        among.add(task)
        task.add_done_callback(among.discard)

    async def _find_address(self) -> str:
        """Return where every task finds every other: an address of this machine that its containers reach."""
        if self._address is not None:
            return self._address
        if self._allowed.host_network:
            return LOOPBACK
        return await machine_address(self._engine) or outward_address()

    def _make_networks(self) -> Networks:
        tasks_max = sum(node.cpus for node in self._nodes.values())
        return Networks(self._engine, self._books, self._scope, subnets=self._subnets, tasks_max=tasks_max)

    async def _end_work(self) -> None:
        tasks = [*self._work, *self._removals]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
