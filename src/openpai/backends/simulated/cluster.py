"""A cluster that exists only in memory: virtual nodes, tasks that take time, and a network to lose messages in.

It is synchronous. It changes only by calls that pass the time, so it runs under the event loop of the product as well
as under the virtual time of the fault simulator. Several servers may be connected to it one after another or at the
same time; each finds what the others started.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Final

from openpai.backends.host.grants import NewestGrants
from openpai.backends.host.register import KILLED, NOTHING_TO_KILL
from openpai.backends.simulated.programs import TERMINATED, Program, program_of
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Action, ForgetTask, KillTask, LaunchTask, NodeSeen, TaskSeen
from openpai.ports.task_usage import Counters, DeviceUse, TaskSample

MEASURED_MAX: Final = 1000
"""How many tasks have an imitated use at most, so that ten thousand do not delay a server."""
DEFAULT_RUN_MS: Final = 1000
FORGOTTEN_KEPT: Final = 100_000
"""How many forgotten attempts are remembered, so that a late launch does not start one of them again."""

Say = Callable[[AttemptKey, str], None]


AT_ONCE: Final = (0,)


class Faults:
    """A network and nodes without faults. Derive from it to add faults.

    Delays are milliseconds: `()` loses a message, `(500,)` delays it, `(0, 3000)` delivers it twice. Messages
    with different delays overtake each other.
    """

    def delays_of_action(self, action: Action) -> Sequence[int]:
        """Return after how long, and how often, an action reaches the cluster."""
        return AT_ONCE

    def delays_of_news(self, seen: TaskSeen) -> Sequence[int]:
        """Return after how long, and how often, a piece of news reaches one server."""
        return AT_ONCE

    def launch_failure(self, launch: LaunchTask) -> ExitReport | None:
        """Return how this launch fails, or None."""
        return None


@dataclass(slots=True)
class Task:
    """A task attempt in the cluster."""

    key: AttemptKey
    grant: int
    node: str
    devices: tuple[int, ...]
    program: Program
    started_at_ms: int | None = None
    exit: ExitReport | None = None
    is_terminating: bool = False
    turn: int = 0
    """Incremented when the task's course changes: events planned for an earlier value are dropped."""
    cpus: int = 0
    memory_mb: int = 0

    def seen(self) -> TaskSeen:
        """Return the observation of the task."""
        return TaskSeen(self.key, self.grant, self.started_at_ms, self.exit)


@dataclass(slots=True, eq=False)
class Feed:
    """The news for one connected server. `wake` is called for news and when the next event changes."""

    wake: Callable[[], None]
    is_open: bool = True
    news: list[TaskSeen] = field(default_factory=list)

    def take(self) -> tuple[TaskSeen, ...]:
        """Return the news and clear it."""
        news, self.news = self.news, []
        return tuple(news)


def _imitated(task: Task, now_ms: int) -> TaskSample:
    ran_s = 0.0 if task.started_at_ms is None else max(0, now_ms - task.started_at_ms) / 1000
    devices = tuple(DeviceUse(index, 50.0, None, 40 << 30, 80 << 30, 350.0, 700.0, 60.0) for index in task.devices)
    return TaskSample(task.key, now_ms, Counters(ran_s * task.cpus / 2), task.memory_mb << 19, 1, devices=devices)


