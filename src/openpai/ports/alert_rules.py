"""Alert rules and silences as entrances see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from openpai.alerts.rules import Rule
from openpai.alerts.silences import Silence
from openpai.alerts.states import Alert
from openpai.ports.revisions import Edit, Revised, Revision


@dataclass(frozen=True, slots=True)
class AlertRuleView(Revised[str]):
    """An alert rule, whose content is its text.

    Its problem is also why it could not be evaluated or act in the last pass.
    """

    rule: Rule | None = None
    """None if this version of the platform cannot read the text."""


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
    """The values of which no past is kept."""
    problem: str = ""
    is_cut: bool = False
    """Whether alerts or jobs beyond a limit were left out."""


class AlertRules(Protocol):
    """The commands about alert rules and silences."""

    async def alert_rules(self) -> tuple[AlertRuleView, ...]:
        """Return every alert rule, by name, with the edits of administrators, on any server."""
        ...

    async def alert_rule_history(self, name: str = "") -> tuple[Revision[str], ...]:
        """Return the changes of alert rules, or of one, the newest first, on any server."""
        ...

    async def change_alert_rule(self, name: str, edit: Edit[str], by: str) -> AlertRuleView | None:
        """Replace or add a rule, or return to the bundled one; it holds from the next evaluation on.

        Raises InvalidParameters with line and column of the first fault, NoAlertRuleError for one that is not there,
        and ConflictSettingError when it was changed after the given revision.
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
