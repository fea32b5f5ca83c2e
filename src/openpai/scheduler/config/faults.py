"""Reads untrusted values of a configuration, and collects every fault in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from openpai.protocol.errors import Fault
from openpai.protocol.spelling import nearest
from openpai.protocol.wording import cut
from openpai.scheduler.config.model import InvalidConfig

FAULTS_MAX: Final = 100
NUMBER_MAX: Final = 2**31 - 1
_PATH_MAX: Final = 400
_MESSAGE_MAX: Final = 1000
_TRUE = frozenset({"true", "True", "TRUE", "yes", "on"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "off", ""})
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


class Faults:
    """Collects faults, so that a file can be corrected in one go."""

    def __init__(self) -> None:
        self.found: list[Fault] = []
        self.warnings: list[str] = []

    def add(self, path: str, message: str, allowed: str = "", suggestion: str = "") -> None:
        """Add a fault; raise InvalidConfig with all of them when there are too many to go on."""
        self.found.append(
            Fault(
                cut(path, _PATH_MAX),
                cut(message, _MESSAGE_MAX),
                allowed=cut(allowed, _MESSAGE_MAX),
                suggestion=suggestion,
            )
        )
        if len(self.found) >= FAULTS_MAX:
            raise InvalidConfig((*self.found, Fault("", "and more faults, which are listed once these are corrected")))

    def known_keys(self, path: str, value: Mapping[str, Any], known: Iterable[str]) -> None:
        """Add a fault for every unknown key of `value`."""
        names = list(known)
        for key in value:
            if key not in names:
                where = f"{path}.{key}" if path else str(key)
                message = "unknown key; remove it, or move it to where it belongs"
                self.add(where, message, ", ".join(names), nearest(key, names))

    def mapping(self, path: str, value: object) -> dict[str, Any]:
        """Return `value` if it is a mapping, an empty one for nothing, and add a fault for anything else."""
        if isinstance(value, dict):
            return {str(key): item for key, item in value.items()}
        if not is_nothing(value):
            self.add(
                path, f"this should be a mapping (`key: value` lines), not {_kind(value)}; write its keys below it"
            )
        return {}

    def listing(self, path: str, value: object) -> list[Any]:
        """Return `value` if it is a list, an empty one for nothing, and add a fault for anything else."""
        if isinstance(value, list):
            return value
        if not is_nothing(value):
            self.add(path, f"this should be a list, not {_kind(value)}; begin each entry with a dash")
        return []

    def text(self, path: str, value: object) -> str | None:
        """Return `value` as text, None for nothing, and add a fault for a list or a mapping."""
        if is_nothing(value):
            return None
        if isinstance(value, (dict, list)):
            self.add(path, f"this should be a word, not {_kind(value)}; write one word")
            return None
        if not str(value).isprintable():
            self.add(path, f"{str(value)!r} contains an invisible character; remove it")
            return None
        return str(value)

    def number(self, path: str, value: object, least: int) -> int | None:
        """Return `value` as a whole number of at least `least`, or add a fault and return None."""
        if is_nothing(value):
            self.add(path, f"this number is missing; write a whole number, {least} or more")
            return None
        try:
            number = int(str(value))
        except ValueError:
            self.add(path, f"{str(value)!r} is not a whole number; write a whole number, {least} or more")
            return None
        if number < least:
            self.add(path, f"{number} is too small; write a whole number, {least} or more")
            return None
        if number > NUMBER_MAX:
            self.add(path, f"{number} is too large; write a whole number, {NUMBER_MAX} at most")
            return None
        return number

    def flag(self, path: str, value: object) -> bool:
        """Return `value` as true or false; nothing is false."""
        if is_nothing(value) or value is False or value in _FALSE:
            return False
        if value is not True and value not in _TRUE:
            self.add(path, f"{value!r} is neither true nor false; write one of them", "true, false")
        return True


def is_nothing(value: object) -> bool:
    """Return whether a key was left empty."""
    return value is None or (isinstance(value, str) and value in _NOTHING)


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else "a plain value"
