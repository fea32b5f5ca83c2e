"""Keeps what administrators edit while the servers run, such as exit specs and alert rules: one setting for each kind.

The setting has the edits that hold, a mark of the bundled content that each began with, and the newest revisions. The
leader writes it; every server shows it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Generic

from openpai.orchestrator.leader import Leader
from openpai.ports.cluster_settings import Setting
from openpai.ports.revisions import Content, Edit, Origin, Revised, Revision
from openpai.protocol.errors import Refused

HISTORY_MAX: Final = 500
HISTORY_BYTES_MAX: Final = 4 << 20
"""The oldest revisions beyond either are forgotten; the audit log keeps that they were made."""
_NOTHING: Final[Mapping[str, Any]] = {"edits": {}, "based": {}, "revision": 0, "history": []}
Stored = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind(Generic[Content]):
    """One kind of what is edited."""

    setting: str
    noun: str
    """Such as `exit spec`."""
    not_found: str
    """The code of the error for an unknown name."""
    show: str
    """The command that prints one, without the name."""
    list: str
    bundled: Callable[[], Mapping[str, Content]]
    is_disabled: Callable[[Content], bool] = lambda _: False

    def unknown(self, name: str) -> Refused:
        """Return the error for a name that does not exist."""
        return Refused(self.not_found, f"there is no {self.noun} {name!r}", f"`{self.list}` shows them")

    def revised(self, setting: Setting | None) -> tuple[Revised[Content], ...]:
        """Return every name with its content, by name."""
        stored, bundled = _stored(setting), self.bundled()
        last = {each["name"]: each for each in stored["history"]}
        return tuple(
            self._revised(name, stored, bundled, last.get(name, {})) for name in sorted({*bundled, *stored["edits"]})
        )

    def _revised(
        self, name: str, stored: Stored, bundled: Mapping[str, Content], entry: Mapping[str, Any]
    ) -> Revised[Content]:
        own, edit = bundled.get(name), stored["edits"].get(name)
        return Revised(
            name,
            Origin(self._action(edit, own)) if edit is not None else Origin.BUNDLED,
            edit if edit is not None else bundled[name],
            own,
            entry.get("by", ""),
            entry.get("at"),
            edit is not None and stored["based"].get(name, "") != _mark(own),
            entry.get("revision", 0),
        )

    def history(self, setting: Setting | None, name: str = "") -> tuple[Revision[Content], ...]:
        """Return the revisions of all names, or of one, the newest first."""
        found = [each for each in reversed(_stored(setting)["history"]) if not name or each["name"] == name]
        keys = ("revision", "name", "at", "by", "action", "reason", "body")
        return tuple(Revision(*[each[key] for key in keys]) for each in found)

    def after(self, stored: Stored, name: str, edit: Edit[Content], by: str, now_ms: int) -> dict[str, Any]:
        """Return the body of the setting after an edit."""
        edits, based = dict(stored["edits"]), dict(stored["based"])
        own = self.bundled().get(name)
        edits.pop(name, None)
        based.pop(name, None)
        if edit.content is not None:
            edits[name], based[name] = edit.content, _mark(own)
        revision = stored["revision"] + 1
        entry = {
            "revision": revision, "name": name, "at": now_ms, "by": by, "action": self._action(edit.content, own),
            "reason": edit.reason, "body": edit.content,
        }  # fmt: skip
        return {"edits": edits, "based": based, "revision": revision, "history": _kept([*stored["history"], entry])}

    def _action(self, content: Content | None, own: Content | None) -> str:
        if content is None:
            return "reverted"
        if self.is_disabled(content):
            return "disabled"
        return "added" if own is None else "changed"

    def refuse(self, stored: Stored, name: str, edit: Edit[Content]) -> None:
        """Raise Refused for a revert of what was not changed, and for an edit that began before the last one."""
        last: Mapping[str, Any] = next((each for each in reversed(stored["history"]) if each["name"] == name), {})
        now = last.get("revision", 0)
        if edit.revision is not None and now > edit.revision:
            message = f"{last['by']} {last['action']} {self.noun} {name!r} since you read it: it is at revision {now}"
            advice = f"`{self.show} {name}` prints it as it is now; put your change into that and save it again"
            raise Refused("ConflictSettingError", message, advice)
        if edit.content is None and name not in stored["edits"]:
            if name not in self.bundled():
                raise self.unknown(name)
            raise Refused(self.not_found, f"{self.noun} {name!r} is the bundled one already", "nothing was changed")


class Revisions(Generic[Content]):
    """Makes the edits of one kind, one after the other: edits of different names at the same time are both made."""

    def __init__(self, kind: Kind[Content]) -> None:
        self._kind = kind
        self._changing = asyncio.Lock()

    async def change(
        self,
        leader: Leader,
        name: str,
        edit: Edit[Content],
        by: str,
        check: Callable[[Content, Setting | None], Awaitable[None]],
        learn: Callable[[Leader], Awaitable[None]],
    ) -> None:
        """Store an edit that `check` does not refuse, and have the leader `learn` it."""
        async with self._changing:
            setting = await leader.settings.setting(self._kind.setting)
            stored = _stored(setting)
            self._kind.refuse(stored, name, edit)
            if edit.content is not None:
                await check(edit.content, setting)
            now_ms = leader.clock.now_ms()
            await leader.settings.set_setting(
                self._kind.setting,
                self._kind.after(stored, name, edit, by, now_ms),
                by=by,
                at_ms=now_ms,
                version=setting.version if setting is not None else 0,
                epoch=leader.epoch,
            )
            await learn(leader)


def edits_of(setting: Setting | None) -> Mapping[str, Any]:
    """Return the content of each edit that holds, by name."""
    edits: Mapping[str, Any] = _stored(setting)["edits"]
    return edits


def _stored(setting: Setting | None) -> Stored:
    return {**_NOTHING, **(setting.body if setting is not None else {})}


def _mark(content: object) -> str:
    """Return a text that differs when the content does; empty for none."""
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16] if content is not None else ""


def _kept(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    history, size = history[-HISTORY_MAX:], 0
    for at in range(len(history) - 1, -1, -1):
        size += len(json.dumps(history[at]))
        if size > HISTORY_BYTES_MAX and at < len(history) - 1:
            return history[at + 1 :]
    return history
