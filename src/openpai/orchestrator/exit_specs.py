"""Exit specs that administrators change while the servers run: kept as one setting, with every change of them.

The leader diagnoses, so the leader writes them, and uses them from the next diagnosis on. Every server shows and tests
what the store has.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import structlog

from openpai.diagnosis.exit_specs import (
    Spec,
    Takeover,
    bundled,
    check,
    describe,
    merged,
    read_spec,
)
from openpai.diagnosis.rules import InvalidRules, RuleSet, built_in
from openpai.orchestrator.leader import Leader, LeaderCommands
from openpai.orchestrator.revisions import Kind, Revisions, edits_of
from openpai.ports.clock import Clock
from openpai.ports.cluster_settings import EXIT_SPECS, Setting, SettingsStore
from openpai.ports.platform import ExitSpecContent
from openpai.ports.revisions import Edit, Origin, Revised, Revision
from openpai.ports.store import JobStore
from openpai.protocol.errors import InvalidParameters, Refused

BODY_BYTES_MAX: Final = 64 << 10
TAKEOVERS_SHOWN: Final = 3
log: Final = structlog.get_logger(__name__)
_FIX: Final = "correct the exit spec; nothing was changed"


def _bundled() -> Mapping[str, ExitSpecContent]:
    return {name: describe(spec) for name, spec in bundled().items()}


def _is_disabled(body: ExitSpecContent) -> bool:
    return body.get("disabled") is True


KIND: Final[Kind[ExitSpecContent]] = Kind(
    EXIT_SPECS, "exit spec", "NoExitSpecError", "pai exit-spec show", "pai exit-spec list", _bundled, _is_disabled
)


async def learn_rules(leader: Leader) -> None:
    """Use the exit specs that the store has, if they changed."""
    use_rules(leader, await leader.settings.setting(EXIT_SPECS))


def use_rules(leader: Leader, setting: Setting | None) -> None:
    """Use these exit specs, if they changed."""
    version = setting.version if setting is not None else 0
    if version == leader.rules_version:
        return
    edits, problems = _usable(setting)
    for name, problem in problems.items():
        log.warning("an edited exit spec cannot be used", name=name, problem=problem)
    leader.edited_rules, leader.rules_version = merged(edits), version


class ExitSpecCommands(LeaderCommands):
    """The part of `ports.platform.Platform` about exit specs."""

    def __init__(self, store: JobStore, settings: SettingsStore, clock: Clock) -> None:
        super().__init__(store, settings, clock)
        self._exit_specs = Revisions(KIND)

    async def exit_specs(self) -> tuple[Revised[ExitSpecContent], ...]:
        return _views(await self._settings.setting(EXIT_SPECS))

    async def exit_spec_history(self, name: str = "") -> tuple[Revision[ExitSpecContent], ...]:
        return KIND.history(await self._settings.setting(EXIT_SPECS), name)

    async def edited_rules(self, name: str = "", body: Mapping[str, Any] | None = None) -> tuple[RuleSet, RuleSet]:
        edits, _ = _usable(await self._settings.setting(EXIT_SPECS))
        before = merged(edits)
        if not name or body is None:
            return before, before
        after, _ = await _checked(name, body, edits)
        return before, after

    async def change_exit_spec(self, name: str, edit: Edit[ExitSpecContent], by: str) -> Revised[ExitSpecContent]:
        async def check(body: ExitSpecContent, setting: Setting | None) -> None:
            _, takeovers = await _checked(name, body, _usable(setting)[0])
            if takeovers and not edit.is_forced:
                message = _takes_over(takeovers)
                raise Refused("ConflictSettingError", message, "narrow the patterns, or force the change")

        async with self._as_leader() as leader:
            await self._exit_specs.change(leader, name, edit, by, check, learn_rules)
            log.info("an exit spec was changed", name=name, by=by, reason=edit.reason)
        views = {view.name: view for view in await self.exit_specs()}
        return views.get(name) or Revised(name, Origin.DISABLED, {})


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


def _takes_over(takeovers: tuple[Takeover, ...]) -> str:
    shown = "; ".join(
        f"{each.sample[:120]!r} shows {each.before or 'no cause'} today and would show {each.after or 'none'}"
        for each in takeovers[:TAKEOVERS_SHOWN]
    )
    more = f"; and {len(takeovers) - TAKEOVERS_SHOWN} more" if len(takeovers) > TAKEOVERS_SHOWN else ""
    return f"the change affects samples of other exit specs: {shown}{more}"


def _usable(setting: Setting | None) -> tuple[dict[str, Spec | None], dict[str, str]]:
    """Return the edits that this version of the platform can use, and the problems of the others, by name."""
    edits: dict[str, Spec | None] = {}
    problems: dict[str, str] = {}
    for name, body in edits_of(setting).items():
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


def _views(setting: Setting | None) -> tuple[Revised[ExitSpecContent], ...]:
    _, problems = _usable(setting)
    return tuple(_view(each, problems.get(each.name, "")) for each in KIND.revised(setting))


def _view(found: Revised[ExitSpecContent], problem: str) -> Revised[ExitSpecContent]:
    if found.origin is Origin.DISABLED:
        found = replace(found, content={**(found.bundled or {}), "disabled": True})
    return replace(found, problem=problem if found.origin is not Origin.BUNDLED else "")
