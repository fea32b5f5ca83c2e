"""What the passes share: the rooms they speak to, and the desk with every job that is not over.

The desk is a copy of what the store holds, kept by the one server that leads. It is only ever replaced by what
was just saved or just loaded, so losing it costs a reload and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from openpai.lifecycle.actions import wanted
from openpai.lifecycle.model import AttemptKey, Job, Task, TaskId
from openpai.lifecycle.policy import RETRY_POLICY, RetryPolicy
from openpai.orchestrator import gangs
from openpai.orchestrator.steady import SteadyClock
from openpai.orchestrator.task_ports import PortBook
from openpai.orchestrator.waiting import Waits
from openpai.ports.backend import Backend, LaunchTask, NodeSeen, TaskSeen
from openpai.ports.clock import Clock
from openpai.ports.logs import LogReader
from openpai.ports.settings import NodeNote, Setting, SettingsStore
from openpai.ports.storages import StorageStore
from openpai.ports.store import JobRecord, JobStore, Sealed
from openpai.ports.usage import UsageStore
from openpai.scheduler.config.arrangement import Arrangement
from openpai.scheduler.interface import SharingScheduler
from openpai.scheduler.model import Gang, Limit, Order


class Secrets(Protocol):
    """Seals and opens the secrets of jobs."""

    def seal(self, secrets: Mapping[str, Any]) -> Sealed | None:
        """Return the secrets encrypted, None when there are none."""
        ...

    def open(self, sealed: Sealed | None) -> dict[str, Any]:
        """Return what was sealed."""
        ...


class Launcher(Protocol):
    """Makes the launch actions of one job and caches what its tasks have in common."""

    def serves(self, record: JobRecord) -> bool:
        """Return whether the cached values still hold for this record."""
        ...

    def launch(self, record: JobRecord, task: Task) -> LaunchTask:
        """Return the action that starts a task."""
        ...


@dataclass(slots=True)
class Nudges:
    """Something to do: set by whoever made the work, cleared by the pass that looks for it."""

    work: asyncio.Event = field(default_factory=asyncio.Event)
    timers: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class ActiveJobs:
    """The jobs at hand, and what the world was already told about them."""

    records: dict[str, JobRecord] = field(default_factory=dict)
    heard: list[TaskSeen] = field(default_factory=list)
    """News from the backend that is not recorded yet."""
    to_act: dict[str, dict[TaskId, None]] = field(default_factory=dict)
    """Tasks about which the world may have to be told something, by job, in the order of their turns."""
    to_forget: dict[AttemptKey, None] = field(default_factory=dict)
    launched: set[AttemptKey] = field(default_factory=set)
    killed: set[AttemptKey] = field(default_factory=set)
    launchers: dict[str, Launcher] = field(default_factory=dict)
    """What starts the tasks of a job, while more of them are to be started than one pass does."""
    steps: dict[str, set[tuple[int, int, str]]] = field(default_factory=dict)
    """By job, which steps of tasks on their way its history tells already: job attempt, task attempt and words."""
    placement_hints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By gang, its seats where they are not those it was placed with any more."""
    hints_saved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What of them is written down."""

    def act_on(self, job: Job, among: Iterable[TaskId] | None = None) -> bool:
        """Let the world be told what it must know of a job, or of these tasks of it; return whether there is any."""
        want = wanted(job, among)
        tasks = [*(task.id for task in want.launch), *(key.task for key in want.kill)]
        if tasks:
            self.to_act.setdefault(job.id, {}).update(dict.fromkeys(tasks))
        return bool(tasks)


@dataclass(slots=True)
class Sharing:
    """What the leader knows about nodes and promises, as it was read last."""

    setting: Setting | None = None
    notes: dict[str, NodeNote] = field(default_factory=dict)
    deadlines: dict[str, int] = field(default_factory=dict)
    """Until when jobs may run on drained nodes, in ms."""
    made_from: object = None
    """What the arrangement follows from."""
    arrangement: Arrangement = field(default_factory=Arrangement)
    limits: tuple[Limit, ...] = ()
    half_life_ms: int | None = -1
    """-1 until it was read."""
    orders: dict[str, Order] = field(default_factory=dict)
    """Who goes first, by virtual cluster."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while nodes are looked at: what is read later must not be overtaken by what was read earlier."""


@dataclass(slots=True)
class Leader:
    """The rooms and the desk of a server that leads under the lease `epoch`."""

    store: JobStore
    backend: Backend
    scheduler: SharingScheduler
    secrets: Secrets
    logs: LogReader
    clock: Clock
    settings: SettingsStore
    epoch: int
    url: str = ""
    """Where other servers reach this one."""
    usage: UsageStore | None = None
    storages: StorageStore | None = None
    policy: RetryPolicy = RETRY_POLICY
    active: ActiveJobs = field(default_factory=ActiveJobs)
    ports: PortBook = field(default_factory=PortBook)
    nodes: dict[str, NodeSeen] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)
    nudges: Nudges = field(default_factory=Nudges)
    waits: Waits = field(default_factory=Waits)
    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a step is saved: one step of a job at a time."""
    grants_given: int = 0
    steady: SteadyClock = field(init=False)
    """The scheduler's clock."""
    must_resync: bool = False
    """The desk and the store disagree about grants: the leader has to begin again from the store."""

    def __post_init__(self) -> None:
        self.steady = SteadyClock(self.clock)

    def describe(self, record: JobRecord, several: Iterable[gangs.Members]) -> Iterator[Gang]:
        """Yield gangs of a job as the scheduler knows them, with their age by the scheduler's clock."""
        members = tuple(several)
        # Without any, the job may be over and its time forgotten.
        return gangs.describe(record, members, self.steady.submitted_ms(record.job) if members else 0)

    def next_grant(self) -> int:
        """Return a number larger than that of every grant before, under this or any earlier lease."""
        self.grants_given += 1
        return (self.epoch << 32) + self.grants_given
