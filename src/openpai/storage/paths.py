"""Paths inside a storage: relative, without a way up, and without anything that another system reads differently."""

from __future__ import annotations

import re
from typing import Final

from openpai.protocol.errors import Refused
from openpai.storage.driver import PART_PREFIX

PATH_MAX: Final = 2048
NAME_MAX: Final = 255
# A backslash separates directories on SMB, so that `a\..\..` would lead out there and nowhere else.
_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")


def parts(path: str) -> tuple[str, ...]:
    """Return the names a path is made of, none for the top; raise InvalidParametersError for one that leads out."""
    if _UNFIT.search(path):
        raise _bad(path, "it holds a backslash, a control character or what is no text")
    found = tuple(part for part in path.split("/") if part not in ("", "."))
    if ".." in found:
        raise _bad(path, "'..' is not allowed in it")
    if any(part.startswith(PART_PREFIX) for part in found):
        raise _bad(path, f"names that begin with {PART_PREFIX} are those of uploads that are not complete")
    if len(path.encode()) > PATH_MAX or any(len(part.encode()) > NAME_MAX for part in found):
        raise _bad(path[:40] + "...", f"it is longer than {PATH_MAX} bytes, or a name in it longer than {NAME_MAX}")
    return found


def is_text(name: str) -> bool:
    """Return whether a name can be told at all: directories of this machine hold any bytes."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def file_parts(path: str) -> tuple[str, ...]:
    """Return the names a path is made of; raise InvalidParametersError for the top itself too."""
    found = parts(path)
    if not found:
        raise _bad(path, "it names no file")
    return found


def folder_of(user: str) -> str:
    """Return the name of a user's own folder; raise ForbiddenUserError for a name that can be none."""
    if parts(user) != (user,):
        raise Refused("ForbiddenUserError", f"the user name {user!r} cannot be the name of a folder")
    return user


def _bad(path: str, why: str) -> Refused:
    message = f"{path!r} is not a path in a storage: {why}"
    return Refused("InvalidParametersError", message, "write it like data/train/images.tar")
