"""Alert rules and silences that administrators change while the servers run: each is a setting, with its history.

The leader evaluates, so the leader writes them. Every server shows and tests what the store has.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from openpai.alerts.rules import RULES_MAX, InvalidRule, Rule, built_in, read_rule
from openpai.alerts.silences import Silence, read_matchers
from openpai.orchestrator.alert_replay import replay
from openpai.orchestrator.alert_state import AlertParts
from openpai.orchestrator.leader import Leader, LeaderCommands
from openpai.ports.alert_rules import AlertRuleChange, AlertRuleEdit, AlertRuleView, Replay
from openpai.ports.cluster_settings import ALERT_RULES, ALERT_SILENCES, Setting
from openpai.ports.platform import Origin
from openpai.protocol.errors import InvalidParameters, Refused

HISTORY_MAX: Final = 500
HISTORY_BYTES_MAX: Final = 2 << 20
SILENCES_MAX: Final = 500
SILENCE_KEPT_MS: Final = 7 * 86_400_000
SILENCE_MAX_MS: Final = 366 * 86_400_000
_NOTHING: Final[Mapping[str, Any]] = {"edits": {}, "based": {}, "history": []}
_FIX: Final = "correct the rule; nothing was changed"


async def learn_alert_rules(leader: Leader) -> None:
    """Use the rules and silences that the store has, if they changed."""
    watch = leader.alerts
    rules, silences = await leader.settings.setting(ALERT_RULES), await leader.settings.setting(ALERT_SILENCES)
    watch.silences = _silences(silences)
    version = rules.version if rules is not None else 0
    if version != watch.rules_version:
        watch.rules = {view.name: read_rule(view.text) for view in views(rules) if not view.problem}
        watch.rules_version = version


class AlertCommands(LeaderCommands):
    """The part of `ports.platform.Platform` about alerts."""

    alert_parts: AlertParts | None = None
    """Set when the server is assembled."""

    async def alert_rules(self) -> tuple[AlertRuleView, ...]:
        problems = self.leader.alerts.problems if self.leader is not None else {}
        return views(await self._settings.setting(ALERT_RULES), problems)

    async def alert_rule_history(self, name: str = "") -> tuple[AlertRuleChange, ...]:
        setting = await self._settings.setting(ALERT_RULES)
        found = setting.body["history"] if setting is not None else ()
        return tuple(AlertRuleChange(**each) for each in reversed(found) if not name or each["name"] == name)

    async def change_alert_rule(self, name: str, edit: AlertRuleEdit, by: str) -> AlertRuleView | None:
        async with self._as_leader() as leader:
            setting = await leader.settings.setting(ALERT_RULES)
            stored: Mapping[str, Any] = setting.body if setting is not None else {}
            edits = dict(stored.get("edits", {}))
            if edit.text is not None:
                _checked(edit.text, name)
                if name not in edits and len(edits) + len(built_in()) >= RULES_MAX:
                    raise InvalidParameters(f"there are {RULES_MAX} rules already", "remove one first")
            elif name not in edits:
                raise no_rule(name, is_own=name in built_in())
            if edit.revision is not None and edit.revision != stored.get("revision", 0):
                message = f"the rules are at revision {stored.get('revision', 0)}, not {edit.revision}"
                raise Refused("ConflictSettingError", message, "read them again, and repeat your change")
            body = _changed(stored, name, edit, by, leader.clock.now_ms())
            version = setting.version if setting is not None else 0
            await leader.settings.set_setting(
                ALERT_RULES, body, by=by, at_ms=leader.clock.now_ms(), version=version, epoch=leader.epoch
            )
            await learn_alert_rules(leader)
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


def no_rule(name: str, *, is_own: bool = False) -> Refused:
    """Return the error for a rule that does not exist, or was not changed."""
    if is_own:
        return Refused("NoAlertRuleError", f"rule {name!r} is the built-in one already", "nothing was changed")
    return Refused("NoAlertRuleError", f"there is no alert rule {name!r}", "`pai alert rules` shows them")


def views(setting: Setting | None, problems: Mapping[str, str] | None = None) -> tuple[AlertRuleView, ...]:
    """Return every rule with the edits of administrators, by name."""
    own = built_in()
    stored: Mapping[str, Any] = setting.body if setting is not None else _NOTHING
    last = {each["name"]: each for each in stored["history"]}
    found = []
    for name in sorted({*own, *stored["edits"]}):
        text = stored["edits"].get(name)
        origin = Origin.BUNDLED if text is None else Origin.CHANGED if name in own else Origin.ADDED
        problem = (problems or {}).get(name, "")
        rule: Rule | None = None
        try:
            rule = read_rule(text if text is not None else own[name])
        except InvalidRule as error:
            # An earlier version accepted it.
            problem = str(error)
        entry = last.get(name, {})
        is_outdated = text is not None and stored["based"].get(name, "") != _mark(own.get(name))
        found.append(
            AlertRuleView(
                name, origin.value, text if text is not None else own[name], rule, own.get(name, ""),
                entry.get("by", ""), entry.get("at_ms"), is_outdated, problem, stored.get("revision", 0),
            )
        )  # fmt: skip
    return tuple(found)


def _checked(text: str, name: str) -> Rule:
    try:
        return read_rule(text, name)
    except InvalidRule as error:
        raise InvalidParameters(str(error), _FIX) from error


def _changed(stored: Mapping[str, Any], name: str, edit: AlertRuleEdit, by: str, now_ms: int) -> dict[str, Any]:
    edits, based = dict(stored.get("edits", {})), dict(stored.get("based", {}))
    own = built_in().get(name)
    edits.pop(name, None)
    based.pop(name, None)
    if edit.text is not None:
        edits[name], based[name] = edit.text, _mark(own)
    action = "reverted" if edit.text is None else "changed" if own is not None else "added"
    revision = stored.get("revision", 0) + 1
    entry = {"revision": revision, "name": name, "at_ms": now_ms, "by": by, "action": action, "reason": edit.reason,
             "text": edit.text}  # fmt: skip
    history = [*stored.get("history", ()), entry][-HISTORY_MAX:]
    while len(history) > 1 and sum(len(each["text"] or "") for each in history) > HISTORY_BYTES_MAX:
        history.pop(0)
    return {"edits": edits, "based": based, "revision": revision, "history": history}


def _mark(text: str | None) -> str:
    return sha256(text.encode()).hexdigest()[:16] if text is not None else ""


def _silences(setting: Setting | None) -> tuple[Silence, ...]:
    rows = setting.body.get("silences", ()) if setting is not None else ()
    return tuple(Silence(**{**row, "matchers": read_matchers(row["matchers"])}) for row in rows)
