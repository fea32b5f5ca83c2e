"""Alerts: what is measured, what is stored of alerts, and how messages about them leave the platform."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from openpai.alerts.actions import ActionCause, ActionSpec
from openpai.alerts.series import Labels, Points, Selector
from openpai.alerts.states import Alert
from openpai.ports.store import Event, Sealed

NOTICES_MAX: Final = 10_000
"""Messages that may wait; the newest are refused beyond that."""
KINDS: Final = ("mail", "webhook", "slack", "teams", "alertmanager")


class Measured(Protocol):
    """Reads measured values, for rules."""

    async def newest(self, selector: Selector, at_ms: int, most: int) -> Mapping[Labels, float]:
        """Return the newest value of each series at a time, not older than some minutes; at most `most + 1` series."""
        ...

    async def points(self, selector: Selector, from_ms: int, to_ms: int, most: int) -> Mapping[Labels, Points]:
        """Return what each series was between two times, oldest first; at most `most + 1` series."""
        ...


@dataclass(frozen=True, slots=True)
class Channel:
    """A way by which messages leave the platform."""

    name: str
    kind: str
    """One of `KINDS`."""
    data: Mapping[str, Any]
    sealed: Sealed | None = None
    """Its credentials, encrypted."""
    changed_by: str = ""
    changed_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class ReportedAlert:
    """An alert as messages report it; it fires until it ends."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at_ms: int
    ends_at_ms: int | None = None
    valid_until_ms: int | None = None
    """When a receiver may take it for over, unless it is reported again; None: as the receiver likes."""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """A message, whatever the channel."""

    key: str
    """The same for the same message, however often it is sent."""
    subject: str
    text: str
    status: str = "firing"
    """`firing` or `resolved`, as Alertmanager says."""
    alerts: tuple[ReportedAlert, ...] = ()
    to: tuple[str, ...] = ()
    """Addresses of mail; empty: those of the channel."""
    url: str = ""
    """The address of a user's own webhook; empty: that of the channel."""
    user: str = ""
    """The user whose subscription it comes from."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A message that waits, was sent, or was given up."""

    id: int
    channel: str
    message: Message
    created_at_ms: int
    next_at_ms: int
    tries: int = 0
    state: str = "waiting"
    """waiting, sent or given_up."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class ActionRow:
    """An action of an alert, recorded before it is carried out."""

    key: str
    rule: str
    action: ActionSpec
    target: str
    at_ms: int
    state: str = "planned"
    """planned, started, done, failed, limited or dry."""
    detail: str = ""
    alert: str = ""
    """The id of its alert."""
    cause: ActionCause = field(default_factory=ActionCause)


@dataclass(frozen=True, slots=True)
class Changes:
    """What one pass saves, completely or not at all."""

    alerts: Sequence[Alert] = ()
    gone: Sequence[str] = ()
    """Ids of alerts that were pending and are no more."""
    actions: Sequence[ActionRow] = ()
    notices: Sequence[tuple[str, Message]] = ()
    """With the names of their channels; one whose key is known is dropped."""
    cursor: int | None = None
    """The number of the last event whose subscribers were served."""


class MessageSender(Protocol):
    """Sends messages."""

    async def send(self, channel: Channel, secrets: Mapping[str, Any], message: Message) -> None:
        """Send a message; raise Unavailable if it may work later, Refused if it never will."""
        ...

    async def check_target(self, url: str) -> None:
        """Raise Refused for an address that webhooks of users may not reach."""
        ...

    def check_channel(self, channel: Channel, secrets: Mapping[str, Any]) -> None:
        """Raise Refused for a channel whose URL has an address that no message may reach.

        What a name means is known only when a message is sent.
        """
        ...


class AlertStore(Protocol):
    """Stores alerts, actions, channels, and messages that wait. `epoch` as in `SettingsStore`."""

    async def alerts(self) -> tuple[Alert, ...]:
        """Return the alerts that are pending or fire, and those that are over, the newest first."""
        ...

    async def save(self, changes: Changes, now_ms: int, epoch: int | None) -> int:
        """Save the changes; return how many messages were left out because too many wait."""
        ...

    async def actions(
        self, *, since_ms: int = 0, states: Sequence[str] = (), limit: int = 1000
    ) -> tuple[ActionRow, ...]:
        """Return actions, the newest first."""
        ...

    async def set_action(self, key: str, state: str, detail: str, epoch: int | None) -> None:
        """Record what became of an action."""
        ...

    async def due(self, now_ms: int, limit: int) -> tuple[Notice, ...]:
        """Return messages whose time has come, the oldest first."""
        ...

    async def notices(self, states: Sequence[str], limit: int) -> tuple[Notice, ...]:
        """Return messages in these states, the newest first."""
        ...

    async def set_notice(self, notice: Notice, epoch: int | None) -> None:
        """Record what became of a message."""
        ...

    async def forget(self, before_ms: int) -> int:
        """Delete what is over since before that time; return how many rows there were."""
        ...

    async def channels(self) -> tuple[Channel, ...]:
        """Return every channel, by name."""
        ...

    async def set_channel(self, channel: Channel) -> None:
        """Add or replace a channel."""
        ...

    async def remove_channel(self, name: str) -> bool:
        """Delete a channel; return whether there was one."""
        ...

    async def cursor(self) -> int:
        """Return the number of the last event whose subscribers were served; that of the newest at the first time."""
        ...

    async def events_after(
        self, number: int, limit: int, reasons: Collection[str]
    ) -> tuple[tuple[tuple[int, Event, str, str], ...], int]:
        """Return those of the next events that have one of these reasons, and the number of the last one looked at.

        Each is with its number, and the owner and name of its job, oldest first.
        """
        ...
