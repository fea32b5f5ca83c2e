"""What the passes and commands of alerts share: their adapters, and what the leader remembers between two passes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from openpai.alerts.actions import Done
from openpai.alerts.rules import Rule
from openpai.alerts.series import Vector
from openpai.alerts.silences import Silence
from openpai.alerts.states import Alert
from openpai.ports.accounts import AccountStore
from openpai.ports.alerts import AlertStore, MessageSender
from openpai.ports.metrics import Metrics
from openpai.ports.platform import Platform
from openpai.ports.queries import JobQueries
from openpai.ports.usage import UsageStore

Facts = dict[str, Vector]
"""Recorded values by their names."""


@dataclass(frozen=True, slots=True)
class AlertParts:
    """The adapters of alerts."""

    store: AlertStore
    sender: MessageSender
    users: AccountStore
    jobs: JobQueries
    usage: UsageStore
    platform: Platform
    metrics: Metrics | None = None
    readiness: Callable[[], Awaitable[Mapping[str, str]]] | None = None
    disk_free: Callable[[], float] | None = None
    """Returns the free share of the disk of the data directory."""
    storages: Callable[[], Awaitable[Mapping[str, bool]]] | None = None
    """Returns for each storage that can be tested quickly whether it can be reached."""
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The commands that rules may run, by name: program and arguments, without a shell."""


@dataclass(slots=True)
class AlertWatch:
    """What the leader remembers of alerts."""

    rules: dict[str, Rule] = field(default_factory=dict)
    rules_version: int = -1
    silences: tuple[Silence, ...] = ()
    alerts: dict[str, tuple[Alert, ...]] | None = None
    """By rule; None until they are read from the store."""
    saved: dict[str, object] = field(default_factory=dict)
    """By the id of an alert, what the store has of it."""
    problems: dict[str, str] = field(default_factory=dict)
    """By rule, why it could not be evaluated or act in the last pass."""
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By rule, when and why it was last kept from an action."""
    done: list[Done] = field(default_factory=list)
    """The actions of the last day, for limits."""
    may_have_planned: bool = True
    last_ms: int | None = None
    cursor: int | None = None
    began_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    """By job and the wall clock's time, since when it is in its state, by the clock that is never set."""
    idle_s: dict[str, float] = field(default_factory=dict)
    """By job, for how long it has not used its GPUs."""
    waited: set[str] = field(default_factory=set)
    """The waits of jobs that their owners heard of."""
    sent_to: dict[str, list[int]] = field(default_factory=dict)
    """By user, when messages of their subscription were written, for a limit."""
