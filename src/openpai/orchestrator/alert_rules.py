"""Alert rules and silences that administrators change while the servers run: each is a setting, with its history.

The leader evaluates, so the leader writes them. Every server shows and tests what the store has.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from openpai.alerts.rules import RULES_MAX, InvalidRule, Rule, built_in, read_rule
from openpai.alerts.silences import Silence, read_matchers
from openpai.orchestrator.alert_replay import replay
from openpai.orchestrator.alert_state import AlertParts
from openpai.orchestrator.leader import Leader, LeaderCommands
from openpai.orchestrator.revisions import Kind, Revisions, edits_of
from openpai.ports.alert_rules import AlertRuleView, Replay
from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import ALERT_RULES, ALERT_SILENCES, Setting, SettingsStore
from openpai.ports.revisions import Edit, Revision
from openpai.ports.store import JobStore
from openpai.protocol.errors import InvalidParameters, Refused

SILENCES_MAX: Final = 500
SILENCE_KEPT_MS: Final = 7 * 86_400_000
SILENCE_MAX_MS: Final = 366 * 86_400_000
_FIX: Final = "correct the rule; nothing was changed"
KIND: Final[Kind[str]] = Kind(
    ALERT_RULES, "alert rule", "NoAlertRuleError", "pai alert rules", "pai alert rules", built_in
)


async def learn_alert_rules(leader: Leader) -> None:
    """Use the rules and silences that the store has, if they changed."""
    watch = leader.alerts
    settings = await leader.settings.settings(ALERT_RULES, ALERT_SILENCES)
    watch.silences, rules = _silences(settings.get(ALERT_SILENCES)), settings.get(ALERT_RULES)
    version = rules.version if rules is not None else 0
    if version != watch.rules_version:
        watch.rules = {view.name: view.rule for view in views(rules) if view.rule is not None}
        watch.rules_version = version


class AlertCommands(LeaderCommands):
    """The part of `ports.platform.Platform` about alerts."""

    alert_parts: AlertParts | None = None
    """Set when the server is assembled."""

    def __init__(self, store: JobStore, settings: SettingsStore, clock: Clock) -> None:
        super().__init__(store, settings, clock)
        self._alert_rules = Revisions(KIND)

    async def alert_rules(self) -> tuple[AlertRuleView, ...]:
        problems = self.leader.alerts.problems if self.leader is not None else {}
        return views(await self._settings.setting(ALERT_RULES), problems)

    async def alert_rule_history(self, name: str = "") -> tuple[Revision[str], ...]:
        return KIND.history(await self._settings.setting(ALERT_RULES), name)

    async def change_alert_rule(self, name: str, edit: Edit[str], by: str) -> AlertRuleView | None:
        async def check(text: str, setting: Setting | None) -> None:
            _checked(text, name)
            others = edits_of(setting).keys() | built_in().keys() - {name}
            if len(others) >= RULES_MAX:
                raise InvalidParameters(f"there are {RULES_MAX} rules already", "remove one first")

        async with self._as_leader() as leader:
            await self._alert_rules.change(leader, name, edit, by, check, learn_alert_rules)
        return next((view for view in await self.alert_rules() if view.name == name), None)

    async def test_alert_rule(self, text: str, since_ms: int) -> Replay:
        rule = _checked(text, "")
        parts = self.alert_parts
        if parts is not None and parts.metrics is not None:
            # Only the leader has the past of measured values.
            await self._leading()
        now_ms = self._clock.now_ms()
        return await replay(rule, parts, max(0, now_ms - since_ms), now_ms)

    async def silences(self) -> tuple[Silence, ...]:
        return _silences(await self._settings.setting(ALERT_SILENCES))

    async def silence(self, matchers: Sequence[str], to_ms: int, by: str, comment: str) -> Silence:
        try:
            read = await asyncio.to_thread(read_matchers, matchers)
        except ValueError as error:
            raise InvalidParameters(str(error), "name a rule, or labels such as node_name=n1") from error
        async with self._as_leader() as leader:
            now_ms = leader.clock.now_ms()
            if not now_ms < to_ms <= now_ms + SILENCE_MAX_MS:
                raise InvalidParameters("a silence ends later than now, and within a year", "give another end")
            made = Silence(secrets.token_hex(4), read, now_ms, to_ms, by, " ".join(comment.split())[:500])
            await self._set_silences(leader, lambda known: [*known, made], by)
        return made

    async def end_silence(self, id_: str, by: str) -> None:
        async with self._as_leader() as leader:
            if not any(each.id == id_ for each in await self.silences()):
                raise Refused("NoSilenceError", f"there is no silence {id_!r}", "`pai alert silences` shows them")
            await self._set_silences(leader, lambda known: [each for each in known if each.id != id_], by)

    async def _set_silences(self, leader: Leader, change: Any, by: str) -> None:
        setting = await leader.settings.setting(ALERT_SILENCES)
        now_ms = leader.clock.now_ms()
        kept = [each for each in _silences(setting) if now_ms < each.to_ms + SILENCE_KEPT_MS]
        after = change(kept)
        if len(after) > SILENCES_MAX:
            raise InvalidParameters(f"there are {SILENCES_MAX} silences already", "end one first")
        rows = [
            {"id": each.id, "matchers": [str(one) for one in each.matchers], "from_ms": each.from_ms,
             "to_ms": each.to_ms, "by": each.by, "comment": each.comment}
            for each in after
        ]  # fmt: skip
        version = setting.version if setting is not None else 0
        await leader.settings.set_setting(
            ALERT_SILENCES, {"silences": rows}, by=by, at_ms=now_ms, version=version, epoch=leader.epoch
        )
        leader.alerts.silences = tuple(after)


def views(setting: Setting | None, problems: Mapping[str, str] | None = None) -> tuple[AlertRuleView, ...]:
    """Return every rule with the edits of administrators, by name."""
    found = []
    for each in KIND.revised(setting):
        rule: Rule | None = None
        problem = (problems or {}).get(each.name, "")
        try:
            rule = read_rule(each.content)
        except InvalidRule as error:
            # An earlier version accepted it.
            problem = str(error)
        found.append(AlertRuleView(**{**asdict(each), "problem": problem}, rule=rule))
    return tuple(found)


def last_rule(setting: Setting | None, name: str) -> Rule | None:
    """Return the last form of a rule that was removed; None if that is not known any more."""
    for revision in KIND.history(setting, name):
        if revision.content is not None:
            with contextlib.suppress(InvalidRule):
                return read_rule(revision.content)
    return None


def _checked(text: str, name: str) -> Rule:
    try:
        return read_rule(text, name)
    except InvalidRule as error:
        raise InvalidParameters(str(error), _FIX) from error


def _silences(setting: Setting | None) -> tuple[Silence, ...]:
    rows = setting.body.get("silences", ()) if setting is not None else ()
    return tuple(Silence(**{**row, "matchers": read_matchers(row["matchers"])}) for row in rows)
