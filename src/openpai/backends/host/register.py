"""The register of task attempts: the state machine that every backend with real tasks shares.

It knows each attempt from its launch until it is forgotten: what starts, what runs, which kills were requested and how
long a task may still take, how each attempt ended, and what changed since the last `news`. A backend is its `Runner`:
it starts, stops and removes tasks and reports what it finds. Nothing here knows a file, a process or a container.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from openpai.backends.host.grants import NewestGrants
from openpai.lifecycle.actions import EndNotice
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport
from openpai.ports.backend import Action, ForgetTask, KillTask, LaunchTask, TaskSeen, TaskStep
from openpai.ports.clock import Clock
from openpai.system.pauses import let_others_go_first

KILLED: Final = ExitReport(137, ExitReason.EXITED, "killed: it had not ended within its grace period")
KILLED_BEFORE_START: Final = ExitReport(143, ExitReason.EXITED, "killed before it began")
NOTHING_TO_KILL: Final = ExitReport(143, ExitReason.ABSENT, "there was no task to kill")
"""143 as for any task that SIGTERM ended: 0 would read as success where only the code is shown."""
SEEN_AT_ONCE: Final = 200
"""How many of thousands of attempts are looked at before others have their turn."""
_KILL_DELAY_S: Final = 1.5
"""How much longer than the grace period a wrapper may take to end its task before the runner destroys it."""


class Request:
    """What may be requested once, and awaited. Of thousands few are: until then it costs no event of the loop."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._event: asyncio.Event | None = None

    def is_set(self) -> bool:
        """Return whether it was requested."""
        return self._is_set

    def set(self) -> None:
        """Request it."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until it is requested."""
        if not self._is_set:
            self._event = self._event or asyncio.Event()
            await self._event.wait()


@dataclass(slots=True, eq=False)
class Attempt:
    """A task attempt: over when `exit` is set, running when only `started_at_ms` is, else starting."""

    key: AttemptKey
    name: str
    """The runner's name for it: the name of a container or the path of a task directory."""
    grant: int = 0
    devices: tuple[int, ...] = ()
    started_at_ms: int | None = None
    exit: ExitReport | None = None
    message: str = ""
    """The current step of starting it, or what is wrong with it while it runs."""
    step: TaskStep = TaskStep.NONE
    """The kind of that step, for the events of the job."""
    grace_s: float = 0.0
    """The shortest grace period of all requests to kill it."""
    notice: EndNotice | None = None
    """What the task reads before it gets SIGTERM."""
    cut_off: ExitReport | None = None
    """Why the platform itself ended it."""
    kill_requested: Request = field(default_factory=Request, repr=False)
    is_terminated: bool = False
    is_to_be_forgotten: bool = False
    deadline: asyncio.TimerHandle | None = field(default=None, repr=False)

    @property
    def is_running(self) -> bool:
        """Return whether the attempt began and is not over."""
        return self.started_at_ms is not None and self.exit is None

    def seen(self) -> TaskSeen:
        """Return the observation of the attempt."""
        is_reported = self.exit is None or self.step is TaskStep.FILES_LOST
        message, step = (self.message, self.step) if is_reported else ("", TaskStep.NONE)
        return TaskSeen(self.key, self.grant, self.started_at_ms, self.exit, message, step)

    def cancel_deadline(self) -> None:
        """Cancel the timer that would destroy the attempt."""
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


A = TypeVar("A", bound=Attempt)


class Runner(Protocol[A]):
    """The methods of a backend that its register calls. None of them waits; slow work runs in the background."""

    def new_attempt(self, key: AttemptKey, grant: int = 0, devices: tuple[int, ...] = ()) -> A:
        """Return the record of a new attempt."""

    def reason_to_refuse(self, launch: LaunchTask) -> ExitReport | None:
        """Return why this backend cannot start such a task, or None."""

    def fence(self, attempt: A, report: ExitReport) -> None:
        """Prevent the attempt from beginning, and store the report for later servers."""

    def terminate(self, attempt: A) -> None:
        """Send SIGTERM to a running attempt, which has `grace_s` seconds to end."""

    def destroy(self, attempt: A) -> None:
        """Kill a running attempt at once."""

    def ended(self, attempt: A, report: ExitReport) -> None:
        """Store the report of an attempt that has just ended for later servers."""

    def remove(self, attempt: A) -> None:
        """Remove everything of a forgotten attempt except its logs, then call `AttemptRegister.removed`."""


