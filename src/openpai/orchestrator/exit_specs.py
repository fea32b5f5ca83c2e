"""Exit specs that administrators change while the servers run: kept as one setting, with every change of them.

The leader diagnoses, so the leader writes them, and uses them from the next diagnosis on. Every server shows and tests
what the store has.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import structlog

from openpai.diagnosis.exit_specs import (
    Spec,
    Takeover,
    bundled,
    check,
    describe,
    fingerprint,
    merged,
    read_spec,
)
from openpai.diagnosis.rules import InvalidRules, RuleSet, built_in
from openpai.orchestrator.leader import Leader, LeaderCommands
from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import EXIT_SPECS, Setting, SettingsStore
from openpai.ports.platform import ExitSpecChange, ExitSpecEdit, ExitSpecView, Origin
from openpai.ports.store import JobStore
from openpai.protocol.errors import InvalidParameters, Refused

HISTORY_MAX: Final = 500
HISTORY_BYTES_MAX: Final = 4 << 20
"""The oldest changes beyond either are forgotten; the audit log keeps that they were made."""
BODY_BYTES_MAX: Final = 64 << 10
TAKEOVERS_SHOWN: Final = 3
log: Final = structlog.get_logger(__name__)
_FIX: Final = "correct the exit spec; nothing was changed"


async def learn_rules(leader: Leader) -> None:
    """Use the exit specs that the store has, if they changed."""
    setting = await leader.settings.setting(EXIT_SPECS)
    version = setting.version if setting is not None else 0
    if version == leader.rules_version:
        return
    edits, problems = _usable(setting)
    for name, problem in problems.items():
        log.warning("an edited exit spec cannot be used", name=name, problem=problem)
    leader.rules, leader.rules_version = merged(edits), version


class ExitSpecCommands(LeaderCommands):
    """The part of `ports.platform.Platform` about exit specs."""

    def __init__(self, store: JobStore, settings: SettingsStore, clock: Clock) -> None:
        super().__init__(store, settings, clock)
        self._changing = asyncio.Lock()

    async def exit_specs(self) -> tuple[ExitSpecView, ...]:
        return _views(await self._settings.setting(EXIT_SPECS))

    async def exit_spec_history(self, name: str = "") -> tuple[ExitSpecChange, ...]:
        setting = await self._settings.setting(EXIT_SPECS)
        found = setting.body["history"] if setting is not None else ()
        return tuple(_change(each) for each in reversed(found) if not name or each["name"] == name)

    async def edited_rules(self, name: str = "", body: Mapping[str, Any] | None = None) -> tuple[RuleSet, RuleSet]:
        edits, _ = _usable(await self._settings.setting(EXIT_SPECS))
        before = merged(edits)
        if not name or body is None:
            return before, before
        after, _ = await _checked(name, body, edits)
        return before, after

    async def change_exit_spec(self, name: str, change: ExitSpecEdit, by: str) -> ExitSpecView:
        # Two changes of different exit specs at the same time are both made.
        async with self._as_leader() as leader, self._changing:
            setting = await leader.settings.setting(EXIT_SPECS)
            stored: dict[str, Any] = dict(setting.body) if setting is not None else {}
            edits, _ = _usable(setting)
            _refuse_stale(name, change, stored)
            _refuse_unknown(name, change, stored)
            if change.body is not None:
                _, takeovers = await _checked(name, change.body, edits)
                if takeovers and not change.is_forced:
                    message = _takes_over(takeovers)
                    raise Refused("ConflictSettingError", message, "narrow the patterns, or force the change")
            version = setting.version if setting is not None else 0
            now_ms = leader.clock.now_ms()
            body = _changed(stored, name, change, by, now_ms)
            await leader.settings.set_setting(
                EXIT_SPECS, body, by=by, at_ms=now_ms, version=version, epoch=leader.epoch
            )
            await learn_rules(leader)
            log.info("an exit spec was changed", name=name, by=by, reason=change.reason)
        views = {view.name: view for view in await self.exit_specs()}
        return views.get(name) or ExitSpecView(name, Origin.DISABLED, {})


async def _checked(
    name: str, body: Mapping[str, Any], edits: Mapping[str, Spec | None]
) -> tuple[RuleSet, tuple[Takeover, ...]]:
    """Return the rules with an edit, and the samples of others that it takes over; raise InvalidParameters."""
    if len(json.dumps(dict(body))) > BODY_BYTES_MAX:
        raise InvalidParameters(f"exit spec {name[:80]!r} is larger than {BODY_BYTES_MAX >> 10} KiB", _FIX)
    try:
        spec = read_spec(name, body)
        if spec is None and name not in built_in().causes:
            raise InvalidRules(f"{name!r} is not a bundled exit spec: revert it instead of disabling it")
        before = merged(edits)
        return await asyncio.to_thread(check, name, {**edits, name: spec}, before)
    except InvalidRules as error:
        raise InvalidParameters(str(error), _FIX) from error


def _refuse_unknown(name: str, change: ExitSpecEdit, stored: Mapping[str, Any]) -> None:
    if change.body is None and name not in stored.get("edits", {}):
        if name in built_in().causes:
            raise Refused("NoExitSpecError", f"exit spec {name!r} is the bundled one already", "nothing was changed")
        raise no_exit_spec(name)


def _refuse_stale(name: str, change: ExitSpecEdit, stored: Mapping[str, Any]) -> None:
    """Raise Refused if another change of the exit spec was made since it was read."""
    last: Mapping[str, Any] = next((each for each in reversed(stored.get("history", ())) if each["name"] == name), {})
    now = last.get("revision", 0)
    if change.revision is not None and now > change.revision:
        message = f"{last['by']} {last['action']} exit spec {name!r} since you read it: it is at revision {now}"
        advice = f"`pai exit-spec show {name}` prints it as it is now; put your change into that and save it again"
        raise Refused("ConflictSettingError", message, advice)


def no_exit_spec(name: str) -> Refused:
    """Return the error for an exit spec that does not exist."""
    return Refused("NoExitSpecError", f"there is no exit spec {name!r}", "`pai exit-spec list` shows them")


def _takes_over(takeovers: tuple[Takeover, ...]) -> str:
    shown = "; ".join(
        f"{each.sample[:120]!r} shows {each.before or 'no cause'} today and would show {each.after or 'none'}"
        for each in takeovers[:TAKEOVERS_SHOWN]
    )
    more = f"; and {len(takeovers) - TAKEOVERS_SHOWN} more" if len(takeovers) > TAKEOVERS_SHOWN else ""
    return f"the change affects samples of other exit specs: {shown}{more}"


def _changed(stored: Mapping[str, Any], name: str, change: ExitSpecEdit, by: str, now_ms: int) -> dict[str, Any]:
    """Return the setting after a change."""
    edits, based = dict(stored.get("edits", {})), dict(stored.get("based", {}))
    own = bundled().get(name)
    edits.pop(name, None)
    based.pop(name, None)
    if change.body is not None:
        edits[name] = dict(change.body)
        based[name] = fingerprint(own)
    is_off = change.body is not None and change.body.get("disabled") is True
    action = "reverted" if change.body is None else "disabled" if is_off else "changed" if own else "added"
    revision = stored.get("revision", 0) + 1
    entry = {
        "revision": revision, "name": name, "at": now_ms, "by": by, "action": action, "reason": change.reason,
        "body": change.body,
    }  # fmt: skip
    history = [*stored.get("history", ()), entry][-HISTORY_MAX:]
    size = 0
    for at in range(len(history) - 1, -1, -1):
        size += len(json.dumps(history[at]))
        if size > HISTORY_BYTES_MAX:
            history = history[at + 1 :]
            break
    return {"edits": edits, "based": based, "revision": revision, "history": history}


def _usable(setting: Setting | None) -> tuple[dict[str, Spec | None], dict[str, str]]:
    """Return the edits that this version of the platform can use, and the problems of the others, by name."""
    edits: dict[str, Spec | None] = {}
    problems: dict[str, str] = {}
    for name, body in (setting.body["edits"] if setting is not None else {}).items():
        try:
            edits[name] = read_spec(name, body)
        except InvalidRules as error:
            # An earlier version accepted it.
            problems[name] = str(error)
    try:
        merged(edits)
    except InvalidRules as error:
        return {}, dict.fromkeys(edits, str(error)) | problems
    return edits, problems


def _views(setting: Setting | None) -> tuple[ExitSpecView, ...]:
    own = bundled()
    stored = setting.body if setting is not None else {"edits": {}, "based": {}, "history": []}
    _, problems = _usable(setting)
    last = {each["name"]: each for each in stored["history"]}
    return tuple(_view(name, own.get(name), stored, last, problems) for name in sorted({*own, *stored["edits"]}))


def _view(
    name: str, own: Spec | None, stored: Mapping[str, Any], last: Mapping[str, Any], problems: Mapping[str, str]
) -> ExitSpecView:
    known = describe(own) if own else None
    body = stored["edits"].get(name)
    entry = last.get(name, {})
    by, at_ms, revision = entry.get("by", ""), entry.get("at"), entry.get("revision", 0)
    if body is None:
        return ExitSpecView(name, Origin.BUNDLED, known or {}, known, by, at_ms, revision=revision)
    is_off = body.get("disabled") is True
    origin = Origin.DISABLED if is_off else Origin.CHANGED if own else Origin.ADDED
    is_outdated = stored["based"].get(name, "") != fingerprint(own)
    shown = {**(known or {}), "disabled": True} if is_off else body
    return ExitSpecView(name, origin, shown, known, by, at_ms, is_outdated, problems.get(name, ""), revision)


def _change(entry: Mapping[str, Any]) -> ExitSpecChange:
    revision, name, at_ms, by = (entry[key] for key in ("revision", "name", "at", "by"))
    return ExitSpecChange(revision, name, at_ms, by, entry["action"], entry["reason"], entry["body"])
