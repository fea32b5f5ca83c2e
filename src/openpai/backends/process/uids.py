"""Assigns each person a permanent user number from a range.

The file is append-only. A removed person keeps the number, so that no other person can access what they left in
storages. The search for a free number starts at a hash of the person, so that after a restore from an older backup most
later persons get the number they had.
"""

from __future__ import annotations

import errno
import grp
import hashlib
import json
import os
import pwd
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from openpai.protocol.errors import BadConfiguration

UID_MIN: Final = 65_536
"""Lower numbers are those of system users and services."""
UID_MAX: Final = 2**31 - 2
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_SUBORDINATE: Final = Path("/etc/subuid")


@dataclass(frozen=True, slots=True)
class UidRange:
    """The numbers that belong only to tasks."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> UidRange:
        """Return the range in the text `FIRST-LAST`. Raise Refused for anything else."""
        first, _, last = text.partition("-")
        if first.isdecimal() and last.isdecimal() and UID_MIN <= int(first) <= int(last) <= UID_MAX:
            return cls(int(first), int(last))
        message = f"{text} is no range of user numbers"
        raise BadConfiguration(message, f"give FIRST-LAST, both from {UID_MIN} to {UID_MAX}")

    def require_unused(self, subordinate: Path = _SUBORDINATE) -> None:
        """Raise Refused if users of this machine, or their containers, have numbers in the range."""
        taken = [f"user {user.pw_name} ({user.pw_uid})" for user in pwd.getpwall() if self._has(user.pw_uid)]
        taken += [f"group {group.gr_name} ({group.gr_gid})" for group in grp.getgrall() if self._has(group.gr_gid)]
        taken += [
            f"{name}'s containers ({first}-{last})"
            for name, first, last in _lent(subordinate)
            if first <= self.last and self.first <= last
        ]
        if taken:
            message = f"numbers of --task-uids {self.first}-{self.last} belong to others: {', '.join(taken[:5])}"
            raise BadConfiguration(message, "give a range that neither /etc/passwd nor /etc/subuid uses")

    def _has(self, uid: int) -> bool:
        return self.first <= uid <= self.last


class UidTable:
    """Keeps the number of each person in a file."""

    def __init__(self, path: Path, range_: UidRange) -> None:
        self._path = path
        self._range = range_
        self._uids: dict[str, int] = {}
        text = path.read_text() if path.exists() else ""
        whole, _, torn = text.rpartition("\n")
        for line in whole.splitlines():
            entry = json.loads(line)
            self._uids[str(entry["person"])] = int(entry["uid"])
        self._taken = set(self._uids.values())
        self._is_torn = bool(torn)
        """Whether the file ends in an incomplete line, which was never used and which the next entry must not join."""

    def uid_of(self, person: str) -> int:
        """Return the number of this person, after it is durably written.

        Raise ValueError if the range is used up and OSError if the number cannot be written.
        """
        uid = self._uids.get(person)
        if uid is None:
            uid = self._free(person)
            self._keep(person, uid)
            self._uids[person] = uid
            self._taken.add(uid)
        return uid

    def has(self, uid: int) -> bool:
        """Return whether a person has this number."""
        return uid in self._taken

    def _free(self, person: str) -> int:
        size = self._range.last - self._range.first + 1
        start = int.from_bytes(hashlib.sha256(person.encode()).digest()[:8]) % size
        for step in range(size):
            uid = self._range.first + (start + step) % size
            if uid not in self._taken:
                return uid
        raise ValueError("no user number is left for its owner: an administrator can enlarge --task-uids")

    def _keep(self, person: str, uid: int) -> None:
        line = f"{json.dumps({'uid': uid, 'person': person})}\n".encode()
        file = os.open(self._path, _APPEND, 0o600)
        try:
            if self._is_torn:
                os.ftruncate(file, self._path.read_bytes().rfind(b"\n") + 1)
            self._is_torn = True
            if os.write(file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
            os.fsync(file)
            self._is_torn = False
        finally:
            os.close(file)


def _lent(subordinate: Path) -> Iterable[tuple[str, int, int]]:
    try:
        lines = subordinate.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if first.isdecimal() and count.isdecimal() and int(count):
            yield name, int(first), int(first) + int(count) - 1