class AttemptRegister(Generic[A]):
    """Every attempt that is not forgotten, by key and by the runner's name for it."""

    def __init__(self, runner: Runner[A], grants: NewestGrants, nodes: Collection[str], clock: Clock) -> None:
        self._runner = runner
        self._grants = grants
        self._nodes = nodes
        self._clock = clock
        self._attempts: dict[AttemptKey, A] = {}
        self._by_name: dict[str, A] = {}
        self._leaving: set[str] = set()
        self._jobs: Counter[str] = Counter()
        self._changed: dict[AttemptKey, A] = {}
        self._has_news = asyncio.Event()

    def __iter__(self) -> Iterator[A]:
        """Iterate over a copy: the register may change meanwhile."""
        return iter(list(self._attempts.values()))

    def __contains__(self, key: AttemptKey) -> bool:
        """Return whether the attempt is known."""
        return key in self._attempts

    def get(self, key: AttemptKey) -> A | None:
        """Return the attempt, or None when it is not known."""
        return self._attempts.get(key)

    def named(self, name: str) -> A | None:
        """Return the attempt that the runner calls `name`, or None."""
        return self._by_name.get(name)

    def is_leaving(self, name: str) -> bool:
        """Return whether the attempt of this name is forgotten and still being removed."""
        return name in self._leaving

    def has_job(self, job: str) -> bool:
        """Return whether an attempt of the job is known or still being removed."""
        return self._jobs[job] > 0

    def close(self) -> None:
        """Cancel all timers. The tasks run on."""
        for attempt in self._attempts.values():
            attempt.cancel_deadline()

    # Requests of the platform.

    def apply(self, action: Action, start: Callable[[A, LaunchTask], None]) -> None:
        """Carry out one action. `start` begins to start a new attempt; a failure is reported as news."""
        match action:
            case LaunchTask():
                self._launch(action, start)
            case KillTask():
                self._kill(action)
            case ForgetTask():
                self._forget(action.key)

    async def observe(self, among: Collection[AttemptKey] | None = None) -> tuple[TaskSeen, ...]:
        """Return every attempt that starts, runs, or is not forgotten; only these, without a pause, for `among`."""
        if among is not None:
            return tuple([self._attempts[key].seen() for key in among if key in self._attempts])
        seen: list[TaskSeen] = []
        for number, attempt in enumerate(list(self._attempts.values()), start=1):
            if self._attempts.get(attempt.key) is attempt:
                seen.append(attempt.seen())
            if number % SEEN_AT_ONCE == 0:
                await let_others_go_first()
        return tuple(seen)

    async def news(self) -> tuple[TaskSeen, ...]:
        """Wait until an attempt changed; return all that did, as they are now."""
        while not self._changed:
            self._has_news.clear()
            await self._has_news.wait()
        changed, self._changed = self._changed, {}
        return tuple(attempt.seen() for attempt in changed.values())

    # Reports of the runner.

    def add(self, attempt: A) -> None:
        """Register an attempt."""
        self._jobs[attempt.key.job] += 1
        self._attempts[attempt.key] = self._by_name[attempt.name] = attempt

    def restore(self, attempt: A, report: ExitReport | None) -> None:
        """Register an attempt that an earlier server left: over if there is a report, else running."""
        self.add(attempt)
        if report is not None:
            attempt.exit = replace(report, started_at_ms=attempt.started_at_ms)
        self._announce(attempt)

    def progressed(self, attempt: A, message: str, step: TaskStep) -> None:
        """Record the progress of an attempt that is not over; it is news if there is a `step`."""
        attempt.message, attempt.step = message, step
        if step:
            self._announce(attempt)

    def started(self, attempt: A, started_at_ms: int) -> None:
        """Record that an attempt runs, and stop it if that was requested meanwhile."""
        attempt.started_at_ms = started_at_ms
        attempt.message, attempt.step = "", TaskStep.NONE
        self._announce(attempt)
        self.stop_if_requested(attempt)

    def stop_if_requested(self, attempt: A) -> None:
        """Terminate an attempt that is to be killed, and destroy it when its grace period is over."""
        if attempt.exit is not None or not attempt.kill_requested.is_set():
            return
        delay_s = attempt.grace_s
        if attempt.grace_s > 0:
            delay_s += _KILL_DELAY_S
            if not attempt.is_terminated:
                attempt.is_terminated = True
                self._runner.terminate(attempt)
        loop = asyncio.get_running_loop()
        if attempt.deadline is None or attempt.deadline.when() > loop.time() + delay_s:
            attempt.cancel_deadline()
            attempt.deadline = loop.call_later(delay_s, self._runner.destroy, attempt)

    def cut_off(self, attempt: A, report: ExitReport | None) -> None:
        """Destroy a running attempt for the reason in the report; without one, its own report counts."""
        if attempt.is_running and attempt.cut_off is None:
            attempt.cut_off = report
            attempt.kill_requested.set()
            self._runner.destroy(attempt)

    def refuse(self, attempt: A, report: ExitReport) -> None:
        """Record that an attempt never began, and prevent it from beginning."""
        if attempt.exit is None:
            self._runner.fence(attempt, report)
            self.end(attempt, report)

    def end(self, attempt: A, report: ExitReport) -> None:
        """Record how an attempt ended. Only the first report counts."""
        if attempt.exit is not None:
            return
        attempt.cancel_deadline()
        ended_at_ms = report.ended_at_ms or self._clock.now_ms()
        attempt.exit = replace(report, started_at_ms=attempt.started_at_ms, ended_at_ms=ended_at_ms)
        self._runner.ended(attempt, attempt.exit)
        if attempt.is_to_be_forgotten:
            self._forget(attempt.key)
        else:
            self._announce(attempt)

    def removed(self, attempt: A) -> None:
        """Record that the removal of a forgotten attempt is over, whether it succeeded or not."""
        self._leaving.discard(attempt.name)
        self._jobs[attempt.key.job] -= 1
        if not self._jobs[attempt.key.job]:
            del self._jobs[attempt.key.job]

    def _launch(self, action: LaunchTask, start: Callable[[A, LaunchTask], None]) -> None:
        known = self._attempts.get(action.key)
        if known is not None:
            if known.started_at_ms is not None or known.exit is not None:
                self._announce(known)
            return
        attempt = self._runner.new_attempt(action.key, action.grant, action.devices)
        self.add(attempt)
        try:
            report = self._reason_to_refuse(action)
        except OSError as error:
            report = ExitReport(1, ExitReason.LAUNCH_FAILED, f"its grant cannot be recorded: {error}")
        if report is not None:
            self.refuse(attempt, report)
        else:
            start(attempt, action)

    def _reason_to_refuse(self, action: LaunchTask) -> ExitReport | None:
        if action.node not in self._nodes:
            return ExitReport(1, ExitReason.LAUNCH_REFUSED, f"there is no node {action.node!r} here")
        return self._grants.hear(action) or self._runner.reason_to_refuse(action)

    def _kill(self, action: KillTask) -> None:
        attempt = self._attempts.get(action.key)
        if attempt is None:
            attempt = self._runner.new_attempt(action.key)
            self.add(attempt)
            self.refuse(attempt, NOTHING_TO_KILL)
        elif attempt.exit is not None:
            self._announce(attempt)
        else:
            is_first = not attempt.kill_requested.is_set()
            attempt.grace_s = action.grace_s if is_first else min(action.grace_s, attempt.grace_s)
            attempt.notice = attempt.notice or action.notice
            attempt.kill_requested.set()
            if attempt.started_at_ms is not None:
                self.stop_if_requested(attempt)

    def _forget(self, key: AttemptKey) -> None:
        attempt = self._attempts.get(key)
        if attempt is None:
            return
        if attempt.exit is None:
            attempt.is_to_be_forgotten = True
            self._kill(KillTask(key, 0.0))
            return
        del self._attempts[key], self._by_name[attempt.name]
        self._changed.pop(key, None)
        self._leaving.add(attempt.name)
        self._runner.remove(attempt)

    def _announce(self, attempt: A) -> None:
        self._changed[attempt.key] = attempt
        self._has_news.set()