class SimulatedCluster:
    """Virtual nodes and the tasks on them. Times are milliseconds and never go back."""

    def __init__(
        self,
        nodes: Iterable[NodeSeen],
        *,
        default_run_ms: int = DEFAULT_RUN_MS,
        faults: Faults | None = None,
        say: Say = lambda key, text: None,
    ) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._default_run_ms = default_run_ms
        self._faults = faults or Faults()
        self._say = say
        self._tasks: dict[AttemptKey, Task] = {}
        self._forgotten: OrderedDict[AttemptKey, None] = OrderedDict()
        self._grants = NewestGrants()
        self._feeds: list[Feed] = []
        self._now_ms = 0
        self.wall_ahead_ms = 0
        """How far the wall clock, whose times tasks report, is ahead of the clock that they run by."""
        self._plans: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._plans_made = 0

    # A server's side.

    def connect(self, wake: Callable[[], None]) -> Feed:
        """Return a feed of news that begins with every existing task."""
        feed = Feed(wake)
        self._feeds.append(feed)
        for task in self._tasks.values():
            self._tell(task, [feed])
        return feed

    def disconnect(self, feed: Feed) -> None:
        """Disconnect a server; news on the way to it is lost."""
        feed.is_open = False
        if feed in self._feeds:
            self._feeds.remove(feed)

    def submit(self, actions: Sequence[Action], now_ms: int) -> None:
        """Send actions to the nodes, over the faulty network."""
        self.advance(now_ms)
        for action in actions:
            for delay_ms in self._faults.delays_of_action(action):
                if delay_ms <= 0:
                    self._act(action)
                else:
                    self._plan(delay_ms, self._act, action)

    def nodes(self) -> tuple[NodeSeen, ...]:
        """Return the state of every node."""
        return tuple(self._nodes.values())

    def observe(self, among: Collection[AttemptKey] | None = None) -> tuple[TaskSeen, ...]:
        """Return every task that runs or is not forgotten; only these for `among`."""
        if among is not None:
            return tuple([self._tasks[key].seen() for key in among if key in self._tasks])
        return tuple([task.seen() for task in self._tasks.values()])

    def measure(self, now_ms: int) -> tuple[TaskSample, ...]:
        """Return what running tasks would use that are half busy, at most of `MEASURED_MAX` tasks."""
        running = (task for task in self._tasks.values() if task.started_at_ms is not None and task.exit is None)
        return tuple([_imitated(task, now_ms) for task in islice(running, MEASURED_MAX)])

    def runs(self, key: AttemptKey) -> bool:
        """Return whether a task runs now."""
        task = self._tasks.get(key)
        return task is not None and task.started_at_ms is not None and task.exit is None

    # Called as time passes.

    def next_due_ms(self) -> int | None:
        """Return when the next event is due."""
        return self._plans[0][0] if self._plans else None

    def advance(self, now_ms: int) -> None:
        """Run every event that is due by `now_ms`, in order."""
        while self._plans and self._plans[0][0] <= now_ms:
            at_ms, _, happen, about = heappop(self._plans)
            self._now_ms = max(self._now_ms, at_ms)
            happen(*about)
        self._now_ms = max(self._now_ms, now_ms)

    # Events that no server asks for.

    def resume(self, key: AttemptKey, now_ms: int) -> None:
        """Continue a task that waits in `read`."""
        self.advance(now_ms)
        task = self._tasks.get(key)
        if task is not None and task.exit is None and task.program.after_read is not None:
            self._follow(task, task.program.after_read)
            # The servers wait for the event that was due next, and this one is new.
            for feed in self._feeds:
                feed.wake()

    def _act(self, action: Action) -> None:
        match action:
            case LaunchTask():
                self._launch(action)
            case KillTask():
                self._kill(action)
            case ForgetTask():
                self._forget(action.key)

    def _launch(self, launch: LaunchTask) -> None:
        known = self._tasks.get(launch.key)
        if known is not None:
            self._tell(known)
            return
        task = Task(
            launch.key,
            launch.grant,
            launch.node,
            launch.devices,
            Program(),
            cpus=launch.cpus,
            memory_mb=launch.memory_mb,
        )
        self._tasks[launch.key] = task
        why_not = self._why_not(launch)
        if why_not is not None:
            self._end(task, why_not)
            return
        task.started_at_ms = self._now_ms + self.wall_ahead_ms
        self._tell(task)
        self._follow(task, program_of(launch.commands, launch.env, self._default_run_ms, launch.shared_env))

    def _why_not(self, launch: LaunchTask) -> ExitReport | None:
        """Return why a task may not start, and record its grant."""
        node = self._nodes.get(launch.node)
        if node is None:
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, f"there is no node {launch.node!r}")
        if any(not 0 <= device < node.gpus for device in launch.devices):
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, f"node {node.name} has {node.gpus} GPUs")
        stale = self._grants.hear(launch)
        if stale is not None:
            return stale
        if launch.key in self._forgotten:
            return replace(NOTHING_TO_KILL, message="it was over and forgotten before this launch arrived")
        if not node.is_healthy:
            return ExitReport(1, ExitReason.LAUNCH_FAILED, node.message)
        return self._faults.launch_failure(launch)

    def _follow(self, task: Task, program: Program) -> None:
        """Make a task run `program` from now on."""
        task.program = program
        task.turn += 1
        self._say(task.key, "")  # a task that says nothing has a log, too
        for after_ms, text in program.says:
            if after_ms:
                self._plan(after_ms, self._speak, task, task.turn, text)
            else:
                self._say(task.key, text)
        if program.ends_after_ms is not None:
            # Even a program without length ends after its launch, never within it.
            self._plan(program.ends_after_ms, self._finish, task, task.turn, program.code)

    def _speak(self, task: Task, turn: int, text: str) -> None:
        if task.turn == turn and task.exit is None:
            self._say(task.key, text)

    def _finish(self, task: Task, turn: int, code: int, message: str = "") -> None:
        if task.turn == turn:
            self._end(task, ExitReport(code, ExitReason.EXITED, message))

    def _kill(self, kill: KillTask) -> None:
        task = self._tasks.get(kill.key)
        if task is None:
            task = self._tasks[kill.key] = Task(kill.key, 0, "", (), Program())
            self._end(task, NOTHING_TO_KILL)
        elif task.exit is not None:
            self._tell(task)
        else:
            self._terminate(task, kill.grace_s)

    def _terminate(self, task: Task, grace_s: float) -> None:
        if not task.is_terminating:
            task.is_terminating = True
            program = task.program
            if not program.ignores_term:
                self._follow(task, program.on_term or Program(ends_after_ms=0, code=TERMINATED))
        # Without a check of the turn: SIGKILL ends a task whatever it does.
        self._plan(round(grace_s * 1000), self._end, task, KILLED)

    def _forget(self, key: AttemptKey) -> None:
        task = self._tasks.get(key)
        if task is None:
            return
        if task.exit is None:
            task.turn += 1
            task.exit = ExitReport(137)
        del self._tasks[key]
        self._forgotten[key] = None
        if len(self._forgotten) > FORGOTTEN_KEPT:
            self._forgotten.popitem(last=False)

    def _end(self, task: Task, report: ExitReport) -> None:
        if task.exit is None:
            task.exit = replace(report, started_at_ms=task.started_at_ms, ended_at_ms=self._now_ms + self.wall_ahead_ms)
            self._tell(task)

    def _tell(self, task: Task, feeds: Iterable[Feed] | None = None) -> None:
        seen = task.seen()
        for feed in self._feeds if feeds is None else feeds:
            for delay_ms in self._faults.delays_of_news(seen):
                if delay_ms <= 0:
                    self._deliver(feed, seen)
                else:
                    self._plan(delay_ms, self._deliver, feed, seen)

    def _deliver(self, feed: Feed, seen: TaskSeen) -> None:
        if feed.is_open:
            feed.news.append(seen)
            feed.wake()

    def _plan(self, after_ms: int, happen: Callable[..., None], *about: Any) -> None:
        self._plans_made += 1
        heappush(self._plans, (self._now_ms + after_ms, self._plans_made, happen, about))
