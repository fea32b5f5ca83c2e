"""The state of the leader that its passes and commands share: the adapters, and every job that is not over.

`ActiveJobs` is a copy of what the store holds. Only just saved or just loaded values replace a part of it, so losing it
costs a reload and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from openpai.diagnosis.rules import RuleSet
from openpai.lifecycle.actions import wanted
from openpai.lifecycle.model import AttemptKey, Job, Task, TaskId
from openpai.lifecycle.retries import RETRY_POLICY, RetryPolicy
from openpai.orchestrator import gangs
from openpai.orchestrator.alert_state import AlertParts, AlertWatch
from openpai.orchestrator.lemons import Lemons
from openpai.orchestrator.search_time import SearchTime
from openpai.orchestrator.steady_clock import SteadyClock, Timers
from openpai.orchestrator.task_ports import PORT_FIRST, PortBook
from openpai.ports.admission import AdmitsJobs
from openpai.ports.backend import Backend, LaunchTask, NodeSeen, TaskSeen
from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import NodeNote, Setting, SettingsStore
from openpai.ports.code import CodeStore
from openpai.ports.identity import Sealer
from openpai.ports.kept_work import KeptWork
from openpai.ports.logs import LogReader
from openpai.ports.platform import NotLeading
from openpai.ports.queries import JobQueries
from openpai.ports.storages import StorageStore
from openpai.ports.store import LEASE_MS, JobRecord, JobStore, LeaseLost
from openpai.ports.task_usage import TaskUsage
from openpai.ports.usage import LentUse, UsageStore
from openpai.protocol.applications import Application
from openpai.runtime.builtin_plugins import BUILT_IN
from openpai.runtime.plugins import Plugins
from openpai.scheduler.config.arrangement import Arrangement
from openpai.scheduler.interface import Lending
from openpai.scheduler.model import Gang, Limit, Order
from openpai.scheduler.queue.scheduler import HivedScheduler


class Launcher(Protocol):
    """Makes the launch actions of one job and caches what its tasks have in common."""

    def serves(self, record: JobRecord) -> bool:
        """Return whether the cached values still hold for this record."""

    def launch(self, record: JobRecord, task: Task) -> LaunchTask:
        """Return the action that starts a task."""


@dataclass(slots=True)
class Nudges:
    """Events that wake a pass when there is work; the pass clears them."""

    work: asyncio.Event = field(default_factory=asyncio.Event)
    timers: asyncio.Event = field(default_factory=asyncio.Event)


class DueOutputs(NamedTuple):
    """The outputs that a job attempt should have left, and when it ended."""

    attempt: int
    outputs: tuple[str, ...]
    since_ms: int


@dataclass(slots=True)
class ActiveJobs:
    """Every job that is not over, and the actions that the backend has for it."""

    records: dict[str, JobRecord] = field(default_factory=dict)
    heard: list[TaskSeen] = field(default_factory=list)
    """Reports of the backend that are not recorded yet."""
    freed: int = 0
    """How many devices were freed since they were enough for the smallest gang that waited."""
    to_act: dict[str, dict[TaskId, None]] = field(default_factory=dict)
    """Tasks that the backend may have to launch or kill, by job, in the order of their turns."""
    to_forget: dict[AttemptKey, None] = field(default_factory=dict)
    launched: set[AttemptKey] = field(default_factory=set)
    killed: set[AttemptKey] = field(default_factory=set)
    dependents: dict[str, dict[str, None]] = field(default_factory=dict)
    """By job, the held jobs that wait for it, if they still do."""
    held_to_check: dict[str, None] = field(default_factory=dict)
    """Held jobs that may be released, or wait in vain."""
    admissions_to_check: dict[str, None] = field(default_factory=dict)
    """Jobs whose admission by a queue of the cluster has changed."""
    launchers: dict[str, Launcher] = field(default_factory=dict)
    """By job, its launcher, kept while the job has more tasks than one pass launches."""
    steps: dict[str, set[tuple[int, int, str]]] = field(default_factory=dict)
    """By job, the start-up steps with an event: job attempt, task attempt and message."""
    searched: dict[str, SearchTime] = field(default_factory=dict)
    """By job, the processor time that the search of its logs has taken."""
    placement_hints: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By gang, its placement hints where they differ from those it was placed with."""
    hints_saved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Those of them that are saved."""
    applications: dict[str, tuple[tuple[Application, ...], str]] = field(default_factory=dict)
    """By job, its applications, and the token that they get with each request."""
    outputs_due: dict[str, DueOutputs] = field(default_factory=dict)
    """By job that succeeded lately, what it names as outputs, until it is known whether any are kept."""

    def act_on(self, job: Job, among: Iterable[TaskId] | None = None) -> bool:
        """Queue the launches and kills of a job, or of these tasks of it; return whether there are any."""
        want = wanted(job, among)
        tasks = [*(task.id for task in want.launch), *(key.task for key in want.kill)]
        if tasks:
            self.to_act.setdefault(job.id, {}).update(dict.fromkeys(tasks))
        return bool(tasks)

    def hold(self, record: JobRecord) -> None:
        """Look soon at what a held job waits for."""
        self.held_to_check[record.job.id] = None

    def wait(self, job: str, others: Iterable[str]) -> None:
        """Remember that a held job waits for others, until one of them ends."""
        for other in others:
            self.dependents.setdefault(other, {})[job] = None

    def ended(self, job: str) -> None:
        """Look soon at the held jobs that wait for one that has ended."""
        self.held_to_check.update(self.dependents.pop(job, {}))


@dataclass(slots=True)
class Sharing:
    """Nodes, promises and limits as the leader read them last."""

    setting: Setting | None = None
    notes: dict[str, NodeNote] = field(default_factory=dict)
    deadlines: dict[str, int] = field(default_factory=dict)
    """By drained node, until when jobs may run on it, in ms."""
    looked_at: object = None
    """The nodes and notes that were looked at last for the arrangement, ..."""
    made_from: object = None
    """... and its inputs, which are a part of them."""
    arrangement: Arrangement = field(default_factory=Arrangement)
    limits: tuple[Limit, ...] = ()
    half_life_ms: int | None = -1
    """-1 until it is read."""
    orders: dict[str, Order] = field(default_factory=dict)
    """The order of waiting gangs, by virtual cluster."""
    movable: frozenset[str] = frozenset()
    """The virtual clusters whose interruptible jobs may be moved to make whole cells."""
    interruptible: frozenset[str] = frozenset()
    """The virtual clusters whose jobs may be interrupted unless they say otherwise."""
    hang_minutes: dict[str, float] = field(default_factory=dict)
    """By virtual cluster, how long its jobs may be quiet if they do not say."""
    accuracy_saved: int = 0
    """The version of the scheduler's guesses that was saved last."""
    sync: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while nodes and limits are read and passed on, so that older values never replace newer ones."""


@dataclass(frozen=True, slots=True)
class KeptLimit:
    """The files that tasks left, and how much of them is kept of one user."""

    work: KeptWork
    queries: JobQueries
    user_bytes_max: int
    why_none: str = ""
    """Why no files are kept on this server; empty if they are."""
    """0 sets no limit."""


@dataclass(slots=True)
class Leader:
    """The adapters and the active jobs of a server that leads under the lease `epoch`."""

    store: JobStore
    backend: Backend
    secrets: Sealer
    logs: LogReader
    clock: Clock
    settings: SettingsStore
    epoch: int
    scheduler: HivedScheduler = field(default_factory=HivedScheduler)
    url: str = ""
    """The URL under which other servers reach this one."""
    usage: UsageStore | None = None
    measures: TaskUsage | None = None
    """What running tasks use, where that is measured."""
    kept: KeptLimit | None = None
    """What tasks left, where that is kept."""
    admits: AdmitsJobs | None = None
    """What admits the jobs of some virtual clusters, where queues of the cluster do."""
    queues: Mapping[str, str] = field(default_factory=dict)
    """By virtual cluster, the queue of the cluster that admits its jobs."""
    storages: StorageStore | None = None
    code: CodeStore | None = None
    plugins: Plugins = field(default_factory=lambda: BUILT_IN)
    policy: RetryPolicy = RETRY_POLICY
    active: ActiveJobs = field(default_factory=ActiveJobs)
    first_port: int = PORT_FIRST
    """The port of tasks to allocate first."""
    before_launch: Callable[[], object] = lambda: None
    """Called before tasks are launched."""
    ports: PortBook = field(init=False)
    nodes: dict[str, NodeSeen] = field(default_factory=dict)
    sharing: Sharing = field(default_factory=Sharing)
    nudges: Nudges = field(default_factory=Nudges)
    timers: Timers = field(default_factory=Timers)
    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a step is saved: one step of a job at a time."""
    grants_given: int = 0
    turns: int = 0
    """The turns of this leader so far, and how long they took together."""
    turn_s: float = 0.0
    steady: SteadyClock = field(init=False)
    """The scheduler's clock."""
    lending: tuple[int, Lending | None] = 0, None
    """What was lent and borrowed when `count_lending` looked last, and when that was."""
    uncounted: list[LentUse] = field(default_factory=list)
    """The moves of jobs, and the idle GPUs of jobs, since then."""
    idle_times: dict[tuple[str, int], list[tuple[int, int]]] = field(default_factory=dict)
    """By job and attempt, from when to when all its GPUs were idle and counted as that."""
    edited_rules: RuleSet | None = None
    """The rules of the failure analysis with the edits of administrators; None: the bundled ones.

    Reading those takes a tenth of a second, which no start waits for: the first failure needs them.
    """
    rules_version: int = 0
    """The version of the setting that the edits come from."""
    lemons: Lemons = field(default_factory=Lemons)
    """The failures that nodes are blamed for."""
    alert_parts: AlertParts | None = None
    """The adapters of alerts."""
    alerts: AlertWatch = field(default_factory=AlertWatch)
    """What it remembers of alerts."""
    must_resync: bool = False
    """The active jobs may differ from the store, so the leader must load them again."""

    def __post_init__(self) -> None:
        self.steady = SteadyClock(self.clock)
        self.ports = PortBook(begin=self.first_port)

    def describe(self, record: JobRecord, members: gangs.Members) -> Iterator[Gang]:
        """Yield gangs of a job as the scheduler knows them, with their age by the scheduler's clock."""
        if not members:
            return iter(())
        submitted_ms = self.steady.submitted_ms(record.job)
        is_interruptible = record.virtual_cluster in self.sharing.interruptible
        excluded = self.lemons.excluded(record.job.id, self.clock.now_ms(), len(self.nodes))
        return gangs.describe(record, members, submitted_ms, is_interruptible=is_interruptible, excluded=excluded)

    def next_grant(self) -> int:
        """Return a number larger than that of every earlier grant, under this or any earlier lease."""
        self.grants_given += 1
        return (self.epoch << 32) + self.grants_given


class LeaderCommands:
    """What commands of a server share that need the leader: its state, while this server leads."""

    def __init__(self, store: JobStore, settings: SettingsStore, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self.leader: Leader | None = None
        """The state of the leader while this server leads."""

    async def _leading(self) -> Leader:
        """Return the leader's state; raise NotLeading, with the URL of the leader, on any other server."""
        if self.leader is None:
            raise NotLeading(await self._leader_url(), self._leader_url)
        return self.leader

    @asynccontextmanager
    async def _as_leader(self) -> AsyncIterator[Leader]:
        """Provide the leader's state for a write; raise NotLeading when another server leads or has just taken over."""
        leader = await self._leading()
        try:
            yield leader
        except LeaseLost as error:
            raise NotLeading(await self._leader_url(), self._leader_url) from error

    async def _leader_url(self) -> str:
        return await self._store.leader_url(LEASE_MS)
