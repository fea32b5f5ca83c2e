"""Keeps what administrators edit while the servers run, such as exit specs and alert rules: one setting for each kind.

The setting has the edits that hold, a mark of the bundled content that each began with, and the newest revisions. The
leader writes it; every server shows it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import Any, Final, Generic

from openpai.orchestrator.leader import Leader
from openpai.ports.cluster_settings import Setting
from openpai.ports.revisions import Content, Edit, Origin, Revised, Revision
from openpai.protocol.errors import Refused

HISTORY_MAX: Final = 500
HISTORY_BYTES_MAX: Final = 4 << 20
"""The oldest revisions beyond either are forgotten; the audit log keeps that they were made."""
_KEYS: Final = ("revision", "name", "at", "by", "action", "reason", "body")
"""What the setting calls the fields of a revision."""


@dataclass(frozen=True, slots=True)
class Edits(Generic[Content]):
    """The edits of one kind, as the setting has them."""

    holding: Mapping[str, Content] = field(default_factory=dict)
    """The content of each edit that holds, by name."""
    based: Mapping[str, str] = field(default_factory=dict)
    """A mark of the bundled content that each of these began with."""
    revision: int = 0
    """The newest one."""
    history: Sequence[Revision[Content]] = ()
    """The newest revisions, the oldest of them first."""

    @classmethod
    def read(cls, setting: Setting | None) -> Edits[Content]:
        """Return what the setting says; nothing where there is none."""
        if setting is None:
            return cls()
        body = setting.body
        history = tuple(Revision(*[each[key] for key in _KEYS]) for each in body.get("history", ()))
        return cls(body.get("edits", {}), body.get("based", {}), body.get("revision", 0), history)

    def body(self) -> dict[str, Any]:
        """Return them as the setting stores them, without the oldest revisions that are too many."""
        history = _kept([dict(zip(_KEYS, _values(each), strict=True)) for each in self.history])
        return {"edits": dict(self.holding), "based": dict(self.based), "revision": self.revision, "history": history}

    def last(self, name: str) -> Revision[Content] | None:
        """Return the newest revision of a name, unless it is forgotten or there was none."""
        return next((each for each in reversed(self.history) if each.name == name), None)


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
        edits, bundled = Edits[Content].read(setting), self.bundled()
        last = {each.name: each for each in edits.history}
        return tuple(self._revised(name, edits, bundled, last.get(name)) for name in sorted({*bundled, *edits.holding}))

    def _revised(
        self, name: str, edits: Edits[Content], bundled: Mapping[str, Content], last: Revision[Content] | None
    ) -> Revised[Content]:
        own, edit = bundled.get(name), edits.holding.get(name)
        return Revised(
            name,
            Origin(self._action(edit, own)) if edit is not None else Origin.BUNDLED,
            edit if edit is not None else bundled[name],
            own,
            last.by if last is not None else "",
            last.at_ms if last is not None else None,
            edit is not None and edits.based.get(name, "") != _mark(own),
            last.revision if last is not None else 0,
        )

    def history(self, setting: Setting | None, name: str = "") -> tuple[Revision[Content], ...]:
        """Return the revisions of all names, or of one, the newest first."""
        history = Edits[Content].read(setting).history
        return tuple(each for each in reversed(history) if not name or each.name == name)

    def after(self, edits: Edits[Content], name: str, edit: Edit[Content], by: str, now_ms: int) -> Edits[Content]:
        """Return the edits after another one."""
        own = self.bundled().get(name)
        holding = {other: content for other, content in edits.holding.items() if other != name}
        based = {other: mark for other, mark in edits.based.items() if other != name}
        if edit.content is not None:
            holding[name], based[name] = edit.content, _mark(own)
        action, number = self._action(edit.content, own), edits.revision + 1
        last = Revision(number, name, now_ms, by, action, edit.reason, edit.content)
        return Edits(holding, based, number, (*edits.history, last))

    def _action(self, content: Content | None, own: Content | None) -> str:
        if content is None:
            return "reverted"
        if self.is_disabled(content):
            return "disabled"
        return "added" if own is None else "changed"

    def refuse(self, edits: Edits[Content], name: str, edit: Edit[Content]) -> None:
        """Raise Refused for a revert of what was not changed, and for an edit that began before the last one."""
        last = edits.last(name)
        if edit.revision is not None and last is not None and last.revision > edit.revision:
            message = (
                f"{last.by} {last.action} {self.noun} {name!r} since you read it: it is at revision {last.revision}"
            )
            advice = f"`{self.show} {name}` prints it as it is now; put your change into that and save it again"
            raise Refused("ConflictSettingError", message, advice)
        if edit.content is None and name not in edits.holding:
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
            edits = Edits[Content].read(setting)
            self._kind.refuse(edits, name, edit)
            if edit.content is not None:
                await check(edit.content, setting)
            now_ms = leader.clock.now_ms()
            await leader.settings.set_setting(
                self._kind.setting,
                self._kind.after(edits, name, edit, by, now_ms).body(),
                by=by,
                at_ms=now_ms,
                version=setting.version if setting is not None else 0,
                epoch=leader.epoch,
            )
            await learn(leader)


def edits_of(setting: Setting | None) -> Mapping[str, Any]:
    """Return the content of each edit that holds, by name."""
    return Edits[Any].read(setting).holding


def _values(revision: Revision[Any]) -> tuple[Any, ...]:
    return tuple(getattr(revision, each.name) for each in fields(revision))


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
