"""Alert rules and silences as entrances see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from openpai.alerts.rules import Rule
from openpai.alerts.silences import Silence
from openpai.alerts.states import Alert


@dataclass(frozen=True, slots=True)
class AlertRuleView:
    """An alert rule."""

    name: str
    origin: str
    """bundled, changed or added."""
    text: str
    rule: Rule | None
    """None if this version of the platform cannot read the text."""
    bundled: str = ""
    """The text of the built-in rule, if there is one."""
    changed_by: str = ""
    changed_at_ms: int | None = None
    is_outdated: bool = False
    """Whether the built-in rule is not the one that the administrator changed."""
    problem: str = ""
    """Why it cannot be used, or could not be evaluated or act in the last pass."""
    revision: int = 0
    """Of all rules."""


@dataclass(frozen=True, slots=True)
class AlertRuleChange:
    """One change of an alert rule."""

    revision: int
    name: str
    at_ms: int
    by: str
    action: str
    """changed, added or reverted."""
    reason: str = ""
    text: str | None = None
    """As it was afterwards; None: as built in, or none."""


@dataclass(frozen=True, slots=True)
class AlertRuleEdit:
    """A change of an alert rule to this text; None: back to the built-in one, or removed."""

    text: str | None
    reason: str = ""
    revision: int | None = None
    """The newest revision of all rules that the editor has seen; None: any."""


@dataclass(slots=True)
class Replay:
    """What a rule would have done."""

    from_ms: int
    to_ms: int
    step_ms: int
    evaluations: int = 0
    alerts: list[Alert] = field(default_factory=list)
    """Those that fired, the oldest first."""
    actions: list[tuple[int, str, str, str]] = field(default_factory=list)
    """When, which, on what, and why a limit would have prevented it."""
    unknown: tuple[str, ...] = ()
    """The values of which no past is kept, or that nothing has."""
    problem: str = ""
    is_cut: bool = False
    """Whether alerts or jobs beyond a limit were left out."""


class AlertRules(Protocol):
    """The commands about alert rules and silences."""

    async def alert_rules(self) -> tuple[AlertRuleView, ...]:
        """Return every alert rule, by name, with the edits of administrators, on any server."""
        ...

    async def alert_rule_history(self, name: str = "") -> tuple[AlertRuleChange, ...]:
        """Return the changes of alert rules, or of one, the newest first, on any server."""
        ...

    async def change_alert_rule(self, name: str, edit: AlertRuleEdit, by: str) -> AlertRuleView | None:
        """Replace or add a rule, or return to the built-in one; it holds from the next evaluation on.

        Raises InvalidParameters with line and column of the first fault, NoAlertRuleError for one that is not there,
        and ConflictSettingError when the rules are not at the given revision any more.
        """
        ...

    async def test_alert_rule(self, text: str, since_ms: int) -> Replay:
        """Return what a rule would have done in the past, so long until now. Raises InvalidParameters."""
        ...

    async def silences(self) -> tuple[Silence, ...]:
        """Return silences, those that are over for some days included, on any server."""
        ...

    async def silence(self, matchers: Sequence[str], to_ms: int, by: str, comment: str) -> Silence:
        """Silence the alerts that fit all matchers until a time. Raises InvalidParameters."""
        ...

    async def end_silence(self, id_: str, by: str) -> None:
        """End a silence. Raises NoSilenceError."""
        ...
